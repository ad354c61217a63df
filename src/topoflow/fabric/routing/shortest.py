"""Equal-cost shortest paths. Shapes: N nodes, L links."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from topoflow.digest import ContentHashed
from topoflow.fabric.base import Path
from topoflow.fabric.routing.base import Index, Links, Routes, padded

# Large graphs have more shortest paths between distant nodes than operators install. This limit is a choice of the
# model: a flow takes one path, and among 64 evenly spread ones no link is preferred.
ECMP_PATHS = 64


class ShortestPaths(ContentHashed, Routes):
    """All shortest paths from node to node, as a ``Fabric.route``.

    The first ``endpoints`` nodes do not forward: they are only the first or the last node of a path.

    If a pair has more than ``limit`` paths, ``limit`` evenly spaced ones of the list are taken, with an offset that
    differs from pair to pair, so that no link is preferred. The paths are not enumerated: one breadth-first search from
    the goal counts the shortest paths from every node, which determines the next link of path number r.

        a -> b -> d      paths to d: from b 1, from c 1, from a 2
        a -> c -> d      path 0 of a turns to b, path 1 to c
    """

    def __init__(
        self,
        nodes: Sequence[str],
        source: NDArray[np.int32],
        target: NDArray[np.int32],
        limit: int = ECMP_PATHS,
        endpoints: int = 0,
    ) -> None:
        self.nodes = nodes
        self.limit = limit
        self.endpoints = endpoints
        self.target = [int(node) for node in target]
        self.outgoing: list[list[int]] = [[] for _ in nodes]  # links
        self.incoming: list[list[int]] = [[] for _ in nodes]  # nodes, once per link
        for link, (start, end) in enumerate(zip(source.tolist(), target.tolist(), strict=True)):
            self.outgoing[start].append(link)
            self.incoming[end].append(start)
        self._toward: dict[int, tuple[list[int], list[int]]] = {}
        self._paths: dict[tuple[int, int], tuple[Path, ...]] = {}

    def __call__(self, source: int, target: int) -> tuple[Path, ...]:
        """Return up to ``limit`` shortest paths. Raises ``ValueError`` that names both nodes if there is none."""
        pair = (source, target)
        if pair not in self._paths:
            self._paths[pair] = self._find(source, target)
        return self._paths[pair]

    def choices(self, source: Index, target: Index) -> Index:
        counts = [len(self.numbers(*pair)) for pair in zip(source.tolist(), target.tolist(), strict=True)]
        return np.array(counts, np.int64).reshape(-1, 1)

    def links(self, source: Index, target: Index, number: Index) -> Links:
        requests = zip(source.tolist(), target.tolist(), number.tolist(), strict=True)
        return padded([self.path(i, j, self.numbers(i, j)[k]) for i, j, k in requests])

    def distances(self, target: int) -> list[int]:
        """Return [N] the number of links from every node to ``target``; -1: unreachable."""
        return self._search(target)[0]

    def hops(self, source: int, target: int) -> int:
        """Return the number of links from ``source`` to ``target``; -1: unreachable."""
        return self._search(target)[0][source]

    def count(self, source: int, target: int) -> int:
        """Return the number of all shortest paths."""
        return self._search(target)[1][source]

    def _search(self, goal: int) -> tuple[list[int], list[int]]:
        """Return for every node [N] the hops to ``goal`` (-1: unreachable) and the number of shortest paths."""
        if goal not in self._toward:
            hops = [-1] * len(self.nodes)
            count = [0] * len(self.nodes)
            hops[goal], count[goal] = 0, 1
            queue = deque([goal])
            while queue:
                node = queue.popleft()
                if node < self.endpoints and node != goal:
                    continue
                for before in self.incoming[node]:
                    if hops[before] < 0:
                        hops[before] = hops[node] + 1
                        queue.append(before)
                    if hops[before] == hops[node] + 1:
                        count[before] += count[node]
            self._toward[goal] = (hops, count)
        return self._toward[goal]

    def _find(self, source: int, target: int) -> tuple[Path, ...]:
        return tuple(self.path(source, target, number) for number in self.numbers(source, target))

    def numbers(self, source: int, target: int) -> Sequence[int]:
        """Return the numbers, from 0, of the shortest paths that are taken; raises ``ValueError`` as ``__call__``."""
        total = self.count(source, target)
        if total == 0:
            raise ValueError(f"route: every server must be reachable, got no path {self._pair(source, target)}")
        if total <= self.limit:
            return range(total)
        first = (source + target * len(self.nodes)) % total
        return sorted((first + step * total // self.limit) % total for step in range(self.limit))

    def _pair(self, source: int, target: int) -> str:
        return f"from {self.nodes[source]!r} to {self.nodes[target]!r}"

    def path(self, source: int, target: int, number: int) -> Path:
        """Return shortest path ``number`` of ``count(source, target)``."""
        hops, count = self._search(target)
        path: list[int] = []
        node = source
        while node != target:
            for link in self.outgoing[node]:
                after = self.target[link]
                if hops[after] != hops[node] - 1 or (after < self.endpoints and after != target):
                    continue
                if number < count[after]:
                    break
                number -= count[after]
            path.append(link)
            node = after
        return tuple(path)
