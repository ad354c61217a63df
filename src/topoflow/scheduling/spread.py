"""Random times with a known minimum, mean, maximum and standard deviation.

The times are log-normal and clipped to the known range: published times that were capped have many values at the cap.
The two parameters follow from the mean and the standard deviation.

Shapes: N numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import exp, log, sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from topoflow.units import check_not_negative, check_positive

NORMAL = NormalDist()
MIN_TIME = 1.0  # s; replaces a published minimum of 0, which was rounded down
STEPS = 100  # of a bisection; more than a double has bits
MAX_WIDTH = 15.0  # standard deviation of the logarithm; above it all times are clipped to the ends of the range
TOLERANCE = 1e-6  # relative


@dataclass(frozen=True)
class Spread:
    """A distribution of times (s). Raises ``ValueError`` where no log-normal has this mean and deviation."""

    least: float
    mean: float
    most: float
    deviation: float

    def __post_init__(self) -> None:
        check_not_negative("spread.least", self.least)
        check_positive("spread.deviation", self.deviation)
        if not self.least < self.mean < self.most:
            raise ValueError(f"spread.mean: must be between {self.least} and {self.most}, got {self.mean}")
        largest = sqrt((self.mean - self._low) * (self.most - self.mean))  # if all times are at one of both ends
        if self.deviation >= largest:
            raise ValueError(f"spread.deviation: must be less than {largest:.4g} for this range, got {self.deviation}")

    def draw(self, count: int, generator: np.random.Generator) -> NDArray[np.float64]:
        """Return [N] times (s) whose mean and standard deviation are close to those specified, even for small N."""
        middle, width = self.parameters
        normal = np.array([NORMAL.inv_cdf(quantile) for quantile in stratified(count, generator).tolist()])
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
