"""Dimension-order tables of switches in a grid, each cabled to all others of its row, its column and so on.

Shapes: R switches, L links.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from topoflow.fabric.routing.base import Index
from topoflow.fabric.routing.next_hops import NO_LINK, AddressedShortestPaths, Links


def strides(dims: tuple[int, ...]) -> list[int]:
    """Return the difference of numbers of neighbours in each dimension; the last dimension varies fastest."""
    return [prod(dims[dimension + 1 :]) for dimension in range(len(dims))]


def coordinates(dims: tuple[int, ...]) -> list[Index]:
    """Return [R] the coordinates of all switches, per dimension."""
    switch = np.arange(prod(dims))
    return [switch // stride % size for stride, size in zip(strides(dims), dims, strict=True)]


class DimensionOrder(AddressedShortestPaths):
    """Shortest paths, with tables in dimension order: the first differing coordinate is corrected first."""

    def __init__(self, nodes: Sequence[str], cables: Index, servers: int, dims: tuple[int, ...]) -> None:
        super().__init__(nodes, cables, servers)
        self.dims = dims

    def forward(self) -> tuple[Links, NDArray[np.int8], tuple[int, ...]]:
        """Return the tables; the level of a link is its dimension, so levels ascend along a route.

        Source: Ahn et al., SC 2009, 4 (dimension order, and Valiant's routing with it in both parts).
        """
        (source, target), place, switches = self.ends, coordinates(self.dims), prod(self.dims)
        outside = np.full((switches, switches), NO_LINK, np.int32)
        level = np.zeros(len(source), np.int8)
        between = np.arange(2 * self.servers, len(source), dtype=np.int32)
        for dimension in reversed(range(len(self.dims))):
            coordinate = place[dimension]
            along = between[coordinate[source[between]] != coordinate[target[between]]]
            level[along] = 1 + dimension
            towards = np.full((switches, self.dims[dimension]), NO_LINK, np.int32)
            towards[source[along], coordinate[target[along]]] = along
            link = towards[:, coordinate]
            outside = np.where(link == NO_LINK, outside, link)
        return outside, level, tuple(1 + dimension for dimension, size in enumerate(self.dims) if size > 1)
