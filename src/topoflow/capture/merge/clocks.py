"""One clock for all ranks: hosts of a cluster agree on the time to some milliseconds, the ends of collectives better.

No rank has the result of an all-reduce before all have taken part, and all have it within microseconds of each other:

    rank 0   |------ A ------|     |---- B ----|            A and B end 50 ms earlier on rank 1:
    rank 1   -- A ------|     |---- B ----|                 its clock is 50 ms late
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping
from statistics import median

from topoflow.capture.base import Communication, Event

TOGETHER = ("all_reduce", "all_gather", "reduce_scatter", "barrier")  # end on all ranks at once
# s: NTP keeps hosts of a fast LAN together within tens of microseconds (RFC 5905, abstract), and what is less than this
# changes no replay: steps take tens of milliseconds at least
MOST_APART = 1e-3

Ranks = Mapping[int, tuple[Event, ...]]


def clock_offsets(ranks: Ranks) -> dict[int, float]:
    """Seconds by which the clock of a rank is ahead of that of the lowest it communicates with, if over ``MOST_APART``.

    The median over the collectives that two ranks did together; a rank that did none with another keeps its clock.
    """
    apart = _apart(ranks)
    offsets: dict[int, float] = {}
    for root in sorted(ranks):
        if root in offsets:
            continue
        offsets[root] = 0.0
        waiting = [root]
        while waiting:
            one = waiting.pop()
            for other, times in apart[one].items():
                if other not in offsets:
                    offsets[other] = offsets[one] + median(times)
                    waiting.append(other)
    return {rank: offset for rank, offset in offsets.items() if abs(offset) > MOST_APART}


def _apart(ranks: Ranks) -> dict[int, dict[int, list[float]]]:
    """For two ranks, how much later each of their collectives ended on the second, s."""
    ends: dict[Hashable, dict[int, float]] = defaultdict(dict)
    for rank in sorted(ranks):
        turns: dict[Hashable, int] = defaultdict(int)
        for event in ranks[rank]:
            if not isinstance(event, Communication) or event.iteration < 0 or event.op not in TOGETHER:
                continue
            kind = (event.group_name, event.group, event.iteration, event.op)
            turns[kind] += 1
            if event.end is not None and event.start is not None:
                ends[kind, turns[kind]][rank] = event.end
    apart: dict[int, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for members in ends.values():
        first = min(members)
        for other in members:
            if other != first:
                apart[first][other].append(members[other] - members[first])
                apart[other][first].append(members[first] - members[other])
    return apart
