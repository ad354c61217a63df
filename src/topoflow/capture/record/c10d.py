"""The communication of each operator of torch's c10d namespaces: one table, from operator to row.

Every communication of PyTorch, whoever asks for it (a script, DDP's C++ reducer, FSDP2, functional collectives), ends
in one of these operators. Their schemas name the arguments, so a row of the table is the names of what goes in and
out. Source: ``torch/csrc/distributed/c10d/Ops.cpp`` and ``Functional.cpp`` (torch 2.13).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import ProcessGroup

from topoflow.capture.base import POINT_TO_POINT
from topoflow.capture.record.file import Row
from topoflow.capture.record.recording import UNKNOWN_PEER
from topoflow.units import DTYPE_BYTES

NAMESPACES = ("c10d", "_c10d_functional", "_c10d_functional_autograd", "_dtensor")
RESULT = "(result)"  # the output is what the operator returns


@dataclass(frozen=True)
class OperatorSignature:
    """``inputs`` and ``outputs`` name arguments ("": none); ``other`` names the root or peer, a rank in the group."""

    op: str
    inputs: str
    outputs: str
    other: str = ""
    splits_in: str = ""
    splits_out: str = ""


_ALL_TO_ALL = ("input_split_sizes", "output_split_sizes")
CALLS = {
    "c10d::allreduce_": OperatorSignature("all_reduce", "tensors", "tensors"),
    "c10d::allreduce_coalesced_": OperatorSignature("all_reduce", "tensors", "tensors"),
    "c10d::broadcast_": OperatorSignature("broadcast", "tensors", "tensors", "root_rank"),
    "c10d::reduce_": OperatorSignature("reduce", "tensors", "tensors", "root_rank"),
    "c10d::allgather_": OperatorSignature("all_gather", "input_tensors", "output_tensors"),
    "c10d::_allgather_base_": OperatorSignature("all_gather", "input_tensor", "output_tensor"),
    "c10d::allgather_coalesced_": OperatorSignature("all_gather", "input_list", "output_lists"),
    "c10d::allgather_into_tensor_coalesced_": OperatorSignature("all_gather", "inputs", "outputs"),
    "c10d::reduce_scatter_": OperatorSignature("reduce_scatter", "input_tensors", "output_tensors"),
    "c10d::_reduce_scatter_base_": OperatorSignature("reduce_scatter", "input_tensor", "output_tensor"),
    "c10d::reduce_scatter_tensor_coalesced_": OperatorSignature("reduce_scatter", "inputs", "outputs"),
    "c10d::alltoall_base_": OperatorSignature("all_to_all", "input", "output", "", *_ALL_TO_ALL),
    "c10d::alltoall_": OperatorSignature("all_to_all", "input_tensors", "output_tensors"),
    "c10d::gather_": OperatorSignature("gather", "input_tensors", "output_tensors", "root_rank"),
    "c10d::scatter_": OperatorSignature("scatter", "input_tensors", "output_tensors", "root_rank"),
    "c10d::send": OperatorSignature("send", "tensors", "", "dst"),
    "c10d::recv_": OperatorSignature("recv", "", "tensors", "src"),
    "c10d::recv_any_source_": OperatorSignature("recv", "", "tensors"),
    "c10d::barrier": OperatorSignature("barrier", "", ""),
    "c10d::monitored_barrier_": OperatorSignature("barrier", "", ""),
    "_c10d_functional::all_reduce": OperatorSignature("all_reduce", "input", RESULT),
    "_c10d_functional::all_reduce_": OperatorSignature("all_reduce", "input", RESULT),
    "_c10d_functional::all_reduce_coalesced": OperatorSignature("all_reduce", "inputs", RESULT),
    "_c10d_functional::all_reduce_coalesced_": OperatorSignature("all_reduce", "inputs", RESULT),
    "_c10d_functional::broadcast": OperatorSignature("broadcast", "input", RESULT, "src"),
    "_c10d_functional::broadcast_": OperatorSignature("broadcast", "input", RESULT, "src"),
    "_c10d_functional::all_gather_into_tensor": OperatorSignature("all_gather", "input", RESULT),
    "_c10d_functional::all_gather_into_tensor_out": OperatorSignature("all_gather", "input", RESULT),
    "_c10d_functional::all_gather_into_tensor_coalesced": OperatorSignature("all_gather", "inputs", RESULT),
    "_c10d_functional::reduce_scatter_tensor": OperatorSignature("reduce_scatter", "input", RESULT),
    "_c10d_functional::reduce_scatter_tensor_out": OperatorSignature("reduce_scatter", "input", RESULT),
    "_c10d_functional::reduce_scatter_tensor_coalesced": OperatorSignature("reduce_scatter", "inputs", RESULT),
    "_c10d_functional::all_to_all_single": OperatorSignature("all_to_all", "input", RESULT, "", *_ALL_TO_ALL),
    "_dtensor::shard_dim_alltoall": OperatorSignature("all_to_all", "input", RESULT),
}
# Operators of these namespaces that send nothing.
LOCAL = {"c10d::check_for_nan", "_c10d_functional::_wrap_tensor_autograd"}
WAIT = "_c10d_functional::wait_tensor"
# Methods of ProcessGroup that Python calls for each operation, with the arguments before the options: the operator of
# each, the names of these arguments, and those of options that an operator has as arguments.
_TO_TENSOR = ("output_tensor", "input_tensor")
METHODS: dict[str, tuple[str, tuple[str, ...], dict[str, str]]] = {
    "allreduce": ("c10d::allreduce_", ("tensors",), {}),
    "broadcast": ("c10d::broadcast_", ("tensors",), {"root_rank": "rootRank"}),
    "_allgather_base": ("c10d::_allgather_base_", _TO_TENSOR, {}),
    "all_gather_single": ("c10d::_allgather_base_", _TO_TENSOR, {}),  # its name since torch 2.13
    "_reduce_scatter_base": ("c10d::_reduce_scatter_base_", _TO_TENSOR, {}),
    "reduce_scatter_single": ("c10d::_reduce_scatter_base_", _TO_TENSOR, {}),
}
# The parts of a tensor of each sparse layout, by the methods that return them.
SPARSE = {
    torch.sparse_coo: ("_indices", "_values"),
    **dict.fromkeys((torch.sparse_csr, torch.sparse_bsr), ("crow_indices", "col_indices", "values")),
    **dict.fromkeys((torch.sparse_csc, torch.sparse_bsc), ("ccol_indices", "row_indices", "values")),
}
PLAIN = (torch.Tensor, torch.nn.Parameter)  # no subclass that would send something else


@dataclass(frozen=True)
class Group:
    """A process group as rows name it: ``ranks`` are global, in group order."""

    name: str
    ranks: tuple[int, ...]
    backend: str


def describe_group(group: ProcessGroup) -> Group:
    """Return the name, ranks and backend of a process group."""
    return Group(group.group_name, tuple(dist.get_process_group_ranks(group)), dist.get_backend(group))


def communication(call: OperatorSignature, group: Group, arguments: Mapping[str, Any], result: Any) -> tuple[Row, bool]:
    """Return the row of the communication that ``call`` made in ``group`` with these arguments, without times.

    Also return whether it was on another device than the CPU, as the tensor of a barrier tells.
    A dtype that Trace does not know is recorded as bytes (uint8), its size being what matters. An all-reduce of sparse
    tensors is recorded as what gloo makes of it (``ProcessGroupGloo.cpp``, ``AsyncSparseAllreduceWork``): an all-gather
    of the entries, of which this rank knows its own; the others are taken to have as many.
    """
    inputs = outputs = tensors_of(arguments.get(call.inputs))
    received = sent = _bytes_of(inputs)
    if call.inputs != call.outputs:
        outputs = tensors_of(result if call.outputs == RESULT else arguments.get(call.outputs))
        received = _bytes_of(outputs)
    row: Row = {
        "kind": "communication",
        "op": call.op,
        "group": group.name,
        "dtype": _dtype(inputs or outputs),
        "in": sent,
        "out": received,
    }
    if call.op == "all_reduce" and inputs and inputs[0].is_sparse:  # gloo gathers the entries, and adds them locally
        row["op"], row["dtype"], row["out"] = "all_gather", "uint8", sent * len(group.ranks)
    if call.op == "all_to_all":
        row["splits_in"] = _splits(call, arguments.get(call.splits_in, ()), inputs)
        row["splits_out"] = _splits(call, arguments.get(call.splits_out, ()), outputs)
    if call.op in POINT_TO_POINT:
        row["peer"] = group.ranks[arguments[call.other]] if call.other else UNKNOWN_PEER
        row["tag"] = 0 if group.backend == "nccl" else arguments["tag"]  # NCCL takes a tag, and ignores it
    elif call.other:
        row["root"] = group.ranks[arguments[call.other]]
    tensors = inputs or outputs or tensors_of(arguments.get("tensor"))
    return row, not (tensors[0].is_cpu if len(tensors) == 1 else all(tensor.is_cpu for tensor in tensors))


def before_call(value: Any) -> Any:
    """Return arguments with sparse tensors as they are now: gloo puts others in their place, with other sizes."""
    if isinstance(value, (list, tuple)):
        return [before_call(element) for element in value]
    return value.detach() if isinstance(value, torch.Tensor) and value.layout in SPARSE else value


def bytes_in_memory(tensor: torch.Tensor) -> int:
    """Return the bytes of a tensor; of an expanded one those that it has in memory, of a sparse one its entries."""
    if tensor.layout in SPARSE:
        return sum(int(getattr(tensor, part)().nbytes) for part in SPARSE[tensor.layout])
    if tensor.layout is not torch.strided or tensor.is_contiguous():
        return int(tensor.nbytes)
    return int(min(tensor.nbytes, tensor.untyped_storage().nbytes()))


def _bytes_of(tensors: Sequence[torch.Tensor]) -> int:
    if len(tensors) == 1 and not tensors[0].is_sparse:  # by far the most frequent
        return int(tensors[0].nbytes)
    return sum(bytes_in_memory(tensor) if tensor.is_sparse else tensor.nbytes for tensor in tensors)


def are_plain(values: Sequence[Any]) -> bool:
    """Return whether all values are plain tensors, or lists of these."""
    for value in values:
        for tensor in value if type(value) is list else (value,):
            if type(tensor) not in PLAIN:
                return False
    return True


@cache
def _dtype_name(dtype: torch.dtype) -> str:
    name = str(dtype).removeprefix("torch.")
    return name if name in DTYPE_BYTES else "uint8"


def _dtype(tensors: Sequence[torch.Tensor]) -> str:
    return _dtype_name(tensors[0].dtype) if tensors else "uint8"


def group_of(arguments: Mapping[str, Any]) -> ProcessGroup:
    """The process group that an operator was called with: an object, or its name."""
    if "process_group" in arguments:
        return ProcessGroup.unbox(arguments["process_group"])
    named = arguments["group_name"]
    return dist.distributed_c10d._resolve_process_group(named) if isinstance(named, str) else named


def tensors_of(value: Any) -> list[torch.Tensor]:
    """Return the tensors of an argument: a tensor, a list of them, a list of lists; anything else has none."""
    if isinstance(value, torch.Tensor):
        return [value]
    if not isinstance(value, (list, tuple)):
        return []
    if len(value) == 1 and isinstance(value[0], torch.Tensor):  # by far the most frequent
        return [value[0]]
    return [tensor for item in value for tensor in tensors_of(item)]


def _splits(call: OperatorSignature, sizes: Sequence[int], tensors: Sequence[torch.Tensor]) -> tuple[int, ...]:
    """Elements for each member of an all-to-all; empty when they are equal."""
    if call.op != "all_to_all":
        return ()
    if not call.splits_in:  # one tensor per member
        elements = [tensor.numel() for tensor in tensors]
    else:  # rows of the one tensor
        rows = tensors[0].shape[0] if tensors[0].dim() else 1
        elements = [size * (tensors[0].numel() // max(rows, 1)) for size in sizes]
    return tuple(elements) if len(set(elements)) > 1 else ()
