"""FLOPs and bytes of an operator of PyTorch, by the shapes of its tensors: the same on every device.

FLOPs are those of ``torch.utils.flop_counter`` (matrix products, convolutions, attention; a multiply-add is two), and
of kernels that only CPUs have. Everything else is counted as memory traffic alone. Bytes are those of the tensors that
go in and out, each once, as if no cache kept them between operators. Views move nothing, and a lookup reads only the
rows that it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import prod
from typing import Any

import torch
from torch.utils._pytree import tree_iter
from torch.utils.flop_counter import flop_registry, sdpa_backward_flop_count, sdpa_flop_count

from topoflow.capture.base import OperatorWork

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


def _rnn(*args: Any, **_: Any) -> int:
    """An RNN layer multiplies each of its inputs [T, B, I] with the weights [gates H, I] and [gates H, H]."""
    inputs, *weights = args
    return int(2 * prod(inputs.shape[:-1]) * sum(weight.numel() for weight in weights[:2]))


# Kernels of the CPU that stand for counted ones of a GPU; arguments as of the operator.
CPU_KERNELS: dict[str, Callable[..., int]] = {
    "aten::_scaled_dot_product_flash_attention_for_cpu": lambda q, k, v, *_, **__: sdpa_flop_count(
        q.shape, k.shape, v.shape
    ),
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": lambda grad, q, k, v, *_, **__: (
        sdpa_backward_flop_count(grad.shape, q.shape, k.shape, v.shape)
    ),
    "aten::mkldnn_rnn_layer": _rnn,
    "aten::mkldnn_rnn_layer_backward": lambda *args, **__: 2 * _rnn(*args),  # gradients of inputs and of weights
}


def work_of(func: Any, args: Any, kwargs: Any, result: Any) -> OperatorWork | None:
    """The work of one operator call; None for one that neither computes nor moves anything."""
    name = func._schema.name
    if func.is_view or name.startswith(UNTOUCHED):
        return None
    outputs = list(_tensors(result))
    moved = _bytes(_read(name, args, kwargs)) + _bytes(outputs)
    if name in EMBEDDINGS:
        moved += args[1].numel() * args[0].shape[-1] * args[0].element_size()
    elif name in LOOKUPS:
        moved += _bytes(outputs)
    flops = _flops(func, args, kwargs, result)
    if not flops and not moved:
        return None
    dtype = next((_dtype(tensor) for tensor in _tensors(args) if tensor.is_floating_point()), "") if flops else ""
    kernel, shape = _kernel(name, args) if flops else ("", ())
    return OperatorWork(dtype, float(flops), float(moved), kernel, shape)


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


def _flops(func: Any, args: Any, kwargs: Any, result: Any) -> int:
    counted = flop_registry.get(func._overloadpacket)
    if counted is not None:
        return int(counted(*args, **kwargs, out_val=result))
    special = CPU_KERNELS.get(func._schema.name)
    return special(*args, **kwargs) if special is not None else 0


def _read(name: str, args: Any, kwargs: Any) -> Iterator[torch.Tensor]:
    """The tensors that are read as a whole."""
    if name.endswith("_like") or name.startswith("aten::new_"):  # only the shape
        return iter(())
    partly = name in OVERWRITES or name in EMBEDDINGS or name in LOOKUPS
    return _tensors((args[1:] if partly else args, kwargs))


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    return (leaf for leaf in tree_iter(value) if isinstance(leaf, torch.Tensor))


def _bytes(tensors: Iterable[torch.Tensor]) -> int:
    """Bytes of the tensors, each once; of an expanded one those that it has in memory."""
    seen = {id(tensor): tensor for tensor in tensors}
    return sum(min(tensor.nbytes, tensor.untyped_storage().nbytes()) for tensor in seen.values())


def _dtype(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
