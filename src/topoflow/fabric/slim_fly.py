"""Slim Fly: routers at most two cables apart, with nearly the fewest ports that this requires."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from topoflow.demand import Demand
from topoflow.fabric.base import Fabric
from topoflow.fabric.galois_field import GaloisField, prime_power
from topoflow.fabric.routing.next_hops import NO_LINK, ROUTER, AddressedShortestPaths, Links
from topoflow.fabric.wiring import (
    Cabling,
    Interfaces,
    back,
    cabled,
    cached_wiring,
    check_cables,
    check_count,
    forth,
    server_names,
    switched_bill,
)

Index = NDArray[np.int64]


@dataclass(frozen=True)
class SlimFly(Interfaces):
    """A Slim Fly (Besta and Hoefler, "Slim Fly: a cost effective low-diameter network topology", SC 2014, II-B).

        router 0.x.y    x, y in GF(q)         0.x.y -- 0.x.y'   where y - y' is in X
        router 1.m.c    m, c in GF(q)         1.m.c -- 1.m.c'   where c - c' is in X'
                                              0.x.y -- 1.m.c    where y = m x + c

    The graphs of McKay, Miller and Siran, of a prime power q = 4 w + d with d = -1, 0 or 1: 2 q^2 routers, each cabled
    to (3 q - d) / 2 others, and any two at most two cables apart. X and X' are powers of a primitive element (for q = 5
    those with even and with odd exponents: the graph of Hoffman and Singleton, 50 routers with 7 cables each).

    A flow is hashed over the shortest paths; routers that forward by address use one of them for each target router,
    spread evenly. Every cable carries degree * bandwidth. Servers fill the routers in order; a partially filled router
    is bought whole.

    By default a router has half as many servers as cables to other routers (rounded up, II-B2), and q is the smallest
    that holds the servers.
    """

    q: int | None = None
    nodes: int | None = None  # servers per router

    def __post_init__(self) -> None:
        self.check_interfaces("slim_fly")
        if self.nodes is not None:
            check_count("slim_fly.nodes", self.nodes)
        if self.q is not None:
            check_count("slim_fly.q", self.q)
            if not _makes_graph(self.q):
                raise ValueError(f"slim_fly.q: must be a power of a prime and at least 3, got {self.q}")

    def build(self, servers: int, demand: Demand) -> Fabric:
        check_count("slim_fly.servers", servers)
        graph = SlimFlyGraph(self._smallest(servers) if self.q is None else self.q)
        nodes = self.nodes or graph.balanced
        if servers > graph.routers * nodes:
            rule = f"must hold {servers} servers"
            raise ValueError(f"slim_fly.q: {rule}, got {graph.q}: {graph.routers} routers of {nodes} servers each")
        check_cables("slim_fly", graph.routers * graph.degree // 2)
        bandwidth, wiring = self.degree * self.bandwidth, _wiring(servers, nodes, graph)
        return cabled(
            "slim_fly",
            wiring,
            bandwidth=bandwidth,
            latency=self.latency,
            degree=self.degree,
            interface_bandwidth=self.bandwidth,
            bill=switched_bill(servers, graph.routers * (nodes + graph.degree), wiring.cables, bandwidth),
        )

    def _smallest(self, servers: int) -> int:
        """Return the least q whose routers hold the servers."""
        q = 3
        while not _makes_graph(q) or servers > 2 * q * q * (self.nodes or SlimFlyGraph(q).balanced):
            q += 1
        return q


@cached_wiring
def _wiring(servers: int, nodes: int, graph: SlimFlyGraph) -> Cabling:
    server, names = np.arange(servers), graph.names()
    cables = np.concatenate([np.stack([server, servers + server // nodes], axis=1), servers + graph.cables])
    return Cabling.of(servers, cables, SlimFlyRoutes((*server_names(servers), *names), cables, servers, graph), names)


def _makes_graph(q: int) -> bool:
    return q > 2 and prime_power(q) is not None


@dataclass(frozen=True)
class SlimFlyGraph:
    """The routers of a Slim Fly and their cables: router 0.x.y is number x q + y, 1.m.c is q^2 + m q + c."""

    q: int

    @property
    def difference(self) -> int:
        """Return d of q = 4 w + d."""
        return (self.q + 1) % 4 - 1

    @property
    def degree(self) -> int:
        """Return the number of cables of a router to others."""
        return (3 * self.q - self.difference) // 2

    @property
    def balanced(self) -> int:
        """Return the servers at a router with which all can send to random others at full rate."""
        return -(-self.degree // 2)

    @property
    def routers(self) -> int:
        return 2 * self.q * self.q

    @cached_property
    def field(self) -> GaloisField:
        return GaloisField(self.q)

    @property
    def generators(self) -> tuple[Index, Index]:
        """Return X and X', which contain the negative of each of their elements."""
        q, power = self.q, self.field.powers
        if self.difference == 1:
            return power[::2], power[1::2]
        if self.difference == 0:
            return power[: q - 1 : 2], np.append(power[1 : q - 2 : 2], power[0])
        half = (q + 1) // 2  # 2 w
        exponents = np.concatenate([np.arange(0, half - 1, 2), np.arange(half - 1, q - 1, 2)])
        return power[exponents], power[(exponents + 1) % (q - 1)]

    @cached_property
    def cables(self) -> Index:
        """Return [C, 2] the routers that each cable joins, the lower first, ascending."""
        q, field, (lower, upper) = self.q, self.field, self.generators
        element = np.arange(q)
        pair = np.triu_indices(q, 1)
        difference = field.subtract(*pair)
        row = q * element[:, None]
        blocks = [
            np.stack([(first + row + end[joined]).ravel() for end in pair], axis=1)
            for first, joined in ((0, np.isin(difference, lower)), (q * q, np.isin(difference, upper)))
        ]
        x, m, c = (index.ravel() for index in np.meshgrid(element, element, element, indexing="ij"))
        blocks.append(np.stack([x * q + field.add(field.multiply(m, x), c), q * q + m * q + c], axis=1))
        cables = np.concatenate(blocks)
        return cables[np.lexsort((cables[:, 1], cables[:, 0]))]

    def names(self) -> list[str]:
        """Return the names of routers: side.row.place."""
        return [f"router {side}.{x}.{y}" for side in range(2) for x in range(self.q) for y in range(self.q)]


class SlimFlyRoutes(AddressedShortestPaths):
    """Shortest paths, with tables that have one of them for each pair of routers."""

    def __init__(self, nodes: tuple[str, ...], cables: Index, servers: int, graph: SlimFlyGraph) -> None:
        super().__init__(nodes, cables, servers)
        self.graph = graph

    def forward(self) -> tuple[Links, NDArray[np.int8], tuple[int, ...]]:
        """Return the tables; each pair of routers has one of its middle routers, in turn over all pairs."""
        return self._outside(), np.full(len(self.ends[0]), ROUTER, np.int8), (ROUTER, ROUTER)

    def _outside(self) -> Links:
        """Return [R, R] the link towards each router."""
        graph, cable = self.graph, self.servers + np.arange(len(self.graph.cables))
        ends = np.concatenate([graph.cables, graph.cables[:, ::-1]])
        link = np.concatenate([forth(cable), back(cable)]).astype(np.int32)
        order = np.lexsort((ends[:, 1], ends[:, 0]))
        neighbour = ends[order, 1].reshape(graph.routers, graph.degree)
        leads = link[order].reshape(graph.routers, graph.degree)
        table = np.full((graph.routers, graph.routers), NO_LINK, np.int32)
        for router in range(graph.routers):
            after = neighbour[neighbour[router]]  # [neighbour, its neighbours]
            by = np.repeat(leads[router], graph.degree)
            order = np.argsort(after.ravel(), kind="stable")
            far, begin, count = np.unique(after.ravel()[order], return_index=True, return_counts=True)
            table[router, far] = by[order[begin + (router + far) % count]]
            table[router, neighbour[router]] = leads[router]
        np.fill_diagonal(table, NO_LINK)
        return table
