"""From parts to one Trace: files of a rank joined, ranks checked against each other, one clock, one set of groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from topoflow.capture.base import POINT_TO_POINT, Communication, ComputeSpan, Event, Trace
from topoflow.capture.merge.agree import OperationMember, check_agreement, unequal_steps
from topoflow.capture.merge.clocks import clock_offsets
from topoflow.capture.merge.complete import complete, unsized
from topoflow.capture.merge.ends import cut_ends
from topoflow.capture.merge.groups import all_inside, with_groups
from topoflow.capture.merge.join import join_ranks
from topoflow.capture.merge.parts import DifferentJobs, RankRecord, RecordedOperation, Unrecorded, without
from topoflow.capture.merge.seen import seen
from topoflow.capture.merge.windows import CUT, common_window, shared_calls
from topoflow.units import DTYPE_BYTES, human

_TIMES = ("issue", "start", "end")
ALONE = "collectives in groups of one rank move nothing and are left out"
OUTSIDE = "events of steps that not all ranks recorded are left out"
OF_UNKNOWN = (
    "collectives are of an unknown number of ranks, one of which was recorded: they take their recorded time on any "
    "network, and an iteration at least that; give the files of all ranks to simulate them"
)
UNEVEN = "operations have shares of different sizes: equal shares of the same total are simulated"
UNLISTED = "operations do not list the ranks of their process group: these follow from its size and the job's layout"
NO_SIZE = (
    "operations record no size: their bytes and bandwidths are unknown, and they cannot be replayed; profile with "
    "record_shapes=True, or give the execution traces of the ranks as well"
)
NO_PEER = "messages do not name their other end: they are shown by their times alone, and cannot be replayed"
NO_GROUP = (
    "operations do not name the ranks of their process group: they are shown by their times alone, and cannot be "
    "replayed; give the execution traces as well or, if all ranks were the job's only group, --one-group"
)

NO_COMPUTE = "no durations of compute were recorded: compute is unknown, and times are those of communication alone"


def merge(parts: Sequence[RankRecord], name: str, one_group: bool = False, sizes_required: bool = True) -> Trace:
    """Return the job in ``parts``; ValueError where they contradict each other or leave a size or group unknown.

    ``one_group``: operations whose group no file describes are of all ranks. ``sizes_required``: without it, operations
    of unknown size or group are kept for what else is known of them, and the job cannot be replayed.
    """
    counts = Counter[str]()
    parts = _with_recorded_waits(join_ranks(parts), counts)
    world_size = _world_size(parts, one_group)
    for part in parts:
        counts.update(part.counts)
    if not sizes_required:
        parts = [_without_unknown_peers(part, counts) for part in parts]
    unlisted = parts
    parts = with_groups(parts, world_size, one_group, sizes_required)
    for before, after in zip(unlisted, parts, strict=True):
        _count_groups(before, after, counts)
    parts = cut_ends(shared_calls(parts, counts), counts)
    parts, hangs = common_window(parts, counts)
    parts, iterations = _common_steps(parts, counts)
    ranks = _agreed_events(parts, world_size, counts, sizes_required)
    delays = dict(zip(ranks, _delays(parts), strict=True))
    shared = parts[0].host != "" and len({part.host for part in parts}) == 1
    own_clocks = {part.rank for part in parts if part.epoch_ns is not None and not shared}
    offsets = clock_offsets({rank: _shift(ranks[rank], delays[rank]) for rank in ranks if rank in own_clocks})
    delays = {rank: delay - offsets.get(rank, 0.0) for rank, delay in delays.items()}
    first = min(delays.values(), default=0.0)
    ranks = {rank: _shift(events, delays[rank] - first) for rank, events in ranks.items()}
    texts = dict.fromkeys((*hangs, *(note for part in parts for note in part.notes)))
    left_out = [f"{count} {sentence}" for sentence, count in sorted(counts.items()) if count]
    has_compute = any(
        isinstance(event, ComputeSpan) and not event.communicates for events in ranks.values() for event in events
    )
    return Trace(
        name=next((part.name for part in parts if part.name), name),
        world_size=world_size,
        iterations=iterations,
        ranks=ranks,
        groups=_groups(parts),
        source=", ".join(dict.fromkeys(part.source for part in parts if part.source)),
        notes=tuple(
            dict.fromkeys((*texts, *left_out, *(() if has_compute else (NO_COMPUTE,)), *_clock_notes(offsets)))
        ),
        layout=next((part.layout for part in parts if part.layout is not None), None),
        replayable=not (counts[NO_SIZE] or counts[NO_GROUP] or counts[NO_PEER]),
        memory=max((part.memory for part in parts if part.memory is not None), default=None),
        incomplete=tuple(sorted(set[int]().union(*(part.incomplete for part in parts)) - {-1})),
    )


def _with_recorded_waits(parts: Sequence[RankRecord], counts: Counter[str]) -> Sequence[RankRecord]:
    """Return the only part of a job of unknown size with its collectives of all ranks as the time that they took.

    Raises ``ValueError`` where that was not recorded.
    """
    if len(parts) > 1 or parts[0].world_size is not None:
        return parts
    of_all = [event for event in parts[0].events if isinstance(event, RecordedOperation) and event.group_of_all]
    for event in of_all:
        if event.seconds is None:
            raise ValueError(f"{event.place}: must say the number of ranks, or give the files of all ranks")
    counts[OF_UNKNOWN] += len(of_all)
    events = [
        seen(event) if isinstance(event, RecordedOperation) and event.group_of_all else event
        for event in parts[0].events
    ]
    return [replace(parts[0], events=tuple(events))]


def _count_groups(before: RankRecord, after: RankRecord, counts: Counter[str]) -> None:
    """Count the operations of one rank whose group followed from what others did, and those of unknown group."""
    for event, completed in zip(before.events, after.events, strict=True):
        if isinstance(event, RecordedOperation) and event.group is None and not event.group_of_all:
            counts[UNLISTED if isinstance(completed, RecordedOperation) else NO_GROUP] += 1


def _without_unknown_peers(part: RankRecord, counts: Counter[str]) -> RankRecord:
    """Return the part with messages whose other end no file records as communication of an unknown size."""
    events = list[ComputeSpan | RecordedOperation]()
    for event in part.events:
        if isinstance(event, RecordedOperation) and event.op in POINT_TO_POINT and None is event.peer is event.other:
            counts[NO_PEER] += 1
            events.append(seen(event))
        else:
            events.append(event)
    return replace(part, events=tuple(events))


def _world_size(parts: Sequence[RankRecord], one_group: bool) -> int:
    sized = [part for part in parts if part.world_size is not None]
    if not sized:
        sized = [replace(parts[0], world_size=_closed_world(parts, one_group))]
    for part in sized:
        if part.world_size != sized[0].world_size:
            raise DifferentJobs(
                f"{sized[0].file} and {part.file}: must be of one job, got world sizes "
                f"{sized[0].world_size} (rank {sized[0].rank}) and {part.world_size} (rank {part.rank})"
            )
    world_size = sized[0].world_size or 0
    for part in parts:
        if not 0 <= part.rank < world_size:
            raise ValueError(f"{part.file}: rank must be within 0..{world_size - 1}, got {part.rank}")
        if part.rank_within not in (None, world_size, 0 if one_group else None):
            group = f"a group of {part.rank_within or 'unknown size'}"
            raise ValueError(
                f"{part.file}: must show its rank of {world_size}, got place {part.rank} in {group}: "
                "name the file rank<N>.json"
            )
    return world_size


def _closed_world(parts: Sequence[RankRecord], one_group: bool) -> int:
    """The number of parts, if they are ranks 0..n-1 and communicate with no other: then no other matters."""
    count = parts[0].rank_within if one_group and parts[0].rank_within else len(parts)
    if not one_group and ([part.rank for part in parts] != list(range(count)) or not all_inside(parts, count)):
        raise ValueError(
            f"{parts[0].file}: must record the world size, got none: give the files of all ranks or a profile of the "
            "rank as well, or, if all ranks were the job's only group, topoflow capture import --one-group"
        )
    return count


def _common_steps(parts: Sequence[RankRecord], counts: Counter[str]) -> tuple[list[RankRecord], int]:
    """The parts with iterations numbered alike: only steps that every rank recorded, where steps have numbers."""
    first = parts[0]
    for part in parts:
        if bool(part.steps) != bool(first.steps) or (not part.steps and part.iterations != first.iterations):
            raise ValueError(
                f"ranks {first.rank} and {part.rank}: must have the same iterations, "
                f"got {_steps(first)} in {first.file} and {_steps(part)} in {part.file}: profile the same steps on all "
                "ranks, with profiler.step() after each"
            )
    if not first.steps:
        return list(parts), first.iterations
    common = sorted(set.intersection(*(set(part.steps) for part in parts)))
    if not common:
        raise ValueError(
            f"{first.file} and {parts[-1].file}: must share a step, got {_steps(first)} and {_steps(parts[-1])}"
        )
    unequal = unequal_steps(parts)
    return [_renumber(_without_sizes(part, unequal), common, counts) for part in parts], len(common)


def _without_sizes(part: RankRecord, steps: set[int]) -> RankRecord:
    """Return the part with the operations of ``steps`` as communication of unknown size, and these as incomplete."""
    numbers = {number for number, step in enumerate(part.steps) if step in steps}
    events = tuple(
        seen(event) if isinstance(event, RecordedOperation) and event.iteration in numbers else event
        for event in part.events
    )
    return replace(part, events=events, incomplete=part.incomplete | numbers) if numbers else part


def _steps(part: RankRecord) -> str:
    if not part.events:
        return "no operation"
    return f"steps {part.steps[0]}..{part.steps[-1]}" if part.steps else f"{part.iterations} iterations without number"


def _renumber(part: RankRecord, common: Sequence[int], counts: Counter[str]) -> RankRecord:
    iteration_of = {step: iteration for iteration, step in enumerate(common)}
    number = {-1: -1} | {index: iteration_of[step] for index, step in enumerate(part.steps) if step in iteration_of}
    outside = {index for index, event in enumerate(part.events) if event.iteration not in number}
    counts[OUTSIDE] += len(outside)
    events = without(part.events, outside)
    return replace(
        part,
        events=tuple(
            event if (iteration := number[event.iteration]) == event.iteration else replace(event, iteration=iteration)
            for event in events
        ),
        incomplete=frozenset(number[index] for index in part.incomplete if index in number),
    )


def _agreed_events(
    parts: Sequence[RankRecord], world_size: int, counts: Counter[str], sizes_required: bool
) -> dict[int, tuple[Event, ...]]:
    """The events of each rank that all recorded members of their groups recorded, and agree on."""
    ranks: dict[int, tuple[Event, ...]] = {}
    members = []
    for part in parts:
        events: list[Event] = []
        for index, event in enumerate(part.events):
            if isinstance(event, RecordedOperation):
                try:
                    communication = complete(event, part.rank, world_size)
                except Unrecorded:
                    if sizes_required:
                        raise
                    communication = unsized(event, part.rank, world_size)
                    counts[NO_SIZE] += 1
                members.append(OperationMember(part.rank, index, event, communication))
                events.append(communication)
            else:
                events.append(event)
        ranks[part.rank] = tuple(events)
    alone = [member for member in members if len(member.communication.group) == 1]
    agreement = check_agreement([member for member in members if len(member.communication.group) > 1])
    counts[ALONE] += len(alone)
    counts[CUT] += len(agreement.cut)
    counts[UNEVEN] += len(agreement.uneven)
    even = {(member.rank, member.index): _even(member.communication, row) for row in agreement.uneven for member in row}
    if even:
        ranks = {
            rank: tuple(even.get((rank, index), event) for index, event in enumerate(events))
            for rank, events in ranks.items()
        }
    left_out: dict[int, set[int]] = {rank: set() for rank in ranks}
    for member in (*alone, *agreement.cut):
        left_out[member.rank].add(member.index)
    return {rank: without(events, left_out[rank]) for rank, events in ranks.items()}


def _even(communication: Communication, members: Sequence[OperationMember]) -> Communication:
    """Return an operation with the mean share of all recorded ``members``, in whole elements, as everybody's share."""
    shares = [min(member.communication.bytes_in, member.communication.bytes_out) for member in members]
    element = DTYPE_BYTES[communication.dtype]
    share = -(-sum(shares) // (len(shares) * element)) * element
    whole = share * len(communication.group)
    into, out = (share, whole) if communication.op == "all_gather" else (whole, share)
    return replace(communication, bytes_in=into, bytes_out=out)


def _groups(parts: Sequence[RankRecord]) -> dict[str, tuple[int, ...]]:
    """Name -> ranks. Where groups without a common rank have one name, the later is called ``name@its first rank``.

    Two ranks that belong to one group but list it differently disagree.
    """
    groups: dict[str, tuple[int, ...]] = {}
    named_by: dict[str, RankRecord] = {}
    for part in parts:
        for recorded_name, ranks in part.groups.items():
            name = recorded_name
            if name in groups and groups[name] != ranks:
                if set(groups[name]) & set(ranks):
                    raise ValueError(
                        f"ranks {named_by[name].rank} and {part.rank}: must agree on group {name!r}, got "
                        f"{list(groups[name])[:8]} in {named_by[name].file} and {list(ranks)[:8]} in {part.file}"
                    )
                name = f"{name}@{ranks[0]}"
            groups[name] = ranks
            named_by[name] = part
    return groups


def _delays(parts: Sequence[RankRecord]) -> list[float]:
    """Seconds by which each part began after the first of them, by the wall clocks of their hosts."""
    clocks = [part.epoch_ns for part in parts if part.epoch_ns is not None]
    first = min(clocks, default=0)
    return [(part.epoch_ns - first) * 1e-9 if part.epoch_ns is not None else 0.0 for part in parts]


def _clock_notes(offsets: Mapping[int, float]) -> list[str]:
    if not offsets:
        return []
    worst = max(offsets, key=lambda rank: abs(offsets[rank]))
    difference = f"at most {human(abs(offsets[worst]), 's')}, of rank {worst}"
    return [f"the clocks of {len(offsets)} ranks are set by the ends of their operations: {difference}"]


def _shift(events: tuple[Event, ...], delay: float) -> tuple[Event, ...]:
    """The events ``delay`` seconds later, in whole nanoseconds as profiles count."""
    if not delay:
        return events
    return tuple(
        replace(
            event, **{key: round(time + delay, 9) for key in _TIMES if (time := getattr(event, key, None)) is not None}
        )
        for event in events
    )
