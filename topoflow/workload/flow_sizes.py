"""Files of flow sizes, as they are published: two columns, bytes and the share of flows that are not larger."""

from __future__ import annotations

from math import isfinite
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from topoflow.files import read_bytes


def read_sizes(path: Path) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Sizes in bytes and the share of flows up to each, 0 to 1. Raises ``ValueError`` that names file and line."""
    rows: list[tuple[float, ...]] = []
    for number, line in enumerate(read_bytes(path).decode(errors="replace").splitlines(), start=1):
        words = line.split()
        try:
            row = tuple(float(word) for word in words)
        except ValueError:
            row = ()
        if words and (len(row) != 2 or not all(map(isfinite, row)) or min(row) < 0):
            raise ValueError(f"{path}:{number}: must be a size and a share, both at least 0, got {line[:60]!a}")
        if words and rows and (row[0] < rows[-1][0] or row[1] < rows[-1][1]):
            raise ValueError(f"{path}:{number}: must not be below the line before, got {line[:60]!a}")
        rows += [row] if words else []
    last = rows[-1][1] if rows else 0.0
    if len(rows) < 2 or last not in (1.0, 100.0):
        raise ValueError(f"{path}: must be of two lines at least, to a share of 1 or of 100 %, got {last:g}")
    sizes, shares = np.array(rows, np.float64).T
    return sizes, shares / last
