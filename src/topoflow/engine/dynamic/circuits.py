"""The circuits that exist at a time, and the routes of a graph's paths over them. P paths, H hops, L links, n servers.

Links are numbered as circuits appear, those of the first wiring first; a number is never used again.
"""

from __future__ import annotations

import numpy as np

from topoflow import _C
from topoflow.engine.base import Floats, Ints, LoweredGraph, Offsets
from topoflow.engine.dynamic.stepwise import NO_LINK, RoutesAtTime
from topoflow.engine.lowering.paths import routed
from topoflow.engine.lowering.routing import Connections, routing_named
from topoflow.fabric.base import Fabric
from topoflow.fabric.circuits.heuristic import Counts, Matrix
from topoflow.fabric.circuits.reconfigurable import rewired


def choose_circuits(demand: Matrix, degree: int, discount: float) -> Counts:
    """Return the circuits that ``fabric.circuits.heuristic.choose_circuits``, its plain twin, chooses.

    A job calls this some 100,000 times.
    """
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
    """The circuits of ``fabric`` as they change; ``graph`` has the P paths that were placed on it."""

    def __init__(self, fabric: Fabric, graph: LoweredGraph, *, forwarding: bool, seed: int, routing: str) -> None:
        self.fabric, self.forwarding, self.seed, self.routing = fabric, forwarding, seed, routing
        self.latency = float(fabric.latency.max(initial=0.0))  # s of each circuit
        self.source, self.target = fabric.source.astype(np.int64), fabric.target.astype(np.int64)  # [L]
        self.count = np.zeros((fabric.servers, fabric.servers), np.int64)  # [n, n] circuits from server to server
        self.count[fabric.source, fabric.target] = np.rint(fabric.bandwidth / fabric.interface_bandwidth)
        self.link = np.full(self.count.shape, NO_LINK, np.int32)  # [n, n]
        self.link[fabric.source, fabric.target] = np.arange(fabric.links)
        self.begins, self.ends = _path_ends(graph)  # [P] servers
        self.pair = self.begins * fabric.servers + self.ends  # [P]
        self.channel = _rank(self.pair)  # [P]
        self.offsets = np.arange(len(self.pair) + 1)
        self.path_latency = np.full(len(self.pair), self.latency)
        self.no_routes = self._over(np.full(len(self.pair), NO_LINK, np.int32))
        self.routes = self._placed(graph) if forwarding else self._direct()

    @property
    def links(self) -> int:
        return len(self.source)

    def capacity(self) -> Floats:
        """[L] B/s of the circuits that exist; 0 for those that did."""
        return self.fabric.interface_bandwidth * self.of_links(self.count)

    def rates(self) -> Floats:
        """[P] B/s of the circuits between the ends of each path."""
        rates: Floats = self.fabric.interface_bandwidth * self.count.ravel()[self.pair].astype(np.float64)
        return rates

    def of_links(self, of_pairs: Counts | Floats) -> Floats:
        """Return [L] the value in ``of_pairs`` [n, n] of the two servers that each link joins."""
        values: Floats = of_pairs.ravel()[self.source * self.fabric.servers + self.target].astype(np.float64)
        return values

    def rewire(self, count: Counts) -> None:
        """Replace the circuits by others."""
        self.count = count
        new = np.flatnonzero((count > 0) & (self.link == NO_LINK))
        self.link.ravel()[new] = self.links + np.arange(len(new))
        source, target = np.divmod(new, len(count))
        self.source, self.target = np.append(self.source, source), np.append(self.target, target)
        self.routes = self._shortest() if self.forwarding else self._direct()

    def _direct(self) -> RoutesAtTime:
        return self._over(np.where(self.count.ravel()[self.pair] > 0, self.link.ravel()[self.pair], np.int32(NO_LINK)))

    def _over(self, link: Ints) -> RoutesAtTime:
        """Routes of one ``link`` [P] each."""
        return RoutesAtTime(self.offsets, link, None, self.path_latency)

    def _shortest(self) -> RoutesAtTime:
        """Several paths that are placed between the same servers are channels of one connection."""
        fabric = rewired(self.fabric, self.count)
        link = self.link[fabric.source, fabric.target]
        connections = Connections(self.begins, self.ends, self.channel)
        hops = routed(fabric, routing_named(self.routing), connections, self.seed)
        return self._several(hops.offsets, link[hops.links], hops.weights if np.any(hops.weights < 1) else None)

    def _placed(self, graph: LoweredGraph) -> RoutesAtTime:
        offsets, links = graph.path_offsets.astype(np.int64), graph.path_links.astype(np.int32)
        return self._several(offsets, links, graph.path_weight)

    def _several(self, offsets: Offsets, links: Ints, weights: Floats | None) -> RoutesAtTime:
        """Routes of several links each."""
        path = np.repeat(np.arange(len(self.pair)), np.diff(offsets))
        wait = np.bincount(path, weights, len(self.pair)).astype(np.float64) * self.latency
        return RoutesAtTime(offsets, links, weights, wait)


def _rank(pair: Offsets) -> Offsets:
    """[P] how many of ``pair`` [P] before each are the same."""
    order = np.argsort(pair, kind="stable")
    rank = np.empty(len(pair), np.int64)
    rank[order] = np.arange(len(pair)) - np.searchsorted(pair[order], pair[order])
    return rank


def _path_ends(graph: LoweredGraph) -> tuple[Offsets, Offsets]:
    """[P] the servers at which each path begins and ends: those of the tasks that take it, as some task does."""
    sends = graph.path >= 0
    begins, ends = np.zeros((2, len(graph.path_offsets) - 1), np.int64)
    begins[graph.path[sends]], ends[graph.path[sends]] = graph.source[sends], graph.target[sends]
    return begins, ends
