"""Do the ranks of a job agree? Members of a group must have done the same, one by one, and in the same order.

Which operations of two ranks belong together: those with the same sequence number of their group where the files have
it, or else the k-th in the same iteration (the job's own step marks are the same on all ranks). A profile starts and
stops at another moment on each rank, so operations before the first iteration are counted back from it, and those that
only some members recorded are cut.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from topoflow.capture.base import POINT_TO_POINT, Communication
from topoflow.capture.merge.parts import RankRecord, RecordedOperation
from topoflow.units import DTYPE_BYTES


@dataclass(frozen=True)
class OperationMember:
    """One rank's side of an operation: ``index`` is its position among the events of ``rank``."""

    rank: int
    index: int
    operation: RecordedOperation
    communication: Communication


SHARED = ("all_gather", "reduce_scatter")  # shares may differ: torch.distributed.all_gather takes tensors of any size
Columns = Mapping[int, Sequence[OperationMember]]  # rank -> its operations of one group, in the order of issue


@dataclass(frozen=True)
class Agreement:
    """The operations that were cut, and those whose members have shares of different sizes, by operation."""

    cut: Sequence[OperationMember]
    uneven: Sequence[Sequence[OperationMember]]


def common_lengths(parts: Sequence[RankRecord]) -> dict[int, int]:
    """Return for each rank how many of its events remain if it ends before an operation that a member did not get to.

    The k-th operation of a group is the same on all members. What a rank does after such an operation is cut too, and
    may in turn be what others did not get to without it.
    """
    lengths = {part.rank: len(part.events) for part in parts}
    columns: dict[tuple[object, ...], dict[int, list[int]]] = {}
    for part in parts:
        for index, event in enumerate(part.events):
            if isinstance(event, RecordedOperation) and event.group is not None:
                key, sides = _key(event, part.rank, event.group)
                column = columns.setdefault(key, {rank: [] for rank in sides if rank in lengths})
                column.setdefault(part.rank, []).append(index)
    shrinks = True
    while shrinks:
        shrinks = False
        for column in columns.values():
            shortest = min(bisect_left(indices, lengths[rank]) for rank, indices in column.items())
            for rank, indices in column.items():
                if len(indices) > shortest and indices[shortest] < lengths[rank]:
                    lengths[rank] = indices[shortest]
                    shrinks = True
    return lengths


def unequal_steps(parts: Sequence[RankRecord]) -> set[int]:
    """Return the steps in which the members of a group recorded another number of operations, if rows are damaged."""
    if not any(part.damaged for part in parts):
        return set()
    columns: dict[tuple[object, ...], dict[int, Counter[int]]] = {}  # rank -> step -> operations
    steps = {part.rank: {*part.steps} for part in parts}
    for part in parts:
        for event in part.events:
            if isinstance(event, RecordedOperation) and event.group is not None and event.iteration >= 0:
                key, sides = _key(event, part.rank, event.group)
                column = columns.setdefault(key, {rank: Counter() for rank in sides if rank in steps})
                column.setdefault(part.rank, Counter())[part.steps[event.iteration]] += 1
    return {
        step
        for column in columns.values()
        for step in set().union(*column.values())
        if len({counts[step] for rank, counts in column.items() if step in steps[rank]}) > 1
    }


def check_agreement(members: Sequence[OperationMember]) -> Agreement:
    """Raise ``ValueError``, naming both ranks, where two members disagree about what they did together."""
    recorded = {member.rank for member in members}
    columns: dict[tuple[object, ...], dict[int, list[OperationMember]]] = {}
    for member in members:
        key, sides = _key(member.communication, member.rank, member.communication.group)
        column = columns.setdefault(key, {rank: [] for rank in sides if rank in recorded})
        column.setdefault(member.rank, []).append(member)
    cut, uneven = [], []
    for column in columns.values():
        rows, left = _align(column)
        cut += left
        for row in rows:
            for other in row[1:]:
                _check_pair(row[0], other)
            sizes = {_size(member.communication) for member in row if member.communication.sized}
            if row[0].communication.op in SHARED and len(sizes) > 1:
                uneven.append([member for member in row if member.communication.sized])
    return Agreement(cut, uneven)


def _key(
    event: Communication | RecordedOperation, rank: int, group: tuple[int, ...]
) -> tuple[tuple[object, ...], tuple[int, ...]]:
    """Return what aligns with what, and the ranks concerned: all members of a group, or the two ends of a send."""
    if event.op in POINT_TO_POINT:
        peer = event.peer if event.peer is not None else rank
        ends = (rank, peer) if event.op == "send" else (peer, rank)
        return ("point to point", event.group_name, event.tag, *ends), ends
    return ("group", event.group_name, frozenset(group)), group


def _align(columns: Columns) -> tuple[list[list[OperationMember]], list[OperationMember]]:
    """Rows of operations that belong together, and those outside the window that all members recorded."""
    if all(member.operation.sequence is not None for column in columns.values() for member in column):
        keyed = {
            rank: _count_up(column, lambda member: member.operation.sequence or 0) for rank, column in columns.items()
        }
        if all(keyed.values()):
            first, last = _common_window(keyed)
            return _pair_up(keyed, lambda key: first <= key[0] <= last)
    keyed = {rank: _count_up(column, lambda member: member.communication.iteration) for rank, column in columns.items()}
    shortest = min(sum(key[0] < 0 for key in column) for column in keyed.values())
    for rank, column in keyed.items():  # count the set-up back from the first iteration
        before = sum(key[0] < 0 for key in column)
        keyed[rank] = {(i, k - before if i < 0 else k): member for (i, k), member in column.items()}
    return _pair_up(keyed, lambda key: key[0] >= 0 or key[1] >= -shortest)


def _common_window(keyed: Mapping[int, Mapping[tuple[int, int], OperationMember]]) -> tuple[int, int]:
    """The sequence numbers that all ranks recorded, first and last."""
    late = max(keyed, key=lambda rank: min(keyed[rank]))
    early = min(keyed, key=lambda rank: max(keyed[rank]))
    first, last = min(keyed[late])[0], max(keyed[early])[0]
    if first > last:
        raise ValueError(
            f"ranks {early} and {late}: must have recorded some of the same operations of their group, "
            f"got sequence numbers up to {last} and from {first} on"
        )
    return first, last


def _count_up(
    column: Sequence[OperationMember], number: Callable[[OperationMember], int]
) -> dict[tuple[int, int], OperationMember]:
    """(number, k) -> the k-th member with that number."""
    seen: dict[int, int] = {}
    keyed = {}
    for member in column:
        value = number(member)
        keyed[value, seen.get(value, 0)] = member
        seen[value] = seen.get(value, 0) + 1
    return keyed


def _pair_up(
    keyed: Mapping[int, Mapping[tuple[int, int], OperationMember]], inside: Callable[[tuple[int, int]], bool]
) -> tuple[list[list[OperationMember]], list[OperationMember]]:
    cut = [member for column in keyed.values() for key, member in column.items() if not inside(key)]
    rows = []
    for key in sorted({key for column in keyed.values() for key in column if inside(key)}):
        missing = [rank for rank, column in keyed.items() if key not in column]
        row = [column[key] for column in keyed.values() if key in column]
        if missing:
            raise ValueError(
                f"ranks {row[0].rank} and {missing[0]}: members of a group must do the same, "
                f"got {_describe(row[0])} at {row[0].operation.place} and nothing on rank {missing[0]}"
            )
        rows.append(row)
    return rows, cut


def _check_pair(first: OperationMember, second: OperationMember) -> None:
    a, b = first.communication, second.communication
    known = a.sized and b.sized
    same = (a.dtype == b.dtype or not known) and (a.root == b.root or None in (a.root, b.root))
    if a.op in POINT_TO_POINT:
        same = same and a.op != b.op and (a.bytes == b.bytes or not known)
    elif a.op == "all_to_all" and known:
        same = same and a.op == b.op and a.group == b.group and _share(a, second.rank) == _share_out(b, first.rank)
        same = same and _share(b, first.rank) == _share_out(a, second.rank)
    else:
        same = same and a.op == b.op and a.group == b.group and (a.op in SHARED or not known or _size(a) == _size(b))
    if not same:
        raise ValueError(
            f"ranks {first.rank} and {second.rank}: members of a group must do the same, got {_content(first)} and "
            f"{_content(second)}, {_described_group(first)} at {first.operation.place} and "
            f"{_described_group(second)} at {second.operation.place}"
        )


def _size(communication: Communication) -> tuple[int, ...]:
    """The sizes that all members share; the root of a gather or scatter holds another one besides."""
    match communication.op:
        case "gather":
            return (communication.bytes_in,)
        case "scatter":
            return (communication.bytes_out,)
        case "barrier":
            return ()
    return communication.bytes_in, communication.bytes_out


def _share(communication: Communication, to: int) -> int:
    """Elements of an all-to-all that go to rank ``to``."""
    return _part(communication, communication.splits_in, communication.bytes_in, to)


def _share_out(communication: Communication, source: int) -> int:
    """Elements of an all-to-all that come from rank ``source``."""
    return _part(communication, communication.splits_out, communication.bytes_out, source)


def _part(communication: Communication, splits: tuple[int, ...], size: int, rank: int) -> int:
    if not splits:
        return size // DTYPE_BYTES[communication.dtype] // len(communication.group)
    return splits[communication.group.index(rank)]


def _describe(member: OperationMember) -> str:
    return f"{_content(member)}, {_described_group(member)}"


def _content(member: OperationMember) -> str:
    communication = member.communication
    splits = (
        f" splits {list(communication.splits_in)[:8]} to {list(communication.splits_out)[:8]}"
        if communication.splits_in
        else ""
    )
    sizes = f"{communication.bytes_in} B in, {communication.bytes_out} B out"
    return f"{communication.op} of {communication.dtype}, {sizes}{splits}"


def _described_group(member: OperationMember) -> str:
    communication = member.communication
    where = f" {communication.group_name!r}" if communication.group_name else ""
    return f"group{where} {list(communication.group)[:8]}, iteration {communication.iteration}"
