"""The k shortest paths, whether equally long or not. N nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from topoflow.digest import ContentHashed
from topoflow.fabric.base import Path
from topoflow.fabric.routing.base import ListedRoutes
from topoflow.fabric.routing.shortest import ShortestPaths


class KShortestPaths(ContentHashed, ListedRoutes):
    """The ``limit`` shortest loopless paths from node to node, as a ``Fabric.route``: all of h hops, then of h + 1, ...

    A search by depth that leaves a node only for one from which the goal is still in reach finds the paths of each
    length; where that found none, it looks whether visited nodes block the path, and goes back if they do. These
    paths are as long as those of Yen's algorithm (Management Science 17(11), 1971), which solves a shortest path
    problem for every node of every path (networkx takes 20 times as long for 128 servers); where only hops count, the
    distances to the goal are mostly enough. Of several equally long ones it begins with another link for each pair, so
    that no link is preferred.

        a -> b -> d            2 shortest: a b d, a c d (2 hops); the third: a b c d (3)
        a -> c -> d, b -> c
    """

    def __init__(self, nodes: Sequence[str], source: NDArray[np.int32], target: NDArray[np.int32], limit: int) -> None:
        self.limit = limit
        self.shortest = ShortestPaths(nodes, source, target, limit)
        self.outgoing, self.target = self.shortest.outgoing, self.shortest.target
        self._paths: dict[tuple[int, int], tuple[Path, ...]] = {}

    def is_minimal(self, kind: str) -> bool:
        return False

    def __call__(self, source: int, target: int, kind: str) -> tuple[Path, ...]:
        pair = (source, target)
        if pair not in self._paths:
            self._paths[pair] = self._find(source, target)
        return self._paths[pair]

    def _find(self, source: int, target: int) -> tuple[Path, ...]:
        """Up to ``limit`` paths, shortest first; raises ValueError naming both nodes where there is none."""
        found = list(self.shortest(source, target, ""))
        hops = self.shortest.distances(target)
        for length in range(hops[source] + 1, len(hops)):
            if len(found) >= self.limit:
                break
            for path in self._of_length(source, target, length, hops, (source,)):
                found.append(path)
                if len(found) >= self.limit:
                    break
        return tuple(found)

    def _of_length(
        self, node: int, goal: int, length: int, hops: Sequence[int], visited: tuple[int, ...]
    ) -> Iterator[Path]:
        """The loopless paths of ``length`` links from ``node`` to ``goal`` that avoid the ``visited`` nodes."""
        if length == 0:
            yield ()
            return
        links = self.outgoing[node]
        first = (visited[0] + goal * len(hops)) % len(links)
        for link in (*links[first:], *links[:first]):
            after = self.target[link]
            in_reach = 0 <= hops[after] < length and (after != goal or length == 1)
            if in_reach and after not in visited:
                found = False
                for rest in self._of_length(after, goal, length - 1, hops, (*visited, after)):
                    found = True
                    yield (link, *rest)
                if not found and not self._reaches(node, goal, length, visited):
                    return

    def _reaches(self, node: int, goal: int, length: int, visited: tuple[int, ...]) -> bool:
        """Whether ``node`` reaches ``goal`` in at most ``length`` links without the ``visited`` nodes."""
        seen, front = set(visited), {node}
        for _ in range(length):
            front = {self.target[link] for at in front for link in self.outgoing[at]} - seen
            if goal in front:
                return True
            seen |= front
        return False
