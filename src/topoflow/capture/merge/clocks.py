"""One clock for all ranks: hosts of a cluster agree on the time to some milliseconds, the ends of operations better.

No rank has the result of an all-reduce before all have taken part, and all have it within microseconds of each other:

    rank 0   |------ A ------|     |---- B ----|            A and B end 50 ms earlier on rank 1:
    rank 1   -- A ------|     |---- B ----|                 its clock is 50 ms late

A message is not received before it was sent. If only messages connect two ranks, and prove that a clock is wrong, it is
set to the middle of what messages in both directions allow, as NTP does (RFC 5905, section 8).
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from math import inf
from statistics import median

from topoflow.capture.base import POINT_TO_POINT, Communication, Event

TOGETHER = ("all_reduce", "all_gather", "reduce_scatter", "barrier")  # end on all ranks at once
LEAST_SHARE = 1e-3  # of a step: a clock that is wrong by less changes no replay

Ranks = Mapping[int, tuple[Event, ...]]


@dataclass
class _Apart:
    """By how much the clock of a rank is ahead of that of another, as the ends of their operations show it; s."""

    ends: list[float] = field(default_factory=list)  # by how much each collective ended later
    least: float = -inf  # or it received a message before that was sent
    most: float = inf  # or the other did

    def offset(self) -> float:
        """Return the best estimate; 0 if the operations do not show that the clocks differ."""
        if self.ends:
            middle = median(self.ends)
            return middle if abs(middle) > median(abs(each - middle) for each in self.ends) else 0.0
        known = [bound for bound in (self.least, self.most) if abs(bound) < inf]
        return sum(known) / len(known) if self.least > 0 or self.most < 0 else 0.0


def clock_offsets(ranks: Ranks) -> dict[int, float]:
    """Return the seconds by which the clock of a rank is ahead of that of the lowest that it communicates with.

    A rank that communicates with no other keeps its clock, and so does one that is ahead by less than ``LEAST_SHARE``
    of a step.
    """
    apart = _apart(ranks)
    offsets: dict[int, float] = {}
    for root in sorted(ranks):
        reached = [(False, root, root, 0.0)]  # by messages alone, from which rank, which, its offset
        while reached:
            _, _, one, offset = heapq.heappop(reached)
            if one in offsets:
                continue
            offsets[one] = offset
            for other, seen in apart[one].items():
                if other not in offsets:
                    heapq.heappush(reached, (not seen.ends, one, other, offset + seen.offset()))
    least = LEAST_SHARE * min((step for events in ranks.values() for step in _step(events)), default=0.0)
    return {rank: offset for rank, offset in offsets.items() if abs(offset) > least}


def _step(events: tuple[Event, ...]) -> Iterator[float]:
    """Yield the mean length of the iterations of a rank, s, if it is known."""
    own = [event for event in events if event.iteration >= 0 and event.start is not None and event.end is not None]
    if own:
        begin, end = min(event.start or 0.0 for event in own), max(event.end or 0.0 for event in own)
        yield (end - begin) / len({event.iteration for event in own})


def _apart(ranks: Ranks) -> dict[int, dict[int, _Apart]]:
    """Return what the operations of two ranks show of their clocks, by both: [one][other]."""
    collectives: dict[Hashable, dict[int, float]] = defaultdict(dict)  # the k-th of its kind: rank -> its end
    messages: dict[tuple[int, int, Hashable], dict[int, float]] = defaultdict(dict)  # sender, receiver, the k-th
    for rank in sorted(ranks):
        turns: dict[Hashable, int] = defaultdict(int)
        for event in ranks[rank]:
            if not isinstance(event, Communication) or event.iteration < 0:
                continue
            peer = event.peer if event.op in POINT_TO_POINT else None
            kind = (event.group_name, event.group, event.iteration, event.op, event.tag, peer)
            turns[kind] += 1
            if event.start is None or event.end is None:
                continue
            if peer is not None:
                sender, receiver = (rank, peer) if event.op == "send" else (peer, rank)
                messages[sender, receiver, (*kind[:3], event.tag, turns[kind])][rank] = event.end
            elif event.op in TOGETHER:
                collectives[kind, turns[kind]][rank] = event.end
    apart: dict[int, dict[int, _Apart]] = defaultdict(lambda: defaultdict(_Apart))
    for ends in collectives.values():
        first = min(ends)
        for other in ends.keys() - {first}:
            apart[first][other].ends.append(ends[other] - ends[first])
            apart[other][first].ends.append(ends[first] - ends[other])
    for (sender, receiver, _), ends in messages.items():
        if len(ends) > 1:
            late = ends[receiver] - ends[sender]
            apart[sender][receiver].most = min(late, apart[sender][receiver].most)
            apart[receiver][sender].least = max(-late, apart[receiver][sender].least)
    return apart
