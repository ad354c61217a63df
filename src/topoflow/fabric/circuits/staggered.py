"""The network of Opera: rotor switches that turn one after another, while the others connect all nodes at any time.

    slot            0      1      2      3      4      5     ..    3 switches, P matchings of each
    switch 0       0.0    0.0    0.0 |  0.1    0.1    0.1 |        | it turns, for a part of the slot before
    switch 1       1.0    1.0 |  1.1    1.1    1.1 |  1.2
    switch 2       2.0 |  2.1    2.1    2.1 |  2.2    2.2

A switch holds a matching for U slots and turns to its next one at the end of the last of them; in each slot one switch
turns. After U * P = N slots, a cycle, every pair of nodes has been joined, for U slots in a row.

Matchings are random: a factorization of the complete graph with a loop at each node into N matchings, in both
directions. It begins with the factorization by sums (matching i + j modulo N joins i and j). Then, many times, two
random matchings exchange their edges in a random component of their union (a Kempe change, after which both are still
matchings). Names of nodes and the order of matchings are drawn as well. If in one of the N slots the switches that do
not turn do not connect all nodes, the order is drawn again, and after several orders the factorization.

Routes: a cell that does not wait for its direct link takes a shortest path over switches that do not turn in this slot.
Among several first links, switches are tried in order from (slot + node + target) modulo U.

Shapes: N nodes, U switches, P = N / U matchings of each.
Source: Opera (Mellette et al., NSDI 2020): staggered rotor switches, random factorizations, shortest paths in each
topology slice. Cited from memory and from the authors' simulator (github.com/TritonNetworking/opera-sim,
topologies/opera_dynexp_topo_gen): matchings of both directions with loops, racks that switches divide, paths that avoid
the switch that turns at the end of the slice, bulk that uses it until then. Our own choices are the Kempe changes (the
authors search at random, and lift small factorizations to many racks), one turning switch at a time for any number of
switches (the authors can have groups of switches), and one path for each pair (as the authors, who can also draw one of
several).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np
import rustworkx
from numpy.typing import NDArray

from topoflow.fabric.circuits.rotors import MAX_CELLS, FailedRotors, Rotors
from topoflow.fabric.circuits.schedule import EMPTY

MAX_NODES = 256  # the kernel stores the numbers of nodes and switches in bytes
NO_SWITCH = 255
EXCHANGES = 8  # Kempe changes of two matchings, per matching. Source: our own
FACTORIZATIONS, ORDERS = 20, 50  # most draws of matchings, and of their order, until all slots connect all nodes


@dataclass(frozen=True)
class Staggered(Rotors):
    """The cycle of ``switches`` that turn one after another; the one that turns carries only ``turning`` cells."""

    network: ClassVar[str] = "opera"

    turning: int = 0  # cells of a link in a slot at whose end its switch turns
    seed: int = 0

    def __post_init__(self) -> None:
        if not 2 <= self.nodes <= MAX_NODES:
            raise ValueError(f"opera.racks: must be within 2..{MAX_NODES}, got {self.nodes}")
        if not 1 <= self.switches <= NO_SWITCH or self.nodes % self.switches:
            rule = f"must be at most {NO_SWITCH} and divide the {self.nodes} racks"
            raise ValueError(f"opera.uplinks: {rule}, got {self.switches}")
        super().__post_init__()
        if not 0 <= self.turning <= self.cells:
            raise ValueError(f"rotors.turning: must be within 0..{self.cells}, got {self.turning}")
        if self.stored > MAX_CELLS:
            rule = f"must let a link carry at most {MAX_CELLS} while its switch holds a matching"
            raise ValueError(f"rotors.cells: {rule}, got {self.stored}")

    @property
    def cycle(self) -> int:
        return self.nodes

    @property
    def stored(self) -> int:
        return (self.switches - 1) * self.cells + self.turning

    def turns(self, switch: int, slot: int) -> bool:
        """Return whether a switch turns at the end of a slot."""
        return (slot + switch) % self.switches == self.switches - 1

    def held(self, switch: int, slot: int) -> int:
        """Return the number of the matching that a switch holds in a slot."""
        return switch * self.matchings + (slot + switch) // self.switches % self.matchings

    def target(self, node: int, switch: int, slot: int) -> int:
        other = int(self.drawn[self.held(switch, slot), node])
        return other if other != node and self.joins(node, other) else EMPTY

    @cached_property
    def drawn(self) -> NDArray[np.int64]:
        """Return [N, N] the node that each matching joins each node to, which may be itself."""
        return draw(replace(self, cells=1, turning=0, failed=FailedRotors()))

    def joining(self) -> NDArray[np.int64]:
        return self._joining

    @cached_property
    def _joining(self) -> NDArray[np.int64]:
        matching: NDArray[np.int64] = np.argsort(self.drawn, axis=0).T  # every node is once in a column
        return matching

    def meeting(self, source: int, target: int) -> tuple[int, int]:
        return divmod(int(self._joining[source, target]), self.matchings)

    @cached_property
    def routes(self) -> NDArray[np.uint8]:
        """Return [slot, node, target] the switch by which a node sends to a target; NO_SWITCH: none, or to itself."""
        routes: NDArray[np.uint8] = np.full((self.cycle, self.nodes, self.nodes), NO_SWITCH, np.uint8)
        node = np.arange(self.nodes)[:, None]
        for slot in range(self.cycle):
            ends, works = self._links(slot)
            hops = _hops(ends, works)
            for number in range(self.switches):
                switch = (slot + node + node.T + number) % self.switches  # [N, N]
                begins = works[switch, node] & (hops[ends[switch, node], node.T] + 1 == hops)
                begins &= routes[slot] == NO_SWITCH
                routes[slot][begins] = switch[begins]
        return routes

    def reach(self, pause: int) -> NDArray[np.bool_]:
        """Return [N, N] whether a pair has a path that fits in some slot, if a hop takes ``pause`` times of a cell."""
        max_hops = (self.cells - 1) // pause + 1
        hops = [_hops(*self._links(slot)) for slot in range(self.cycle)]
        limit = min(max_hops, self.nodes - 1)
        reached: NDArray[np.bool_] = np.any([of_slot <= limit for of_slot in hops], axis=0)
        return reached

    def _links(self, slot: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return [U, N] the node that each switch joins each node to, and whether that link has low latency."""
        ends = _ends(self, self.drawn, slot)
        return ends, self._joined[np.arange(self.nodes), ends] & (ends != EMPTY)

    @cached_property
    def _joined(self) -> NDArray[np.bool_]:
        return self.joined()


def _ends(rotors: Staggered, drawn: NDArray[np.int64], slot: int) -> NDArray[np.int64]:
    """Return [U, N] the node that each switch joins each node to, which may be itself; EMPTY: the switch turns."""
    switches = range(rotors.switches)
    ends = drawn[[rotors.held(switch, slot) for switch in switches]]
    ends[[rotors.turns(switch, slot) for switch in switches]] = EMPTY
    return ends


def _hops(ends: NDArray[np.int64], works: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return [N, N] the hops of a shortest path over working links; N where there is none."""
    nodes = ends.shape[1]
    graph = rustworkx.PyGraph()
    graph.add_nodes_from(range(nodes))
    _, source = np.nonzero(works)
    graph.add_edges_from_no_data(list(zip(source.tolist(), ends[works].tolist(), strict=True)))
    hops: NDArray[np.int64] = rustworkx.distance_matrix(graph, null_value=nodes).astype(np.int64)
    return hops


def pause_of(flight: float, cell: float) -> int:
    """Return the time of a hop in times of a cell: its own and those of its flight (``flight`` in ``cell``'s unit)."""
    return 1 + math.ceil(flight / cell)


@lru_cache(maxsize=16)
def draw(rotors: Staggered) -> NDArray[np.int64]:
    """Return [N, N] the node that each matching joins each node to; in every slot all nodes are connected.

    Raises ``ValueError`` if many draws do not lead to such matchings.
    """
    for attempt in range(FACTORIZATIONS):
        random = np.random.Generator(np.random.Philox(key=[rotors.seed, attempt]))
        matchings = factorize(rotors.nodes, random)
        for _ in range(ORDERS):
            ordered = matchings[random.permutation(rotors.nodes)]
            slots = (_ends(rotors, ordered, slot) for slot in range(rotors.cycle))
            if all((_hops(ends, ends != EMPTY) < rotors.nodes).all() for ends in slots):
                ordered.setflags(write=False)
                return ordered
    rule = f"must be such that all but one join the {rotors.nodes} racks in every slot"
    raise ValueError(f"opera.uplinks: {rule}, got {rotors.switches}: none of {FACTORIZATIONS * ORDERS} drawings does")


def factorize(nodes: int, random: np.random.Generator) -> NDArray[np.int64]:
    """Return [N, N] matchings of both directions that join each pair of nodes once, and each node to itself once."""
    matchings = [[(number - node) % nodes for node in range(nodes)] for number in range(nodes)]
    for _ in range(EXCHANGES * nodes):
        first, second = (matchings[number] for number in random.choice(nodes, 2, replace=False))
        part, ahead = set[int](), [int(random.integers(nodes))]
        while ahead:
            node = ahead.pop()
            if node not in part:
                part.add(node)
                ahead += [first[node], second[node]]
        for node in part:
            first[node], second[node] = second[node], first[node]
    names = random.permutation(nodes)
    renamed: NDArray[np.int64] = np.empty((nodes, nodes), np.int64)
    renamed[:, names] = names[np.array(matchings)]
    return renamed
