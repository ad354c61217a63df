"""Next hops by address: a router's links to other groups, to routers of its group, and to its endpoints.

Two-level tables need memory per router, not per pair of endpoints: a dragonfly of 110,592 endpoints with 12 cables
between every two groups takes less than 32 MiB. In a network without groups each router is a group.

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
from topoflow.fabric.groups import PALM_TREE
from topoflow.fabric.routing.base import Index
from topoflow.fabric.routing.shortest import ShortestPaths

Links = NDArray[np.int32]

NO_LINK = -1
NO_GROUP = -1
UP, DOWN = 0, 127  # levels of links from and to endpoints; levels of links between routers lie between these
LOCAL, GLOBAL = 1, 2  # levels of a dragonfly: inside a group, between groups
ROUTER = 1  # level of all links between routers, if they have no other levels


class LinkSets(NamedTuple):
    """Sets of equivalent links; a router draws one for each packet. Set s is ``links[begin[s] : begin[s + 1]]``.

    A table refers to set s as -2 - s.
    """

    begin: Offsets  # [K+1]
    links: Links  # [M]


NO_SETS = LinkSets(np.zeros(1, np.int64), np.zeros(0, np.int32))


class Levels(NamedTuple):
    """Levels of the links between routers on the longest routes; those of other routes are subsequences."""

    direct: tuple[int, ...]
    around: tuple[int, ...]  # through another group, or inside a group through another router

    def longest(self, detours: bool) -> tuple[int, ...]:
        """Return the levels of the longest route, with detours or without."""
        return self.around if detours else self.direct


def virtual_channels(levels: tuple[int, ...]) -> int:
    """Return how many exclude every deadlock: a packet takes the next channel where levels do not rise."""
    return 1 + sum(later <= earlier for earlier, later in pairwise(levels))


@dataclass(frozen=True, eq=False)
class NextHops:
    """The tables of all routers. Router r < G * A is number r % A of group r // A, and may have endpoints.

    Further routers follow, which belong to a group or to none. Constraints: every endpoint has one link up and one
    down; links of ``inside`` and ``outside`` begin at their router, ``inside`` ends at the router of the column,
    ``outside`` in another group.
    """

    router: Links  # [E] of each endpoint
    up: Links  # [E] link from each endpoint to its router
    down: Links  # [E] link from the router to each endpoint
    inside: Links  # [R, A] link (or set) to each router of the same group; NO_LINK: to itself
    outside: Links  # [R, G, S] link (or set) towards each group through each cable to it; NO_LINK: the same group
    source: Links  # [L] router where the link begins; -1: an endpoint
    target: Links  # [L] router where it ends; -1: an endpoint
    level: NDArray[np.int8]  # [L] UP, DOWN, or the level of a link between routers
    levels: Levels
    sets: LinkSets = NO_SETS
    own_group: Links | None = None  # [R] None: all routers have endpoints; NO_GROUP: none
    kinds: Mapping[int, str] = field(default_factory=dict)  # level -> name of its links, if levels differ
    wiring: str = PALM_TREE  # the order of the ports between groups (``groups.WIRINGS``)

    @property
    def routers(self) -> int:
        """Return R."""
        return len(self.inside)

    @property
    def routers_per_group(self) -> int:
        """Return A."""
        return int(self.inside.shape[1])

    @property
    def groups(self) -> int:
        """Return G."""
        return int(self.outside.shape[1])

    @property
    def cables(self) -> int:
        """Return S."""
        return int(self.outside.shape[2])

    @cached_property
    def group(self) -> Links:
        """Return [R] the group of each router."""
        if self.own_group is not None:
            return self.own_group
        return (np.arange(self.routers) // self.routers_per_group).astype(np.int32)


@runtime_checkable
class AddressedRoutes(Protocol):
    """A ``Fabric.route`` whose routers forward by address."""

    def next_hops(self) -> NextHops: ...


class AddressedShortestPaths(ShortestPaths):
    """Shortest paths of a network in which each router is a group, with tables that have one path per pair.

    ``cables`` [C, 2] begin with those of the servers, in order.
    """

    def __init__(self, nodes: Sequence[str], cables: Index, servers: int) -> None:
        super().__init__(nodes, cables.ravel().astype(np.int32), cables[:, ::-1].ravel().astype(np.int32))
        self.servers = servers
        self.ends = link_ends(cables, servers)

    @abstractmethod
    def forward(self) -> tuple[Links, NDArray[np.int8], tuple[int, ...]]:
        """Return the link towards each router [R, R], the level of each link [L], and the levels of the longest path.

        Only links between routers have a level here.
        """

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
        """Return the tables."""
        return self._tables

    def lengths(self, source: Index, target: Index) -> Index:
        """Return [F] lengths from the tables, so that a large network need not be searched."""
        tables = self._tables
        at, goal = tables.router[source], tables.router[target]
        hops = np.where(source == target, 0, 2)
        while (moving := at != goal).any():
            hops += moving
            at = np.where(moving, tables.target[tables.outside[at, goal, 0]], at)
        return hops


def link_ends(cables: NDArray[np.int64], servers: int) -> tuple[Links, Links]:
    """Return [L], [L] the routers where each link of duplex cables begins and ends; -1 for an endpoint."""
    source, target = (np.maximum(ends.ravel() - servers, -1).astype(np.int32) for ends in (cables, cables[:, ::-1]))
    return source, target
