"""Routes: the paths that a network offers from node to node, of one pair or of arrays of pairs.

Shapes: F pairs of nodes, B branches, H hops at most.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from topoflow.fabric.base import Path, Route

Index = NDArray[np.int64]
Links = NDArray[np.int32]

NO_LINK = -1  # after the last hop of a path that is shorter than others


class Routes(ABC):
    """A ``Fabric.route`` that also answers for arrays of pairs.

    A path is a choice of one of ``choices`` at every branch on the way; its number is written in these digits, that of
    the first branch the most significant. From a node to itself there is one path, without links.
    """

    def is_minimal(self, kind: str) -> bool:
        """Whether every path of this class of traffic is a shortest one of the network, counted in links."""
        return True

    @abstractmethod
    def choices(self, source: Index, target: Index, kind: str) -> Index:
        """[F, B] the alternatives at every branch; their product is the number of paths.

        Raises ``ValueError`` for a pair without a path, or gives 0.
        """

    @abstractmethod
    def links(self, source: Index, target: Index, number: Index, kind: str) -> Links:
        """[F, H] path ``number`` [F] of each pair, link by link; ``NO_LINK`` where there is no hop."""

    def __call__(self, source: int, target: int, kind: str) -> tuple[Path, ...]:
        """All paths of one pair."""
        count = int(self.choices(np.array([source]), np.array([target]), kind).prod())
        rows = self.links(np.full(count, source), np.full(count, target), np.arange(count), kind)
        return tuple(tuple(row[row != NO_LINK].tolist()) for row in rows)


class ListedRoutes(Routes):
    """Routes that list the paths of a pair; arrays of pairs are asked one by one."""

    @abstractmethod
    def __call__(self, source: int, target: int, kind: str) -> tuple[Path, ...]: ...

    def choices(self, source: Index, target: Index, kind: str) -> Index:
        counts = [len(self(*pair, kind)) for pair in zip(source.tolist(), target.tolist(), strict=True)]
        return np.array(counts, np.int64).reshape(-1, 1)

    def links(self, source: Index, target: Index, number: Index, kind: str) -> Links:
        asked = zip(source.tolist(), target.tolist(), number.tolist(), strict=True)
        return padded([self(i, j, kind)[path] for i, j, path in asked])


class FunctionRoutes(ListedRoutes):
    """The paths that a plain function lists; nothing else is known about them."""

    def __init__(self, route: Route) -> None:
        self.route = route

    def is_minimal(self, kind: str) -> bool:
        return False

    def __call__(self, source: int, target: int, kind: str) -> tuple[Path, ...]:
        return self.route(source, target, kind) if source != target else ((),)


def as_routes(route: Route) -> Routes:
    """``route`` of a fabric, which may be a plain function, for arrays of pairs."""
    return route if isinstance(route, Routes) else FunctionRoutes(route)


def padded(paths: Sequence[Path]) -> Links:
    """[F, H] the links of F paths."""
    hops = np.array([len(path) for path in paths], np.int64)
    rows = np.full((len(paths), int(hops.max(initial=0))), NO_LINK, np.int32)
    rows[np.arange(rows.shape[1]) < hops[:, None]] = list(chain.from_iterable(paths))
    return rows


def mean_lengths(routes: Routes, source: Index, target: Index, kind: str) -> NDArray[np.float64]:
    """[F] links on the way from each source to its target, the mean of all paths of the pair."""
    if routes.is_minimal(kind):  # all paths of a pair are equally long
        first = routes.links(source, target, np.zeros_like(source), kind)
        lengths: NDArray[np.float64] = (first != NO_LINK).sum(axis=1).astype(np.float64)
        return lengths
    paths = routes.choices(source, target, kind).prod(axis=1)
    pair = np.repeat(np.arange(len(source)), paths)
    number = np.arange(len(pair)) - (np.cumsum(paths) - paths)[pair]
    links = (routes.links(source[pair], target[pair], number, kind) != NO_LINK).sum(axis=1)
    mean: NDArray[np.float64] = np.bincount(pair, links, len(source)) / paths
    return mean
