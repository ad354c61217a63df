"""Sets of time as sorted, disjoint intervals. Shapes: n intervals, [n, 2] start and end in seconds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Spans = NDArray[np.float64]


def merge(spans: Spans) -> Spans:
    """The union of intervals, in order: ``[[0, 2], [1, 3], [5, 6]] -> [[0, 3], [5, 6]]``."""
    if len(spans) == 0:
        return np.zeros((0, 2))
    ordered = spans[np.argsort(spans[:, 0], kind="stable")]
    reach = np.maximum.accumulate(ordered[:, 1])
    first = np.concatenate(([True], ordered[1:, 0] > reach[:-1]))
    last = np.concatenate((first[1:], [True]))
    return np.column_stack((ordered[first, 0], reach[last]))


def intersection(first: Spans, second: Spans) -> Spans:
    """Return the intersection of two merged sets: ``[[0, 3]], [[2, 5]] -> [[2, 3]]``."""
    spans = []
    i = j = 0
    while i < len(first) and j < len(second):
        start, end = max(first[i, 0], second[j, 0]), min(first[i, 1], second[j, 1])
        if start < end:
            spans.append((start, end))
        if first[i, 1] < second[j, 1]:
            i += 1
        else:
            j += 1
    return np.array(spans).reshape(-1, 2)


def covered(spans: Spans, moments: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how much of a merged set lies before each moment, s: ``[[0, 3], [5, 6]], [2, 4, 9] -> [2, 3, 4]``."""
    if len(spans) == 0:
        return np.zeros(len(moments))
    reached = np.concatenate(([0.0], np.cumsum(spans[:, 1] - spans[:, 0])))
    before: NDArray[np.float64] = np.interp(moments, spans.ravel(), np.repeat(reached, 2)[1:-1])
    return before


def total(spans: Spans) -> float:
    """Seconds in a merged set."""
    return float((spans[:, 1] - spans[:, 0]).sum())
