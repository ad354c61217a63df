r"""Double binary trees and their permutations: an all-reduce whose order can be chosen, as with rings.

Two trees over the same servers each carry half of the buffer. An inner node of one tree is a leaf of the other (except
one server if n is odd), so that all ports are busy. For even n the second tree is the first with position r renamed
n - 1 - r; for odd n it is renamed (r + 1) mod n. Example with n = 6:

        0                 5
        |                 |
        4                 1
       / \               / \
      2   5             3   0
     / \               / \
    1   3             4   2

The assignment of servers to positions is free: any order of the group gives an equivalent pair of trees. TopoOpt limits
the orders to those of its rings: position r is server r p mod n, for a stride p that is co-prime with n. Example with
n = 6, p = 5:

        0                 1
        |                 |
        2                 5
       / \               / \
      4   1             3   0
     / \               / \
    5   3             2   4

Every edge carries half of the buffer up and down. A server has at most PORTS edges: 3 in the tree where it has children
and 1 in the tree where it is a leaf.

Source: Sanders, Speck and Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", Parallel
Computing 35(12), 2009; NCCL 2.30, src/graph/trees.cc (ncclGetBtree, ncclGetDtree); TopoOpt, appendix A and E.1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Index = NDArray[np.int64]

NO_PARENT = -1
PORTS = 4  # largest number of circuits of a server per direction, if every edge of both trees has its own


def binary_tree(size: int) -> Index:
    """Return [n] the parent of every position in the in-order tree, whose lowest set bit is the height."""
    position = np.arange(size)
    bit = position & -position
    parent = (position ^ bit) | (bit << 1)
    parent = np.where(parent < size, parent, position ^ bit)
    parent[0] = NO_PARENT
    return parent


def double_binary_tree(order: Index) -> tuple[Index, Index]:
    """Return [n] and [n] the parent of every member in both trees; ``order`` [n] is the member at each position."""
    size = len(order)
    positions = np.arange(size)
    mirrored = size - 1 - positions if size % 2 == 0 else (positions + 1) % size  # position in the second tree
    return _placed(order), _placed(order[mirrored])


def tree_edges(group: tuple[int, ...], stride: int) -> tuple[tuple[int, int], ...]:
    """Return (child, parent) of every edge of both trees with server r * ``stride`` mod n at position r."""
    order = np.arange(len(group)) * stride % len(group)
    return tuple(
        (group[child], group[parent])
        for parents in double_binary_tree(order)
        for child, parent in enumerate(parents.tolist())
        if parent != NO_PARENT
    )


def _placed(order: Index) -> Index:
    """Return the parents of the binary tree with ``order[r]`` at position r."""
    parents = binary_tree(len(order))
    placed = np.full(len(order), NO_PARENT)
    placed[order] = np.where(parents == NO_PARENT, NO_PARENT, order[parents])
    return placed
