"""Random times with a known minimum, mean, maximum and standard deviation, which two shapes have.

log_normal        many short times, fewer the longer they are, and clipped to the range: published times that were
                  capped have many values at the cap
greatest_entropy  nothing else is assumed. Where the deviation exceeds the mean, most times are near the minimum, few
                  near the maximum, and hardly any between them

Shapes: N numbers, C cells.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import exp, log, sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from topoflow.scheduling.entropy import greatest_entropy
from topoflow.units import check_among, check_not_negative, check_positive

NORMAL = NormalDist()
MIN_TIME = 1.0  # s; replaces a published minimum of 0, which was rounded down
STEPS = 100  # of a bisection; more than a double has bits
MAX_WIDTH = 15.0  # standard deviation of the logarithm; above it all times are clipped to the ends of the range
TOLERANCE = 1e-6  # relative
CELLS = 2**12  # of the range, for the distribution of greatest entropy
SHAPES = ("greatest_entropy", "log_normal")


@dataclass(frozen=True)
class Spread:
    """A distribution of times (s). Raises ``ValueError`` where none of its shape has this mean and deviation."""

    least: float
    mean: float
    most: float
    deviation: float
    shape: str = "log_normal"

    def __post_init__(self) -> None:
        check_among("spread.shape", self.shape, SHAPES)
        check_not_negative("spread.least", self.least)
        check_positive("spread.deviation", self.deviation)
        if not self.least < self.mean < self.most:
            raise ValueError(f"spread.mean: must be between {self.least} and {self.most}, got {self.mean}")
        largest = sqrt((self.mean - self._low) * (self.most - self.mean))  # if all times are at one of both ends
        if self.deviation >= largest:
            raise ValueError(f"spread.deviation: must be less than {largest:.4g} for this range, got {self.deviation}")

    def draw(self, count: int, generator: np.random.Generator) -> NDArray[np.float64]:
        """Return [N] times (s) whose mean and standard deviation are close to those specified, even for small N."""
        quantiles = stratified(count, generator)
        if self.shape == "greatest_entropy":
            return np.interp(quantiles, *self.cumulative)
        middle, width = self.parameters
        normal = np.array([NORMAL.inv_cdf(quantile) for quantile in quantiles.tolist()])
        return np.clip(np.exp(middle + width * normal), self._low, self.most)

    @cached_property
    def parameters(self) -> tuple[float, float]:
        """Return the mean and standard deviation of the logarithm before clipping."""
        square = self.mean**2 + self.deviation**2
        width = bisect(lambda width: self._moment(2, self._middle(width), width) - square, 1e-3, MAX_WIDTH)
        middle = self._middle(width)
        if abs(self._moment(2, middle, width) / square - 1) > TOLERANCE:
            rule = "must be one that a log-normal distribution in this range has"
            raise ValueError(f"spread.deviation: {rule}, got {self.deviation}")
        return middle, width

    @cached_property
    def cumulative(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the cumulative probability at the ends of all cells, and these ends (s) [C + 1]."""
        edges = np.linspace(0, 1, CELLS + 1)  # of the range
        part = (edges[1:] + edges[:-1]) / 2
        mean, deviation = (
            (time - shift) / (self.most - self._low) for time, shift in ((self.mean, self._low), (self.deviation, 0))
        )
        features, means = np.stack([part, part**2]), np.array([mean, mean**2 + deviation**2])
        probabilities = greatest_entropy(features, means)
        if np.abs(features @ probabilities / means - 1).max() > TOLERANCE:
            raise ValueError(f"spread.deviation: must be one that times in this range have, got {self.deviation}")
        return np.concatenate([[0.0], np.cumsum(probabilities)]), self._low + edges * (self.most - self._low)

    @property
    def _low(self) -> float:
        return self.least or MIN_TIME

    def _middle(self, width: float) -> float:
        """Return the mean of the logarithm for which the clipped times have the specified mean."""
        margin = 10 * width
        low, high = log(self._low) - margin, log(self.most) + margin
        return bisect(lambda middle: self._moment(1, middle, width) - self.mean, low, high)

    def _moment(self, power: int, middle: float, width: float) -> float:
        """Return E[X^power] of the clipped times."""
        below, above = ((log(end) - middle) / width for end in (self._low, self.most))
        between = NORMAL.cdf(above - power * width) - NORMAL.cdf(below - power * width)
        inside = exp(power * middle + (power * width) ** 2 / 2 + log(between)) if between > 0 else 0.0
        ends = self._low**power * NORMAL.cdf(below) + self.most**power * NORMAL.cdf(-above)
        return inside + ends


def stratified(count: int, generator: np.random.Generator) -> NDArray[np.float64]:
    """Return [N] numbers in (0, 1) in random order, one in each of N equal parts (McKay et al., 1979)."""
    return (generator.permutation(count) + generator.uniform(1e-9, 1.0, count)) / count


def bisect(rising: Callable[[float], float], low: float, high: float) -> float:
    """Return the zero of a rising function within low..high."""
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if rising(middle) > 0 else (middle, high)
    return (low + high) / 2
