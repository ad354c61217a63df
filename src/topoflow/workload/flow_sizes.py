"""Flow sizes: distributions, and the files in which distributions are published.

A file has two ascending columns: bytes, and the share of flows that are not larger (0 to 1, or per cent).

Shapes: n flows, R rows of a file.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Protocol

import numpy as np

from topoflow.arrays import Floats
from topoflow.files import read_bytes
from topoflow.units import is_finite


class Sizes(Protocol):
    """A distribution of flow sizes with a finite mean."""

    def of(self, share: Floats) -> Floats:
        """Return [n] sizes (B, whole, at least 1) at the quantiles ``share`` [n]; 0 <= share < 1."""


@dataclass(frozen=True)
class Pareto:
    """P(size > x) = (x0 / x)^shape for x >= x0 = mean * (shape - 1) / shape. Source: Sirius, 7: 1.05, 100 KB."""

    mean: float  # B
    shape: float

    def __post_init__(self) -> None:
        _check_mean(self.mean)
        if not (is_finite(self.shape) and self.shape > 1):
            raise ValueError(f"workload.shape: must be above 1, as there is no mean otherwise, got {self.shape}")

    def of(self, share: Floats) -> Floats:
        least = self.mean * (self.shape - 1) / self.shape
        sizes: Floats = np.ceil(least * (1 - share) ** (-1 / self.shape))
        return sizes


@dataclass(frozen=True)
class FixedSize:
    """A distribution in which every flow has ``mean`` bytes, rounded up."""

    mean: float  # B

    def __post_init__(self) -> None:
        _check_mean(self.mean)

    def of(self, share: Floats) -> Floats:
        return np.full(len(share), np.ceil(self.mean))


@dataclass(frozen=True, eq=False)
class SizeTable:
    """A piecewise linear distribution, uniform between two rows of a file."""

    bytes: Floats  # [R] ascending
    shares: Floats  # [R] share of flows that are not larger, up to 1

    def of(self, share: Floats) -> Floats:
        sizes: Floats = np.maximum(np.ceil(np.interp(share, self.shares, self.bytes)), 1.0)
        return sizes


def _check_mean(mean: float) -> None:
    if not (is_finite(mean) and mean >= 1):
        raise ValueError(f"workload.mean: must be at least 1 byte, got {mean}")


def read_sizes(path: Path) -> SizeTable:
    """Return the table of a file. Raises ``ValueError`` that names file and line."""
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
    return SizeTable(sizes, shares / last)
