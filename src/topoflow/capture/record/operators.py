"""FLOPs and bytes of an operator of PyTorch, by the shapes of its tensors: the same on every device.

FLOPs are those of ``torch.utils.flop_counter`` (matrix products, convolutions, attention; a multiply-add is two), and
of kernels that only CPUs have. Everything else is counted as memory traffic alone. Bytes are those of the tensors that
go in and out, each once, as if no cache kept them between operators. Views move nothing, and a lookup reads only the
rows that it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any

import torch
from torch.utils.flop_counter import flop_registry, sdpa_backward_flop_count, sdpa_flop_count

from topoflow.capture.base import OperatorWork
from topoflow.capture.record.c10d import bytes_in_memory, tensors_of

EMBEDDINGS = ("aten::embedding", "aten::_embedding_bag", "aten::_embedding_bag_forward_only")  # (weight, indices, ...)
LOOKUPS = ("aten::index_select", "aten::gather", "aten::index")
UNTOUCHED = ("aten::empty", "aten::new_empty", "aten::resize_")  # memory that is only reserved
OVERWRITES = (
    "aten::copy_",
    "aten::fill_",
    "aten::zero_",
    "aten::normal_",
    "aten::uniform_",
)  # do not read their target

PRODUCTS = {"aten::mm": (0, 1), "aten::bmm": (0, 1), "aten::addmm": (1, 2), "aten::baddbmm": (1, 2)}  # -> matrices


def _product(left: torch.Tensor, right: torch.Tensor) -> int:
    return int(2 * left.numel() * right.shape[-1])


def _rnn(*args: Any, **_: Any) -> int:
    """An RNN layer multiplies each of its inputs [T, B, I] with the weights [gates H, I] and [gates H, H]."""
    inputs, *weights = args
    return int(2 * prod(inputs.shape[:-1]) * sum(weight.numel() for weight in weights[:2]))


# Arguments as of the operator. Products are counted by PyTorch as well, which takes 20 times as long for it; the others
# are kernels of the CPU that stand for counted ones of a GPU.
COUNTED: dict[str, Callable[..., int]] = {
    "aten::mm": lambda left, right, **_: _product(left, right),
    "aten::bmm": lambda left, right, **_: _product(left, right),
    "aten::addmm": lambda _added, left, right, **_: _product(left, right),
    "aten::baddbmm": lambda _added, left, right, **_: _product(left, right),
    "aten::_scaled_dot_product_flash_attention_for_cpu": lambda q, k, v, *_, **__: sdpa_flop_count(
        q.shape, k.shape, v.shape
    ),
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": lambda grad, q, k, v, *_, **__: (
        sdpa_backward_flop_count(grad.shape, q.shape, k.shape, v.shape)
    ),
    "aten::mkldnn_rnn_layer": _rnn,
    "aten::mkldnn_rnn_layer_backward": lambda *args, **__: 2 * _rnn(*args),  # gradients of inputs and of weights
}


@dataclass(frozen=True)
class _Operator:
    """The properties of an operator that counting needs, whatever its arguments are."""

    name: str
    flops: Callable[..., int] | None  # of the arguments
    first_read: int | None  # position of the first argument that is read as a whole; None: only shapes are
    is_embedding: bool
    is_lookup: bool


@cache
def _operator(func: Any) -> _Operator | None:
    """Return what is counted of an operator; None for one that neither computes nor moves anything."""
    name = func._schema.name
    if func.is_view or name.startswith(UNTOUCHED):
        return None
    registered = flop_registry.get(func._overloadpacket)
    flops = COUNTED.get(name)
    if flops is None and registered is not None:
        flops = lambda *args, out, **kwargs: registered(*args, **kwargs, out_val=out)  # noqa: E731
    only_shape = name.endswith("_like") or name.startswith("aten::new_")
    partly = name in OVERWRITES or name in EMBEDDINGS or name in LOOKUPS
    return _Operator(name, flops, None if only_shape else int(partly), name in EMBEDDINGS, name in LOOKUPS)


def work_of(func: Any, args: Any, kwargs: Any, result: Any) -> OperatorWork | None:
    """Return the work of one operator call; None for one that neither computes nor moves anything."""
    operator = _operator(func)
    if operator is None:
        return None
    outputs = _bytes(tensors_of(result))
    moved = outputs
    if operator.first_read is not None:
        read = [tensor for value in args[operator.first_read :] for tensor in tensors_of(value)]
        if kwargs:
            read += [tensor for value in kwargs.values() for tensor in tensors_of(value)]
        moved += _bytes(read)
    if operator.is_embedding:
        moved += args[1].numel() * args[0].shape[-1] * args[0].element_size()
    elif operator.is_lookup:
        moved += outputs
    flops = operator.flops(*args, **kwargs, out=result) if operator.flops is not None else 0
    if not flops:
        return OperatorWork("", 0.0, float(moved)) if moved else None
    multiplied = (tensor for value in args for tensor in tensors_of(value))
    dtype = next((_dtype(tensor) for tensor in multiplied if tensor.is_floating_point()), "")
    return OperatorWork(dtype, float(flops), float(moved), *_kernel(operator.name, args))


def _kernel(name: str, args: Any) -> tuple[str, tuple[int, ...]]:
    """Return the kernel that has measured rates on GPUs, and its sizes."""
    if name in PRODUCTS:
        left, right = (args[place].shape for place in PRODUCTS[name])
        return "matmul", (left[-2], left[-1], right[-1])
    if "scaled_dot_product" in name:
        query = args[1 if "backward" in name else 0].shape
        kernel = "attention_backward" if "backward" in name else "attention"
        return kernel, (query[-1], query[-2], prod(query[:-2]))
    return "", ()


def _bytes(tensors: Sequence[torch.Tensor]) -> int:
    """Return the bytes of the tensors, each tensor once."""
    moved = 0
    for tensor in tensors if len(tensors) < 2 else {id(tensor): tensor for tensor in tensors}.values():
        moved += bytes_in_memory(tensor)
    return moved


def _dtype(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
