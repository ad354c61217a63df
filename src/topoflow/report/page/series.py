"""The content of figures of lines or bars as numbers that a page draws: a panel per axes, each series with its look.

Figures are drawn once, by ``report/draw/figures.py``. Reading them back makes every figure interactive on a page.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import to_hex
from matplotlib.container import BarContainer
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

Plain = dict[str, Any]
Drawing = Figure

DASHES = {"-": "solid", "--": "dashed", "-.": "dotdash", ":": "dotted"}
SHAPES = {
    "o": "circle",
    "s": "square",
    "^": "triangle",
    "D": "diamond",
    "v": "inverted_triangle",
    "P": "cross",
    "X": "x",
    "*": "star",
}
HATCHES = {"///": "/", "...": ".", "xxx": "x"}
DIGITS = 6  # of a number on a page


def panels(figure: Figure) -> list[Plain] | None:
    """Return the panels of a figure; None if a page cannot draw one, since it has other content than lines and bars."""
    read = [_panel(axes) for axes in figure.axes]
    return [panel for panel in read if panel is not None] if read and None not in read else None


def _panel(axes: Axes) -> Plain | None:
    lines = [line for line in axes.get_lines() if not str(line.get_label()).startswith("_")]
    bars = [bar for bar in axes.containers if isinstance(bar, BarContainer)]
    if not (lines or bars) or axes.images or axes.collections:
        return None
    across, up = _names(axes.xaxis, axes.get_xscale() == "log"), _names(axes.yaxis, axes.get_yscale() == "log")
    ticks = [(float(at), label.get_text()) for at, label in zip(axes.get_xticks(), axes.get_xticklabels(), strict=True)]
    if bars:
        groups = dict(ticks)
        across = lambda at: groups.get(round(at), "")  # noqa: E731
    return {
        "title": axes.get_title(),
        "x": _axis(axes.get_xlabel(), axes.get_xlim(), axes.get_xscale(), axes.xaxis, bool(bars)),
        "y": _axis(axes.get_ylabel(), axes.get_ylim(), axes.get_yscale(), axes.yaxis, False),
        "lines": [_line(line, across, up) for line in lines],
        "bars": [_bars(bar, across, up) for bar in bars],
    }


def _axis(label: str, limits: tuple[float, float], scale: str, axis: Axis, named: bool) -> Plain:
    """Return an axis, with its ticks if these are names of groups, or values with a unit."""
    low, high = limits
    plain: Plain = {"label": label, "log": scale == "log", "from": low, "to": high}
    if named or scale == "log":
        name = axis.get_major_formatter()
        plain["ticks"] = [
            [float(at), str(name(at, n))] for n, at in enumerate(axis.get_ticklocs()) if low <= at <= high
        ]
    return plain


def _names(axis: Axis, log: bool) -> Callable[[float], str]:
    """Return a function that writes a value: with its unit on a logarithmic axis, otherwise as a number."""
    name = axis.get_major_formatter()
    return lambda value: str(name(value, 0)) if log else f"{value:.{DIGITS}g}"


def _line(line: Line2D, across: Callable[[float], str], up: Callable[[float], str]) -> Plain:
    style, marker = str(line.get_linestyle()), str(line.get_marker())
    return {
        "name": str(line.get_label()),
        "colour": to_hex(line.get_color()),
        "dash": DASHES.get(style, "dashed"),
        "marker": SHAPES.get(marker),
        "step": line.get_drawstyle().startswith("steps"),
        **_points(np.asarray(line.get_xdata(), np.float64), np.asarray(line.get_ydata(), np.float64), across, up),
    }


def _bars(bars: BarContainer, across: Callable[[float], str], up: Callable[[float], str]) -> Plain:
    patches: Sequence[Rectangle] = bars.patches
    x = np.array([bar.get_x() + bar.get_width() / 2 for bar in patches])
    y = np.array([bar.get_height() for bar in patches])
    first = patches[0]
    return {
        "name": str(bars.get_label()),
        "colour": to_hex(first.get_facecolor()),
        "hatch": HATCHES.get(str(first.get_hatch() or "")),
        "width": first.get_width(),
        **_points(x, y, across, up),
    }


def _points(
    x: np.ndarray[Any, np.dtype[np.float64]],
    y: np.ndarray[Any, np.dtype[np.float64]],
    across: Callable[[float], str],
    up: Callable[[float], str],
) -> Plain:
    return {
        "x": [_short(value) for value in x.tolist()],
        "y": [_short(value) for value in y.tolist()],
        "across": [across(value) for value in x.tolist()],
        "up": ["none" if not np.isfinite(value) else up(value) for value in y.tolist()],
    }


def _short(value: float) -> float | None:
    return float(f"{value:.{DIGITS}g}") if np.isfinite(value) else None
