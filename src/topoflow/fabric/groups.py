"""Groups that are cabled to each other: which of a group's ports leads where, and how pairs are numbered.

Shapes: F pairs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Index = NDArray[np.int64]


def palm_tree(group: Index, other: Index, turn: Index, groups: int) -> Index:
    """[F] the global port of ``group`` that has cable number ``turn`` to the ``other`` group.

    The palm-tree arrangement (Camarero, Vallejo and Beivide, "Topological characterization of Hamming and dragonfly
    networks and its implications on routing", ACM TACO 11(4), 2014): number j of a group leads j + 1 groups back,
    counted modulo the groups, and comes in there as number groups - 2 - j. With several cables between two groups that
    is repeated.
    """
    port: Index = turn * (groups - 1) + (group - other) % groups - 1
    return port


def pairs(count: int) -> int:
    """How many pairs there are of ``count``."""
    return count * (count - 1) // 2


def pair(lower: Index, upper: Index, count: int) -> Index:
    """The place of a pair among all of ``count``, as ``np.triu_indices`` lists them."""
    return lower * count - lower * (lower + 1) // 2 + upper - lower - 1
