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
Bounds = Mapping[tuple[int, int], float]  # (rank, peer) -> s by which the clock of the peer is ahead, at most


@dataclass
class _ClockDifference:
    """The lead of a rank's clock over that of another (s), as the ends of their operations show it."""

    ends: list[float] = field(default_factory=list)  # by how much each collective ended later
    upper_bound: float = inf  # or it would have received a message later

    def offset(self) -> float:
        """Return the best estimate of collectives; 0 if they do not show that the clocks differ."""
        middle = median(self.ends)
        return middle if abs(middle) > median(abs(end - middle) for end in self.ends) else 0.0


Pairs = Mapping[int, Mapping[int, _ClockDifference]]  # one rank -> another


def clock_offsets(ranks: Ranks) -> dict[int, float]:
    """Return the seconds by which the clock of a rank is ahead of that of the lowest that it communicates with.

    A rank that communicates with no other keeps its clock, and so does one that is ahead by less than ``LEAST_SHARE``
    of a step.
    """
    differences = _clock_differences(ranks)
    least = LEAST_SHARE * min((step for events in ranks.values() for step in _step(events)), default=0.0)
    offsets = _by_collectives(differences, ranks)
    lowest = {rank: root for root, members in offsets.items() for rank in members}
    bounds: dict[tuple[int, int], float] = {}
    for rank, by_other in differences.items():
        for peer, difference in by_other.items():
            pair = lowest[rank], lowest[peer]
            if difference.upper_bound < inf and pair[0] != pair[1]:
                upper_bound = difference.upper_bound + offsets[pair[0]][rank] - offsets[pair[1]][peer]
                bounds[pair] = min(upper_bound, bounds.get(pair, inf))
    ahead = _within(bounds, offsets, least)
    rank_offsets = {rank: ahead[root] + offset for root, members in offsets.items() for rank, offset in members.items()}
    return {rank: offset for rank, offset in rank_offsets.items() if abs(offset) > least}


def _by_collectives(differences: Pairs, ranks: Iterable[int]) -> dict[int, dict[int, float]]:
    """Return the ranks that share collectives by their lowest one, each with its offset from that."""
    components: dict[int, dict[int, float]] = {}
    known: set[int] = set()
    for root in sorted(ranks):
        if root in known:
            continue
        offsets = {root: 0.0}
        reached = [root]
        for rank in reached:
            for peer, difference in sorted(differences.get(rank, {}).items(), key=lambda item: item[0]):
                if difference.ends and peer not in offsets:
                    offsets[peer] = offsets[rank] + difference.offset()
                    reached.append(peer)
        components[root] = offsets
        known |= offsets.keys()
    return components


def _within(bounds: Bounds, clocks: Iterable[int], tolerance: float) -> dict[int, float]:
    """Return the offset of each clock from the lowest that messages connect it with: the middle of its bounds.

    It is 0 if messages do not prove that clocks differ, and if they contradict each other by more than ``tolerance``
    per message (s), as one of them has an impossible time.
    """
    offsets = dict.fromkeys(clocks, 0.0)
    graph = PyDiGraph()
    nodes = {clock: graph.add_node(clock) for clock in offsets}
    for (first, second), upper_bound in bounds.items():
        graph.add_edge(nodes[first], nodes[second], upper_bound)
    for part in weakly_connected_components(graph):
        subgraph = graph.subgraph(sorted(part))
        if min(subgraph.edges(), default=0.0) >= 0:
            continue
        try:
            highest = _distances(subgraph, tolerance + ROUNDING)
            subgraph.reverse()
            lowest = _distances(subgraph, tolerance + ROUNDING)
        except NegativeCycle:
            continue
        for clock in subgraph.nodes():
            high, low = highest.get(clock, inf), -lowest.get(clock, inf)
            offsets[clock] = (low + high) / 2 if -inf < low and high < inf else min(high, max(low, 0.0))
    return offsets


def _distances(graph: PyDiGraph[int, float], slack: float) -> dict[int, float]:
    """Return the sum of bounds, each longer by ``slack``, over the shortest path to each clock from the lowest one."""
    clocks = graph.nodes()
    root = min(range(len(clocks)), key=clocks.__getitem__)
    lengths = digraph_bellman_ford_shortest_path_lengths(graph, root, lambda bound: bound + slack)
    return {clocks[root]: 0.0} | {clocks[node]: length for node, length in lengths.items()}


def _step(events: tuple[Event, ...]) -> Iterator[float]:
    """Yield the mean length of the iterations of a rank, s, if it is known."""
    timed = [event for event in events if event.iteration >= 0 and event.start is not None and event.end is not None]
    if timed:
        begin, end = min(event.start or 0.0 for event in timed), max(event.end or 0.0 for event in timed)
        yield (end - begin) / len({event.iteration for event in timed})


def _clock_differences(ranks: Ranks) -> dict[int, dict[int, _ClockDifference]]:
    """Return the clock differences that operations show, by both ranks: [rank][peer]."""
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
    differences: dict[int, dict[int, _ClockDifference]] = defaultdict(lambda: defaultdict(_ClockDifference))
    for ends in collectives.values():
        first = min(ends)
        for other in ends.keys() - {first}:
            differences[first][other].ends.append(ends[other] - ends[first])
            differences[other][first].ends.append(ends[first] - ends[other])
    for (sender, receiver, _), ends in messages.items():
        if len(ends) > 1:
            pair = differences[sender][receiver]
            pair.upper_bound = min(ends[receiver] - ends[sender], pair.upper_bound)
    return differences
