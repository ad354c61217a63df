"""The links that the average byte of a path crosses in an idle network: what acknowledgements and round trips take.

    listed        the links of the path, each with its share of the bytes
    by address    the first and the last link, and between them those to which the tables lead: on average over the
                  cables between two groups; with ``valiant_group`` over some of the groups (routers) in the middle too.
                  Adaptive routings take minimal routes where nothing waits. Of equally good links the first one counts

Shapes: P paths, H links that paths cross, R routes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topoflow.arrays import Floats, Ints, Offsets
from topoflow.engine.base import LoweredGraph
from topoflow.engine.packet.addresses import VALIANT
from topoflow.engine.packet.merge import NONE
from topoflow.fabric.routing.next_hops import NextHops

MIDDLES = 16  # routes by different ones that stand for all; ours


@dataclass(frozen=True)
class IdleRoutes:
    """``share`` [H] of the bytes of path ``path`` [H] crosses ``link`` [H]."""

    paths: int  # P
    path: Offsets
    link: Ints
    share: Floats

    @classmethod
    def listed(cls, graph: LoweredGraph) -> IdleRoutes:
        """Return the links that the graph lists."""
        paths = len(graph.path_offsets) - 1
        path = np.repeat(np.arange(paths), np.diff(graph.path_offsets))
        share = np.ones(len(path)) if graph.path_weight is None else graph.path_weight
        return cls(paths, path, graph.path_links, share)

    @classmethod
    def by_address(cls, graph: LoweredGraph, routing: str) -> IdleRoutes:
        """Return the same where the graph lists the first and the last link only."""
        hops, ends = graph.next_hops, cls.listed(graph)
        assert hops is not None, "the caller asks for graphs whose routers have tables"
        source, target = hops.target[graph.path_links[::2]], hops.source[graph.path_links[1::2]]
        routes = MIDDLES if routing == VALIANT else hops.cables
        path, route = np.repeat(np.arange(ends.paths), routes), np.tile(np.arange(routes), ends.paths)
        middle = np.full(len(path), NONE)
        if routing == VALIANT:
            middle = _middles(hops, source[path], target[path], route)
        crossing, link = _walks(hops, source[path], target[path], middle, route % hops.cables)
        share = np.full(len(link), 1 / routes)
        return cls(
            ends.paths,
            np.concatenate([ends.path, path[crossing]]),
            np.concatenate([ends.link, link]).astype(np.int32),
            np.concatenate([ends.share, share]),
        )

    @property
    def count(self) -> Floats:
        """Return [P] how many links the average byte crosses."""
        return np.bincount(self.path, self.share, self.paths).astype(np.float64)

    def sums(self, values: Floats) -> Floats:
        """Return [P] the sum over the links of each path, of ``values`` [H]."""
        return np.bincount(self.path, values * self.share, self.paths).astype(np.float64)


def _middles(hops: NextHops, source: Ints, target: Ints, route: Offsets) -> Offsets:
    """Return [R] a third group, or inside a group G plus the place of a third router; NONE: there is none."""
    size = hops.routers_per_group
    inside = source // size == target // size
    first, second = (np.where(inside, router % size, router // size) for router in (source, target))
    count = np.where(inside, size, hops.groups)
    middle = route * (count - 2) // MIDDLES
    middle += middle >= np.minimum(first, second)
    middle += middle >= np.maximum(first, second)
    return np.where((count < 3) | (source == target), NONE, np.where(inside, hops.groups, 0) + middle)


def _walks(hops: NextHops, at: Ints, goal: Ints, middle: Offsets, cable: Offsets) -> tuple[Offsets, Ints]:
    """Return the links between routers of all routes: which route each is of, and the link."""
    size, groups, middle = hops.routers_per_group, hops.groups, middle.copy()
    rows: list[Offsets] = []
    links: list[Ints] = []
    row = np.arange(len(at))
    while True:
        group = hops.group[at]
        has_come = np.where(middle < groups, group == middle, at == group * size + middle - groups)
        middle[has_come & (middle != NONE)] = NONE
        (moves,) = np.nonzero((at != goal) | (middle != NONE))
        if not len(moves):
            return np.concatenate([row[:0], *rows]), np.concatenate([np.zeros(0, np.int32), *links])
        row, at, goal, middle, cable = row[moves], at[moves], goal[moves], middle[moves], cable[moves]
        group = hops.group[at]
        across = np.where(middle == NONE, group == goal // size, middle >= groups)
        place = np.where(middle == NONE, goal % size, middle - groups)
        towards = np.where(middle == NONE, goal // size, middle)
        entry = np.where(
            across,
            hops.inside[at, np.where(across, place, 0)],
            hops.outside[at, np.where(across, 0, towards), cable],
        )
        link, (sets,) = entry.astype(np.int32), np.nonzero(entry < NONE)
        link[sets] = hops.sets.links[hops.sets.begin[-2 - entry[sets]]]
        rows.append(row)
        links.append(link)
        at = hops.target[link]
