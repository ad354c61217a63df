"""Matching: circuits for point-to-point traffic by repeated maximum-weight matchings."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import rustworkx
from numpy.typing import NDArray

from topoflow.fabric.wiring import Cable


def maximum_weight_matching(weights: NDArray[np.float64]) -> list[Cable]:
    """Return disjoint pairs (i < j) whose weights [n, n] (symmetric, >= 0) have the largest sum.

    This is the blossom algorithm (TopoOpt 4.2, line 14) in whole numbers: weights are scaled so that the largest is
    2^52, which keeps every bit that a float sum of them would. Weights that are too small to be scaled count as 0.
    """
    largest = float(weights.max(initial=0.0))
    if largest <= 2.0**52 * np.finfo(np.float64).tiny:
        return []
    scaled = np.rint(np.triu(weights + weights.T) * (2.0**51 / largest)).astype(np.int64)
    graph = rustworkx.PyGraph()
    graph.add_nodes_from(range(len(weights)))
    graph.add_edges_from([(int(i), int(j), int(scaled[i, j])) for i, j in np.argwhere(scaled > 0)])
    pairs = rustworkx.max_weight_matching(graph, weight_fn=int)
    return sorted((min(pair), max(pair)) for pair in pairs)


class Matcher:
    """TopoOpt 4.2, step 3: match, halve the demand of the matched pairs, and match again.

    The paper's matching is undirected: a matched pair gets a circuit in each direction, which takes one transmit and
    one receive port of both servers, and its weight is the demand of both directions.
    """

    def __init__(self, mp: NDArray[np.float64]) -> None:
        self.demand = mp + mp.T

    def have(self, pairs: Iterable[Cable]) -> None:
        """Halve the demand of ``pairs``, once for each occurrence."""
        for i, j in pairs:
            self.demand[[i, j], [j, i]] /= 2

    def match(self, free: list[int]) -> list[Cable]:
        """Return a matching among servers with ``free`` ports, which it takes; empty without demand between them."""
        able = np.array(free) > 0
        pairs = maximum_weight_matching(np.where(np.outer(able, able), self.demand, 0.0))
        self.have(pairs)
        for i, j in pairs:
            free[i] -= 1
            free[j] -= 1
        return pairs
