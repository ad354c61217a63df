"""One iteration of a trace, of all ranks: the one that stands for the job, with what was not recorded filled in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from topoflow.capture.base import POINT_TO_POINT, Compute, Event, Trace, brief


@dataclass(frozen=True)
class Iteration:
    """``ranks[r]`` maps the position of an event in rank r's record to the event, ascending.

    ``began[r]`` is when the iteration before was over on rank r, s; None where that was not recorded.
    """

    number: int
    ranks: Mapping[int, Mapping[int, Event]]
    began: Mapping[int, float | None]
    mirrored: tuple[int, ...]  # ranks that were not recorded
    model: int  # the recorded rank that they do the same as


def representative(trace: Trace) -> Iteration:
    """The iteration of median length among those that communicate as most of them do.

    Set-up is never taken; nor, among several, an odd one out, as DDP's first is (one bucket) or one that a profiler's
    window has cut. ValueError when the ranks that were not recorded cannot be distinguished from those that were.
    """
    communicates = {number: _communicates(trace, number) for number in range(trace.iterations)}
    counts = Counter(communicates.values())
    most = max(counts.values())
    usual = next(what for what in reversed(communicates.values()) if counts[what] == most)  # the latest, among equals
    alike = sorted((_length(trace, number), number) for number, what in communicates.items() if what == usual)
    number = alike[(len(alike) - 1) // 2][1]
    missing = tuple(rank for rank in range(trace.world_size) if rank not in trace.ranks)
    model = min(trace.ranks, default=-1)
    if missing:
        _check_mirrors(trace)
    records = {rank: trace.ranks[model if rank in missing else rank] for rank in range(trace.world_size)}
    ranks = {
        rank: {position: event for position, event in enumerate(record) if event.iteration == number}
        for rank, record in records.items()
    }
    if not any(ranks.values()):
        raise ValueError(f"trace {trace.name}: must have events in an iteration, got none in iteration {number}")
    began = {rank: _end(record, number - 1) if number > 0 else None for rank, record in records.items()}
    return Iteration(number, ranks, began, missing, model)


def _end(record: Sequence[Event], number: int) -> float | None:
    """When the last event of an iteration ended; None if no end was recorded."""
    return max((event.end for event in record if event.iteration == number and event.end is not None), default=None)


def _communicates(trace: Trace, number: int) -> Hashable:
    """What the recorded ranks communicate in an iteration, for comparison."""
    return tuple(
        tuple((event.op, event.group, event.bytes) for event in trace.communications(rank) if event.iteration == number)
        for rank in sorted(trace.ranks)
    )


def _length(trace: Trace, number: int) -> float:
    """Seconds from the first start to the last end; without times, of the compute of the busiest rank."""
    events = [event for rank in trace.ranks.values() for event in rank if event.iteration == number]
    starts = [event.start for event in events if event.start is not None]
    ends = [event.end for event in events if event.end is not None]
    if starts and ends:
        return max(ends) - min(starts)
    return max(
        (
            sum(event.seconds for event in rank if isinstance(event, Compute) and event.iteration == number)
            for rank in trace.ranks.values()
        ),
        default=0.0,
    )


def _check_mirrors(trace: Trace) -> None:
    """Every rank does the same (SPMD) when all talk to all; then one record stands for the others."""
    for rank in trace.ranks:
        for event in trace.communications(rank):
            if len(event.group) < trace.world_size or event.op in POINT_TO_POINT:
                raise ValueError(
                    f"trace {trace.name}: must have all {trace.world_size} ranks, got {len(trace.ranks)}; the others "
                    f"need not do the same, as rank {rank} has a {event.op!r} within {brief(event.group)}"
                )
    if not trace.ranks:
        raise ValueError(f"trace {trace.name}: must have at least one rank, got none")
