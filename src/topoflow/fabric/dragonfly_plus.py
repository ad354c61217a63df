"""Dragonfly+: groups of two layers of switches, whose upper layers are cabled to all other groups."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topoflow.arrays import offsets
from topoflow.demand import Demand
from topoflow.fabric.base import Fabric
from topoflow.fabric.groups import pair, pairs, palm_tree
from topoflow.fabric.routing.base import NO_LINK, Index, Links, Routes
from topoflow.fabric.routing.next_hops import DOWN, UP, Levels, LinkSets, NextHops, link_ends
from topoflow.fabric.wiring import Interfaces, back, cabled, check_cables, check_count, forth, switched_bill, wire

CLIMB, ACROSS, DESCEND = 1, 2, 3  # levels: from a leaf to a spine, between groups, from a spine to a leaf
KINDS = {CLIMB: "inside groups, from leaves", ACROSS: "between groups", DESCEND: "inside groups, to leaves"}


@dataclass(frozen=True)
class DragonflyPlus(Interfaces):
    """A Dragonfly+ (Shpiner et al., "Dragonfly+: low cost topology for scaling datacenters", HiPINEB 2017).

               group 0              group 1              group 2
        spine  0.0    0.1           1.0    1.1           2.0    2.1       ``global_links`` cables between every two
                |  x   |             |  x   |             |  x   |        groups, which end at spines (not drawn)
        leaf   0.0    0.1           1.0    1.1           2.0    2.1       each leaf to each spine of its group
               | |    | |           | |    | |           | |    | |
        server 0 1    2 3           4 5    6 7           8 9   10 11      ``nodes`` servers at each leaf

    The global cables of a group are spread over its spines in turn, in the palm-tree arrangement
    (``groups.palm_tree``). A route inside a group climbs to any spine; one to another group crosses one global cable:
    leaf, spine, spine, leaf. Flows are hashed over the spines, or over the global cables between both groups. Every
    cable carries degree * bandwidth. Servers fill the leaves in order; a partially filled leaf is bought whole.

    The default is the smallest balanced Dragonfly+ that holds the servers: equally many nodes at a leaf, leaves, spines
    and global cables at a spine, k/2 each in switches of k ports, so at most (k/2)^2 + 1 groups of (k/2)^2 servers;
    groups that are not needed are left out.
    """

    nodes: int | None = None  # per leaf
    leaves: int | None = None  # per group
    spines: int | None = None  # per group
    groups: int | None = None
    global_links: int | None = None  # between every two groups

    def __post_init__(self) -> None:
        self.check_interfaces("dragonfly_plus")
        for field in ("nodes", "leaves", "spines", "groups", "global_links"):
            if getattr(self, field) is not None:
                check_count(f"dragonfly_plus.{field}", getattr(self, field))

    def build(self, servers: int, demand: Demand) -> Fabric:
        check_count("dragonfly_plus.servers", servers)
        plan = self.plan(servers)
        bandwidth = self.degree * self.bandwidth
        wiring = wire(plan)
        return cabled(
            "dragonfly_plus",
            wiring,
            bandwidth=bandwidth,
            latency=self.latency,
            degree=self.degree,
            interface_bandwidth=self.bandwidth,
            bill=switched_bill(servers, plan.ports, wiring.cables, bandwidth),
        )

    def plan(self, servers: int) -> DragonflyPlusRoutes:
        """Return the sizes for this number of servers. Raises ``ValueError`` where they do not hold them."""
        nodes = self.nodes or _balanced(servers)
        leaves = self.leaves or nodes
        spines = self.spines or leaves
        groups = self.groups or -(-servers // (nodes * leaves))
        if nodes * leaves * groups < servers:
            rule = f"must hold {servers} servers"
            raise ValueError(f"dragonfly_plus.groups: {rule}, got {groups} of {leaves} leaves with {nodes} nodes each")
        cables = self.global_links or max(1, spines * leaves // max(groups - 1, 1))
        check_cables("dragonfly_plus", groups * leaves * spines + groups * (groups - 1) // 2 * cables)
        return DragonflyPlusRoutes(servers, nodes, leaves, spines, groups, cables)


def _balanced(servers: int) -> int:
    """Return the least h for which h nodes at each of h leaves in each of h^2 + 1 groups are enough."""
    half = 1
    while half * half * (half * half + 1) < servers:
        half += 1
    return half


@dataclass(frozen=True)
class DragonflyPlusRoutes(Routes):
    """The numbering of nodes and cables of a Dragonfly+, and the paths through it.

    Nodes: servers, leaves group by group, spines group by group. Cables: of servers; inside groups, by leaf and spine;
    between groups, by pair of groups (the lower first) and turn.
    """

    servers: int
    nodes: int
    leaves: int
    spines: int
    groups: int
    global_links: int

    @property
    def global_ports(self) -> int:
        """Return the number of global ports of a spine."""
        return -(-self.global_links * (self.groups - 1) // self.spines)

    @property
    def ports(self) -> int:
        """Return the number of ports of all switches."""
        of_group = self.leaves * (self.nodes + self.spines) + self.spines * (self.leaves + self.global_ports)
        return self.groups * of_group

    def switches(self) -> list[str]:
        """Return the names group.switch."""
        return [
            f"{layer} {group}.{place}"
            for layer, count in (("leaf", self.leaves), ("spine", self.spines))
            for group in range(self.groups)
            for place in range(count)
        ]

    def cables(self) -> Index:
        """Return [C, 2] the nodes that each cable joins."""
        server, leaf = np.arange(self.servers), np.arange(self.groups * self.leaves)
        first = self.servers + len(leaf)  # spine
        above = first + (leaf // self.leaves * self.spines)[:, None] + np.arange(self.spines)
        group, other = (np.repeat(ends, self.global_links) for ends in np.triu_indices(self.groups, 1))
        turn = np.tile(np.arange(self.global_links), pairs(self.groups))
        return np.concatenate(
            [
                np.stack([server, self.servers + server // self.nodes], axis=1),
                np.stack([np.repeat(self.servers + leaf, self.spines), above.ravel()], axis=1),
                first + np.stack([self.gate(group, other, turn), self.gate(other, group, turn)], axis=1),
            ]
        )

    def gate(self, group: Index, other: Index, turn: Index) -> Index:
        """Return the spines of ``group``, numbered over all groups, with the cables to ``other`` groups."""
        gate: Index = group * self.spines + palm_tree(group, other, turn, self.groups) // max(self.global_ports, 1)
        return gate

    def choices(self, source: Index, target: Index) -> Index:
        """Return [F, 1] the number of spines of a group, or of the global cables between two."""
        leaf, far = source // self.nodes, target // self.nodes
        inside = leaf // self.leaves == far // self.leaves
        return np.where(leaf == far, 1, np.where(inside, self.spines, self.global_links))[:, None]

    def links(self, source: Index, target: Index, number: Index) -> Links:
        """Return the links up, to a spine, over to another spine, to the target's leaf, and down.

        XXDEL
        """
        leaf, target_leaf = source // self.nodes, target // self.nodes
        group, target_group = leaf // self.leaves, target_leaf // self.leaves
        inside = group == target_group
        first = np.where(inside, group * self.spines + number, self.gate(group, target_group, number))
        last = np.where(inside, first, self.gate(target_group, group, number))
        cable = self._global(group, target_group, number)
        hops = [
            forth(source),
            forth(self._climb(leaf, first)),
            np.where(inside, NO_LINK, np.where(group < target_group, forth(cable), back(cable))),
            back(self._climb(target_leaf, last)),
            back(target),
        ]
        same_server, same_leaf = source == target, leaf == target_leaf
        missing = np.stack([same_server, same_leaf, same_leaf, same_leaf, same_server], 1)
        return np.where(missing, NO_LINK, np.stack(hops, 1)).astype(np.int32)

    def next_hops(self) -> NextHops:
        """Return the same routes as tables; a spine without a cable to a group sends through any of its leaves."""
        leaf, spine = np.arange(self.groups * self.leaves), np.arange(self.groups * self.spines)
        group = np.concatenate([leaf // self.leaves, spine // self.spines])
        climb = forth(self._climb(leaf[:, None], leaf[:, None] // self.leaves * self.spines + np.arange(self.spines)))
        below = spine[:, None] // self.spines * self.leaves + np.arange(self.leaves)
        descend = back(self._climb(below, spine[:, None]))
        any_spine = np.where(leaf[:, None] % self.leaves == np.arange(self.leaves), NO_LINK, -2 - leaf[:, None])
        source, target = link_ends(self.cables(), self.servers)
        server, inner = np.arange(self.servers), len(leaf) * self.spines
        level = np.full(len(source), ACROSS, np.int8)
        level[: 2 * self.servers : 2], level[1 : 2 * self.servers : 2] = UP, DOWN
        level[2 * self.servers : 2 * (self.servers + inner)] = [CLIMB, DESCEND] * inner
        return NextHops(
            router=(server // self.nodes).astype(np.int32),
            up=forth(server).astype(np.int32),
            down=back(server).astype(np.int32),
            inside=np.concatenate([any_spine, descend]).astype(np.int32),
            outside=np.concatenate([self._from_leaves(leaf), self._from_spines(spine, len(leaf))]).astype(np.int32),
            source=source,
            target=target,
            level=level,
            levels=Levels((CLIMB, ACROSS, DESCEND), (CLIMB, ACROSS, DESCEND, CLIMB, ACROSS, DESCEND)),
            sets=LinkSets(
                offsets([self.spines] * len(leaf) + [self.leaves] * len(spine)),
                np.concatenate([climb.ravel(), descend.ravel()]).astype(np.int32),
            ),
            own_group=group.astype(np.int32),
            kinds=KINDS,
        )

    def _from_leaves(self, leaf: Index) -> Index:
        """Return [leaves, G, S] the links to the spine that has the cable."""
        group, other, turn = self._to_others(leaf // self.leaves)
        gate = np.where(group == other, 0, self.gate(group, other, turn))
        return np.where(group == other, NO_LINK, forth(self._climb(leaf[:, None, None], gate)))

    def _from_spines(self, spine: Index, leaves: int) -> Index:
        """Return [spines, G, S] the cable, or the set of the spine's leaves (sets of spines follow those of leaves)."""
        group, other, turn = self._to_others(spine // self.spines)
        cable = self._global(group, other, turn)
        over = np.where(group < other, forth(cable), back(cable))
        has_cable = self.gate(group, other, turn) == spine[:, None, None]
        link: Index = np.where(has_cable, over, -2 - leaves - spine[:, None, None])
        return np.where(group == other, NO_LINK, link)

    def _to_others(self, group: Index) -> tuple[Index, Index, Index]:
        """Return group, other group and turn of cables, along three axes."""
        return group[:, None, None], np.arange(self.groups)[None, :, None], np.arange(self.global_links)[None, None, :]

    def _climb(self, leaf: Index, spine: Index) -> Index:
        """Return the cable between a leaf and a spine of its group."""
        return self.servers + leaf * self.spines + spine % self.spines

    def _global(self, group: Index, other: Index, turn: Index) -> Index:
        """Return the cable number ``turn`` between two groups."""
        number = pair(np.minimum(group, other), np.maximum(group, other), self.groups)
        return self.servers + self.groups * self.leaves * self.spines + number * self.global_links + turn
