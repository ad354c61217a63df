"""One iteration of a recording whose next iteration waits for some of its communication.

    iteration 1   c1 | issue A1 | c2                     c: compute; the record says what each event follows (``after``)
    iteration 2   c1 | wait for A1, c1' | issue A2 | c2

The events of an iteration are all of them, but those that come before what waits (here c1) run next to A, not after it.
A job in its steady state does the same in every iteration, so they are put at the end, where the next iteration does
them: ``c1', A, c2, c1`` with A next to c2 and c1. What waits for A then begins, as an iteration does, when all is done.

Source: retiming moves delays around a cyclic graph without changing what it computes (Leiserson and Saxe, "Retiming
synchronous circuitry", Algorithmica 6, 1991); here the delay of an iteration.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from topoflow.capture.base import Communication, ComputeSpan, Event
from topoflow.capture.matching import operation_keys
from topoflow.traffic.captured.wrapped import Events


def carried(ranks: Mapping[int, Events], before: Mapping[int, Events]) -> dict[int, Events]:
    """The events of an iteration [rank], those that wait for no communication of the one ``before`` after the others.

    They stay as they are where nothing waits so, or where an iteration did not do the same as the one before it.
    """
    alike = {rank: _counterparts(events, before[rank]) for rank, events in ranks.items()}
    late = _late(ranks, before)
    if not any(late.values()) or not all(alike.values()):
        return dict(ranks)
    return {rank: _turned(events, late[rank], alike[rank]) for rank, events in ranks.items()}


def _counterparts(events: Events, before: Events) -> dict[int, int]:
    """Map the position of each event of the iteration before to that of the same one in this; empty if they differ."""
    kinds = [
        [
            (event.name,)
            if isinstance(event, ComputeSpan)
            else (event.op, event.group, event.group_name, event.peer, event.tag)
            for event in iteration.values()
        ]
        for iteration in (events, before)
    ]
    return dict(zip(before, events, strict=True)) if kinds[0] == kinds[1] else {}


def _late(ranks: Mapping[int, Events], before: Mapping[int, Events]) -> dict[int, set[int]]:
    """Return positions of events that wait, also indirectly, for communication that no compute of theirs followed."""
    late: dict[int, set[int]] = {}
    for rank, events in before.items():
        followed = {
            earlier for event in events.values() if isinstance(event, ComputeSpan) for earlier in event.after or ()
        }
        sent = {position for position, event in events.items() if isinstance(event, Communication)} - followed
        waits = {
            at for at, event in ranks[rank].items() if isinstance(event, ComputeSpan) and sent & {*(event.after or ())}
        }
        late[rank] = waits
    keys = {rank: operation_keys(rank, events) for rank, events in ranks.items()}
    count = -1
    while count < (count := sum(map(len, late.values()))):
        together = {keys[rank][at] for rank, positions in late.items() for at in positions if at in keys[rank]}
        for rank, events in ranks.items():
            for at, event in events.items():
                if keys[rank].get(at) in together or late[rank] & {*(event.after or ())}:
                    late[rank].add(at)
    return late


def _turned(events: Events, late: set[int], counterpart: Mapping[int, int]) -> Events:
    """Return ``late`` first, then the others, which follow what they followed in the iteration before."""
    first = 1 + max(events, default=0)
    place = {at: first + count for count, at in enumerate(at for at in events if at not in late)}
    turned: dict[int, Event] = {at: event for at, event in events.items() if at in late}
    for at, new in place.items():
        followed = [place.get(earlier, counterpart.get(earlier, -1)) for earlier in events[at].after or ()]
        after = tuple(sorted(earlier for earlier in followed if earlier in late or earlier >= first))
        turned[new] = replace(events[at], after=after)
    return turned
