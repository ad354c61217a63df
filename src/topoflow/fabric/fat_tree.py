"""Fat-tree: three layers of equal switches, edge, aggregation and core."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topoflow.arrays import offsets
from topoflow.demand import Demand
from topoflow.fabric.base import Fabric, Item
from topoflow.fabric.routing.base import NO_LINK, Index, Links, Routes
from topoflow.fabric.routing.next_hops import DOWN, NO_GROUP, UP, Levels, LinkSets, NextHops, link_ends
from topoflow.fabric.wiring import Interfaces, back, cabled, check_cables, check_count, forth, switched_bill, wire

TO_AGGREGATION, TO_CORE, FROM_CORE, TO_EDGE = 1, 2, 3, 4  # levels of links


@dataclass(frozen=True)
class FatTree(Interfaces):
    """A fat-tree of switches with ``radix`` = k ports (Al-Fares et al., SIGCOMM 2008; TopoOpt 5.1).

        core         0.0  0.1 | 1.0  1.1                   (k/2)^2; aggregation a of each pod is cabled to group a
                      |    |     |    |
        aggregation  0.0     0.1      1.0     1.1  ..      k pods of k/2     (k = 4 drawn)
                      |   x   |        |   x   |
        edge         0.0     0.1      1.0     1.1  ..      k pods of k/2
                     | |     | |      | |     | |
        server       0 1     2 3      4 5     6 7  ..      up to k^3/4, k/2 under each edge switch

    Every cable carries degree * bandwidth. A flow is hashed over all equal-cost paths: 1 under one edge switch, k/2
    inside a pod, (k/2)^2 between pods. Servers fill the tree in order; a partially filled tree is bought whole, without
    the cables of absent servers. ``oversubscription: 2`` omits half of the uplinks of every edge switch (TopoOpt 5.1),
    and the aggregation and core switches that would have no links.
    """

    radix: int | None = None  # None: the smallest that holds the servers
    oversubscription: int = 1

    def __post_init__(self) -> None:
        self.check_interfaces("fat_tree")
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
        tree = FatTreeNumbering.smallest(servers, self.oversubscription)
        if self.radix is not None:
            tree = FatTreeNumbering(servers, self.radix, self.oversubscription)
            if servers > tree.room:
                raise ValueError(
                    f"fat_tree.radix: must hold {servers} servers, got {self.radix} with room for {tree.room}"
                )
        check_cables("fat_tree", tree.edges * tree.uplinks + tree.aggregations * tree.half)
        bandwidth = self.degree * self.bandwidth
        return cabled(
            "fat_tree",
            wire(tree),
            bandwidth=bandwidth,
            latency=self.latency,
            degree=self.degree,
            interface_bandwidth=self.bandwidth,
            bill=tree.bill(bandwidth),
        )


@dataclass(frozen=True)
class FatTreeNumbering(Routes):
    """The numbering of nodes and cables of a fat-tree, and the paths through it.

    Nodes: servers, edges, aggregations, cores. Cables, with the lower node first: server-edge by server,
    edge-aggregation by (edge, aggregation of its pod), aggregation-core by (aggregation, core of its group).
    """

    servers: int
    radix: int  # k, even
    oversubscription: int = 1

    @staticmethod
    def smallest(servers: int, oversubscription: int = 1) -> FatTreeNumbering:
        """Return the tree of the smallest radix with k^3/4 >= servers."""
        radix = step = 2 * oversubscription
        while radix**3 // 4 < servers:
            radix += step
        return FatTreeNumbering(servers, radix, oversubscription)

    @property
    def room(self) -> int:
        """Return the number of servers that it can hold."""
        return self.radix**3 // 4

    @property
    def half(self) -> int:
        """Return the downlinks of a switch, which is also the edge switches of a pod and the cores of a group."""
        return self.radix // 2

    @property
    def uplinks(self) -> int:
        """Return the uplinks of an edge switch, also the aggregation switches of a pod and the groups of cores."""
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
        """Return the names pod.switch for edge and aggregation, group.switch for core."""
        return (
            [f"edge {edge // self.half}.{edge % self.half}" for edge in range(self.edges)]
            + [f"aggregation {node // self.uplinks}.{node % self.uplinks}" for node in range(self.aggregations)]
            + [f"core {core // self.half}.{core % self.half}" for core in range(self.cores)]
        )

    def cables(self) -> Index:
        """Return [C, 2] the nodes that each cable joins."""
        edge, aggregation = self.servers, self.servers + self.edges
        core = aggregation + self.aggregations
        server, lower, middle = np.arange(self.servers), np.arange(self.edges), np.arange(self.aggregations)
        up, core_of = np.arange(self.uplinks), np.arange(self.half)
        above_edge = aggregation + lower[:, None] // self.half * self.uplinks + up
        above_aggregation = core + middle[:, None] % self.uplinks * self.half + core_of
        return np.concatenate(
            [
                np.stack([server, edge + server // self.half], axis=1),
                np.stack([edge + np.repeat(lower, self.uplinks), above_edge.ravel()], axis=1),
                np.stack([aggregation + np.repeat(middle, self.half), above_aggregation.ravel()], axis=1),
            ]
        )

    def choices(self, source: Index, target: Index) -> Index:
        """Return [F, 2] how many aggregations the source's edge switch can take, and cores each of these."""
        edge, far_edge = source // self.half, target // self.half
        ups = np.where(edge == far_edge, 1, self.uplinks)
        return np.stack([ups, np.where(edge // self.half == far_edge // self.half, 1, self.half)], axis=1)

    def links(self, source: Index, target: Index, number: Index) -> Links:
        """Return the links of all shortest paths, in closed form."""
        edge, far_edge = source // self.half, target // self.half
        pod, far_pod = edge // self.half, far_edge // self.half
        up, core = np.divmod(number, np.where(pod == far_pod, 1, self.half))
        middle, above = self.servers, self.servers + self.edges * self.uplinks  # the first cable of each layer
        hops = [
            forth(source),
            forth(middle + edge * self.uplinks + up),
            forth(above + (pod * self.uplinks + up) * self.half + core),
            back(above + (far_pod * self.uplinks + up) * self.half + core),
            back(middle + far_edge * self.uplinks + up),
            back(target),
        ]
        missing = [source == target, edge == far_edge, pod == far_pod]
        return np.where(np.stack([*missing, *missing[::-1]], 1), NO_LINK, np.stack(hops, 1)).astype(np.int32)

    def next_hops(self) -> NextHops:
        """Return the same routes as tables: pods are groups; a switch draws one of all uplinks, one link leads down."""
        edge, aggregation, core = (np.arange(count)[:, None] for count in (self.edges, self.aggregations, self.cores))
        middle, above = self.servers, self.servers + self.edges * self.uplinks  # the first cable of each layer
        place, pod = np.arange(self.half), np.arange(self.radix)
        below = middle + (aggregation // self.uplinks * self.half + place) * self.uplinks + aggregation % self.uplinks
        down = above + (pod * self.uplinks + core // self.half) * self.half + core % self.half
        climbs = -2 - np.arange(self.edges + self.aggregations)[:, None]  # the set of all uplinks of each switch
        group = np.concatenate([edge // self.half, aggregation // self.uplinks, np.full_like(core, NO_GROUP)])
        inside = [
            np.where(edge % self.half == place, NO_LINK, climbs[: self.edges]),
            back(below),
            np.full((self.cores, self.half), NO_LINK),
        ]
        outside = np.concatenate([np.where(pod == group[: len(climbs)], NO_LINK, climbs), back(down)])
        source, target = link_ends(self.cables(), self.servers)
        server, links = np.arange(self.servers), len(source)
        level = np.zeros(links, np.int8)
        level[::2], level[1::2] = TO_CORE, FROM_CORE
        level[: 2 * above : 2], level[1 : 2 * above : 2] = TO_AGGREGATION, TO_EDGE
        level[: 2 * middle : 2], level[1 : 2 * middle : 2] = UP, DOWN
        upward = (TO_AGGREGATION, TO_CORE, FROM_CORE, TO_EDGE)
        return NextHops(
            router=(server // self.half).astype(np.int32),
            up=forth(server).astype(np.int32),
            down=back(server).astype(np.int32),
            inside=np.concatenate(inside).astype(np.int32),
            outside=outside[:, :, None].astype(np.int32),
            source=source,
            target=target,
            level=level,
            levels=Levels(upward, 2 * upward),
            sets=LinkSets(
                offsets([self.uplinks] * self.edges + [self.half] * self.aggregations),
                np.arange(2 * middle, links, 2, dtype=np.int32),  # cables up, switch by switch
            ),
            own_group=group[:, 0].astype(np.int32),
        )

    def bill(self, bandwidth: float) -> tuple[Item, ...]:
        """Return the bill with all ports of all switches (TopoOpt, Appendix G): k = 8 has 80 switches, 640 ports."""
        ports = (self.edges + self.aggregations + self.cores) * self.radix
        return switched_bill(self.servers, ports, wire(self).cables, bandwidth)
