"""Joining two files of one rank: the times of a profile with the sizes, splits and groups of an execution trace.

The two number their events differently (Kineto's "External id" and the trace's "rf_id" drift apart with every thread
that only one of them counts), so what links them is order: the k-th collective that the host issued is the same in
both. Whatever both record must agree. Operators on symmetric memory, if not as many are in both, are not sized.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from topoflow.capture.base import ComputeSpan
from topoflow.capture.iterations import UNMARKED
from topoflow.capture.merge.parts import DifferentJobs, RankRecord, RecordedOperation
from topoflow.capture.merge.seen import without_operators

_FROM_SIZES = (
    *("group", "group_size", "group_rank", "other"),
    *("dtype", "bytes_in", "bytes_out", "splits_in", "splits_out", "peer", "root", "sequence"),
)


def join_ranks(parts: Sequence[RankRecord]) -> list[RankRecord]:
    """Return one part per rank, in the order of ranks; two of a rank are joined when exactly one has times.

    A part that only lists groups completes the other parts of its rank.
    """
    by_rank: dict[int, list[RankRecord]] = {}
    listed: dict[int, dict[str, tuple[int, ...]]] = {}
    for part in parts:
        if part.lists_groups:
            listed.setdefault(part.rank, {}).update(part.groups)
        else:
            by_rank.setdefault(part.rank, []).append(part)
    if not by_rank:
        raise ValueError(f"{parts[0].file}: must be given with the traces of a job, got groups of ranks alone")
    joined = {rank: _join_rank(by_rank[rank]) for rank in sorted(by_rank)}
    return [
        without_operators(_with_listed(part, listed.get(rank, {})), of_unknown=True) for rank, part in joined.items()
    ]


def _with_listed(part: RankRecord, groups: Mapping[str, tuple[int, ...]]) -> RankRecord:
    """Return the part with the ranks of those of its groups that another file lists by name."""
    events = [
        replace(event, group=groups[event.group_name])
        if isinstance(event, RecordedOperation) and event.group is None and event.group_name in groups
        else event
        for event in part.events
    ]
    return replace(part, events=tuple(events), groups={**groups, **part.groups}) if groups else part


def _join_rank(parts: list[RankRecord]) -> RankRecord:
    timed = [part for part in parts if part.timed]
    untimed = [part for part in parts if not part.timed]
    if len(timed) > 1 or len(untimed) > 1:
        first, second = (timed if len(timed) > 1 else untimed)[:2]
        hint = " (its place in a group: name the files rank<N>.json)" if first.rank_within is not None else ""
        raise DifferentJobs(
            f"{first.file} and {second.file}: must be of different ranks, got rank {first.rank} twice{hint}"
        )
    return join(timed[0], untimed[0]) if timed and untimed else parts[0]


def join(times: RankRecord, sizes: RankRecord) -> RankRecord:
    """Return ``times`` with the fields that only ``sizes`` records."""
    named = {name: part.world_size for part in (times, sizes) for name in (part.file,) if part.world_size is not None}
    if len(set(named.values())) > 1:
        got = " and ".join(f"{count} in {file}" for file, count in named.items())
        raise ValueError(f"rank {times.rank}: world_size must be the same, got {got}")
    sized = [event for event in sizes.events if isinstance(event, RecordedOperation)]
    timed = [event for event in times.events if isinstance(event, RecordedOperation)]
    if len(timed) != len(sized) and any(event.operator for event in (*timed, *sized)):
        return join(without_operators(times), without_operators(sizes))
    if len(timed) != len(sized):
        raise ValueError(
            f"{times.file} and {sizes.file}: must record the same collectives of rank {times.rank}, "
            f"got {len(timed)} and {len(sized)}"
        )
    pairs = iter([_complete(*pair) for pair in zip(timed, sized, strict=True)])
    return replace(
        times,
        events=tuple(event if isinstance(event, ComputeSpan) else next(pairs) for event in times.events),
        groups={**sizes.groups, **times.groups},
        world_size=times.world_size if times.world_size is not None else sizes.world_size,
        rank_within=sizes.rank_within,
        source=f"{times.source} + {sizes.source}",
        notes=(*times.notes, *(note for note in sizes.notes if note != UNMARKED)),  # iterations are those of ``times``
    )


def _complete(times: RecordedOperation, sizes: RecordedOperation) -> RecordedOperation:
    if times.op != sizes.op:
        raise ValueError(f"{times.place} and {sizes.place}: must be the same, got {times.op} and {sizes.op}")
    added = {}
    for field in _FROM_SIZES:
        from_times, from_sizes = getattr(times, field), getattr(sizes, field)
        if from_times is None:
            added[field] = from_sizes
        elif from_sizes is not None and from_sizes != from_times:
            raise ValueError(
                f"{times.place} and {sizes.place}: {field} must be the same, got {from_times} and {from_sizes}"
            )
    names = {key: getattr(times, key) or getattr(sizes, key) for key in ("group_name", "group_key")}
    return replace(times, **names, **added)
