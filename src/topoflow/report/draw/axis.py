"""Axes of figures: label, unit, scale and ticks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis as Ruler
from matplotlib.ticker import FixedLocator, LogLocator, MaxNLocator, NullFormatter, NullLocator
from numpy.typing import NDArray

from topoflow.report.draw.style import plain, scale
from topoflow.units import human

MAX_TICKS = 10  # up to this number of distinct values, each value is a tick
LETTER = 0.022  # width of a letter as a share of the axis; the names of ticks must not overlap
PLAIN = 1e4  # larger numbers are shortened
DIGITS = ((1,), (1, 2, 5), (1, 2, 3, 5, 7), tuple(range(1, 10)))  # of the ticks of a logarithmic axis: sparse to dense
MIN_TICKS = 4  # of a logarithmic axis; fewer do not show its scale
NARROW = 1.01  # a logarithmic axis with a smaller ratio of its ends is widened by this factor at both
LETTERS = 7  # longer names of groups are rotated

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Axis:
    """The content of an axis. With a ``unit`` (SI: "s", "B", "b/s", ...) its numbers get a suitable prefix."""

    label: str
    unit: str = ""
    log: bool = False

    def check(self, where: str, values: Floats) -> None:
        """Raise ``ValueError`` for a value that the axis cannot show; NaN is a gap."""
        if np.isinf(values).any():
            raise ValueError(f"{where}: must be finite, or NaN where there is nothing, got inf")
        if self.log and (values <= 0).any():
            raise ValueError(f"{where}: must be positive on a logarithmic axis, got {values[values <= 0][0]:g}")

    def factor(self, values: Iterable[Floats]) -> float:
        """Return the divisor of shown values; a logarithmic axis has a unit at every tick instead, and divisor 1."""
        return self._scale(values)[0]

    def text(self, values: Iterable[Floats]) -> str:
        """Return the label along the axis."""
        unit = self._scale(values)[1]
        return f"{self.label} [{unit}]" if unit else self.label

    def tick(self, value: float) -> str:
        """Return the name of a tick at a value as shown: ``10 ms``, ``2000``, ``5 M``."""
        if self.log and self.unit:
            return human(value, self.unit)
        return human(value, "").strip() if abs(value) >= PLAIN else f"{value:g}"

    def _scale(self, values: Iterable[Floats]) -> tuple[float, str]:
        if not self.unit or self.log:
            return 1.0, ""
        finite = (value for array in values for value in array[np.isfinite(array)].tolist())
        return scale(finite, self.unit)


def rule(axes: Axes, across: Axis, up: Axis) -> None:
    """Set scales, ticks and grid, after everything is drawn."""
    if across.log:
        axes.set_xscale("log")
        axes.set_xlim(_wide(axes.get_xlim()))
        _log_ticks(axes.xaxis, across, axes.get_xlim(), letter=LETTER)
    if up.log:
        axes.set_yscale("log")
        axes.set_ylim(_wide(axes.get_ylim()))
        _log_ticks(axes.yaxis, up, axes.get_ylim(), letter=0.0)
    plain(axes, "both")


def _wide(limits: tuple[float, float]) -> tuple[float, float]:
    """Return limits that differ: values that are equal up to rounding are a flat line in the middle."""
    low, high = limits
    return (low / NARROW, high * NARROW) if high < low * NARROW else limits


def _log_ticks(ruler: Ruler, axis: Axis, limits: tuple[float, float], letter: float) -> None:
    """Set the sparsest ticks that show the scale, in equal steps if the axis is too short for any of ``DIGITS``.

    Few ticks are better than overlapping names: a ``letter`` takes this share of the axis.
    """
    ticks = {choice: _ticks(choice, limits) for choice in DIGITS}
    readable = [choice for choice in DIGITS if choice == DIGITS[0] or _fit(axis, ticks[choice], limits, letter)]
    digits = next((choice for choice in readable if len(ticks[choice]) >= MIN_TICKS), None)
    if digits is None and len(ticks[readable[-1]]) >= 2:
        digits = readable[-1] if len(readable) < len(DIGITS) else None
    steps = MaxNLocator(6, min_n_ticks=MIN_TICKS)
    ruler.set_major_locator(steps if digits is None else LogLocator(subs=digits, numticks=12))
    ruler.set_major_formatter(lambda value, _: axis.tick(value))
    ruler.set_minor_formatter(NullFormatter())


def _ticks(digits: Sequence[int], limits: tuple[float, float]) -> list[float]:
    """Return the numbers within the limits whose first digit is one of ``digits``, followed by zeros."""
    low, high = (int(np.floor(np.log10(limit))) for limit in limits)
    numbers = [digit * 10.0**power for power in range(low, high + 1) for digit in digits]
    return [number for number in numbers if limits[0] <= number <= limits[1]]


def _fit(axis: Axis, ticks: Sequence[float], limits: tuple[float, float], letter: float) -> bool:
    """Return whether the names of neighbouring ticks leave the width of a letter between them."""
    distance = np.diff(np.log(ticks)) / np.log(limits[1] / limits[0])
    letters = np.array([len(axis.tick(tick)) for tick in ticks])
    return bool((distance >= letter * ((letters[1:] + letters[:-1]) / 2 + 1)).all())


def tick_at(ruler: Ruler, axis: Axis, values: Iterable[Floats]) -> None:
    """Set a tick at every measured value if these are few and far enough apart to be readable."""
    distinct = np.unique(np.concatenate([*values, np.zeros(0)]))
    places = np.log(distinct) if axis.log else distinct
    letters = max((len(axis.tick(value)) for value in distinct), default=0)
    if not 2 <= len(distinct) <= MAX_TICKS or np.diff(places).min() < LETTER * (letters + 1) * (places[-1] - places[0]):
        return
    ruler.set_major_locator(FixedLocator(distinct.tolist()))
    ruler.set_minor_locator(NullLocator())


def name_groups(axes: Axes, groups: Sequence[str]) -> None:
    """Write the groups of a bar chart under its bars, the first around 0; long names are rotated."""
    axes.set_xticks(range(len(groups)), groups)
    if len(groups) > 2 and max(len(line) for group in groups for line in group.split("\n")) > LETTERS:
        for label in axes.get_xticklabels():
            label.set(rotation=25, horizontalalignment="right")
    axes.tick_params(axis="x", length=0)
    axes.grid(axis="x", visible=False)
