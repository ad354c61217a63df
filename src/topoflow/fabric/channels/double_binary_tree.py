r"""Double binary trees, and their permutations: an all-reduce as mutable as one on rings.

Two trees over the same servers, each for half of the buffer. Who has children in one is a leaf of the other (but for
one server where n is odd), so that all ports are busy. n = 6, the second tree is the first with position r renamed
5 - r; for odd n it is renamed (r + 1) mod n:

        0                 5
        |                 |
        4                 1
       / \               / \
      2   5             3   0
     / \               / \
    1   3             4   2

Who stands where is free: any order of the group gives another pair of trees that is as good. TopoOpt limits the orders
to those of its rings: position r is server r p mod n, for a stride p that is co-prime with n. n = 6, p = 5:

        0                 1
        |                 |
        2                 5
       / \               / \
      4   1             3   0
     / \               / \
    5   3             2   4

Every edge carries the buffer's half up and down. A server has at most PORTS edges: 3 where it has children and 1 where
it is a leaf.

Source: Sanders, Speck and Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", Parallel
Computing 35(12), 2009; NCCL 2.30, src/graph/trees.cc (ncclGetBtree, ncclGetDtree); TopoOpt, appendix A and E.1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Index = NDArray[np.int64]

NO_PARENT = -1
PORTS = 4  # circuits each way that a server has at most, where every edge of both trees has its own


def binary_tree(size: int) -> Index:
    """[n] parent of every position: the in-order numbered tree where the lowest set bit of a position is its height."""
    position = np.arange(size)
    bit = position & -position
    parent = (position ^ bit) | (bit << 1)
    parent = np.where(parent < size, parent, position ^ bit)
    parent[0] = NO_PARENT
    return parent


def double_binary_tree(order: Index) -> tuple[Index, Index]:
    """[n] and [n] the parent of every member in both trees; ``order`` [n] is who stands at each position."""
    size = len(order)
    positions = np.arange(size)
    mirrored = size - 1 - positions if size % 2 == 0 else (positions + 1) % size  # who plays it in the second tree
    return _placed(order), _placed(order[mirrored])


def tree_edges(group: tuple[int, ...], stride: int) -> tuple[tuple[int, int], ...]:
    """Child and parent of every edge of both trees whose position r is server r * ``stride`` mod n of ``group``."""
    order = np.arange(len(group)) * stride % len(group)
    return tuple(
        (group[child], group[parent])
        for parents in double_binary_tree(order)
        for child, parent in enumerate(parents.tolist())
        if parent != NO_PARENT
    )


def _placed(order: Index) -> Index:
    """The parents of the binary tree with ``order[r]`` at position r."""
    parents = binary_tree(len(order))
    placed = np.full(len(order), NO_PARENT)
    placed[order] = np.where(parents == NO_PARENT, NO_PARENT, order[parents])
    return placed
