"""Next hops by address: where a router sends what is for a group, a router of its own group, or an endpoint of its own.

Tables of two levels need memory for routers, not for pairs of endpoints: a dragonfly of 110,592 endpoints with 12
cables between every two groups takes less than 32 MiB. In a network without groups each router is one.

Shapes: E endpoints, R routers, G groups, A routers of a group that may have endpoints, S cables from a group to
another, L links, K sets of links, M links in them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from topoflow.arrays import Offsets
from topoflow.fabric.routing.base import Index
from topoflow.fabric.routing.shortest import ShortestPaths

Links = NDArray[np.int32]

NO_LINK = -1
NO_GROUP = -1
UP, DOWN = 0, 127  # levels of links from an endpoint and to one; those between routers lie between them
LOCAL, GLOBAL = 1, 2  # of a dragonfly: inside a group, between groups
ROUTER = 1  # of a network whose links between routers are all alike


class LinkSets(NamedTuple):
    """Sets of equally good links; a router draws one for each packet. Set s is ``links[begin[s] : begin[s + 1]]``.

    A table has set s as -2 - s.
    """

    begin: Offsets  # [K+1]
    links: Links  # [M]


NO_SETS = LinkSets(np.zeros(1, np.int64), np.zeros(0, np.int32))


class Levels(NamedTuple):
    """Levels of the links between routers on the longest routes; those of every route are a part of them, in order."""

    direct: tuple[int, ...]
    around: tuple[int, ...]  # by way of another group, or inside a group of another router of it

    def longest(self, detours: bool) -> tuple[int, ...]:
        """Of routes that may lead around, or of direct ones only."""
        return self.around if detours else self.direct


def virtual_channels(levels: tuple[int, ...]) -> int:
    """How many exclude every deadlock on routes of these levels: a packet takes the next where they do not rise."""
    return 1 + sum(later <= earlier for earlier, later in pairwise(levels))


@dataclass(frozen=True, eq=False)
class NextHops:
    """Router r < G * A is number r % A of group r // A, and has endpoints; others follow, of a group or of none.

    Laws: every endpoint has one link up and one down; ``inside`` and ``outside`` lead from their router, those inside
    to the router that they are for, those outside to another group.
    """

    router: Links  # [E] of each endpoint
    up: Links  # [E] link from each endpoint to its router
    down: Links  # [E] and back
    inside: Links  # [R, A] link (or set) to each router of the own group; NO_LINK: to itself
    outside: Links  # [R, G, S] towards each group by way of each of the cables to it; NO_LINK: the own group
    source: Links  # [L] router where the link begins; -1: an endpoint
    target: Links  # [L] router where it ends; -1: an endpoint
    level: NDArray[np.int8]  # [L] UP, DOWN, or of a link between routers
    levels: Levels
    sets: LinkSets = NO_SETS
    own_group: Links | None = None  # [R] None: all routers have endpoints; NO_GROUP: none
    kinds: Mapping[int, str] = field(default_factory=dict)  # what links of a level are called, where they differ

    @property
    def routers(self) -> int:
        """R"""
        return len(self.inside)

    @property
    def routers_per_group(self) -> int:
        """A"""
        return int(self.inside.shape[1])

    @property
    def groups(self) -> int:
        """G"""
        return int(self.outside.shape[1])

    @property
    def cables(self) -> int:
        """S"""
        return int(self.outside.shape[2])

    @cached_property
    def group(self) -> Links:
        """[R] of each router."""
        if self.own_group is not None:
            return self.own_group
        return (np.arange(self.routers) // self.routers_per_group).astype(np.int32)


@runtime_checkable
class AddressedRoutes(Protocol):
    """A ``Fabric.route`` whose routers forward by address."""

    def next_hops(self) -> NextHops: ...


class AddressedShortestPaths(ShortestPaths):
    """Shortest paths of a network in which each router is a group, and tables that have one of them.

    ``cables`` [C, 2] are those of the servers first, in order.
    """

    def __init__(self, nodes: Sequence[str], cables: Index, servers: int) -> None:
        super().__init__(nodes, cables.ravel().astype(np.int32), cables[:, ::-1].ravel().astype(np.int32))
        self.servers = servers
        self.ends = link_ends(cables, servers)

    @abstractmethod
    def forward(self) -> tuple[Links, NDArray[np.int8], tuple[int, ...]]:
        """[R, R] link towards each router, [L] level of each link between routers, and those of the longest path."""

    @cached_property
    def _tables(self) -> NextHops:
        outside, level, crossed = self.forward()
        (source, target), server = self.ends, np.arange(self.servers, dtype=np.int32)
        level[2 * server], level[2 * server + 1] = UP, DOWN
        return NextHops(
            router=target[2 * server],
            up=2 * server,
            down=2 * server + 1,
            inside=np.full((len(outside), 1), NO_LINK, np.int32),
            outside=outside[:, :, None],
            source=source,
            target=target,
            level=level,
            levels=Levels(crossed, 2 * crossed),
        )

    def next_hops(self) -> NextHops:
        """The tables."""
        return self._tables

    def lengths(self, source: Index, target: Index, kind: str) -> Index:
        """[F] by the tables, so that a large network need not be searched."""
        tables = self._tables
        at, goal = tables.router[source], tables.router[target]
        hops = np.where(source == target, 0, 2)
        while (apart := at != goal).any():
            hops += apart
            at = np.where(apart, tables.target[tables.outside[at, goal, 0]], at)
        return hops


def link_ends(cables: NDArray[np.int64], servers: int) -> tuple[Links, Links]:
    """[L], [L] the router where each link of duplex cables begins and ends, -1 for an endpoint; routers follow them."""
    source, target = (np.maximum(ends.ravel() - servers, -1).astype(np.int32) for ends in (cables, cables[:, ::-1]))
    return source, target
