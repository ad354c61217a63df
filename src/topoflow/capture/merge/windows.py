"""The window of operations that all ranks recorded, where operations have numbers and the job has no step marks.

Flight Recorder keeps the last operations of each rank, and ranks write their files at slightly different moments. The
k-th operation of a file is therefore not the k-th of another; its number in its group says which one it is:

    rank 0   65 66 67 68 69 ... 100             common: 68 ... 100
    rank 1            68 69 ... 100 101 102

A rank works in order. If an operation was not recorded by all members of its group because one of them began later,
what its rank did before it is left out, too; if one of them ended earlier, what it did afterwards. If a member recorded
no operation of the group, the window is cut at its end if the operation was under way, else at its nearer end.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from topoflow.capture.base import POINT_TO_POINT
from topoflow.capture.iterations import by_repetition
from topoflow.capture.merge.parts import RankRecord, RecordedOperation, without
from topoflow.units import human

ALIKE = ("all_reduce", "broadcast", "reduce")  # whose members all have the same number of bytes
Group = tuple[str, tuple[int, ...]]  # name and ranks
MISSING = "operations are missing in the files of other members of their group, and are left out"
CUT = "operations at the ends of the records were not recorded by all members and are left out"


class _Numbered(NamedTuple):
    """A collective with its position among the events of its rank and its number in its group."""

    position: int
    group: Group
    number: int
    completed: bool


@dataclass
class _Window:
    """The numbered operations of a rank, and the range of them that is common."""

    numbered: Sequence[_Numbered]
    first: int
    end: int

    def numbers(self) -> dict[Group, list[int]]:
        """Return the numbers in the range by group, in the order of issue."""
        numbers: dict[Group, list[int]] = defaultdict(list)
        for operation in self.numbered[self.first : self.end]:
            numbers[operation.group].append(operation.number)
        return numbers


def common_window(parts: Sequence[RankRecord], counts: Counter[str]) -> tuple[list[RankRecord], list[str]]:
    """Return the parts cut to what all ranks recorded, with iterations numbered alike, and notes on a job that hangs.

    They stay as they are where the job marked its steps, where some collective has no number, and where nothing is
    common, which ``merge.agree`` refuses. ValueError if nothing is common because the job hangs.
    """
    windows: dict[int, _Window] = {}
    for part in parts:
        window = _window(part)
        if window is None or part.steps:
            return list(parts), []
        windows[part.rank] = window
    hangs = [*_mismatches(parts, windows), *_hangs(parts, windows)]
    while _narrow(windows):
        pass
    if any(window.first >= window.end for window in windows.values()):
        if hangs:
            raise ValueError(f"{parts[0].file}: must have completed an operation on every rank, but {hangs[0]}")
        return list(parts), []
    if all(window.first == 0 and window.end == len(window.numbered) for window in windows.values()):
        return list(parts), hangs
    cut_parts = [_cut(part, windows[part.rank], counts) for part in parts]
    iterations = min(part.iterations for part in cut_parts)
    return [_last(part, iterations) for part in cut_parts], hangs


def shared_calls(parts: Sequence[RankRecord], counts: Counter[str]) -> list[RankRecord]:
    """Return the parts without the calls (``RecordedOperation.call``) that some recorded member of their group lacks.

    Where there are some, iterations are numbered anew.
    """
    calls: dict[tuple[Group, str], dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    for part in parts:
        for event in part.events:
            if isinstance(event, RecordedOperation) and event.call is not None:
                calls[_group(event), event.op][part.rank].add(event.call)
    recorded = {part.rank for part in parts}
    shared = {
        (group, op): set.intersection(*(calls_of_rank[rank] for rank in group[1] if rank in recorded))
        for (group, op), calls_of_rank in calls.items()
    }
    outside = {
        part.rank: {
            at
            for at, event in enumerate(part.events)
            if isinstance(event, RecordedOperation)
            and event.call is not None
            and event.call not in shared[_group(event), event.op]
        }
        for part in parts
    }
    if not any(outside.values()):
        return list(parts)
    counts[MISSING] += sum(map(len, outside.values()))
    cut_parts = [_numbered_without(part, outside[part.rank]) for part in parts]
    iterations = min(part.iterations for part in cut_parts)
    return [_last(part, iterations) for part in cut_parts]


def _window(part: RankRecord) -> _Window | None:
    """Return the whole window of a part; None where some collective of several ranks has no number."""
    numbered = []
    for position, event in enumerate(part.events):
        if isinstance(event, RecordedOperation) and event.op not in POINT_TO_POINT and len(event.group or ()) > 1:
            if event.sequence is None:
                return None
            numbered.append(_Numbered(position, _group(event), event.sequence, event.completed))
    return _Window(numbered, 0, len(numbered))


def _group(operation: RecordedOperation) -> Group:
    return operation.group_name, operation.group or ()


def _narrow(windows: Mapping[int, _Window]) -> bool:
    """Narrow every window to the numbers that all recorded members of a group have; return whether one changed."""
    numbers = {rank: window.numbers() for rank, window in windows.items()}
    common: dict[Group, tuple[int, int]] = {}
    for group in {group for by_group in numbers.values() for group in by_group}:
        members = [numbers[rank].get(group, []) for rank in group[1] if rank in numbers]
        if all(members):
            common[group] = max(map(min, members)), min(map(max, members))
    changed = False
    for window in windows.values():
        inside = window.numbered[window.first : window.end]
        early, late = list[int](), list[int]()
        for at, (_, group, number, completed) in enumerate(inside):
            if group not in common:  # a member recorded none of its operations
                (early if completed and 2 * at < len(inside) else late).append(at)
            elif number < common[group][0]:
                early.append(at)
            elif number > common[group][1]:
                late.append(at)
        begin = max(early, default=-1) + 1
        end = min((at for at in late if at >= begin), default=len(inside))
        changed |= begin > 0 or end < len(inside)
        window.first, window.end = window.first + begin, window.first + end
    return changed


def _cut(part: RankRecord, window: _Window, counts: Counter[str]) -> RankRecord:
    """Return the part without operations outside of its window."""
    begin, end = window.numbered[window.first].position, window.numbered[window.end - 1].position
    whole = len(window.numbered) == window.end - window.first
    outside = set() if whole else {at for at in range(len(part.events)) if not begin <= at <= end}
    counts[CUT] += sum(isinstance(part.events[at], RecordedOperation) for at in outside)
    return _numbered_without(part, outside)


def _numbered_without(part: RankRecord, outside: set[int]) -> RankRecord:
    """Return the part without the events ``outside``, its iterations numbered by their repetition."""
    events = without(part.events, outside)
    keys = [
        (event.op, _group(event), event.dtype, event.bytes_in)
        for event in events
        if isinstance(event, RecordedOperation)
    ]
    numbers = iter(by_repetition(keys))
    number, placed = -1, []
    for event in events:
        number = next(numbers) if isinstance(event, RecordedOperation) else number
        placed.append(replace(event, iteration=number))
    return replace(part, events=tuple(placed), iterations=1 + max((event.iteration for event in placed), default=0))


def _last(part: RankRecord, iterations: int) -> RankRecord:
    """Return the part with its last ``iterations``; what it did before them counts as set-up."""
    earlier = part.iterations - iterations
    if not earlier:
        return part
    events = tuple(replace(event, iteration=max(event.iteration - earlier, -1)) for event in part.events)
    return replace(part, events=events, iterations=iterations)


def _hangs(parts: Sequence[RankRecord], windows: Mapping[int, _Window]) -> list[str]:
    """Return a line for each group some of whose ranks wait in an operation that others have not begun."""
    waiting: dict[Group, dict[int, RecordedOperation]] = defaultdict(
        dict
    )  # group -> rank -> its first unfinished operation
    latest: dict[Group, dict[int, int]] = defaultdict(dict)  # group -> rank -> its last number
    for part in parts:
        for position, group, number, completed in windows[part.rank].numbered:
            operation = part.events[position]
            latest[group][part.rank] = max(number, latest[group].get(part.rank, number))
            if not completed and isinstance(operation, RecordedOperation):
                waiting[group].setdefault(part.rank, operation)
    notes = []
    for group, operations in waiting.items():
        number = min(operation.sequence or 0 for operation in operations.values())
        absent = sorted(rank for rank in group[1] if rank in windows and latest[group].get(rank, -1) < number)
        held = sorted(rank for rank, operation in operations.items() if operation.sequence == number)
        if absent:
            one = operations[held[0]]
            size = max(one.bytes_in or 0, one.bytes_out or 0)
            notes.append(
                f"{_ranks(held)} in number {number} of group {one.group_name!r}, {one.op} of {human(size, 'B')}, "
                f"which rank{'s' * (len(absent) > 1)} {_listed(absent)} had not begun"
            )
    return notes


def _mismatches(parts: Sequence[RankRecord], windows: Mapping[int, _Window]) -> list[str]:
    """Return a line for each group that waits because its ranks called different operations; end the windows there."""
    calls: dict[Group, dict[int, dict[int, RecordedOperation]]] = defaultdict(lambda: defaultdict(dict))
    for part in parts:
        for position, group, number, _ in windows[part.rank].numbered:
            operation = part.events[position]
            if isinstance(operation, RecordedOperation):
                calls[group][number].setdefault(part.rank, operation)
    notes = []
    for group, by_number in calls.items():
        for number, by_rank in sorted(by_number.items()):
            kinds: dict[object, list[int]] = defaultdict(list)
            for rank, operation in by_rank.items():
                kinds[operation.op, operation.bytes_in if operation.op in ALIKE else None].append(rank)
            if len(kinds) < 2 or all(operation.completed for operation in by_rank.values()):
                continue
            called = " and ".join(_called(by_rank[ranks[0]], ranks) for ranks in list(kinds.values())[:2])
            notes.append(f"number {number} of group {group[0]!r} is not the same operation on all ranks: {called}")
            for window in windows.values():
                later = (
                    at
                    for at, operation in enumerate(window.numbered)
                    if operation.group == group and operation.number >= number
                )
                window.end = min([window.end, *later])
            break
    return notes


def _called(operation: RecordedOperation, ranks: Sequence[int]) -> str:
    plural = "s" * (len(ranks) > 1)
    return f"{operation.op} of {human(operation.bytes_in or 0, 'B')} on rank{plural} {_listed(ranks)}"


def _ranks(ranks: Sequence[int]) -> str:
    return f"ranks {_listed(ranks)} wait" if len(ranks) > 1 else f"rank {ranks[0]} waits"


def _listed(ranks: Sequence[int]) -> str:
    shown = ", ".join(map(str, ranks[:8]))
    return shown if len(ranks) <= 8 else f"{shown}, ... ({len(ranks)} ranks)"
