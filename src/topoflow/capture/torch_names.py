"""Names that PyTorch gives to dtypes and collectives, in the words of ``topoflow.capture.base``.

Source: pytorch/torch/csrc/distributed/c10d (ProcessGroupNCCL.cpp: the names given to RECORD_PARAM_COMMS; Ops.cpp: the
schemas of the c10d:: operators) and c10/core/ScalarType.h.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from topoflow.units import DTYPE_BYTES

# c10::ScalarType names ("dtype" of Kineto and execution traces) and C++ names ("Input type", "Tensor(float)").
DTYPES = {
    "Float": "float32",
    "float": "float32",
    "Double": "float64",
    "double": "float64",
    "Half": "float16",
    "BFloat16": "bfloat16",
    "Float8_e4m3fn": "float8_e4m3fn",
    "Float8_e4m3fnuz": "float8_e4m3fnuz",
    "Float8_e5m2": "float8_e5m2",
    "Float8_e5m2fnuz": "float8_e5m2fnuz",
    "Float8_e8m0fnu": "float8_e8m0fnu",
    "Float4_e2m1fn_x2": "float4_e2m1fn_x2",
    "ComplexHalf": "complex32",
    "complex<c10::Half>": "complex32",
    "ComplexFloat": "complex64",
    "complex<float>": "complex64",
    "ComplexDouble": "complex128",
    "complex<double>": "complex128",
    "Long": "int64",
    "long int": "int64",
    "long": "int64",
    "Int": "int32",
    "int": "int32",
    "Short": "int16",
    "short int": "int16",
    "short": "int16",
    "Char": "int8",
    "signed char": "int8",
    "UInt64": "uint64",
    "unsigned long": "uint64",
    "UInt32": "uint32",
    "unsigned int": "uint32",
    "UInt16": "uint16",
    "unsigned short": "uint16",
    "Byte": "uint8",
    "unsigned char": "uint8",
    "Bool": "bool",
    "bool": "bool",
}
OF_BITS = {8: "uint8", 16: "uint16", 32: "uint32", 64: "uint64", 128: "complex128"}
BITS = re.compile(r"[A-Za-z]+(\d{1,3})(?:x(\d))?(?!\d)")  # QInt8, Float8_e3m4 and Bits4x2 have 8 bits


@lru_cache(maxsize=2**10)
def dtype_of(written: str) -> str | None:
    """Return the dtype that PyTorch calls ``written``; for an unknown name with a number of bits, one of that size.

    None: the size of an element is unknown.
    """
    name = written.removeprefix("c10::").removeprefix("torch.")
    bits = BITS.match(name)
    if name in DTYPES or name in DTYPE_BYTES or bits is None:
        return DTYPES.get(name, name if name in DTYPE_BYTES else None)
    return OF_BITS.get(max(8, int(bits[1]) * int(bits[2] or 1)))  # smaller elements have a byte each, as UInt4


PARAM_COMMS = "record_param_comms"  # the operator that describes a collective
STEP = "ProfilerStep#"  # begins the name of the mark of an iteration, before its number

# A name in "Collective name", collective_name or profiling_name, in lower case and without "_": an operation, then how
# its tensors are passed. all_to_all_v_single, _reduce_scatter_base, allgather_into_tensor_coalesced, ...
_COLLECTIVE = re.compile(
    r"(allreduce|allgather|reducescatter|alltoall|broadcast|reduce|gather|scatter|(?:allreduce)?barrier|i?send|i?recv)"
    r"(?:anysource|intotensor|tensor|base|oop|single|sparse|coalesced|v)*"
)
_OPERATIONS = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "reducescatter": "reduce_scatter",
    "alltoall": "all_to_all",
    "allreducebarrier": "barrier",
    "isend": "send",
    "irecv": "recv",
}
# Rows of the same kind that move nothing themselves, and why they are left out.
_NO_COLLECTIVES = {
    "wait": "'wait' rows are no collectives",
    "coalesced": "'coalesced' rows only wrap the operations before them",
    "init": "'init' rows create a communicator",
    "split": "'split' rows create a communicator",
    "new_window": "'new_window' rows register memory",
}
_WRAPPER = re.compile(r"[A-Z_]+_coalesced|COALESCED")  # OpType of the operations that a coalescing block ends with


def collective_of(name: str) -> str | None:
    """Return the operation that PyTorch calls ``name``; None for a name that is no operation known here."""
    named = None if _WRAPPER.fullmatch(name) else _COLLECTIVE.fullmatch(name.replace("_", "").lower())
    return None if named is None else _OPERATIONS.get(named[1], named[1])


def left_out(name: str) -> str:
    """Return why an operation of that ``name`` is left out, as a note that begins with how many there are."""
    if _WRAPPER.fullmatch(name):
        return f"{name[:40]!r} rows only wrap the operations before them"
    return _NO_COLLECTIVES.get(name, f"{name[:40]!r} operations are of a kind not known here and are left out")


@dataclass(frozen=True)
class Signature:
    """The arguments of a c10d:: operator that are its tensors. None: a list of lists, which is recorded nowhere."""

    op: str
    output: int | None
    input: int | None
    other: int | None = None  # argument with the root or the peer, as a rank of the group
    group: int | None = None  # argument with the name of the process group


# Schemas of Ops.cpp: allreduce_(Tensor[] tensors, pg, ...), alltoall_base_(Tensor output, Tensor input, pg, ...), ...
SIGNATURES = {
    "c10d::allreduce_": Signature("all_reduce", 0, 0),
    "c10d::allreduce_coalesced_": Signature("all_reduce", 0, 0),
    "c10d::broadcast_": Signature("broadcast", 0, 0, other=2),
    "c10d::reduce_": Signature("reduce", 0, 0, other=3),
    "c10d::allgather_": Signature("all_gather", None, 1),
    "c10d::_allgather_base_": Signature("all_gather", 0, 1),
    "c10d::allgather_into_tensor_coalesced_": Signature("all_gather", 0, 1),
    "c10d::reduce_scatter_": Signature("reduce_scatter", 0, None),
    "c10d::_reduce_scatter_base_": Signature("reduce_scatter", 0, 1),
    "c10d::reduce_scatter_tensor_coalesced_": Signature("reduce_scatter", 0, 1),
    "c10d::alltoall_base_": Signature("all_to_all", 0, 1),
    "c10d::alltoall_": Signature("all_to_all", 0, 1),
    "c10d::gather_": Signature("gather", None, 1, other=3),
    "c10d::scatter_": Signature("scatter", 0, None, other=3),
    "c10d::barrier": Signature("barrier", None, None),
    "c10d::send": Signature("send", None, 0, other=2),
    "c10d::recv_": Signature("recv", 0, None, other=2),
}

# Operators that work on symmetric memory, without NCCL. Of others of this kind the size is in no argument: splits of
# all_to_all_vdev are on the device, and how the chunks of a fused_all_gather_matmul overlap is recorded nowhere.
# Source: pytorch v2.13 torch/csrc/distributed/c10d/symm_mem/SymmetricMemory.cpp, torch/distributed/_symmetric_memory.
SYMMETRIC = {
    "symm_mem::one_shot_all_reduce": Signature("all_reduce", None, 0, group=2),
    "symm_mem::one_shot_all_reduce_out": Signature("all_reduce", None, 0, group=2),
    "symm_mem::one_shot_all_reduce_copy": Signature("all_reduce", None, 1, group=3),
    "symm_mem::one_shot_all_reduce_copy_out": Signature("all_reduce", None, 1, group=3),
    "symm_mem::two_shot_all_reduce_": Signature("all_reduce", None, 0, group=2),
    "symm_mem::two_shot_all_reduce_out": Signature("all_reduce", None, 0, group=2),
    "symm_mem::multimem_all_reduce_": Signature("all_reduce", None, 0, group=2),
    "symm_mem::multimem_one_shot_all_reduce": Signature("all_reduce", None, 0, group=2),
    "symm_mem::multimem_one_shot_all_reduce_out": Signature("all_reduce", None, 0, group=2),
    "symm_mem::multimem_one_shot_reduce_out": Signature("reduce", None, 0, other=2, group=3),
    "symm_mem::multimem_all_gather_out": Signature("all_gather", None, 0, group=1),
    "symm_mem::_low_contention_all_gather": Signature("all_gather", None, 0, group=1),
    "symm_mem::_low_contention_reduce_scatter": Signature("reduce_scatter", None, 0, group=2),
    "symm_mem::reduce_scatter_out": Signature("reduce_scatter", 3, None, group=1),
    "symm_mem::nvshmem_all_to_all": Signature("all_to_all", 1, 0, group=2),
    "symm_mem::nvshmem_broadcast": Signature("broadcast", None, 0, other=1, group=2),
}


def split_elements(place: str, splits: tuple[int, ...], elements: int) -> tuple[int, ...]:
    """Return splits, recorded in rows of the first dimension, as elements: ``(2, 1)`` of 96 -> ``(64, 32)``."""
    rows = sum(splits)
    if not splits:
        return ()
    if (rows == 0) != (elements == 0) or (rows and elements % rows):
        raise ValueError(f"{place}: splits must divide the tensor of {elements} elements, got {list(splits)[:8]}")
    return tuple(split * (elements // rows if rows else 0) for split in splits)
