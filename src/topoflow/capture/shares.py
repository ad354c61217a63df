"""Shares of a step: how long each rank computed, communicated, waited for other ranks and was idle.

    rank 0   compute      |=== c0 ===|           |= c1 =|          hidden: A while c0 ran; exposed: the rest of A
             communicate        |~~~~~~~~|- A ---|         host idle: neither, here between c0, A and c1
    rank 1   communicate                 |- A ---|         waiting ~ until the last member began, then transfer -

Every time is the length of a union of intervals, so that what runs on several streams at once counts once, as in
HolisticTraceAnalysis (``get_temporal_breakdown``, ``get_comm_comp_overlap``). Copies in memory count as compute.
Compute, exposed communication and host idle add up to the step. Waiting and transfer add up to exposed communication:
an instant in which one communication waits while another one transfers is transfer.

What ran in the period of the iteration counts, also if it belongs to the next iteration: in a steady state that stands
for what this iteration began early.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from topoflow.capture.base import Communication, ComputeSpan, Event, Trace
from topoflow.capture.intervals import Spans, covered, intersection, merge, total
from topoflow.capture.matching import channel, members_of
from topoflow.capture.periods import Period

COMPUTE, UNSIZED = "compute", "communication without a size"
ROUNDING = 1e-9  # of a time


@dataclass(frozen=True)
class RankShare:
    """Shares of the time of one rank in an iteration; None where times were not recorded."""

    rank: int
    compute_time: float  # s in which the device was busy, or the processor that recorded itself
    iteration_time: float | None  # s, the period of the job's iteration; what follows are shares of it
    compute: float | None = None
    communication: float | None = None  # hidden and exposed
    hidden: float | None = None  # communication while something computed
    exposed: float | None = None  # communication while nothing computed: waiting and transfer
    waiting: float | None = None  # None: members of an operation were not recorded
    transfer: float | None = None
    host_idle: float | None = None  # neither computation nor communication
    last: int | None = None  # collectives of the iteration that this rank began last
    delay: float | None = None  # s in which all other members of these waited for this rank


@dataclass(frozen=True)
class SharedOperation:
    """A communication with known times, as its recorded members saw it; ``complete`` if these are all members."""

    iteration: int
    members: Mapping[int, Communication]
    complete: bool
    begin: float  # s, when the last of its recorded members began
    end: float  # s, when the last one ended


def shared_operations(trace: Trace) -> list[SharedOperation]:
    """Return the communications with known times, each with its recorded members.

    The k-th operation on a communicator in an iteration is the same one on all members. Operations before the first
    iteration are counted back from it, since a profile starts at another moment on each rank.
    """
    queues: dict[tuple[int, Hashable], dict[int, list[Communication]]] = defaultdict(lambda: defaultdict(list))
    for rank in trace.ranks:
        for event in trace.communications(rank):
            queues[event.iteration, channel(rank, event)][rank].append(event)
    operations = []
    for (iteration, key), by_rank in queues.items():
        for back in range(max(map(len, by_rank.values())), 0, -1):
            members = {rank: events[-back] for rank, events in by_rank.items() if len(events) >= back}
            starts = [event.start for event in members.values() if event.start is not None]
            ends = [event.end for event in members.values() if event.end is not None]
            if len(starts) == len(ends) == len(members):
                complete = members.keys() >= {*members_of(key)}
                operations.append(SharedOperation(iteration, members, complete, max(starts), max(ends)))
    return operations


def shares(trace: Trace, period: Period, operations: Sequence[SharedOperation]) -> tuple[RankShare, ...]:
    """Return the shares of time of every recorded rank in one iteration; ``operations`` are those of the trace."""
    known: dict[int, list[tuple[float, float]]] = defaultdict(list)  # operations all of whose members were recorded
    transfers: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for operation in operations:
        for rank, event in operation.members.items():
            if operation.complete and event.start is not None and event.end is not None:
                known[rank].append((event.start, event.end))
                transfers[rank].append((min(operation.begin, event.end), event.end))
    late = late_ranks(operation for operation in operations if operation.iteration == period.number)
    return tuple(
        _share(trace, rank, period, merged(known[rank]), merged(transfers[rank]), late.get(rank))
        for rank in sorted(trace.ranks)
    )


def late_ranks(operations: Iterable[SharedOperation]) -> dict[int, list[float]]:
    """Return for each member of complete collectives how long all others waited for it, for each that it began last."""
    late: dict[int, list[float]] = {}
    for operation in operations:
        began = sorted((event.start or 0.0, rank) for rank, event in operation.members.items() if event.peer is None)
        if operation.complete and len(began) > 1:
            for _, rank in began:
                late.setdefault(rank, [])
            if began[-1][0] > began[-2][0]:
                late[began[-1][1]].append(began[-1][0] - began[-2][0])
    return late


def rank_spans(trace: Trace, rank: int) -> dict[str, Spans]:
    """Return when a rank computed and communicated (by operation) in all iterations, as far as times are known."""
    events_of_kind: dict[str, list[Event]] = defaultdict(list)
    for event in trace.ranks[rank]:
        if event.iteration >= 0:
            events_of_kind[_kind(event)].append(event)
    return {kind: spans for kind, events in events_of_kind.items() if len(spans := merged(_times(events)))}


def merged(spans: Sequence[tuple[float, float]]) -> Spans:
    """Return the union of intervals, of none as well."""
    return merge(np.array(spans).reshape(-1, 2))


def _kind(event: Event) -> str:
    if isinstance(event, Communication):
        return event.op
    return UNSIZED if event.communicates else COMPUTE


def _times(events: Iterable[Event]) -> list[tuple[float, float]]:
    """Return start and end of the events that have both."""
    return [(event.start, event.end) for event in events if event.start is not None and event.end is not None]


def _share(
    trace: Trace, rank: int, period: Period, known: Spans, transfers: Spans, delays: Sequence[float] | None
) -> RankShare:
    """Return the shares of one rank.

    ``known`` are its operations all of whose members were recorded, ``transfers`` the parts of these in which data
    moved, ``delays`` (s) those of the iteration that others waited for.
    """
    events = trace.ranks[rank]
    computes = [event for event in events if isinstance(event, ComputeSpan) and not event.communicates]
    own_computes = [event for event in computes if event.iteration == period.number]
    compute_time = sum(event.seconds for event in own_computes)
    if len(times := _times(own_computes)) == len(own_computes):  # on several streams it overlaps
        compute_time = min(compute_time, total(merged(times)))
    window = _window(events, period)
    if window is None:
        return RankShare(rank, compute_time, None)
    length = total(window)
    communication = intersection(merged(_times(event for event in events if _kind(event) != COMPUTE)), window)
    ran = total(communication)
    share = RankShare(
        rank,
        compute_time,
        length,
        communication=ran / length,
        last=None if delays is None else len(delays),
        delay=None if delays is None else sum(delays),
    )
    if not computes or len(_times(computes)) < len(computes):
        return share
    transfers = intersection(transfers, window)
    computed, hidden, hidden_transfer = (_computed(computes, where) for where in (window, communication, transfers))
    exposed, transfer = max(0.0, ran - hidden), max(0.0, total(transfers) - hidden_transfer)
    complete = total(intersection(communication, known)) >= ran * (1 - ROUNDING)
    return replace(
        share,
        compute=computed / length,
        hidden=hidden / length,
        exposed=exposed / length,
        waiting=max(0.0, exposed - transfer) / length if complete else None,
        transfer=transfer / length if complete else None,
        host_idle=max(0.0, length - computed - exposed) / length,
    )


def _window(events: Sequence[Event], period: Period) -> Spans | None:
    """Return the period as an interval; None if the rank did nothing at known times in the iteration.

    A rank that does not communicate in the period of the job, as its groups wait for no other, has a period of its own.
    """
    iteration_events = [event for event in events if event.iteration == period.number]
    extent = merged(_times(iteration_events))
    if not len(extent):
        return None
    decisive = merged(_times(event for event in iteration_events if _kind(event) != COMPUTE))
    if period.begin is not None and period.end is not None and period.begin < period.end:
        window = np.array([[period.begin, period.end]])
        if len(intersection(decisive if len(decisive) else extent, window)):
            return window
    own_window = np.array([[extent[0, 0], extent[-1, 1]]])
    return own_window if total(own_window) > 0 else None


def _computed(computes: Sequence[ComputeSpan], where: Spans) -> float:
    """Return how long a rank computed within a set of intervals, s.

    A span of a profile has gaps, in which no kernel ran; spans are cut where communication begins and ends
    (``kineto.spans``). The processor that recorded itself was computing in all of its spans.
    """
    union = total(intersection(merged(_times(computes)), where))
    if any(event.after is not None for event in computes):
        return union
    spans = np.array(_times(computes)).reshape(-1, 2)
    lengths = spans[:, 1] - spans[:, 0]
    busy = np.array([event.seconds for event in computes])
    density = np.divide(busy, lengths, out=np.zeros(len(busy)), where=lengths > 0)
    inside = covered(where, spans[:, 1]) - covered(where, spans[:, 0])
    return min(union, float((np.minimum(density, 1.0) * inside).sum()))
