"""One clock for all ranks: hosts of a cluster agree on the time to some milliseconds, the ends of operations better.

No rank has the result of an all-reduce before all have taken part, and all have it within microseconds of each other:

    rank 0   |------ A ------|     |---- B ----|            A and B end 50 ms earlier on rank 1:
    rank 1   -- A ------|     |---- B ----|                 its clock is 50 ms late

A message is not received before it was sent, so that messages bound how far the clock of one rank is ahead of that of
another. A ring of messages bounds it from both sides. If these bounds prove that a clock is wrong, it is set to their
middle, as NTP does with the two directions of one pair (RFC 5905, section 8).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import inf
from statistics import median

from rustworkx import (
    NegativeCycle,
    PyDiGraph,
    digraph_bellman_ford_shortest_path_lengths,
    weakly_connected_components,
)

from topoflow.capture.base import POINT_TO_POINT, Communication, Event

TOGETHER = ("all_reduce", "all_gather", "reduce_scatter", "barrier")  # end on all ranks at once
LEAST_SHARE = 1e-3  # of a step: a clock that is wrong by less changes no replay

ROUNDING = 1e-9  # s

Ranks = Mapping[int, tuple[Event, ...]]
Bounds = Mapping[tuple[int, int], float]  # (one, other) -> s by which the clock of other is ahead, at most


@dataclass
class _Apart:
    """By how much the clock of a rank is ahead of that of another, as the ends of their operations show it; s."""

    ends: list[float] = field(default_factory=list)  # by how much each collective ended later
    most: float = inf  # or it would have received a message later

    def offset(self) -> float:
        """Return the best estimate of collectives; 0 if they do not show that the clocks differ."""
        middle = median(self.ends)
        return middle if abs(middle) > median(abs(each - middle) for each in self.ends) else 0.0


Pairs = Mapping[int, Mapping[int, _Apart]]  # one rank -> another


def clock_offsets(ranks: Ranks) -> dict[int, float]:
    """Return the seconds by which the clock of a rank is ahead of that of the lowest that it communicates with.

    A rank that communicates with no other keeps its clock, and so does one that is ahead by less than ``LEAST_SHARE``
    of a step.
    """
    apart = _apart(ranks)
    least = LEAST_SHARE * min((step for events in ranks.values() for step in _step(events)), default=0.0)
    offsets = _by_collectives(apart, ranks)
    lowest = {rank: root for root, members in offsets.items() for rank in members}
    bounds: dict[tuple[int, int], float] = {}
    for one, by_other in apart.items():
        for other, seen in by_other.items():
            pair = lowest[one], lowest[other]
            if seen.most < inf and pair[0] != pair[1]:
                most = seen.most + offsets[pair[0]][one] - offsets[pair[1]][other]
                bounds[pair] = min(most, bounds.get(pair, inf))
    ahead = _within(bounds, offsets, least)
    found = {rank: ahead[root] + offset for root, members in offsets.items() for rank, offset in members.items()}
    return {rank: offset for rank, offset in found.items() if abs(offset) > least}


def _by_collectives(apart: Pairs, ranks: Iterable[int]) -> dict[int, dict[int, float]]:
    """Return the ranks that share collectives by their lowest one, each with its offset from that."""
    found: dict[int, dict[int, float]] = {}
    known: set[int] = set()
    for root in sorted(ranks):
        if root in known:
            continue
        offsets = {root: 0.0}
        reached = [root]
        for one in reached:
            for other, seen in sorted(apart.get(one, {}).items(), key=lambda item: item[0]):
                if seen.ends and other not in offsets:
                    offsets[other] = offsets[one] + seen.offset()
                    reached.append(other)
        found[root] = offsets
        known |= offsets.keys()
    return found


def _within(bounds: Bounds, clocks: Iterable[int], tolerance: float) -> dict[int, float]:
    """Return the offset of each clock from the lowest that messages connect it with: the middle of its bounds.

    It is 0 if messages do not prove that clocks differ, and if they contradict each other by more than ``tolerance``
    per message (s), as one of them has an impossible time.
    """
    found = dict.fromkeys(clocks, 0.0)
    graph = PyDiGraph()
    nodes = {clock: graph.add_node(clock) for clock in found}
    for (one, other), most in bounds.items():
        graph.add_edge(nodes[one], nodes[other], most)
    for part in weakly_connected_components(graph):
        own = graph.subgraph(sorted(part))
        if min(own.edges(), default=0.0) >= 0:
            continue
        try:
            highest = _distances(own, tolerance + ROUNDING)
            own.reverse()
            lowest = _distances(own, tolerance + ROUNDING)
        except NegativeCycle:
            continue
        for clock in own.nodes():
            high, low = highest.get(clock, inf), -lowest.get(clock, inf)
            found[clock] = (low + high) / 2 if -inf < low and high < inf else min(high, max(low, 0.0))
    return found


def _distances(graph: PyDiGraph[int, float], slack: float) -> dict[int, float]:
    """Return the sum of bounds, each longer by ``slack``, over the shortest path to each clock from the lowest one."""
    clocks = graph.nodes()
    root = min(range(len(clocks)), key=clocks.__getitem__)
    lengths = digraph_bellman_ford_shortest_path_lengths(graph, root, lambda most: most + slack)
    return {clocks[root]: 0.0} | {clocks[node]: length for node, length in lengths.items()}


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
            pair = apart[sender][receiver]
            pair.most = min(ends[receiver] - ends[sender], pair.most)
    return apart
