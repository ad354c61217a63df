"""Which ranks a process group has, where a file does not list them: what follows from the records, never a guess.

Old formats name a group by a pointer, another on each rank, and say at most how many ranks it has and which place this
rank has among them. Its ranks are then known in six cases:

- the format says that it has all ranks of the job, without saying how many there are;
- its name is the same on all ranks (NCCL's hash of a communicator), and all of them say their places in it;
- it has one rank, or as many as the job;
- the job has two ranks (one rank alone does not communicate);
- all ranks were recorded, and there is exactly one stride at which the others, at their places in a group of that size,
  did the same operations:  ranks 0..3, places 0 0 1 1 in groups of 2  ->  stride 2: (0, 2) and (1, 3);
- the user says that the job had one process group (``one_group``), and no size contradicts it.

Everything else is an error that says what is missing. Meshes of tensor, data and pipeline parallelism have strides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from topoflow.capture.base import POINT_TO_POINT, ComputeSpan
from topoflow.capture.merge.parts import RankRecord, RecordedOperation, Unrecorded
from topoflow.capture.merge.seen import seen
from topoflow.fields import LARGEST_RANK
from topoflow.operations import ROOTED

Key = tuple[int, str]  # rank, what its file calls the group


@dataclass(frozen=True)
class Unlisted:
    """A group as one rank knows it; ``size`` and ``place`` (of the rank, in the group) are None where unknown."""

    first: RecordedOperation
    size: int | None
    place: int | None
    work: tuple[tuple[object, ...], ...]  # what the group does, alike for all members


def shown_size(operations: Iterable[RecordedOperation]) -> int | None:
    """Return the number of ranks in the group of these operations, as the file gives it or their sizes show it.

    Splits show it as well. ValueError where they disagree.
    """
    places: dict[int, str] = {}
    for operation in operations:
        size = _size(operation)
        if size is not None:
            places.setdefault(size, operation.place)
    if len(places) > 1:
        got = " and ".join(f"{size} at {place}" for size, place in list(places.items())[:2])
        raise ValueError(f"{next(iter(places.values()))}: a process group must have one size, got {got}")
    return next(iter(places), None)


def _size(operation: RecordedOperation) -> int | None:
    if operation.group_size is not None:
        return operation.group_size
    into, out = operation.bytes_in, operation.bytes_out
    if operation.op == "reduce_scatter":
        into, out = out, into
    if operation.op in ("all_gather", "reduce_scatter"):
        return out // into if into and out and out % into == 0 else None
    return len(operation.splits_in or operation.splits_out or ()) or None


def with_groups(
    parts: Sequence[RankRecord], world_size: int, one_group: bool = False, required: bool = True
) -> list[RankRecord]:
    """Return the parts with the ranks of every operation's group.

    Where these do not follow, raise ``Unrecorded`` or, if they are not ``required``, take the operations as
    communication of an unknown size.
    """
    unlisted = {
        (part.rank, key): _unlisted(operations) for part in parts for key, operations in _without_ranks(part).items()
    }
    if not unlisted:
        return list(parts)
    complete = len(parts) == world_size
    ranks = {}
    for key in unlisted:
        try:
            ranks[key] = _ranks(key, unlisted, world_size, complete, one_group)
        except Unrecorded:
            if required:
                raise
    return [
        _completed(part, {key: ranks[part.rank, key] for rank, key in ranks if rank == part.rank}) for part in parts
    ]


def strided(place: str, start: int, stride: int, size: int) -> tuple[int, ...] | None:
    """Ranks ``start, start + stride, ...``, as PyTorch records them; None for a group that has no stride (-1)."""
    if start < 0 or (stride < 1 and size > 1):
        return None
    last = start + (size - 1) * stride
    if last > LARGEST_RANK:
        raise ValueError(f"{place}: ranks must be within 0..{LARGEST_RANK}, got {last}")
    return tuple(start + at * stride for at in range(size))


def all_inside(parts: Sequence[RankRecord], ranks: int) -> bool:
    """Return whether the first ``ranks`` ranks certainly communicate with no other."""
    listed = (
        event.group for part in parts for event in part.events if isinstance(event, RecordedOperation) and event.group
    )
    unlisted = [operations for part in parts for operations in _without_ranks(part).values()]
    sizes = (shown_size(operations) for operations in unlisted if not operations[0].group_of_all)
    return all(max(group) < ranks for group in listed) and all(size is not None and size <= ranks for size in sizes)


def _without_ranks(part: RankRecord) -> dict[str, list[RecordedOperation]]:
    operations: dict[str, list[RecordedOperation]] = {}
    for event in part.events:
        if isinstance(event, RecordedOperation) and event.group is None:
            operations.setdefault(event.group_key, []).append(event)
    return operations


def _unlisted(operations: Sequence[RecordedOperation]) -> Unlisted:
    places = {operation.group_rank for operation in operations if operation.group_rank is not None}
    if len(places) > 1:
        raise ValueError(
            f"{operations[0].place}: a rank must have one place in its process group, got {sorted(places)[:4]}"
        )
    work = tuple(
        (operation.op, operation.dtype, None if operation.op == "all_to_all" else operation.bytes_in)
        for operation in operations
        if operation.op not in POINT_TO_POINT and operation.op not in ROOTED
    )
    return Unlisted(operations[0], shown_size(operations), next(iter(places), None), work)


def _ranks(
    key: Key, unlisted: Mapping[Key, Unlisted], world_size: int, complete: bool, one_group: bool
) -> tuple[int, ...]:
    group = unlisted[key]
    if group.first.group_unknown and not key[1]:
        got = group.first.group_unknown
        raise Unrecorded(f"{group.first.place}: {group.first.op} must name its process group, got {got}")
    if group.first.group_of_all:
        return tuple(range(world_size))
    if group.size == 1:
        return (key[0],)
    if group.first.group_key_is_shared:
        return _named(key[1], group, unlisted, complete)
    if group.size == world_size or (group.size is None and (world_size <= 2 or one_group)):
        return tuple(range(world_size))
    strided = _strided(key, unlisted, world_size) if complete and group.size and group.place is not None else []
    if len(strided) == 1:
        return strided[0]
    message = f"{group.first.place}: {group.first.op} must name the ranks of its process group, got"
    if group.size is None:
        raise Unrecorded(
            f"{message} not even their number: give the execution trace of rank {key[0]} as well, "
            f"or, if all {world_size} ranks were the job's only group, topoflow capture import --one-group"
        )
    if complete:
        reason = f"{len(strided)} layouts that fit" if strided else "no layout that fits all ranks"
        raise Unrecorded(f"{message} {group.size} of {world_size} and {reason}: record with torch 2.4 or later")
    raise Unrecorded(
        f"{message} {group.size} of {world_size}: give the files of all ranks, from which they follow, "
        "or record with torch 2.4 or later"
    )


def _named(name: str, group: Unlisted, unlisted: Mapping[Key, Unlisted], complete: bool) -> tuple[int, ...]:
    """Return the ranks whose files have a group of that name, by their places in it.

    A group whose size no file gives (NCCL before 2.27) needs the files of all ranks of the job.
    """
    members = {other.place: rank for (rank, key), other in unlisted.items() if key == name}
    if group.size is None and not complete:
        raise Unrecorded(
            f"{group.first.place}: all ranks of the job must have a file, because the number of ranks of communicator "
            f"{name} is not recorded, got those of {len({rank for rank, _ in unlisted})}"
        )
    size = len(members) if group.size is None else group.size
    if sorted(place for place in members if place is not None) != list(range(size)):
        got = f"{len(members)} of {size}"
        raise Unrecorded(f"{group.first.place}: all ranks of communicator {name} must have a file, got those of {got}")
    return tuple(members[place] for place in range(size))


def _strided(key: Key, unlisted: Mapping[Key, Unlisted], world_size: int) -> list[tuple[int, ...]]:
    """Return the groups ``first, first + stride, ...`` whose members, each at its place, did the same work."""
    group, rank = unlisted[key], key[0]
    size, place = group.size or 0, group.place or 0
    alike: dict[int, set[int]] = {}  # rank -> places that it has in groups of this kind
    for (member, _), other in unlisted.items():
        if other.size == size and other.place is not None and other.work == group.work:
            alike.setdefault(member, set()).add(other.place)
    groups = []
    for stride in range(1, world_size // size + 1):
        if world_size % (stride * size) == 0 and rank // stride % size == place:
            ranks = tuple(rank + (at - place) * stride for at in range(size))
            if all(at in alike.get(member, ()) for at, member in enumerate(ranks)):
                groups.append(ranks)
    return groups


def _completed(part: RankRecord, ranks: Mapping[str, tuple[int, ...]]) -> RankRecord:
    """``part`` with the ranks of its groups. Those known by a pointer only are numbered where several have one list."""
    names: dict[str, str] = {}
    communicators = Counter[tuple[int, ...]]()
    for key, group in ranks.items():
        communicators[group] += 1
        names[key] = "" if communicators[group] == 1 else str(communicators[group])
    events = list[ComputeSpan | RecordedOperation]()
    for event in part.events:
        if isinstance(event, RecordedOperation) and event.group is None and event.group_key not in ranks:
            events.append(seen(event))
            continue
        if isinstance(event, RecordedOperation) and event.group is None:
            group = ranks[event.group_key]
            event = event.changed(
                group=group,
                group_name=event.group_name or names[event.group_key],
                root=_other(event, group) if event.op in ROOTED else event.root,
                peer=_other(event, group) if event.op in POINT_TO_POINT else event.peer,
            )
        events.append(event)
    return replace(part, events=tuple(events))


def _other(operation: RecordedOperation, group: tuple[int, ...]) -> int | None:
    """The root or peer as a rank of the job."""
    known = operation.root if operation.op in ROOTED else operation.peer
    if operation.other is None:
        return known
    if operation.other >= len(group):
        raise ValueError(
            f"{operation.place}: rank must be within 0..{len(group) - 1}, its group, got {operation.other}"
        )
    return group[operation.other]
