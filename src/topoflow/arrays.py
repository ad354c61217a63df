"""The types of the arrays that stages hand to each other, and ragged arrays as one array with offsets (CSR)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Offsets = NDArray[np.int64]
Mask = NDArray[np.bool_]


def offsets(counts: Iterable[int] | Offsets) -> Offsets:
    """[N+1] where each of N ragged rows begins, and where the last ends."""
    counts = np.asarray(counts if isinstance(counts, np.ndarray) else list(counts), np.int64)
    found = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=found[1:])
    return found


def row_offsets(rows: NDArray[np.integer[Any]], count: int) -> Offsets:
    """[N+1] where each of ``count`` rows begins, and the last ends, of items that are sorted by their row."""
    return offsets(np.bincount(rows, minlength=count))


def distinct(keys: Offsets) -> Offsets:
    """``keys`` ascending, each once. They are runs that ascend, which a merge sort puts together fast."""
    ordered = np.sort(keys, kind="stable")
    return ordered[np.append(True, ordered[1:] != ordered[:-1])] if len(keys) else keys
