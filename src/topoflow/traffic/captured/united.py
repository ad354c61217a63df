"""One rank's events on one line of time: what it computed on several streams at once is computed once.

stream 1    |==== c0 ====|      |== c2 ==|          c0 and c1 overlap: united they take from 0 to 6, and are cut
stream 2       |=== c1 ====|                        where a communication began, so that it waits for what had
communicate       |-- A --------|                   been computed by then and for no more
united      |= ===|========|    |== c2 ==|
            0     2        6
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from topoflow.capture.base import POINT_TO_POINT, Communication, ComputeSpan, Event


@dataclass(frozen=True)
class Piece(ComputeSpan):
    """A part of what a rank computed; ``continues``: there was no gap before it in which it could have waited."""

    continues: bool = False


def united(events: Mapping[int, Event]) -> dict[int, Event]:
    """Return the events in the order in which they began, at new positions; computes with times do not overlap.

    Where the record says what an event followed (``after``), it stays as it is. An event without a time keeps its place
    after the one that was issued before it.
    """
    if any(event.after is not None for event in events.values()):
        return dict(events)
    keyed: list[tuple[float, int, Event]] = []  # when it began, its old position, event
    computes: list[tuple[float, float, int, ComputeSpan]] = []
    latest, newest = float("-inf"), dict[Hashable, float]()
    for position, event in events.items():
        if isinstance(event, ComputeSpan):
            if event.start is not None and event.end is not None:
                computes.append((event.start, event.end, position, event))
                latest = event.start
                continue
        else:
            began = event.issue if event.start is None else event.start
            event_stream = stream(event)
            latest = newest[event_stream] = max(
                latest if began is None else began, newest.get(event_stream, float("-inf"))
            )
        keyed.append((latest, position, event))
    cuts = sorted(start for _, _, event in keyed if (start := event.start) is not None)
    keyed += _pieces(sorted(computes, key=lambda compute: compute[:3]), cuts)
    keyed.sort(key=lambda item: item[:2])
    places = {old: new for new, (_, old, event) in enumerate(keyed) if isinstance(event, Communication)}
    united_events: dict[int, Event] = {}
    for position, (_, _, event) in enumerate(keyed):
        waits = sorted(places[old] for old in event.waits if places.get(old, position) < position)
        united_events[position] = replace(event, waits=tuple(waits)) if event.waits else event
    return united_events


def _pieces(
    computes: Sequence[tuple[float, float, int, ComputeSpan]], cuts: Sequence[float]
) -> list[tuple[float, int, Piece]]:
    """The union of computes (start, end, position; ascending), cut where communications began, with start and position.

    Each instant belongs to the first of them.
    """
    pieces: list[tuple[float, int, Piece]] = []
    reached = float("-inf")
    waits: tuple[int, ...] = ()  # of this compute, and of those before it that are wholly covered
    for start, end, position, compute in computes:
        begin = max(start, reached)
        waits += compute.waits
        if end < begin or (end == begin and start < end):
            continue
        inside = cuts[bisect_right(cuts, begin) : bisect_left(cuts, end)]
        edges = [begin, *dict.fromkeys(inside), end]
        for first, last in pairwise(edges):
            share = (last - first) / (end - start) if end > start else 0.0
            busy = min(last - first, share * compute.seconds)
            fields = (compute.name, first, last, busy, compute.iteration, None, waits, compute.communicates)
            pieces.append((first, position, Piece(*fields, continues=first == reached)))
            reached, waits = last, ()
    return pieces


def stream(event: Communication) -> Hashable:
    """Return the key of what works in order: a communicator, or one direction of a pair."""
    pair = (event.op, event.peer) if event.op in POINT_TO_POINT else None
    return (event.group_name, event.group, pair)
