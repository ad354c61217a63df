"""Dragonfly: switches cabled to all others of their group, and groups cabled to all other groups."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topoflow.demand import Demand
from topoflow.fabric.base import Fabric
from topoflow.fabric.groups import PALM_TREE, WIRINGS, pair, pairs
from topoflow.fabric.routing.base import NO_LINK, Index, Links, Routes
from topoflow.fabric.routing.next_hops import DOWN, GLOBAL, LOCAL, UP, Levels, NextHops, link_ends
from topoflow.fabric.wiring import Interfaces, back, cabled, check_cables, check_count, forth, switched_bill, wire
from topoflow.units import check_among

KINDS = {LOCAL: "inside groups", GLOBAL: "between groups"}
LEVELS = Levels((LOCAL, GLOBAL, LOCAL), (LOCAL, GLOBAL, LOCAL, GLOBAL, LOCAL))


@dataclass(frozen=True)
class Dragonfly(Interfaces):
    """A dragonfly (Kim, Dally, Scott and Abts, "Technology-driven, highly-scalable dragonfly topology", ISCA 2008).

             group 0           group 1           group 2
          r0 -- r1 -- r2    r0 -- r1 -- r2    r0 -- r1 -- r2      each router of a group to each other (r0 -- r2 is
          |  |  |  |  |  |  |  |  |  |  |  |  |  |  |  |  |  |    not drawn), ``nodes`` servers at each router, and
          0  1  2  3  4  5  6  7  8  9 10 11 ..                   ``global_links`` cables between every two groups

    The global cables of a group are spread over its routers in turn, in the palm-tree or the absolute arrangement
    (``groups.WIRINGS``).

    Routes are minimal in the dragonfly's sense: at most one global cable, and at most one cable inside the groups of
    source and target. A flow is hashed over all global cables between both groups, whether or not a path needs a cable
    inside a group. Every cable carries degree * bandwidth. Servers fill the routers in order; a partially filled router
    is bought whole.

    The default is the smallest balanced dragonfly that holds the servers (equally many nodes and global cables at a
    router, twice as many routers in a group), without the groups that are not needed.
    """

    nodes: int | None = None  # per router
    routers: int | None = None  # per group
    groups: int | None = None
    global_links: int | None = None  # between every two groups
    wiring: str = PALM_TREE  # or absolute

    def __post_init__(self) -> None:
        self.check_interfaces("dragonfly")
        for field in ("nodes", "routers", "groups", "global_links"):
            if getattr(self, field) is not None:
                check_count(f"dragonfly.{field}", getattr(self, field))
        check_among("dragonfly.wiring", self.wiring, WIRINGS)

    def build(self, servers: int, demand: Demand) -> Fabric:
        check_count("dragonfly.servers", servers)
        plan = self.plan(servers)
        bandwidth = self.degree * self.bandwidth
        wiring = wire(plan)
        return cabled(
            "dragonfly",
            wiring,
            bandwidth=bandwidth,
            latency=self.latency,
            degree=self.degree,
            interface_bandwidth=self.bandwidth,
            bill=switched_bill(servers, plan.ports, wiring.cables, bandwidth),
        )

    def plan(self, servers: int) -> DragonflyRoutes:
        """Return the sizes for this number of servers. Raises ``ValueError`` where they do not hold them."""
        nodes = self.nodes or _balanced(servers)
        routers = self.routers or 2 * nodes
        groups = self.groups or -(-servers // (nodes * routers))
        if nodes * routers * groups < servers:
            rule = f"must hold {servers} servers"
            raise ValueError(f"dragonfly.groups: {rule}, got {groups} of {routers} routers with {nodes} nodes each")
        cables = self.global_links or max(1, nodes * routers // max(groups - 1, 1))
        check_cables("dragonfly", groups * (routers * (routers - 1) + (groups - 1) * cables) // 2)
        return DragonflyRoutes(servers, nodes, routers, groups, cables, self.wiring)


def _balanced(servers: int) -> int:
    """Return the least p for which p nodes at each of 2 p routers in each of 2 p^2 + 1 groups are enough."""
    nodes = 1
    while nodes * 2 * nodes * (2 * nodes * nodes + 1) < servers:
        nodes += 1
    return nodes


@dataclass(frozen=True)
class DragonflyRoutes(Routes):
    """The numbering of nodes and cables of a dragonfly, and the paths through it.

    Nodes: servers, then routers group by group. Cables: of servers; then inside groups, by group and pair of routers
    (the lower first); then between groups, by pair of groups (the lower first) and turn.
    """

    servers: int
    nodes: int
    routers: int
    groups: int
    global_links: int
    wiring: str = PALM_TREE

    @property
    def global_ports(self) -> int:
        """Return the number of global ports of a router."""
        return -(-self.global_links * (self.groups - 1) // self.routers)

    @property
    def ports(self) -> int:
        """Return the number of ports of all routers."""
        return self.groups * self.routers * (self.nodes + self.routers - 1 + self.global_ports)

    def switches(self) -> list[str]:
        """Return the names group.router."""
        return [f"router {group}.{router}" for group in range(self.groups) for router in range(self.routers)]

    def cables(self) -> Index:
        """Return [C, 2] the nodes that each cable joins."""
        server = np.arange(self.servers)
        lower, upper = np.triu_indices(self.routers, 1)
        first = self.servers + self.routers * np.arange(self.groups)[:, None]  # router of each group
        group, other = (np.repeat(ends, self.global_links) for ends in np.triu_indices(self.groups, 1))
        turn = np.tile(np.arange(self.global_links), self.groups * (self.groups - 1) // 2)
        return np.concatenate(
            [
                np.stack([server, self.servers + server // self.nodes], axis=1),
                np.stack([(first + lower).ravel(), (first + upper).ravel()], axis=1),
                self.servers + np.stack([self.gate(group, other, turn), self.gate(other, group, turn)], axis=1),
            ]
        )

    def gate(self, group: Index, other: Index, turn: Index) -> Index:
        """Return the routers of ``group``, numbered over all groups, with the cables to ``other`` groups."""
        most = max(self.global_ports, 1)
        port = WIRINGS[self.wiring](group, other, turn, self.groups)
        router = port // most
        if self.wiring != PALM_TREE:  # routers with a port less come last, as merlin has them
            full = self.routers - most * self.routers + self.global_links * (self.groups - 1)
            router = np.where(port < full * most, router, full + (port - full * most) // max(most - 1, 1))
        gate: Index = group * self.routers + router
        return gate

    def has_equal_lengths(self) -> bool:
        return False  # two global cables may be shorter than a route of one global and two local cables

    def choices(self, source: Index, target: Index) -> Index:
        """Return [F, 1] the number of global cables between both groups."""
        size = self.nodes * self.routers
        return np.where(source // size == target // size, 1, self.global_links)[:, None]

    def links(self, source: Index, target: Index, number: Index) -> Links:
        """Return the links up, to the router with the global cable, over it, to the target's router, and down."""
        router, target_router = source // self.nodes, target // self.nodes  # routers
        group, target_group = router // self.routers, target_router // self.routers
        inside = group == target_group
        way_out = np.where(inside, target_router, self.gate(group, target_group, number))
        way_in = np.where(inside, target_router, self.gate(target_group, group, number))
        cable = self._global(group, target_group, number)
        hops = [
            forth(source),
            self._local(router, way_out),
            np.where(inside, NO_LINK, np.where(group < target_group, forth(cable), back(cable))),
            self._local(way_in, target_router),
            back(target),
        ]
        return np.where((source == target)[:, None], NO_LINK, np.stack(hops, axis=1)).astype(np.int32)

    def next_hops(self) -> NextHops:
        """Return the same routes as tables by address for each router."""
        count = self.groups * self.routers
        router, server = np.arange(count), np.arange(self.servers)
        group = (router // self.routers)[:, None, None]
        other, turn = np.arange(self.groups)[None, :, None], np.arange(self.global_links)[None, None, :]
        differs = group != other
        gate = np.where(differs, self.gate(group, other, turn), router[:, None, None])
        cable = self._global(group, other, turn)
        over = np.where(group < other, forth(cable), back(cable))
        here = router[:, None, None]
        inside = self._local(here[:, :, 0], group[:, :, 0] * self.routers + np.arange(self.routers))
        outside = np.where(differs, np.where(gate == here, over, self._local(here, gate)), NO_LINK)
        source, target = link_ends(self.cables(), self.servers)
        level = np.full(len(source), GLOBAL, np.int8)
        level[: 2 * (self.servers + self.groups * pairs(self.routers))] = LOCAL
        level[: 2 * self.servers : 2], level[1 : 2 * self.servers : 2] = UP, DOWN
        return NextHops(
            router=(server // self.nodes).astype(np.int32),
            up=forth(server).astype(np.int32),
            down=back(server).astype(np.int32),
            inside=inside.astype(np.int32),
            outside=outside.astype(np.int32),
            source=source,
            target=target,
            level=level,
            levels=LEVELS,
            kinds=KINDS,
            wiring=self.wiring,
        )

    def _global(self, group: Index, other: Index, turn: Index) -> Index:
        """Return the cable number ``turn`` between two groups."""
        number = pair(np.minimum(group, other), np.maximum(group, other), self.groups)
        return self.servers + self.groups * pairs(self.routers) + number * self.global_links + turn

    def _local(self, router: Index, other: Index) -> Index:
        """Return [F] the link inside a group; NO_LINK from a router to itself."""
        group, places = router // self.routers, (router % self.routers, other % self.routers)
        number = pair(np.minimum(*places), np.maximum(*places), self.routers)
        cable = self.servers + group * pairs(self.routers) + number
        return np.where(router == other, NO_LINK, np.where(router < other, forth(cable), back(cable)))
