"""Ternary plots: three shares that sum to 1 as a point in a triangle, here active, stalled and idle time.

             100 % active
                 /\\
                /  \\
               /____\\
    100 % idle        100 % stalled

Equal points, for example of 400,000 ports, share one marker, which is larger and darker.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from topoflow.report.draw.style import grid_shape, legend_columns, panels, series_looks

Floats = NDArray[np.float64]

HEIGHT = np.sqrt(3) / 2  # of a triangle with sides of 1
MAX_PANELS_PER_ROW = 3


class TimeShares(NamedTuple):
    """Shares of time, and the number of ports that have them; the remaining time is idle."""

    active: Floats
    stalled: Floats
    number: Floats


def place(active: Floats, stalled: Floats) -> tuple[Floats, Floats]:
    """Return x and y in a triangle whose corners are (0, 0) idle, (1, 0) stalled and (1/2, HEIGHT) active."""
    return stalled + active / 2, active * HEIGHT


def draw_ternary(title: str, parts: Mapping[str, Mapping[str, TimeShares]]) -> Figure:
    """Draw a panel per part, with a colour per kind of point that is the same in all panels."""
    looks = series_looks(kind for kinds in parts.values() for kind in kinds)
    rows, columns = grid_shape(len(parts), MAX_PANELS_PER_ROW)
    figure = Figure(figsize=(4.2 * columns + 0.4, 4.1 * rows + 0.9), layout="constrained")
    figure.suptitle(title)
    for axes, (part, kinds) in zip(panels(figure, len(parts), MAX_PANELS_PER_ROW), parts.items(), strict=True):
        _triangle(axes)
        axes.set_title(part, fontsize=10)
        largest = max((float(points.number.max(initial=1)) for points in kinds.values()), default=1.0)
        for kind, points in kinds.items():
            weight = np.log1p(points.number) / np.log1p(largest)  # so that a cell with one port is visible
            x, y = place(points.active, points.stalled)
            size, alpha = 8 + 70 * weight, 0.25 + 0.5 * weight
            axes.scatter(x, y, s=size, alpha=alpha, color=looks[kind].colour, marker=looks[kind].marker, lw=0)
    handles = [
        Line2D([], [], color=look.colour, marker=look.marker, linestyle="", label=kind) for kind, look in looks.items()
    ]
    columns = legend_columns(list(looks), figure.get_figwidth())
    figure.legend(handles=handles, loc="outside lower center", ncols=columns, frameon=False, fontsize=9)
    return figure


def _triangle(axes: Axes) -> None:
    """Draw the frame, names of the corners, and lines of equal shares at every fifth."""
    axes.set_aspect("equal")
    axes.set_axis_off()
    axes.set_xlim(-0.12, 1.12)
    axes.set_ylim(-0.12, HEIGHT + 0.1)
    axes.plot([0, 1, 0.5, 0], [0, 0, HEIGHT, 0], color="#444444", linewidth=1)
    for share in (0.2, 0.4, 0.6, 0.8):
        for start, end in (((share, 0), (share, 1 - share)), ((0, share), (1 - share, share))):
            _line(axes, start, end)
        _line(axes, (share, 0), (0, share))
    for name, (x, y), align in (("idle", (0, -0.07), "center"), ("stalled", (1, -0.07), "center")):
        axes.text(x, y, name, ha=align, fontsize=9)
    axes.text(0.5, HEIGHT + 0.03, "active", ha="center", fontsize=9)


def _line(axes: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    """Draw a line between two points (active, stalled)."""
    x, y = place(np.array([start[0], end[0]]), np.array([start[1], end[1]]))
    axes.plot(x, y, color="#DDDDDD", linewidth=0.6, zorder=0)
