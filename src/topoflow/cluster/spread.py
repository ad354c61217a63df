"""Random times with a known least, mean, largest and standard deviation.

They are log-normal, and what falls outside of the known range is moved to its ends: times that were capped when they
were published have many at the cap. The two parameters follow from the mean and the standard deviation.

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
LEAST = 1.0  # s: a least time of 0 is one that was rounded down
STEPS = 100  # of a bisection; more than a double has bits
WIDEST = 15.0  # standard deviation of the logarithm; the times of a wider one are all at the ends of the range
CLOSE = 1e-6  # relative


@dataclass(frozen=True)
class Spread:
    """All in s. Raises ``ValueError`` where no such times can have this mean and standard deviation."""

    least: float
    mean: float
    most: float
    deviation: float

    def __post_init__(self) -> None:
        check_not_negative("spread.least", self.least)
        check_positive("spread.deviation", self.deviation)
        if not self.least < self.mean < self.most:
            raise ValueError(f"spread.mean: must be between {self.least} and {self.most}, got {self.mean}")
        largest = sqrt((self.mean - self._low) * (self.most - self.mean))  # of any distribution: all at both ends
        if self.deviation >= largest:
            raise ValueError(f"spread.deviation: must be less than {largest:.4g} for this range, got {self.deviation}")

    def draw(self, count: int, generator: np.random.Generator) -> NDArray[np.float64]:
        """[N] s, whose mean and standard deviation are close to those asked for even where they are few."""
        middle, width = self.parameters
        normal = np.array([NORMAL.inv_cdf(at) for at in stratified(count, generator).tolist()])
        return np.clip(np.exp(middle + width * normal), self._low, self.most)

    @cached_property
    def parameters(self) -> tuple[float, float]:
        """Mean and standard deviation of the logarithm, before times are moved into the range."""
        square = self.mean**2 + self.deviation**2
        width = bisect(lambda width: self._moment(2, self._middle(width), width) - square, 1e-3, WIDEST)
        middle = self._middle(width)
        if abs(self._moment(2, middle, width) / square - 1) > CLOSE:
            law = "must be one that a log-normal distribution in this range has"
            raise ValueError(f"spread.deviation: {law}, got {self.deviation}")
        return middle, width

    @property
    def _low(self) -> float:
        return self.least or LEAST

    def _middle(self, width: float) -> float:
        """The mean of the logarithm with which the times have their mean."""
        far = 10 * width
        low, high = log(self._low) - far, log(self.most) + far
        return bisect(lambda middle: self._moment(1, middle, width) - self.mean, low, high)

    def _moment(self, power: int, middle: float, width: float) -> float:
        """E[X^power] of what is drawn."""
        below, above = ((log(end) - middle) / width for end in (self._low, self.most))
        between = NORMAL.cdf(above - power * width) - NORMAL.cdf(below - power * width)
        inside = exp(power * middle + (power * width) ** 2 / 2 + log(between)) if between > 0 else 0.0
        ends = self._low**power * NORMAL.cdf(below) + self.most**power * NORMAL.cdf(-above)
        return inside + ends


def stratified(count: int, generator: np.random.Generator) -> NDArray[np.float64]:
    """[N] numbers in (0, 1) in random order, one in each of N equal parts (McKay, Beckman and Conover, 1979)."""
    return (generator.permutation(count) + generator.uniform(1e-9, 1.0, count)) / count


def bisect(rising: Callable[[float], float], low: float, high: float) -> float:
    """Where a rising function is 0."""
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if rising(middle) > 0 else (middle, high)
    return (low + high) / 2
