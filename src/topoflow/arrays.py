"""The types of the arrays that stages hand to each other, and ragged arrays as one array with offsets (CSR)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Offsets = NDArray[np.int64]
Mask = NDArray[np.bool_]


def offsets(counts: Iterable[int] | Offsets) -> Offsets:
    """Return [N+1] the offset where each of N ragged rows begins; the last entry is the total length."""
    counts = np.asarray(counts if isinstance(counts, np.ndarray) else list(counts), np.int64)
    row_start = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=row_start[1:])
    return row_start


def rows_of(begin: Offsets, rows: Ints | Offsets) -> tuple[Offsets, Offsets]:
    """Return the offsets of the ragged ``rows`` alone, in that order, and where each of their items was."""
    count = np.diff(begin)[rows]
    begins = offsets(count)
    return begins, np.arange(begins[-1]) + np.repeat(begin[rows] - begins[:-1], count)


def row_offsets(rows: NDArray[np.integer[Any]], count: int) -> Offsets:
    """Return [count+1] offsets of the rows of items that are sorted by their row (``rows`` [items])."""
    return offsets(np.bincount(rows, minlength=count))


def distinct(keys: Offsets) -> Offsets:
    """Return the distinct ``keys``, ascending. The keys form ascending runs, which a merge sort merges fast."""
    ordered = np.sort(keys, kind="stable")
    return ordered[np.append(True, ordered[1:] != ordered[:-1])] if len(keys) else keys


def filled(arrays: Sequence[Ints | None], lengths: Sequence[int], missing: int) -> Ints:
    """Return ``arrays`` end to end, with ``missing`` for each value of one that is None; empty if all are None."""
    if all(array is None for array in arrays):
        return np.zeros(0, np.int32)
    parts = [np.full(n, missing) if array is None else array for array, n in zip(arrays, lengths, strict=True)]
    return np.concatenate(parts, dtype=np.int32, casting="unsafe")
