"""Expander: a random regular graph of servers."""

from __future__ import annotations

from dataclasses import dataclass

import networkx
import numpy as np

from topoflow.demand import Demand
from topoflow.fabric.base import Fabric
from topoflow.fabric.routing.shortest import ShortestPaths
from topoflow.fabric.wiring import (
    Cable,
    Cabling,
    Interfaces,
    cabled,
    cached_wiring,
    check_count,
    direct_bill,
    duplex,
    server_names,
)
from topoflow.units import check_whole

# A random d-regular graph with d >= 3 is connected almost surely, so one or two tries are enough; with d = 2 (a union
# of circles) about one in sqrt(n) is one circle. Only d = 1 with more than two servers never succeeds.
TRIES = 1000


@dataclass(frozen=True)
class Expander(Interfaces):
    """Servers wired to each other at random, each to ``degree`` others (Jellyfish, NSDI 2012; TopoOpt 5.1).

    0 ---- 5
    | \\  / |       simple, connected, and the same for the same seed;
    |  3   |       hosts forward over all shortest paths
    2 ---- 7

    No ring is built for an all-reduce: it runs in the group's own order, whose neighbours are often several links
    apart, so that its flows collide (TopoOpt 5.3: "the worst performance, as its topology is not optimized for DNN
    workloads"). Four hashed channels of that ring instead of one would not help, as most neighbours have a single
    shortest path: a DLRM on 16 servers of degree 4 then takes 246 to 522 ms instead of 201 to 568 ms, over 8 seeds.
    """

    seed: int

    def __post_init__(self) -> None:
        self.check_interfaces("expander")
        check_whole("expander.seed", self.seed)

    def build(self, servers: int, demand: Demand) -> Fabric:
        check_count("expander.servers", servers)
        wiring = _wiring(self.degree, self.seed, servers)
        return cabled(
            "expander",
            wiring,
            bandwidth=self.bandwidth,
            latency=self.latency,
            degree=self.degree,
            interface_bandwidth=self.bandwidth,
            bill=direct_bill(2 * wiring.cables, wiring.cables, self.bandwidth),
        )


@cached_wiring
def _wiring(degree: int, seed: int, servers: int) -> Cabling:
    cables = _cables(degree, seed, servers) if servers > 1 else []
    return Cabling.of(servers, cables, ShortestPaths(server_names(servers), *duplex(cables)))


def _cables(degree: int, seed: int, servers: int) -> list[Cable]:
    """Return the edges of the first connected graph in the sequence of the seed."""
    if degree >= servers:
        raise ValueError(f"expander.degree: must be less than the {servers} servers, got {degree}")
    if servers * degree % 2:
        raise ValueError(
            f"expander.degree: servers * degree must be even, a cable has two ends, got {servers} * {degree}"
        )
    for attempt in range(TRIES):
        philox = np.random.Generator(np.random.Philox(key=[seed, attempt]))
        graph = networkx.random_regular_graph(degree, servers, seed=int(philox.integers(2**31)))
        if networkx.is_connected(graph):
            return sorted((min(edge), max(edge)) for edge in graph.edges)
    raise ValueError(
        f"expander.degree: must allow a connected graph, got {degree} with {servers} servers: "
        f"none of {TRIES} random ones is"
    )
