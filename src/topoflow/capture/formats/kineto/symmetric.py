"""Collectives of operators on symmetric memory (``symm_mem::``), sized by the shapes of their tensors.

A profile records neither strings nor, therefore, the process group that they name: it is known where the rank is in one
group only, or where an execution trace of the rank is given as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from topoflow.capture.formats.kineto.operations import shaped
from topoflow.capture.formats.kineto.rows import KinetoRow
from topoflow.capture.merge.parts import RecordedOperation
from topoflow.capture.torch_names import SYMMETRIC


def symmetric(
    rows: Sequence[KinetoRow], groups: Mapping[str, tuple[int, ...]]
) -> list[tuple[KinetoRow, RecordedOperation]]:
    """Return an operation for every such row, in the order of issue; unknown fields are None."""
    name, group = next(iter(groups.items())) if len(groups) == 1 else ("", None)
    operations = []
    for row in rows:
        if row.category == "cpu_op" and row.name in SYMMETRIC:
            operation = shaped(row, SYMMETRIC[row.name], None, name, group)
            even = () if operation.op == "all_to_all" else None
            operations.append((row, replace(operation, operator=row.name, splits_in=even, splits_out=even)))
    return operations
