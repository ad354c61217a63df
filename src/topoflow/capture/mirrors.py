"""Ranks that were not recorded: each does what the recorded rank at its position of the job's layout does.

A recorded rank stands for those whose positions differ only along axes on which it was recorded once. Their groups are
its groups, moved: an axis that the group spans stays, every other takes the position of the rank. A peer keeps its
distance along every axis, around the end of the axis as in a ring.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from topoflow.capture.base import POINT_TO_POINT, Communication, Event, Trace, brief
from topoflow.capture.layout import MeshLayout, Ranks


def layout_of(trace: Trace) -> MeshLayout:
    """Return the layout of the job; without one, every rank does the same (SPMD) if all talk to all; ValueError."""
    if trace.layout is not None:
        return trace.layout
    for rank in trace.ranks:
        for event in trace.communications(rank):
            if len(event.group) < trace.world_size or event.op in POINT_TO_POINT:
                raise ValueError(
                    f"trace {trace.name}: must have all {trace.world_size} ranks, or a layout by which others do the "
                    f"same (topoflow capture import --layout tp=8,dp=2), got {len(trace.ranks)} ranks and a "
                    f"{event.op!r} of rank {rank} within {brief(event.group)}"
                )
    return MeshLayout({"dp": trace.world_size})


class Mirrors:
    """The ranks of a job that were not recorded, each with the recorded rank that stands for it."""

    def __init__(self, layout: MeshLayout, ranks: Mapping[int, Sequence[Event]]) -> None:
        """Check that the recorded ranks, and their groups, are enough for ``layout``; ValueError."""
        self._layout = layout
        self._recorded = [sorted(positions) for positions in layout.spanned(ranks)]
        if layout.box(self._recorded) != tuple(sorted(ranks)):
            raise ValueError(
                f"layout: the recorded ranks must be all combinations of their positions in {layout}, "
                f"got {brief(sorted(ranks))}"
            )
        self._spans: dict[Ranks, tuple[bool, ...]] = {}
        self._moved: dict[tuple[int, int, Ranks, int | None], Communication] = {}
        for rank, events in ranks.items():
            self._check_messages(rank, events)
            for group in sorted({event.group for event in events if isinstance(event, Communication)}):
                self._check_group(rank, group)

    def model(self, rank: int) -> int:
        """Return the recorded rank that stands for ``rank``."""
        pairs = zip(self._layout.position(rank), self._recorded, strict=True)
        return self._layout.rank([at if at in recorded else recorded[at % len(recorded)] for at, recorded in pairs])

    def events(self, rank: int, recorded: Mapping[int, Event]) -> dict[int, Event]:
        """Return the events of ``rank``, from those of its model by position."""
        model = self.model(rank)
        return {position: self._event(position, event, model, rank) for position, event in recorded.items()}

    def _event(self, position: int, event: Event, model: int, rank: int) -> Event:
        """Return the event at ``rank``; ranks of one group share it."""
        if not isinstance(event, Communication) or rank == model:
            return event
        layout = self._layout
        if event.group not in self._spans:
            self._spans[event.group] = layout.spans(event.group)
        spans = self._spans[event.group]
        if event.peer is None and all(spans):
            return event
        here = tuple(at for at, spanned in zip(layout.position(rank), spans, strict=True) if not spanned)
        key = (model, position, here, None if event.peer is None else rank)
        if key not in self._moved:
            group = layout.moved_group(event.group, rank)
            peer = None if event.peer is None else layout.moved_peer(event.peer, model, rank)
            root = None if event.root is None else group[event.group.index(event.root)]
            self._moved[key] = replace(event, group=group, peer=peer, root=root)
        return self._moved[key]

    def _check_group(self, rank: int, group: Ranks) -> None:
        """Raise ValueError unless the group is the same in shape at every position that ``rank`` stands for."""
        layout = self._layout
        along = layout.spanned(group)
        if layout.box(along) != tuple(sorted(group)):
            raise ValueError(f"layout: {layout} must have the groups of rank {rank} as sub-meshes, got {brief(group)}")
        for axis, positions in enumerate(along):
            size = layout.sizes[axis]
            if 1 < len(positions) < size and len(self._recorded[axis]) < size:
                raise ValueError(
                    f"layout.{list(layout.axes)[axis]}: groups must span the axis or not extend along it, got "
                    f"{len(positions)} of {size} positions in {brief(group)}: give the axis in two parts"
                )

    def _check_messages(self, rank: int, events: Sequence[Event]) -> None:
        """Raise ValueError where ranks that are not recorded would have to do something else than ``rank``."""
        layout = self._layout
        position = layout.position(rank)
        sent, received = (Counter[tuple[int, Ranks]](), Counter[tuple[int, Ranks]]())
        for event in events:
            if isinstance(event, Communication) and event.op in POINT_TO_POINT and event.peer is not None:
                peer_position = layout.position(event.peer)
                ends = (position, peer_position) if event.op == "send" else (peer_position, position)
                distance = tuple((to - at) % size for at, to, size in zip(*ends, layout.sizes, strict=True))
                (sent if event.op == "send" else received)[event.iteration, distance] += 1
        for key in sent.keys() | received.keys():
            for axis, by in enumerate(key[1]):
                if by and len(self._recorded[axis]) < layout.sizes[axis] and sent[key] != received[key]:
                    along = [{at} for at in position]
                    along[axis] = set(range(layout.sizes[axis]))
                    raise ValueError(
                        f"layout.{list(layout.axes)[axis]}: ranks along it do different things, as rank {rank} sends "
                        f"{sent[key]} messages to the next and receives {received[key]} from the one before: give the "
                        f"files of ranks {', '.join(map(str, layout.box(along)))}"
                    )
