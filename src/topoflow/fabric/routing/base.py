"""Routes: the paths of a network between nodes, for one pair or for arrays of pairs.

Shapes: F pairs of nodes, B branches, H hops at most.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from topoflow.arrays import distinct
from topoflow.fabric.base import Path, Route

Index = NDArray[np.int64]
Links = NDArray[np.int32]
Mask = NDArray[np.bool_]

NO_LINK = -1  # padding after the last hop of a path


class Routes(ABC):
    """A ``Fabric.route`` that can also be evaluated for arrays of pairs.

    A path has one of ``choices`` at every branch on the way. Its number has these choices as mixed-radix digits, with
    that of the first branch as the most significant. From a node to itself there is one path, without links.
    """

    def has_equal_lengths(self) -> bool:
        """Return whether all paths of a pair have equally many links."""
        return True

    @abstractmethod
    def choices(self, source: Index, target: Index) -> Index:
        """Return [F, B] the number of alternatives at every branch; their product is the number of paths.

        A pair without a path raises ``ValueError``, or has 0 alternatives.
        """

    @abstractmethod
    def links(self, source: Index, target: Index, number: Index) -> Links:
        """Return [F, H] the links of path ``number`` [F] of each pair; ``NO_LINK`` where there is no hop."""

    def lengths(self, source: Index, target: Index) -> Index:
        """Return [F] the number of links on every path of each pair, if ``has_equal_lengths``."""
        first = self.links(source, target, np.zeros_like(source))
        hops: Index = (first != NO_LINK).sum(axis=1)
        return hops

    def __call__(self, source: int, target: int) -> tuple[Path, ...]:
        """Return all paths of one pair."""
        count = int(self.choices(np.array([source]), np.array([target])).prod())
        rows = self.links(np.full(count, source), np.full(count, target), np.arange(count))
        return tuple(tuple(row[row != NO_LINK].tolist()) for row in rows)


class ListedRoutes(Routes):
    """Routes that list the paths of a pair; each pair is listed once and cached in rows."""

    def has_equal_lengths(self) -> bool:
        return False  # as far as is known

    @abstractmethod
    def __call__(self, source: int, target: int) -> tuple[Path, ...]: ...

    def choices(self, source: Index, target: Index) -> Index:
        rows, pair = self._rows(source, target)
        return rows.paths[pair].reshape(-1, 1)

    def links(self, source: Index, target: Index, number: Index) -> Links:
        rows, pair = self._rows(source, target)
        paths = rows.links[rows.first[pair] + number]
        longest: Links = paths[:, (paths != NO_LINK).any(axis=0)]
        return longest

    _known: PathRows | None = None

    def _rows(self, source: Index, target: Index) -> tuple[PathRows, Index]:
        """Return the cached paths, and the index [F] of each pair there."""
        cached = NO_ROWS if self._known is None else self._known
        key = source.astype(np.int64) << 32 | target
        missing = distinct(key[~cached.has(key)])
        if len(missing):
            cached = cached.extended(missing, [self(pair >> 32, pair & 0xFFFFFFFF) for pair in missing.tolist()])
            object.__setattr__(self, "_known", cached)  # of a frozen dataclass too
        return cached, np.searchsorted(cached.key, key)


class PathRows(NamedTuple):
    """The paths of P pairs of nodes."""

    key: Index  # [P] source and target as one number, ascending
    first: Index  # [P] row of the first path
    paths: Index  # [P] number of paths
    links: Links  # [paths, H] NO_LINK after the last hop

    def has(self, key: Index) -> Mask:
        """Return [F] whether the paths of a pair are cached."""
        place = np.minimum(np.searchsorted(self.key, key), len(self.key) - 1)
        is_cached: Mask = self.key[place] == key if len(self.key) else np.zeros(len(key), np.bool_)
        return is_cached

    def extended(self, key: Index, paths: Sequence[Sequence[Path]]) -> PathRows:
        """Return rows with more pairs and the paths of each."""
        count = np.array([len(of_pair) for of_pair in paths], np.int64)
        more = padded(list(chain.from_iterable(paths)))
        hops = max(self.links.shape[1], more.shape[1])
        links = [
            np.pad(rows, ((0, 0), (0, hops - rows.shape[1])), constant_values=NO_LINK) for rows in (self.links, more)
        ]
        keys = np.concatenate([self.key, key])
        first = np.concatenate([self.first, len(self.links) + np.cumsum(count) - count])
        order = np.argsort(keys)
        return PathRows(keys[order], first[order], np.concatenate([self.paths, count])[order], np.concatenate(links))


_EMPTY = np.zeros(0, np.int64)
NO_ROWS = PathRows(_EMPTY, _EMPTY, _EMPTY, np.zeros((0, 0), np.int32))


class FunctionRoutes(ListedRoutes):
    """Routes of a plain function that lists paths; nothing else is known about them."""

    def __init__(self, route: Route) -> None:
        self.route = route

    def __call__(self, source: int, target: int) -> tuple[Path, ...]:
        return self.route(source, target) if source != target else ((),)


def as_routes(route: Route) -> Routes:
    """Return ``route`` of a fabric, which may be a plain function, as ``Routes``."""
    return route if isinstance(route, Routes) else FunctionRoutes(route)


def padded(paths: Sequence[Path]) -> Links:
    """Return [F, H] the links of F paths."""
    hops = np.array([len(path) for path in paths], np.int64)
    rows = np.full((len(paths), int(hops.max(initial=0))), NO_LINK, np.int32)
    rows[np.arange(rows.shape[1]) < hops[:, None]] = list(chain.from_iterable(paths))
    return rows


def mean_lengths(routes: Routes, source: Index, target: Index) -> NDArray[np.float64]:
    """Return [F] the number of links from each source to its target, the mean over the pair's paths."""
    if routes.has_equal_lengths():
        return routes.lengths(source, target).astype(np.float64)
    paths = routes.choices(source, target).prod(axis=1)
    pair = np.repeat(np.arange(len(source)), paths)
    number = np.arange(len(pair)) - (np.cumsum(paths) - paths)[pair]
    links = (routes.links(source[pair], target[pair], number) != NO_LINK).sum(axis=1)
    mean: NDArray[np.float64] = np.bincount(pair, links, len(source)) / paths
    return mean
