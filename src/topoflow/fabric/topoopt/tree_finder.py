"""Circuits for all-reduces over double binary trees, with the permutations of TotientPerms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from topoflow.collectives.trees import PORTS, tree_edges
from topoflow.fabric.topoopt.select_permutations import select_permutations
from topoflow.fabric.wiring import Cable

Group = tuple[int, ...]


@dataclass(frozen=True)
class PlannedTrees:
    """The plan of all groups: the ``strides`` of their pairs of trees, and the edges with their bytes."""

    strides: dict[Group, tuple[int, ...]]
    edges: tuple[tuple[Group, Cable], ...]  # heaviest group first
    bytes: NDArray[np.float64]  # [servers, servers] from server to server, along the edges


def plan_trees(
    servers: int, degrees: Mapping[Group, int], buffers: Mapping[Group, float], primes_above: float
) -> PlannedTrees:
    """Return one pair of trees for every PORTS of a group's ``degrees``, at least one (TopoOpt, appendix A)."""
    strides: dict[Group, tuple[int, ...]] = {}
    edges: list[tuple[Group, Cable]] = []
    bytes = np.zeros((servers, servers))
    for group, degree in degrees.items():
        if degree == 0:
            continue
        strides[group] = select_permutations(len(group), max(1, degree // PORTS), primes_above)
        for stride in strides[group]:
            for child, parent in tree_edges(group, stride):
                edges.append((group, (child, parent)))
                bytes[[child, parent], [parent, child]] += buffers[group] / (2 * len(strides[group]))
    return PlannedTrees(strides, tuple(edges), bytes)


def lay(edges: Sequence[tuple[Group, Cable]], free: list[int], limit: Mapping[Group, int]) -> list[tuple[Group, Cable]]:
    """Return the edges that get circuits, in their order; they take ``free`` ports, at most ``limit`` per group."""
    used: Counter[tuple[Group, int]] = Counter()
    laid = []
    for group, ends in edges:
        if all(free[end] > 0 and used[group, end] < limit[group] for end in ends):
            laid.append((group, ends))
            for end in ends:
                free[end] -= 1
                used[group, end] += 1
    return laid
