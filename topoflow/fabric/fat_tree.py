"""Three layers of equal switches: edge, aggregation, core."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from topoflow.demand import Demand
from topoflow.fabric.base import Fabric, Item, Path
from topoflow.fabric.wiring import Cable, back, cabled, check_count, check_interfaces, forth, switched_bill


@dataclass(frozen=True)
class FatTree:
    """A fat-tree of switches with ``radix`` = k ports (Al-Fares et al., SIGCOMM 2008; TopoOpt 5.1).

        core         0.0  0.1 | 1.0  1.1                   (k/2)^2; aggregation a of each pod sees group a
                      |    |     |    |
        aggregation  0.0     0.1      1.0     1.1  ..      k pods of k/2     (k = 4 drawn)
                      |   x   |        |   x   |
        edge         0.0     0.1      1.0     1.1  ..      k pods of k/2
                     | |     | |      | |     | |
        server       0 1     2 3      4 5     6 7  ..      up to k^3/4, k/2 under each edge switch

    Every cable carries degree * bandwidth. A flow is hashed over all equal-cost paths: 1 under one edge
    switch, k/2 inside a pod, (k/2)^2 between pods. Servers fill the tree in order; a tree that they do not
    fill is bought whole, without the cables of absent servers. ``oversubscription: 2`` omits half of the
    uplinks of every edge switch (TopoOpt 5.1), and with them the aggregation and core switches that nothing
    would reach.
    """

    bandwidth: float  # B/s of one interface, each direction
    degree: int  # interfaces per server, bundled to one link
    latency: float  # s per link
    radix: int | None = None  # None: the smallest that holds the servers
    oversubscription: int = 1

    def __post_init__(self) -> None:
        check_interfaces("fat_tree", self.bandwidth, self.degree, self.latency)
        check_count("fat_tree.oversubscription", self.oversubscription)
        if self.oversubscription not in (1, 2):
            raise ValueError(f"fat_tree.oversubscription: must be 1 or 2, got {self.oversubscription}")
        if self.radix is not None:
            check_count("fat_tree.radix", self.radix)
            if self.radix % 2:
                raise ValueError(f"fat_tree.radix: must be even, got {self.radix}")
            if self.radix % (2 * self.oversubscription):
                raise ValueError(f"fat_tree.radix: must be a multiple of 4 to omit half the uplinks, got {self.radix}")

    def build(self, servers: int, demand: Demand) -> Fabric:
        check_count("fat_tree.servers", servers)
        tree = Tree.smallest(servers, self.oversubscription)
        if self.radix is not None:
            tree = Tree(servers, self.radix, self.oversubscription)
            if servers > tree.room:
                raise ValueError(
                    f"fat_tree.radix: must hold {servers} servers, got {self.radix} with room for {tree.room}"
                )
        bandwidth = self.degree * self.bandwidth
        return cabled(
            "fat_tree",
            servers=servers,
            switches=tree.switches(),
            cables=tree.cables(),
            bandwidth=bandwidth,
            latency=self.latency,
            degree=self.degree,
            interface_bandwidth=self.bandwidth,
            route=tree.route,
            bill=tree.bill(bandwidth),
        )


@dataclass(frozen=True)
class Tree:
    """Where everything is in a fat-tree: nodes and cables by number.

    Nodes: servers, edges, aggregations, cores. Cables, written from below to above: server-edge by server,
    edge-aggregation by (edge, aggregation of its pod), aggregation-core by (aggregation, core of its group).
    """

    servers: int
    radix: int  # k, even
    oversubscription: int = 1

    @staticmethod
    def smallest(servers: int, oversubscription: int = 1) -> Tree:
        """The tree of the smallest radix with k^3/4 >= servers."""
        radix = step = 2 * oversubscription
        while radix**3 // 4 < servers:
            radix += step
        return Tree(servers, radix, oversubscription)

    @property
    def room(self) -> int:
        """Servers that it can hold."""
        return self.radix**3 // 4

    @property
    def half(self) -> int:
        """Ports of a switch that look down; also edge switches of a pod and cores of a group."""
        return self.radix // 2

    @property
    def uplinks(self) -> int:
        """Uplinks of an edge switch, which are the aggregation switches of a pod and the groups of cores."""
        return self.half // self.oversubscription

    @property
    def edges(self) -> int:
        return self.radix * self.half

    @property
    def aggregations(self) -> int:
        return self.radix * self.uplinks

    @property
    def cores(self) -> int:
        return self.uplinks * self.half

    def switches(self) -> list[str]:
        """Names: pod.switch for edge and aggregation, group.switch for core."""
        return (
            [f"edge {edge // self.half}.{edge % self.half}" for edge in range(self.edges)]
            + [f"aggregation {node // self.uplinks}.{node % self.uplinks}" for node in range(self.aggregations)]
            + [f"core {core // self.half}.{core % self.half}" for core in range(self.cores)]
        )

    def cables(self) -> list[Cable]:
        edge, aggregation = self.servers, self.servers + self.edges
        core = aggregation + self.aggregations
        below = [(server, edge + server // self.half) for server in range(self.servers)]
        middle = [
            (edge + lower, aggregation + lower // self.half * self.uplinks + upper)
            for lower in range(self.edges)
            for upper in range(self.uplinks)
        ]
        above = [
            (aggregation + lower, core + lower % self.uplinks * self.half + upper)
            for lower in range(self.aggregations)
            for upper in range(self.half)
        ]
        return below + middle + above

    def middle(self, edge: int, up: int) -> int:
        """The cable from ``edge`` to aggregation ``up`` of its pod."""
        return self.servers + edge * self.uplinks + up

    def above(self, pod: int, up: int, core: int) -> int:
        """The cable from aggregation ``up`` of ``pod`` to ``core`` of group ``up``."""
        return self.servers + self.edges * self.uplinks + (pod * self.uplinks + up) * self.half + core

    def route(self, source: int, target: int, kind: str) -> tuple[Path, ...]:
        """All shortest paths, in closed form; every kind of traffic takes the same."""
        if source == target:
            return ((),)
        first, last = forth(source), back(target)
        middles = _between(self, source // self.half, target // self.half)
        return tuple((first, *middle, last) for middle in middles)

    def bill(self, bandwidth: float) -> tuple[Item, ...]:
        """All ports of all switches, as TopoOpt's Appendix G counts them: k = 8 has 80 switches, 640 ports."""
        ports = (self.edges + self.aggregations + self.cores) * self.radix
        return switched_bill(self.servers, ports, len(self.cables()), bandwidth)


@lru_cache(maxsize=2**11)  # k = 8, 128 servers, has 32 * 32 pairs
def _between(tree: Tree, edge: int, far_edge: int) -> tuple[Path, ...]:
    """All shortest paths from an edge switch to another: the servers under both share them."""
    if edge == far_edge:
        return ((),)
    pod, far_pod = edge // tree.half, far_edge // tree.half
    ups = [(up, forth(tree.middle(edge, up)), back(tree.middle(far_edge, up))) for up in range(tree.uplinks)]
    if pod == far_pod:
        return tuple((rise, fall) for _, rise, fall in ups)
    return tuple(
        (rise, forth(tree.above(pod, up, core)), back(tree.above(far_pod, up, core)), fall)
        for up, rise, fall in ups
        for core in range(tree.half)
    )
