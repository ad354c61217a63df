"""Process groups in the rows of PyTorch 2.1 to 2.3: the last inputs of ``record_param_comms``, with ``record_shapes``.

    [tensors,] sequence, pointer, rank, collective name, input splits, output splits [, start, stride], size [, async]

as ``Concrete Inputs``, texts in which names are empty; a pointer is another on each rank, and a name or a name with its
description is empty. See ``formats.execution_trace.nodes``, which reads the same row with its names.
"""

from __future__ import annotations

from dataclasses import dataclass

from topoflow.capture.base import POINT_TO_POINT
from topoflow.capture.formats.kineto.rows import KinetoRow
from topoflow.capture.merge.groups import strided
from topoflow.capture.merge.parts import RecordedOperation
from topoflow.fields import LARGEST_RANK, LARGEST_WORLD
from topoflow.operations import ROOTED

SPLITS = 2  # lists of splits, between a collective's name and the group's layout


@dataclass(frozen=True)
class RowGroup:
    """The group of a row; ``place`` is the rank's in it, of rooted operations the root's, of send, recv the peer's."""

    key: str
    size: int
    ranks: tuple[int, ...] | None
    place: int

    def complete(self, operation: RecordedOperation) -> RecordedOperation:
        """``operation`` with what the row says of its group."""
        group = self.ranks if operation.group is None else operation.group
        of_other = operation.op in ROOTED or operation.op in POINT_TO_POINT
        if of_other and group is not None:
            if self.place >= len(group):
                raise ValueError(
                    f"{operation.place}: rank must be within 0..{len(group) - 1}, its group, got {self.place}"
                )
            other = group[self.place]
            peer, root = (other, None) if operation.op in POINT_TO_POINT else (None, other)
            operation = operation.changed(peer=peer, root=root)
        return operation.changed(
            group=group,
            group_key=self.key,
            group_size=self.size,
            group_rank=None if of_other else self.place,
            other=self.place if of_other else None,
        )


def read_group(row: KinetoRow) -> RowGroup | None:
    """The group that the inputs of a ``record_param_comms`` row end with; None where they do not."""
    args = row.args
    values, types = (args.texts(name) if args.has(name) else () for name in ("Concrete Inputs", "Input type"))
    if len(values) != len(types):
        return None
    end = len(values)
    if end and values[-1] in ("True", "False"):  # asynchronous
        end -= 1
    begin = end
    while begin and types[begin - 1] == "Scalar" and _number(values[begin - 1]) is not None:
        begin -= 1
    layout = [number for number in map(_number, values[begin:end]) if number is not None]
    name = begin - SPLITS - 1
    if len(layout) not in (1, 3) or name < 3:
        return None
    size, place, pointer = layout[-1], _number(values[name - 1]), values[name - 2]
    if not 1 <= size <= LARGEST_WORLD:
        args.fail("Concrete Inputs", f"must end with a group's size within 1..{LARGEST_WORLD}")
    if place is None or not 0 <= place <= LARGEST_RANK:
        args.fail("Concrete Inputs", f"must hold a rank within 0..{LARGEST_RANK}")
    ranks = strided(f"{args.place}Concrete Inputs", layout[0], layout[1], size) if len(layout) == 3 else None
    return RowGroup(f"{pointer[:40]} {layout}", size, ranks, place)


def _number(text: str) -> int | None:
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdecimal() and len(digits) < 20 else None
