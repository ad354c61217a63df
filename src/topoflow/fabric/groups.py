"""Groups that are cabled to each other: the targets of a group's ports, and the numbering of pairs.

Shapes: F pairs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Index = NDArray[np.int64]


def palm_tree(group: Index, other: Index, turn: Index, groups: int) -> Index:
    """Return [F] the global port of ``group`` that has cable number ``turn`` to the ``other`` group.

    The palm-tree arrangement (Camarero, Vallejo and Beivide, "Topological characterization of Hamming and dragonfly
    networks and its implications on routing", ACM TACO 11(4), 2014): port j of a group leads j + 1 groups back, modulo
    the number of groups, to port groups - 2 - j there. Several cables between two groups repeat this pattern.
    """
    port: Index = turn * (groups - 1) + (group - other) % groups - 1
    return port


def absolute(group: Index, other: Index, turn: Index, groups: int) -> Index:
    """Return [F] the global port of ``group`` that has cable number ``turn`` to the ``other`` group.

    The absolute arrangement: ports lead to the other groups in the order of their numbers. Several cables between two
    groups repeat this pattern. Source: the default of SST 16 (merlin's pymerlin-topo-dragonfly.py, global_routes).
    """
    port: Index = turn * (groups - 1) + other - (other > group)
    return port


PALM_TREE = "palm_tree"
WIRINGS = {PALM_TREE: palm_tree, "absolute": absolute}


def pairs(count: int) -> int:
    """Return the number of pairs among ``count``."""
    return count * (count - 1) // 2


def pair(lower: Index, upper: Index, count: int) -> Index:
    """Return the index of a pair among all pairs of ``count``, in the order of ``np.triu_indices``."""
    return lower * count - lower * (lower + 1) // 2 + upper - lower - 1
