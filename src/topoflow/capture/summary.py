"""Summary: what a trace says about its job. Counts, bytes, and the share of time in communication.

All are of the iteration that stands for the job (``capture.periods``), which a replay simulates too.

Shapes: R ranks of the job.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from topoflow.capture.assumptions import Unsized, assumptions, unsized
from topoflow.capture.base import Communication, ComputeSpan, Event, Trace
from topoflow.capture.intervals import Spans, intersection, merge, total
from topoflow.capture.periods import Period, representative
from topoflow.operations import bus_factor

Number = int | float
COMPUTE, UNSIZED = "compute", "communication without a size"


@dataclass(frozen=True)
class CollectiveLine:
    """Operations of one kind in one iteration, per rank: the mean over the recorded ranks that took part."""

    op: str
    group_size: int  # 2 for send and recv
    dtype: str
    count: Number
    bytes_per_iteration: Number  # B, as ``Communication.bytes``
    setup_count: Number  # how many more came before the first iteration
    ranks: int  # recorded ranks that took part


@dataclass(frozen=True)
class GroupLine:
    """One process group that ran collectives, in one iteration and per recorded member."""

    name: str  # several where communicators of the same ranks did
    size: int
    ranks: tuple[int, ...]  # in group order
    count: Number
    bytes_per_iteration: Number  # B


@dataclass(frozen=True)
class RankShare:
    """Shares of the time of one rank in an iteration; None where the trace has no times.

    ``compute_time`` is what the device was busy, or the processor that recorded itself: the spans that hide
    communication are longer where either waited inside them.
    """

    rank: int
    compute_time: float  # s in the iteration
    iteration_time: float | None  # s, the period of the job's iteration; the next two are shares of it
    communication: float | None  # some communication was running
    exposed: float | None  # ... and no computation


@dataclass(frozen=True)
class Summary:
    """All that ``topoflow inspect`` prints."""

    name: str
    source: str
    iterations: int
    iteration: int  # the one that was counted
    iteration_time: float | None  # s, its recorded period
    ranks: int  # recorded
    world_size: int
    collectives: tuple[CollectiveLine, ...]
    groups: tuple[GroupLine, ...]
    communication_share: float | None  # mean over ranks of RankShare.communication
    exposed_share: float | None
    shares: tuple[RankShare, ...]
    unsized: tuple[Unsized, ...]  # kernels that communicated an unknown number of bytes
    notes: tuple[str, ...]

    def as_json(self) -> dict[str, object]:
        """Plain lists and numbers; null where there is no value."""
        return asdict(self)


def summarize(trace: Trace) -> Summary:
    """Count a trace."""
    period = representative(trace)
    shares = tuple(rank_share(trace, rank, period) for rank in sorted(trace.ranks))
    return Summary(
        name=trace.name,
        source=trace.source,
        iterations=trace.iterations,
        iteration=period.number,
        iteration_time=period.seconds,
        ranks=len(trace.ranks),
        world_size=trace.world_size,
        collectives=_collectives(trace, period.number),
        groups=_groups(trace, period.number),
        communication_share=_mean_of(share.communication for share in shares),
        exposed_share=_mean_of(share.exposed for share in shares),
        shares=shares,
        unsized=unsized(trace),
        notes=assumptions(trace),
    )


def _collectives(trace: Trace, number: int) -> tuple[CollectiveLine, ...]:
    found: dict[tuple[str, int, str], dict[int, list[Communication]]] = {}
    for rank in sorted(trace.ranks):
        for event in trace.communications(rank):
            size = 2 if event.peer is not None else len(event.group)
            found.setdefault((event.op, size, event.dtype), {}).setdefault(rank, []).append(event)
    lines = []
    for (op, size, dtype), by_rank in found.items():
        events = [event for ranked in by_rank.values() for event in ranked]
        counted = [event for event in events if event.iteration == number]
        lines.append(
            CollectiveLine(
                op=op,
                group_size=size,
                dtype=dtype,
                count=exact(len(counted), len(by_rank)),
                bytes_per_iteration=exact(sum(event.bytes for event in counted), len(by_rank)),
                setup_count=exact(sum(event.iteration < 0 for event in events), len(by_rank)),
                ranks=len(by_rank),
            )
        )
    return tuple(sorted(lines, key=lambda line: (-line.bytes_per_iteration, line.op, line.group_size, line.dtype)))


def _groups(trace: Trace, number: int) -> tuple[GroupLine, ...]:
    used: dict[tuple[int, ...], list[Communication]] = {}
    members: dict[tuple[int, ...], set[int]] = {}
    for rank in sorted(trace.ranks):
        for event in (event for event in trace.communications(rank) if event.peer is None):
            used.setdefault(event.group, []).append(event)
            members.setdefault(event.group, set()).add(rank)
    lines = []
    for group, events in used.items():
        counted = [event for event in events if event.iteration == number]
        lines.append(
            GroupLine(
                name=", ".join(dict.fromkeys(event.group_name for event in events if event.group_name)),
                size=len(group),
                ranks=group,
                count=exact(len(counted), len(members[group])),
                bytes_per_iteration=exact(sum(event.bytes for event in counted), len(members[group])),
            )
        )
    return tuple(sorted(lines, key=lambda line: (-line.bytes_per_iteration, line.ranks)))


def exact(value: int, parts: int) -> Number:
    """``value / parts``; a whole number where it is one."""
    return value // parts if value % parts == 0 else value / parts


def rank_spans(trace: Trace, rank: int, number: int | None = None) -> dict[str, Spans]:
    """When a rank computed and communicated (by operation) in all iterations, or in one, as far as times are known."""
    found: dict[str, list[tuple[float, float]]] = {}
    for event in trace.ranks[rank]:
        counts = event.iteration >= 0 if number is None else event.iteration == number
        if counts and event.start is not None and event.end is not None:
            found.setdefault(_kind(event), []).append((event.start, event.end))
    return {name: merge(np.array(spans)) for name, spans in found.items()}


def _kind(event: Event) -> str:
    if isinstance(event, Communication):
        return event.op
    return UNSIZED if event.communicates else COMPUTE


def rank_share(trace: Trace, rank: int, period: Period) -> RankShare:
    """Return the shares of time of a rank in one iteration. What ran before it began is no part of it.

    A rank that does not communicate in the job's period, as its groups wait for no other, has a period of its own.
    """
    spans = rank_spans(trace, rank, period.number)
    length = period.seconds or 0.0
    if period.begin is not None and period.end is not None:
        clipped = _clipped(spans, period.begin, period.end)
        if any(len(ran) for name, ran in clipped.items() if name != COMPUTE) or not spans:
            spans = clipped
        else:
            length = max(ran[-1, 1] for ran in spans.values()) - min(ran[0, 0] for ran in spans.values())
    computed = spans.get(COMPUTE, np.zeros((0, 2)))
    events = [event for event in trace.ranks[rank] if event.iteration == period.number]
    timed = all(event.start is not None and event.end is not None for event in events)
    compute_time = sum(event.seconds for event in events if isinstance(event, ComputeSpan) and not event.communicates)
    if timed:  # on several streams it overlaps
        compute_time = min(compute_time, total(computed))
    communicated = [ran for name, ran in spans.items() if name != COMPUTE]
    if length <= 0 or not any(len(ran) for ran in communicated):
        return RankShare(rank, compute_time, None, None, None)
    communication = merge(np.concatenate(communicated))
    busy = total(communication)
    exposed = max(0.0, busy - total(intersection(communication, computed)))
    return RankShare(rank, compute_time, length, busy / length, exposed / length)


def _clipped(spans: Mapping[str, Spans], begin: float, end: float) -> dict[str, Spans]:
    """Return the parts of spans within a window."""
    window = np.array([[begin, end]])
    return {name: intersection(ran, window) for name, ran in spans.items()}


def _mean_of(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def traffic_matrix(trace: Trace, most: int = 512) -> NDArray[np.float64]:
    """Bytes [C, C] that recorded ranks send to others in one iteration; C = R, the number of ranks, up to ``most``.

    Of a larger job a cell is the traffic between two runs of ``ceil(R / most)`` consecutive ranks.

    All-reduce (2 (n-1)/n S), all-gather and reduce-scatter ((n-1)/n S) go to the next of the group's ring, a
    broadcast, scatter, gather or reduce between the root and each, an all-to-all to each by its splits. Where the root
    was not recorded, it is taken to be the first rank of the group, as lowering does (``traffic.captured``).
    """
    run = ceil(trace.world_size / most)
    cells = ceil(trace.world_size / run)
    matrix = np.zeros((cells, cells))
    number = representative(trace).number
    for rank in trace.ranks:
        for event in trace.communications(rank):
            if event.iteration == number:
                for peer, amount in _sends(rank, event).items():
                    if peer != rank:
                        matrix[rank // run, peer // run] += amount
    return matrix


def _sends(rank: int, event: Communication) -> Mapping[int, float]:
    """Bytes that one rank sends to each peer in one event."""
    group, size = event.group, len(event.group)
    following = group[(group.index(rank) + 1) % size]
    if event.op == "send" and event.peer is not None:
        return {event.peer: event.bytes}
    if event.op in ("all_reduce", "all_gather", "reduce_scatter"):
        return {following: bus_factor(event.op, size) * event.bytes}
    if event.op == "all_to_all":
        parts = event.splits_in or (1,) * size
        return {peer: event.bytes_in * part / max(1, sum(parts)) for peer, part in zip(group, parts, strict=True)}
    root = group[0] if event.root is None else event.root
    if event.op in ("broadcast", "scatter") and rank == root:
        return dict.fromkeys(group, event.bytes / (size if event.op == "scatter" else 1))
    if event.op in ("reduce", "gather") and rank != root:
        return {root: event.bytes_in}
    return {}
