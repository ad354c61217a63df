"""One period of a job that repeats itself, where communication runs on after its iteration's compute.

    compute       |== c1 ==|== c2 ==|== c3 ==|           all-gathers of parameters, say, that the next iteration
    communicate            |- A1 -|  |- A2 -|            overlaps: iteration 2 begins where A1 ended, and its own A2
    period 2                      [---------]            ends as far into c3 as A1 ended into c2

What of c2 was before the period would be lost, and all of A2 would look as if nothing ran next to it. A job in its
steady state does the same in every period, so what an iteration did before its period began is put where the next
iteration did it, one period later: the head of c2 for that of c3. What was under way where the period began is cut
there: compute at that moment, a communication in proportion to its time from when the last of its ranks had joined.
So each event counts once. The parts of a communication wait for nothing between them; that a next iteration waits for
what ran on by then is assumed, as before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf

from topoflow.capture.base import ComputeSpan, Event
from topoflow.capture.matching import OperationKey, operation_keys

Events = Mapping[int, Event]  # of one rank, by position


def wrapped(ranks: Mapping[int, Events], begin: float | None, end: float | None) -> dict[int, Events]:
    """Return the events of an iteration [rank]; those before ``begin`` (s) come last, ``end`` - ``begin`` later.

    They stay as they are where their times, or those of the period, are unknown, and where the record says what each
    followed (``after``).
    """
    has_after = any(event.after is not None for events in ranks.values() for event in events.values())
    if has_after or begin is None or end is None or end <= begin:
        return dict(ranks)
    keys = {rank: operation_keys(rank, events) for rank, events in ranks.items()}
    early = _early(ranks, keys, begin)
    wrapped_events: dict[int, Events] = {}
    for rank, events in ranks.items():
        period: dict[int, Event] = {}
        again: dict[int, Event] = {}
        moved: dict[int, int] = {}  # old positions of events that are moved as a whole -> new ones
        for position, event in events.items():
            key = keys[rank].get(position)
            share = _share([event], begin) if key is None else early[key]
            if share < 1:
                period[position] = event if share == 0 else _part(event, 1 - share, begin, end)
            if share > 0:
                new = 1 + max(events) + len(again)
                waits = tuple(moved[earlier] for earlier in event.waits if earlier in moved)
                again[new] = replace(_part(event, share, -inf, begin, later=end - begin), waits=waits)
                moved |= {position: new} if share == 1 else {}
        wrapped_events[rank] = period | again
    return wrapped_events


def _early(
    ranks: Mapping[int, Events], keys: Mapping[int, Mapping[int, OperationKey]], begin: float
) -> dict[OperationKey, float]:
    """The share of every communication that was done before ``begin``, the same for all of its recorded ranks."""
    members: dict[OperationKey, list[Event]] = defaultdict(list)
    for rank, events in ranks.items():
        for position, key in keys[rank].items():
            members[key].append(events[position])
    return {key: _share(seen, begin) for key, seen in members.items()}


def _share(members: Sequence[Event], begin: float) -> float:
    """How much of what ``members`` do together was done at ``begin``; 0 where some time of it is unknown."""
    starts = [event.start for event in members if event.start is not None]
    ends = [event.end for event in members if event.end is not None]
    if len(starts) < len(members) or len(ends) < len(members) or max(starts) >= begin:
        return 0.0
    return 1.0 if max(ends) <= begin else (begin - max(starts)) / (max(ends) - max(starts))


def _part(event: Event, share: float, since: float, until: float, later: float = 0.0) -> Event:
    """A share of an event, from ``since`` to ``until`` at most (s), and that ``later``; work is divided by time."""
    start, end = (None if at is None else min(max(at, since), until) + later for at in (event.start, event.end))
    if isinstance(event, ComputeSpan):
        return replace(event, start=start, end=end, seconds=event.seconds * share)
    into, out = round(event.bytes_in * share), round(event.bytes_out * share)
    return replace(event, start=start, end=end, issue=start, bytes_in=into, bytes_out=out)
