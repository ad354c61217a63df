"""What PyTorch calls dtypes and collectives, in the words of ``topoflow.capture.base``.

Source: pytorch/torch/csrc/distributed/c10d (ProcessGroupNCCL.cpp: the names given to RECORD_PARAM_COMMS; Ops.cpp: the
schemas of the c10d:: operators) and c10/core/ScalarType.h.
"""

from __future__ import annotations

from dataclasses import dataclass

# c10::ScalarType names ("dtype" of Kineto and execution traces) and C++ names ("Input type", "Tensor(float)").
DTYPES = {
    "Float": "float32",
    "float": "float32",
    "Double": "float64",
    "double": "float64",
    "Half": "float16",
    "c10::Half": "float16",
    "BFloat16": "bfloat16",
    "c10::BFloat16": "bfloat16",
    "Float8_e4m3fn": "float8_e4m3fn",
    "c10::Float8_e4m3fn": "float8_e4m3fn",
    "Float8_e5m2": "float8_e5m2",
    "c10::Float8_e5m2": "float8_e5m2",
    "ComplexFloat": "complex64",
    "c10::complex<float>": "complex64",
    "ComplexDouble": "complex128",
    "c10::complex<double>": "complex128",
    "Long": "int64",
    "long int": "int64",
    "long": "int64",
    "Int": "int32",
    "int": "int32",
    "Short": "int16",
    "short int": "int16",
    "Char": "int8",
    "signed char": "int8",
    "Byte": "uint8",
    "unsigned char": "uint8",
    "Bool": "bool",
    "bool": "bool",
}

PARAM_COMMS = "record_param_comms"  # the operator that describes a collective
STEP = "ProfilerStep#"  # begins the name of the mark of an iteration, before its number

# Names in "Collective name" / collective_name.
COLLECTIVE_NAMES = {
    "allreduce": "all_reduce",
    "all_reduce": "all_reduce",
    "allreduce_coalesced": "all_reduce",
    "all_gather": "all_gather",
    "allgather": "all_gather",
    "_allgather_base": "all_gather",
    "_all_gather_base": "all_gather",
    "allgather_into_tensor_coalesced": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "_reduce_scatter_base": "reduce_scatter",
    "reduce_scatter_tensor_coalesced": "reduce_scatter",
    "all_to_all": "all_to_all",
    "all_to_allv": "all_to_all",
    "all_gather_into_tensor_coalesced": "all_gather",
    "broadcast": "broadcast",
    "_broadcast_oop": "broadcast",
    "reduce": "reduce",
    "_reduce_oop": "reduce",
    "gather": "gather",
    "scatter": "scatter",
    "barrier": "barrier",
    "all_reduce_barrier": "barrier",
    "send": "send",
    "recv": "recv",
}
# Rows of the same kind that move nothing themselves, and why they are left out.
NO_COLLECTIVES = {
    "wait": "'wait' rows are no collectives",
    "coalesced": "'coalesced' rows only wrap the operations before them",
    "init": "'init' rows create a communicator",
}


@dataclass(frozen=True)
class Signature:
    """Which arguments of a c10d:: operator are its tensors. None: the argument is a list of lists, recorded nowhere."""

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
    """Splits as recorded (rows of the first dimension) in elements: ``(2, 1)`` of 96 elements -> ``(64, 32)``."""
    rows = sum(splits)
    if not splits:
        return ()
    if (rows == 0) != (elements == 0) or (rows and elements % rows):
        raise ValueError(f"{place}: splits must divide the tensor of {elements} elements, got {list(splits)[:8]}")
    return tuple(split * (elements // rows if rows else 0) for split in splits)
