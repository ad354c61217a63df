"""Run operators on shapes alone: floating-point tensors have no memory and no values, all others are real.

So a model of any size is built in no time, while meshes, token ids, splits and counts have their values. What would
depend on floating-point values is answered so that a script runs on:

- reading a number (``loss.item()``) gives 1.0, reading a boolean False;
- a choice by scores (``topk``, ``argmax``, ``sort``) is made in turn, so that experts are chosen equally often;
- anything else, such as a shape or an integer that follows from scores, ends the prediction in one line.

Collectives of shapes send nothing. Those of real tensors pass their values on between the ranks that run
(``predict.mailbox``), and take the rank's own values for those of ranks that do not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import torch
from torch._C._distributed_c10d import _create_work_from_future  # type: ignore[attr-defined]
from torch._subclasses.fake_tensor import DynamicOutputShapeException, FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter, tree_map_only

from topoflow.capture.predict.mailbox import Mailbox
from topoflow.capture.predict.memory import Memory
from topoflow.capture.record import c10d

# Operators whose last integer output is a choice among the positions of a dimension, with the argument that names it.
CHOICES = {
    "aten::topk": 2,
    "aten::sort": 1,
    "aten::argsort": 1,
    "aten::argmax": 1,
    "aten::argmin": 1,
    "aten::max": 1,
    "aten::min": 1,
    "aten::multinomial": None,
}
INTEGERS = ("aten::randint", "aten::randperm")  # factories of integers if no dtype is given
LIKE_THEIR_NUMBERS = ("aten::arange", "aten::full", "aten::scalar_tensor")
READ = "numbers were read from tensors that have none: 1.0 was taken"
CHOSEN = "choices by scores were taken in turn, so that each is made equally often"


class Shapes(TorchDispatchMode):
    """``with Shapes(...): ...`` runs what is inside on shapes."""

    def __init__(self, mailbox: Mailbox, memory: Memory) -> None:
        super().__init__()
        self._fake = FakeTensorMode(allow_non_fake_inputs=True)
        self._mailbox = mailbox
        self._memory = memory
        self.assumed: Counter[str] = Counter()

    def owns(self, tensor: torch.Tensor) -> bool:
        """Return whether the tensor stands for one of the script, and not for one whose shape PyTorch asks for."""
        return not isinstance(tensor, FakeTensor) or tensor.fake_mode is self._fake

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.prim.device.default and isinstance(args[0], FakeTensor):
            return args[0].fake_device
        if any(kind.__module__.startswith("torch.distributed") for kind in types):
            return NotImplemented
        kwargs = _on_cpu(func, kwargs or {})
        tensors = [leaf for leaf in tree_iter((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        if not all(map(self.owns, tensors)):
            return func(*args, **kwargs)
        if all(map(_has_values, tensors)) if tensors else not _makes_floats(func, args, kwargs):
            result = self._with_values(func, args, kwargs)
        elif func is torch.ops.aten._local_scalar_dense.default:
            return self._number(args[0])
        elif func.namespace == "c10d":
            return _communicated(func, args, kwargs)
        else:
            result = self._shapes(func, args, kwargs, tensors)
        self._memory.see(result)
        return result

    def _with_values(self, func: Any, args: Any, kwargs: Any) -> Any:
        result = func(*args, **kwargs)
        if func.namespace == "c10d":
            arguments = _by_name(func, args, kwargs)
            call = c10d.CALLS.get(func._schema.name)
            if call is not None and call.op in ("broadcast", "send", "recv"):
                self._mailbox.exchange(call, c10d.group_of(arguments), arguments)
            return _communicated(func, args, kwargs)
        return tree_map_only(torch.Tensor, self._without_values, result)

    def _without_values(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor if _has_values(tensor) or isinstance(tensor, FakeTensor) else self._fake.from_tensor(tensor)

    def _shapes(self, func: Any, args: Any, kwargs: Any, tensors: Iterable[torch.Tensor]) -> Any:
        try:
            with self._fake:
                result = func(*args, **kwargs)
        except DynamicOutputShapeException:
            raise Unpredictable(f"{func._schema.name} returns a shape that depends on values") from None
        # A module that is converted swaps its parameters, which no one else may refer to.
        self._fake.fake_tensor_converter.meta_converter.tensor_memo.clear()
        if func._schema.is_mutable:
            for argument, value in zip(func._schema.arguments, args, strict=False):
                if argument.is_write:
                    for tensor in c10d.tensors_of(value):
                        _forget(tensor)
        name = func._schema.name
        if name in CHOICES:
            result = self._chosen(func, CHOICES[name], args, kwargs, result)
        return result

    def _number(self, tensor: FakeTensor) -> float | bool:
        if isinstance(tensor, FakeTensor) and tensor.constant is not None:
            return tensor.constant.item()  # type: ignore[no-any-return]
        if tensor.dtype is torch.bool:
            return False
        if not tensor.is_floating_point():
            raise Unpredictable(f"an integer was read that depends on values ({tensor.dtype})")
        self.assumed[READ] += 1
        return 1.0

    def _chosen(self, func: Any, place: int | None, args: Any, kwargs: Any, result: Any) -> Any:
        """Return the result with its indices as values: 0, 1, 2, ... modulo the number of positions."""
        scores = args[0]
        dimension = -1 if place is None else _by_name(func, args, kwargs).get("dim", -1)
        outputs = list(result) if isinstance(result, (tuple, list)) else [result]
        indices = outputs[-1]
        if indices.dtype is not torch.int64 or dimension is None or not scores.dim():
            return result
        positions = scores.shape[dimension]
        chosen = torch.arange(indices.numel()) % max(positions, 1)
        if indices.dim() == scores.dim():  # a row is a choice of several
            rows = indices.movedim(dimension, -1).shape
            outputs[-1] = chosen.reshape(rows).movedim(-1, dimension).contiguous()
        else:
            outputs[-1] = chosen.reshape(indices.shape)
        self.assumed[CHOSEN] += 1
        return type(result)(outputs) if isinstance(result, (tuple, list)) else outputs[0]


class Unpredictable(ValueError):
    """A script needs a value that shapes do not have."""


def _has_values(tensor: torch.Tensor) -> bool:
    if isinstance(tensor, FakeTensor) or tensor.is_floating_point() or tensor.is_complex():
        return False
    return not hasattr(tensor.untyped_storage(), "_values_unknown")


def _forget(tensor: torch.Tensor) -> None:
    """Note that shapes were written into a tensor: its values are unknown from here on."""
    if not isinstance(tensor, FakeTensor):
        tensor.untyped_storage()._values_unknown = True


def _makes_floats(func: Any, args: Any, kwargs: Any) -> bool:
    dtype = kwargs.get("dtype")
    if dtype is not None:
        return bool(dtype.is_floating_point or dtype.is_complex)
    name = func._schema.name
    if name.startswith(INTEGERS):
        return False
    return not name.startswith(LIKE_THEIR_NUMBERS) or any(isinstance(leaf, float) for leaf in tree_iter(args))


def _on_cpu(func: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments with the processor in place of a GPU, which this machine need not have."""
    device = kwargs.get("device")
    if device is None or torch.device(device).type == "meta":
        return kwargs
    return {**kwargs, "device": torch.device("cpu")}


def _by_name(func: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    return {**dict(zip((argument.name for argument in func._schema.arguments), args, strict=False)), **kwargs}


def _communicated(func: Any, args: Any, kwargs: Any) -> Any:
    """Return what an operator of c10d returns: its output, as it is, and a finished Work whose result is the output."""
    call = c10d.CALLS.get(func._schema.name)
    arguments = _by_name(func, args, kwargs)
    output = arguments.get(call.outputs, []) if call is not None else []
    if not func._schema.returns:
        return None
    future: Any = torch.futures.Future()
    future.set_result(list(c10d.tensors_of(output)))
    work = _create_work_from_future(future).boxed()
    return work if len(func._schema.returns) == 1 else (output, work)
