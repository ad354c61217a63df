"""Collectives that only an annotation records: PyTorch 1.12 and older have no ``c10d::`` operator for all of them.

``nccl:all_to_all`` is written by ProcessGroupNCCL (or ``gloo:`` by ProcessGroupGloo) with the shapes of its inputs.
Source: pytorch v1.12 torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp, the titles that ``collective`` is given.
"""

from __future__ import annotations

from collections import Counter

from topoflow.capture.base import POINT_TO_POINT
from topoflow.capture.formats.kineto.rows import KinetoRow, tensor_dtype, tensor_elements
from topoflow.capture.merge.parts import RecordedOperation
from topoflow.capture.torch_names import collective_of, left_out
from topoflow.units import DTYPE_BYTES

BACKENDS = ("nccl:", "gloo:")
EVEN = "all_to_all annotations record no splits: equal shares are assumed"


def annotated(
    row: KinetoRow, group_name: str, group: tuple[int, ...] | None, counts: Counter[str]
) -> RecordedOperation | None:
    """Return the operation of an annotation outside of any ``c10d::`` operator; None (counted) for an unknown one.

    An all-to-all is taken to have equal shares, and to receive as much as it sends: its output is not recorded.
    """
    words = row.name.partition(":")[2].split()  # "all_to_all", or "send", "0->1"
    name = words[0] if words else ""
    op = collective_of(name)
    if op is None:
        counts[left_out(name)] += 1
        return None
    dims = row.listed("Input Dims")
    dtype = tensor_dtype(row, range(len(dims)))
    tensors = [tensor_elements(row, argument) for argument in range(len(dims))]
    known_tensors = [tensor for tensor in tensors if tensor is not None]
    size = sum(known_tensors) * DTYPE_BYTES[dtype] if known_tensors and dtype else None
    exchanged = op == "all_to_all" and size is not None
    counts[EVEN] += exchanged
    return RecordedOperation(
        place=row.place,
        op=op,
        group=group,
        group_name=group_name,
        dtype=dtype,
        bytes_in=None if op == "recv" else size,
        bytes_out=size if exchanged or op == "recv" else None,
        splits_in=() if exchanged else None,
        splits_out=() if exchanged else None,
        peer=_peer(words, group) if op in POINT_TO_POINT else None,
    )


def _peer(words: list[str], group: tuple[int, ...] | None) -> int | None:
    """The other end: ``send 0->1`` names the sender first, ``recv 0<-1`` the receiver; ranks of the group."""
    text = words[1].replace("<-", "->").partition("->")[2] if len(words) > 1 else ""
    if not text.isdecimal() or len(text) > 9:
        return None
    return int(text) if group is None else group[int(text)] if int(text) < len(group) else None
