"""Rotor switches that turn one after another: those that do not turn join all nodes at any time. The network of Opera.

    slot            0      1      2      3      4      5     ..    3 switches, P matchings of each
    switch 0       0.0    0.0    0.0 |  0.1    0.1    0.1 |        | it turns, for a part of the slot before
    switch 1       1.0    1.0 |  1.1    1.1    1.1 |  1.2
    switch 2       2.0 |  2.1    2.1    2.1 |  2.2    2.2

A switch holds a matching for U slots and turns to its next one at the end of the last of them; in each slot one switch
turns. After U * P = N slots, a cycle, every pair of nodes has been joined, for U slots in a row.

Matchings are drawn: a factorization of the complete graph with a loop at each node into N of them, in both directions.
It begins as the one of sums (i and j by matching i + j modulo N); then, many times, two random matchings exchange what
they join in a random component of their union (a Kempe change, which leaves both matchings); names of nodes and the
order of matchings are drawn as well. Where in one of the N slots the switches that do not turn do not join all nodes,
the order is drawn again, and where that does not help everything.

Routes: a cell that does not wait for its link takes a shortest path over switches that do not turn in this slot. Where
several links begin one, the first does, beginning with switch (slot + node + target) modulo U.

Shapes: N nodes, U switches, P = N / U matchings of each.
Source: Opera (Mellette et al., NSDI 2020): staggered rotor switches, random factorizations, shortest paths in each
topology slice. Cited from memory and from the authors' simulator (github.com/TritonNetworking/opera-sim,
topologies/opera_dynexp_topo_gen): matchings of both directions with loops, racks that switches divide, paths that avoid
the switch that turns at the end of the slice, bulk that uses it until then. Ours: the Kempe changes (the authors search
at random, and lift small factorizations to many racks), one switch at a time for any number of them (the authors can
have groups of switches), and one path for each pair (the authors take that, too, or draw one of several).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np
import rustworkx
from numpy.typing import NDArray

from topoflow.fabric.circuits.rotors import MOST_CELLS, FailedRotors, Rotors
from topoflow.fabric.circuits.schedule import EMPTY

MOST_NODES = 256  # the kernel has their numbers, and those of switches, in bytes
NOWHERE = 255  # no switch
EXCHANGES = 8  # Kempe changes for each matching, of two matchings each. Ours
FACTORIZATIONS, ORDERS = 20, 50  # drawings until all slots join all nodes: of matchings, and of their order


@dataclass(frozen=True)
class Staggered(Rotors):
    """The cycle of ``switches`` that turn one after another; the one that turns carries only ``turning`` cells."""

    network: ClassVar[str] = "opera"

    turning: int = 0  # cells of a link in a slot at whose end its switch turns
    seed: int = 0

    def __post_init__(self) -> None:
        if not 2 <= self.nodes <= MOST_NODES:
            raise ValueError(f"opera.racks: must be within 2..{MOST_NODES}, got {self.nodes}")
        if not 1 <= self.switches <= NOWHERE or self.nodes % self.switches:
            rule = f"must be at most {NOWHERE} and divide the {self.nodes} racks"
            raise ValueError(f"opera.uplinks: {rule}, got {self.switches}")
        super().__post_init__()
        if not 0 <= self.turning <= self.cells:
            raise ValueError(f"rotors.turning: must be within 0..{self.cells}, got {self.turning}")
        if self.stored > MOST_CELLS:
            rule = f"must let a link carry at most {MOST_CELLS} while its switch holds a matching"
            raise ValueError(f"rotors.cells: {rule}, got {self.stored}")

    @property
    def cycle(self) -> int:
        return self.nodes

    @property
    def stored(self) -> int:
        return (self.switches - 1) * self.cells + self.turning

    def carries(self, switch: int, slot: int) -> int:
        return self.turning if self.turns(switch, slot) else self.cells

    def turns(self, switch: int, slot: int) -> bool:
        """Whether a switch turns at the end of a slot."""
        return (slot + switch) % self.switches == self.switches - 1

    def held(self, switch: int, slot: int) -> int:
        """The number of the matching that a switch holds in a slot."""
        return switch * self.matchings + (slot + switch) // self.switches % self.matchings

    def target(self, node: int, switch: int, slot: int) -> int:
        other = int(self.drawn[self.held(switch, slot), node])
        return other if other != node and self.joins(node, other) else EMPTY

    @cached_property
    def drawn(self) -> NDArray[np.int64]:
        """[N, N] the node that each matching joins each node to, which may be itself."""
        return draw(replace(self, cells=1, turning=0, failed=FailedRotors()))

    def joining(self) -> NDArray[np.int64]:
        return self._joining

    @cached_property
    def _joining(self) -> NDArray[np.int64]:
        found: NDArray[np.int64] = np.argsort(self.drawn, axis=0).T  # every node is once in a column
        return found

    def meeting(self, source: int, target: int) -> tuple[int, int]:
        return divmod(int(self._joining[source, target]), self.matchings)

    @cached_property
    def routes(self) -> NDArray[np.uint8]:
        """[slot, node, target] the switch by which a node sends for a target, NOWHERE: by none, or to itself."""
        found: NDArray[np.uint8] = np.full((self.cycle, self.nodes, self.nodes), NOWHERE, np.uint8)
        node = np.arange(self.nodes)[:, None]
        for slot in range(self.cycle):
            ends, works = self._links(slot)
            hops = _hops(ends, works)
            for number in range(self.switches):
                switch = (slot + node + node.T + number) % self.switches  # [N, N]
                begins = works[switch, node] & (hops[ends[switch, node], node.T] + 1 == hops)
                begins &= found[slot] == NOWHERE
                found[slot][begins] = switch[begins]
        return found

    def reach(self, pause: int) -> NDArray[np.bool_]:
        """[N, N] pairs with a path that fits in some slot, with ``pause`` times of a cell from a hop to the next."""
        most = (self.cells - 1) // pause + 1  # hops
        hops = [_hops(*self._links(slot)) for slot in range(self.cycle)]
        found: NDArray[np.bool_] = np.any([each <= min(most, self.nodes - 1) for each in hops], axis=0)
        return found

    def _links(self, slot: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """[U, N] the node that each switch joins each node to, and whether that is a link for low latency."""
        ends = _ends(self, self.drawn, slot)
        return ends, self._joined[np.arange(self.nodes), ends] & (ends != EMPTY)

    @cached_property
    def _joined(self) -> NDArray[np.bool_]:
        return self.joined()


def _ends(rotors: Staggered, drawn: NDArray[np.int64], slot: int) -> NDArray[np.int64]:
    """[U, N] the node that each switch joins each node to, which may be itself; EMPTY: the switch turns."""
    switches = range(rotors.switches)
    ends = drawn[[rotors.held(switch, slot) for switch in switches]]
    ends[[rotors.turns(switch, slot) for switch in switches]] = EMPTY
    return ends


def _hops(ends: NDArray[np.int64], works: NDArray[np.bool_]) -> NDArray[np.int64]:
    """[N, N] of a shortest path over links that work; N: there is none."""
    nodes = ends.shape[1]
    graph = rustworkx.PyGraph()
    graph.add_nodes_from(range(nodes))
    _, source = np.nonzero(works)
    graph.add_edges_from_no_data(list(zip(source.tolist(), ends[works].tolist(), strict=True)))
    found: NDArray[np.int64] = rustworkx.distance_matrix(graph, null_value=nodes).astype(np.int64)
    return found


def pause_of(flight: float, cell: float) -> int:
    """Times of a cell from a hop to the next: its own, and those in which it flies. Both in the same unit."""
    return 1 + math.ceil(flight / cell)


@lru_cache(maxsize=16)
def draw(rotors: Staggered) -> NDArray[np.int64]:
    """[N, N] the node that each matching joins each node to, so that those which do not turn always join all nodes.

    Raises ``ValueError`` where none of many drawings does.
    """
    for attempt in range(FACTORIZATIONS):
        random = np.random.Generator(np.random.Philox(key=[rotors.seed, attempt]))
        matchings = factorize(rotors.nodes, random)
        for _ in range(ORDERS):
            found = matchings[random.permutation(rotors.nodes)]
            ends = (_ends(rotors, found, slot) for slot in range(rotors.cycle))
            if all((_hops(each, each != EMPTY) < rotors.nodes).all() for each in ends):
                found.setflags(write=False)
                return found
    rule = f"must be such that all but one join the {rotors.nodes} racks in every slot"
    raise ValueError(f"opera.uplinks: {rule}, got {rotors.switches}: none of {FACTORIZATIONS * ORDERS} drawings does")


def factorize(nodes: int, random: np.random.Generator) -> NDArray[np.int64]:
    """[N, N] matchings of both directions that together join each two nodes once, and each node once to itself."""
    matchings = [[(number - node) % nodes for node in range(nodes)] for number in range(nodes)]
    for _ in range(EXCHANGES * nodes):
        one, other = (matchings[number] for number in random.choice(nodes, 2, replace=False))
        part, ahead = set[int](), [int(random.integers(nodes))]
        while ahead:
            node = ahead.pop()
            if node not in part:
                part.add(node)
                ahead += [one[node], other[node]]
        for node in part:
            one[node], other[node] = other[node], one[node]
    names = random.permutation(nodes)
    found: NDArray[np.int64] = np.empty((nodes, nodes), np.int64)
    found[:, names] = names[np.array(matchings)]
    return found
