"""Summary: what a trace says about its job. Counts, bytes, and the share of time in communication.

All are of the iteration that stands for the job (``capture.periods``), which a replay simulates too.

Shapes: R ranks of the job.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from topoflow.capture.assumptions import Unsized, assumptions, unsized
from topoflow.capture.base import POINT_TO_POINT, Communication, Trace
from topoflow.capture.periods import StepRepetition, representative, step_repetition
from topoflow.capture.shares import RankShare, SharedOperation, shared_operations, shares
from topoflow.operations import bus_factor

Number = int | float
MIN_DELAY = 0.01  # of the step: a rank that others wait for this long is a straggler
LineKey = tuple[str, int, str]  # operation, size of its group, element type


@dataclass(frozen=True)
class CollectiveLine:
    """Operations of one kind in one iteration, per rank: the mean over the recorded ranks that took part."""

    op: str
    group_size: int  # 2 for send and recv
    dtype: str  # "": no file records the size
    count: Number
    bytes_per_iteration: Number | None  # B, as ``Communication.bytes``; None: no file records it
    setup_count: Number  # how many more came before the first iteration
    ranks: int  # recorded ranks that took part
    bus_bandwidth: float | None  # B/s while they transferred, as nccl-tests defines it; None without times
    link_share: float | None  # of the bandwidth of a link, where it was given


@dataclass(frozen=True)
class GroupLine:
    """One process group that ran collectives, in one iteration and per recorded member."""

    name: str  # several where communicators of the same ranks did
    size: int
    ranks: tuple[int, ...]  # in group order
    count: Number
    bytes_per_iteration: Number | None  # B


@dataclass(frozen=True)
class Summary:
    """All that ``topoflow inspect`` prints."""

    name: str
    source: str
    iterations: int
    iteration: int  # the one that was counted
    iteration_time: float | None  # s, its recorded period
    steps: StepRepetition
    ranks: int  # recorded
    world_size: int
    collectives: tuple[CollectiveLine, ...]
    groups: tuple[GroupLine, ...]
    communication_share: float | None  # mean over ranks of RankShare.communication; so are the next ones
    exposed_share: float | None
    compute_share: float | None
    hidden_share: float | None
    waiting_share: float | None
    transfer_share: float | None
    host_idle_share: float | None
    stragglers: tuple[int, ...]  # ranks that kept the others waiting for ``MIN_DELAY`` of the step or longer
    shares: tuple[RankShare, ...]
    unsized: tuple[Unsized, ...]  # kernels that communicated an unknown number of bytes
    replayable: bool  # False: no file records some sizes, groups or peers
    notes: tuple[str, ...]

    def as_json(self) -> dict[str, object]:
        """Plain lists and numbers; null where there is no value."""
        return asdict(self)


def summarize(trace: Trace, link_bandwidth: float | None = None) -> Summary:
    """Count a trace; ``link_bandwidth`` (B/s) is that of a rank's link in one direction."""
    period = representative(trace)
    operations = shared_operations(trace)
    ranks = shares(trace, period, operations)
    return Summary(
        name=trace.name,
        source=trace.source,
        iterations=trace.iterations,
        iteration=period.number,
        iteration_time=period.seconds,
        steps=step_repetition(trace),
        ranks=len(trace.ranks),
        world_size=trace.world_size,
        collectives=_collectives(trace, period.number, _bus_bandwidths(operations, period.number), link_bandwidth),
        groups=_groups(trace, period.number),
        communication_share=_mean_of(ranks, "communication"),
        exposed_share=_mean_of(ranks, "exposed"),
        compute_share=_mean_of(ranks, "compute"),
        hidden_share=_mean_of(ranks, "hidden"),
        waiting_share=_mean_of(ranks, "waiting"),
        transfer_share=_mean_of(ranks, "transfer"),
        host_idle_share=_mean_of(ranks, "host_idle"),
        stragglers=_stragglers(ranks),
        shares=ranks,
        unsized=unsized(trace),
        replayable=trace.replayable,
        notes=(*assumptions(trace), *_partial(operations, period.number)),
    )


def _line(event: Communication) -> LineKey:
    """Return the kind of an operation: its name, the size of its group and its element type."""
    return event.op, 2 if event.peer is not None else len(event.group), event.dtype


def _bus_bandwidths(operations: Iterable[SharedOperation], number: int) -> dict[LineKey, float]:
    """Return the bus bandwidth of each kind of operation in an iteration, B/s.

    It is nccl-tests' bytes per rank, the mean over members, over the time since the last recorded member began.
    """
    sent, seconds = defaultdict[LineKey, float](float), defaultdict[LineKey, float](float)
    for operation in operations:
        if operation.iteration != number:
            continue
        for key in {_line(event) for event in operation.members.values() if event.op != "barrier" and event.sized}:
            op, size, _ = key
            amounts = [event.bytes for event in operation.members.values() if event.op == op and event.sized]
            factor = 1.0 if op in POINT_TO_POINT else bus_factor(op, size)
            sent[key] += factor * sum(amounts) / len(amounts)
            seconds[key] += max(0.0, operation.end - operation.begin)
    return {key: sent[key] / seconds[key] for key in sent if seconds[key] > 0}


def _partial(operations: Iterable[SharedOperation], number: int) -> tuple[str, ...]:
    """Return a note if the members of some operations of an iteration were not all recorded."""
    count = sum(operation.iteration == number and not operation.complete for operation in operations)
    if not count:
        return ()
    return (
        f"{count} operations of iteration {number} have members that were not recorded: how long ranks wait for them "
        "is unknown, and lowers the bus bandwidth",
    )


def _collectives(
    trace: Trace, number: int, bus_bandwidths: Mapping[LineKey, float], link_bandwidth: float | None
) -> tuple[CollectiveLine, ...]:
    communications: dict[LineKey, dict[int, list[Communication]]] = {}
    for rank in sorted(trace.ranks):
        for event in trace.communications(rank):
            communications.setdefault(_line(event), {}).setdefault(rank, []).append(event)
    lines = []
    for (op, size, dtype), by_rank in communications.items():
        events = [event for ranked in by_rank.values() for event in ranked]
        counted = [event for event in events if event.iteration == number]
        reached = bus_bandwidths.get((op, size, dtype))
        lines.append(
            CollectiveLine(
                op=op,
                group_size=size,
                dtype=dtype,
                count=exact(len(counted), len(by_rank)),
                bytes_per_iteration=_bytes(counted, len(by_rank)) if dtype else None,
                setup_count=exact(sum(event.iteration < 0 for event in events), len(by_rank)),
                ranks=len(by_rank),
                bus_bandwidth=reached,
                link_share=None if reached is None or link_bandwidth is None else reached / link_bandwidth,
            )
        )
    return tuple(
        sorted(lines, key=lambda line: (-(line.bytes_per_iteration or 0), line.op, line.group_size, line.dtype))
    )


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
                bytes_per_iteration=_bytes(counted, len(members[group])),
            )
        )
    return tuple(sorted(lines, key=lambda line: (-(line.bytes_per_iteration or 0), line.ranks)))


def _bytes(events: Sequence[Communication], ranks: int) -> Number | None:
    """Return the mean size over ranks; None if that of one of the events is unknown."""
    return exact(sum(event.bytes for event in events), ranks) if all(event.sized for event in events) else None


def exact(value: int, parts: int) -> Number:
    """``value / parts``; a whole number where it is one."""
    return value // parts if value % parts == 0 else value / parts


def _mean_of(ranks: Sequence[RankShare], name: str) -> float | None:
    """Return the mean of a share over the ranks that have times; None if one of these does not know it."""
    values = [getattr(share, name) for share in ranks if share.communication is not None]
    return None if not values or None in values else sum(values) / len(values)


def _stragglers(ranks: Sequence[RankShare]) -> tuple[int, ...]:
    """Return the ranks that others waited for, the longest first."""
    late = [
        (share.delay, share.rank)
        for share in ranks
        if share.delay and share.delay >= MIN_DELAY * (share.iteration_time or 0.0)
    ]
    return tuple(rank for _, rank in sorted(late, key=lambda item: (-item[0], item[1])))


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
