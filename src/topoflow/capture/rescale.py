"""A recorded job on another number of ranks: its data parallelism grows or shrinks, and nothing else changes.

Each rank does what it did, on as many samples of its own: compute, and communication within a replica, stay. In groups
that span the data-parallel axis, of n ranks before and m after, the sizes are:

    all-reduce, reduce, broadcast        the same buffer: gradients, parameters
    all-gather, reduce-scatter           the same whole: sharded parameters and gradients. A rank's part is 1/m of it,
                                         in whole elements. Where it was one element, as a loss is, it stays one
    all-to-all                           a rank sends as much as before, to m ranks
    gather, scatter                      as much for each rank as before
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from topoflow.capture.base import POINT_TO_POINT, Communication, Event, Trace, brief
from topoflow.capture.layout import MeshLayout, Ranks
from topoflow.capture.mirrors import Mirrors, layout_of
from topoflow.units import DTYPE_BYTES

DATA_PARALLEL = "dp"  # begins the name of an axis of data parallelism
REPLICAS = "dp_replicate"  # the one that grows where there are several
KEY = "workload.ranks"


def rescaled(trace: Trace, ranks: int) -> Trace:
    """Return the job on ``ranks`` ranks; ValueError where its groups do not say how."""
    if ranks == trace.world_size:
        return trace
    layout = layout_of(trace)
    axis = _axis(layout)
    size, rest = layout.sizes[axis], layout.world_size // layout.sizes[axis]
    name = list(layout.axes)[axis]
    if size < 2:
        raise ValueError(f"{KEY}: the trace must have several ranks along {name}, got {layout}")
    if ranks % rest or ranks // rest < 2:
        raise ValueError(f"{KEY}: must be {rest} ranks, those of a replica ({layout}), twice or more, got {ranks}")
    target = MeshLayout({**layout.axes, name: ranks // rest})
    Mirrors(layout, trace.ranks)
    remaining_ranks = [rank for rank in trace.ranks if layout.position(rank)[axis] < target.sizes[axis]]
    move = _Move(layout, target, axis)
    moved = {move.rank(rank): tuple(move.events(rank, trace.ranks[rank])) for rank in remaining_ranks}
    note = f"rescaled from {trace.world_size} to {ranks} ranks along {name}, with the recorded compute of each rank"
    groups = {
        event.group_name: event.group
        for events in moved.values()
        for event in events
        if isinstance(event, Communication) and event.group_name
    }
    notes = (*trace.notes, note)
    return replace(trace, ranks=moved, layout=target, world_size=ranks, groups=groups, memory=None, notes=notes)


def _axis(layout: MeshLayout) -> int:
    names = list(layout.axes)
    data_axes = [name for name in names if name.startswith(DATA_PARALLEL)]
    if REPLICAS in data_axes:
        return names.index(REPLICAS)
    if len(data_axes) != 1:
        rule = "the layout must have one axis dp, or dp_replicate (topoflow capture import --layout names the axes)"
        raise ValueError(f"{KEY}: {rule}, got {layout}")
    return names.index(data_axes[0])


class _Move:
    """Events of ranks in one layout, in another that differs in the size of one axis."""

    def __init__(self, old: MeshLayout, new: MeshLayout, axis: int) -> None:
        self._old = old
        self._new = new
        self._axis = axis
        self._groups: dict[Ranks, Ranks] = {}

    def rank(self, rank: int) -> int:
        """Return the rank at the same position."""
        return self._new.rank(self._old.position(rank))

    def events(self, rank: int, events: Iterable[Event]) -> Iterable[Event]:
        """Yield the events of a rank."""
        for event in events:
            yield self._communication(rank, event) if isinstance(event, Communication) else event

    def _communication(self, rank: int, event: Communication) -> Communication:
        if event.group not in self._groups:
            self._groups[event.group] = self._group(event.group)
        group = self._groups[event.group]
        if event.op in POINT_TO_POINT and event.peer is not None:
            if self._at(event.peer) != self._at(rank):
                raise ValueError(f"{KEY}: no messages may go along the axis that grows, got one {rank}->{event.peer}")
            return replace(event, group=group, peer=self.rank(event.peer))
        root = event.root
        if root is not None:
            if self._at(root) >= self._new.sizes[self._axis]:
                raise ValueError(f"{KEY}: the root of {event.op} must be among the ranks that stay, got {root}")
            root = self.rank(root)
        into, out = _sizes(event, len(group))
        return replace(event, group=group, root=root, bytes_in=into, bytes_out=out)

    def _at(self, rank: int) -> int:
        return self._old.position(rank)[self._axis]

    def _group(self, group: Ranks) -> Ranks:
        along = self._old.spanned(group)
        positions = along[self._axis]
        if len(positions) > 1:
            if len(positions) < self._old.sizes[self._axis]:
                raise ValueError(
                    f"{KEY}: groups must span the axis that grows or not extend along it, got {brief(group)}"
                )
            along[self._axis] = set(range(self._new.sizes[self._axis]))
        return self._new.box(along)


def _sizes(event: Communication, members: int) -> tuple[int, int]:
    """Return the bytes into and out of a collective in a group of ``members``."""
    before = len(event.group)
    into, out = event.bytes_in, event.bytes_out
    if members == before:
        return into, out
    match event.op:
        case "all_gather":
            part = _part(event.dtype, into, before, members)
            return part, part * members
        case "reduce_scatter":
            part = _part(event.dtype, out, before, members)
            return part * members, part
        case "gather":
            return into, into * members if out else 0
        case "scatter":
            return out * members if into else 0, out
        case "all_to_all" if event.splits_in or event.splits_out:
            splits = list(event.splits_in or event.splits_out)
            raise ValueError(f"{KEY}: an all-to-all along the axis that grows must be even, got {brief(splits)}")
    return into, out


def _part(dtype: str, part: int, before: int, members: int) -> int:
    """Return the bytes of a rank's part of what ``members`` share, where ``before`` ranks had ``part`` each."""
    element = DTYPE_BYTES[dtype]
    return part if part <= element else max(1, -(-part * before // (element * members))) * element
