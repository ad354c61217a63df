"""The circuits that there are, and the paths of a world over them. P paths, H hops, L links, n servers.

Links are numbered as circuits appear: those of the first wiring first, none ever goes. Behind the last there is one
more, the *dark* link, which carries nothing: who has no way takes it and waits.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from topoflow import _C
from topoflow.engine.base import Floats, Graph, Offsets, World
from topoflow.engine.paths import Hops, Paths, union
from topoflow.fabric.base import Fabric
from topoflow.fabric.circuit_heuristic import Counts, Matrix
from topoflow.fabric.reconfigurable import rewired

DARK = -1  # in a table of ways: no way
Table = tuple[Offsets, Offsets, Floats]  # offsets [P+1], links [H] or DARK, weights [H]


def choose_circuits(demand: Matrix, degree: int, discount: float) -> Counts:
    """As ``fabric.circuit_heuristic.choose_circuits``, its plain twin, says it; a job asks some 100,000 times."""
    servers = len(demand)
    circuits = np.zeros(servers * servers, np.int64)
    arrays = {
        "demand": demand.ravel().copy(),  # it is written to
        "sends": np.full(servers, degree),
        "receives": np.full(servers, degree),
        "most": np.empty(servers, np.int32),
        "count": circuits,
    }
    _C.choose_circuits(arrays, degree, discount)
    return circuits.reshape(demand.shape)


class Circuits:
    """``fabric`` and what becomes of it; ``graph`` has the P paths that were placed on it."""

    def __init__(self, fabric: Fabric, graph: Graph, *, forwarding: bool, seed: int, routing: str) -> None:
        self.fabric, self.forwarding, self.seed, self.routing = fabric, forwarding, seed, routing
        self.source, self.target = fabric.source.astype(np.int64), fabric.target.astype(np.int64)  # [L]
        self.count = np.zeros((fabric.servers, fabric.servers), np.int64)  # [n, n] circuits from server to server
        self.count[fabric.source, fabric.target] = np.rint(fabric.bandwidth / fabric.interface_bandwidth)
        self.link = np.full(self.count.shape, DARK)  # [n, n]
        self.link[fabric.source, fabric.target] = np.arange(fabric.links)
        self.begins = fabric.source[graph.path_links[graph.path_offsets[:-1]]]  # [P] server
        self.ends = fabric.target[graph.path_links[graph.path_offsets[1:] - 1]]  # [P] server
        self.ways = _placed(graph) if forwarding else self._direct()

    @property
    def links(self) -> int:
        return len(self.source)

    @property
    def latency(self) -> float:
        """Seconds of each circuit."""
        return float(self.fabric.latency.max(initial=0.0))

    def capacity(self) -> Floats:
        """[L] B/s of the circuits that there are; 0 for those that were."""
        return self.fabric.interface_bandwidth * self.count[self.source, self.target].astype(np.float64)

    def rewire(self, count: Counts) -> None:
        """Other circuits."""
        self.count = count
        source, target = np.nonzero((count > 0) & (self.link == DARK))
        self.link[source, target] = self.links + np.arange(len(source))
        self.source, self.target = np.append(self.source, source), np.append(self.target, target)
        self.ways = self._shortest() if self.forwarding else self._direct()

    def carry(self, world: World, *, dark: bool) -> World:
        """``world`` over the circuits that there are; ``dark``: over none."""
        offsets, links, weights = self._table(np.full(len(self.begins), DARK)) if dark else self.ways
        graph = replace(
            world.graph,
            path_offsets=offsets,
            path_links=np.where(links == DARK, self.links, links).astype(np.int32),
            path_weight=weights if np.any(weights < 1) else None,
            links=self.links + 1,
        )
        return World(world.name, graph, np.append(self.capacity(), 0.0), np.full(self.links + 1, self.latency))

    def _direct(self) -> Table:
        up = self.count[self.begins, self.ends] > 0
        return self._table(np.where(up, self.link[self.begins, self.ends], DARK))

    @staticmethod
    def _table(link: Offsets) -> Table:
        """Paths of one ``link`` [P] each."""
        return np.arange(len(link) + 1), link, np.ones(len(link))

    def _shortest(self) -> Table:
        """Several paths that are placed between the same servers are channels of one connection."""
        fabric = rewired(self.fabric, self.count)
        paths = Paths(fabric, self.seed, self.routing)
        link = self.link[fabric.source, fabric.target]
        table: list[Hops] = []
        channels: dict[tuple[int, int], int] = {}
        for ends in zip(self.begins.tolist(), self.ends.tolist(), strict=True):
            channels[ends] = channels.get(ends, -1) + 1
            table.append(union(paths.subflows(*ends, channels[ends], "mp")))
        offsets = np.concatenate([[0], np.cumsum([len(hops.links) for hops in table])]).astype(np.int64)
        links = np.array([each for hops in table for each in hops.links], np.int64)
        return offsets, link[links], np.array([weight for hops in table for weight in hops.weights], np.float64)


def _placed(graph: Graph) -> Table:
    weight = np.ones(len(graph.path_links)) if graph.path_weight is None else graph.path_weight
    return graph.path_offsets, graph.path_links.astype(np.int64), weight
