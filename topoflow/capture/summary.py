"""Summary: what a trace says about its job. Counts, bytes, and the share of time in communication.

Shapes: R ranks of the job.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from topoflow.capture.base import Communication, Compute, Trace
from topoflow.capture.intervals import Spans, intersection, merge, total
from topoflow.operations import ROOTED, bus_factor

Number = int | float


@dataclass(frozen=True)
class CollectiveLine:
    """Operations of one kind. ``count`` and ``bytes`` are per rank: the mean over the recorded ranks that took part."""

    op: str
    group_size: int  # 2 for send and recv
    dtype: str
    count: Number  # in the whole trace, set-up included
    bytes_per_iteration: Number  # B, without set-up; of a collective: the larger of the rank's two tensors
    setup_count: Number  # how many of ``count`` came before the first iteration
    ranks: int  # recorded ranks that took part


@dataclass(frozen=True)
class GroupLine:
    """One process group that ran collectives."""

    name: str  # several where communicators of the same ranks did
    size: int
    ranks: tuple[int, ...]  # in group order
    count: Number  # operations per recorded member, in the whole trace
    bytes_per_iteration: Number  # per recorded member


@dataclass(frozen=True)
class RankShare:
    """Where the time of one rank went; None where the trace has no times.

    ``compute_time`` is what the device was busy, or the processor that recorded itself: the spans that hide
    communication are longer where either waited inside them.
    """

    rank: int
    compute_time: float  # s per iteration
    iteration_time: float | None  # s, mean; the next two are shares of it
    communication: float | None  # some communication was running
    exposed: float | None  # ... and no computation


@dataclass(frozen=True)
class Summary:
    """All that ``topoflow inspect`` prints."""

    name: str
    source: str
    iterations: int
    ranks: int  # recorded
    world_size: int
    collectives: tuple[CollectiveLine, ...]
    groups: tuple[GroupLine, ...]
    communication_share: float | None  # mean over ranks of RankShare.communication
    exposed_share: float | None
    shares: tuple[RankShare, ...]
    notes: tuple[str, ...]

    def as_json(self) -> dict[str, object]:
        """Plain lists and numbers; null where there is no value."""
        return asdict(self)


def summarize(trace: Trace) -> Summary:
    """Count a trace."""
    shares = tuple(rank_share(trace, rank) for rank in sorted(trace.ranks))
    return Summary(
        name=trace.name,
        source=trace.source,
        iterations=trace.iterations,
        ranks=len(trace.ranks),
        world_size=trace.world_size,
        collectives=_collectives(trace),
        groups=_groups(trace),
        communication_share=_mean_of(share.communication for share in shares),
        exposed_share=_mean_of(share.exposed for share in shares),
        shares=shares,
        notes=(*trace.notes, *_assumed(trace)),
    )


def _assumed(trace: Trace) -> list[str]:
    """What the traffic matrix takes for granted, counted."""
    rootless = sum(
        event.op in ROOTED and event.root is None for rank in trace.ranks for event in trace.communications(rank)
    )
    return [f"{rootless} rooted collectives have no recorded root: taken to be their group's first rank"] * (
        rootless > 0
    )


def _collectives(trace: Trace) -> tuple[CollectiveLine, ...]:
    found: dict[tuple[str, int, str], dict[int, list[Communication]]] = {}
    for rank in sorted(trace.ranks):
        for event in trace.communications(rank):
            size = 2 if event.peer is not None else len(event.group)
            found.setdefault((event.op, size, event.dtype), {}).setdefault(rank, []).append(event)
    lines = []
    for (op, size, dtype), by_rank in found.items():
        events = [event for ranked in by_rank.values() for event in ranked]
        lines.append(
            CollectiveLine(
                op=op,
                group_size=size,
                dtype=dtype,
                count=exact(len(events), len(by_rank)),
                bytes_per_iteration=exact(_stepped(events), len(by_rank) * trace.iterations),
                setup_count=exact(sum(event.iteration < 0 for event in events), len(by_rank)),
                ranks=len(by_rank),
            )
        )
    return tuple(sorted(lines, key=lambda line: (-line.bytes_per_iteration, line.op, line.group_size, line.dtype)))


def _groups(trace: Trace) -> tuple[GroupLine, ...]:
    used: dict[tuple[int, ...], list[Communication]] = {}
    members: dict[tuple[int, ...], set[int]] = {}
    for rank in sorted(trace.ranks):
        for event in (event for event in trace.communications(rank) if event.peer is None):
            used.setdefault(event.group, []).append(event)
            members.setdefault(event.group, set()).add(rank)
    lines = [
        GroupLine(
            name=", ".join(dict.fromkeys(event.group_name for event in events if event.group_name)),
            size=len(group),
            ranks=group,
            count=exact(len(events), len(members[group])),
            bytes_per_iteration=exact(_stepped(events), len(members[group]) * trace.iterations),
        )
        for group, events in used.items()
    ]
    return tuple(sorted(lines, key=lambda line: (-line.bytes_per_iteration, line.ranks)))


def _stepped(events: Iterable[Communication]) -> int:
    return sum(event.bytes for event in events if event.iteration >= 0)


def exact(value: int, parts: int) -> Number:
    """``value / parts``; a whole number where it is one."""
    return value // parts if value % parts == 0 else value / parts


def rank_spans(trace: Trace, rank: int) -> dict[str, Spans]:
    """When a rank computed and communicated (by operation) in its iterations, as far as times are known."""
    found: dict[str, list[tuple[float, float]]] = {}
    for event in trace.ranks[rank]:
        if event.iteration >= 0 and event.start is not None and event.end is not None:
            found.setdefault("compute" if isinstance(event, Compute) else event.op, []).append((event.start, event.end))
    return {name: merge(np.array(spans)) for name, spans in found.items()}


def rank_share(trace: Trace, rank: int) -> RankShare:
    """Shares of the time from a rank's first event to its last, set-up left out."""
    computes = (event for event in trace.ranks[rank] if isinstance(event, Compute) and event.iteration >= 0)
    compute_time = sum(event.seconds for event in computes) / trace.iterations
    spans = rank_spans(trace, rank)
    communication = merge(np.concatenate([spans[name] for name in spans if name != "compute"] or [np.zeros((0, 2))]))
    everything = np.concatenate(list(spans.values()) or [np.zeros((0, 2))])
    length = float(everything[:, 1].max() - everything[:, 0].min()) if len(everything) else 0.0
    if length <= 0 or not any(event.end is not None for event in trace.communications(rank)):
        return RankShare(rank, compute_time, None, None, None)
    busy = total(communication)
    exposed = max(0.0, busy - total(intersection(communication, spans.get("compute", np.zeros((0, 2))))))
    return RankShare(rank, compute_time, length / trace.iterations, busy / length, exposed / length)


def _mean_of(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def traffic_matrix(trace: Trace) -> NDArray[np.float64]:
    """Bytes [R, R] per iteration that recorded ranks send to others.

    All-reduce (2 (n-1)/n S), all-gather and reduce-scatter ((n-1)/n S) go to the next of the group's ring, a
    broadcast, scatter, gather or reduce between the root and each, an all-to-all to each by its splits. Where the root
    was not recorded, it is taken to be the first rank of the group, as lowering does (``traffic.captured``).
    """
    matrix = np.zeros((trace.world_size, trace.world_size))
    for rank in trace.ranks:
        for event in trace.communications(rank):
            if event.iteration >= 0:
                for peer, amount in _sends(rank, event).items():
                    if peer != rank:
                        matrix[rank, peer] += amount / trace.iterations
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
