"""Figures from plain numbers: lines, distributions, bars and heat maps in one style, a panel per part of a figure.

draw_lines(
    "Iteration time",
    {"DLRM": {"topoopt": ([10, 100], [0.2, 0.03]), "fat_tree": ([10, 100], [0.5, 0.06])}},
    Axis("bandwidth of an interface [Gb/s]", log=True),
    Axis("time of one training step", "s", log=True),
)

A series has the same look in all panels of a figure, and all panels share one legend. ``fabrics`` (series -> name of
its fabric) gives a series the colour of that fabric. ``style.png`` writes a figure to a file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from topoflow.report.draw import heat_map
from topoflow.report.draw.axis import Axis, Floats, name_groups, rule, tick_at
from topoflow.report.draw.cdf import steps
from topoflow.report.draw.style import COLOURS, Look, grid_shape, legend_columns, panels, series_looks

MAX_PANELS_PER_ROW = 3  # panels
THIN = {"v": 1.1, "P": 1.1, "X": 1.1, "*": 1.3}  # markers that fill less of their size
NO_DECIMALS = 1000  # values from here on are written without decimals
MAX_VALUES = 24  # bars of a panel with their values above them; with more bars no values are written

Lines = Mapping[str, tuple[ArrayLike, ArrayLike]]  # series -> (x, y); a y of NaN is a gap
Samples = Mapping[str, ArrayLike]  # series -> values whose distribution is shown
Bars = Mapping[str, Mapping[str, float]]  # series -> group -> value; NaN: there is none


def draw_lines(
    title: str, parts: Mapping[str, Lines], x: Axis, y: Axis, fabrics: Mapping[str, str] | None = None
) -> Figure:
    """Draw a panel per part with a line per series. Raises ``ValueError`` for a value that an axis cannot show."""

    def draw(axes: Axes, across: Floats, up: Floats, name: str, look: Look) -> None:
        axes.plot(across, up, label=name, **_marked(look))

    figure = _draw_over_x(title, parts, x, y, fabrics, draw)
    for axes, lines in zip(figure.axes, parts.values(), strict=True):
        xs = [np.asarray(across, dtype=np.float64) for across, _ in lines.values()]
        tick_at(axes.xaxis, x, [across / x.factor(xs) for across in xs])
    return figure


def draw_steps(
    title: str, parts: Mapping[str, Lines], x: Axis, y: Axis, fabrics: Mapping[str, str] | None = None
) -> Figure:
    """Draw a panel per part with a line per series, which keeps each value until the next x."""

    def draw(axes: Axes, across: Floats, up: Floats, name: str, look: Look) -> None:
        axes.step(across, up, where="post", label=name, **_lined(look))

    return _draw_over_x(title, parts, x, y, fabrics, draw)


def _draw_over_x(
    title: str,
    parts: Mapping[str, Lines],
    x: Axis,
    y: Axis,
    fabrics: Mapping[str, str] | None,
    draw: Callable[[Axes, Floats, Floats, str, Look], None],
) -> Figure:
    """Draw a panel per part; ``draw`` is called with its axes and each series: shown points, name and look."""
    figure, axes_list, looks = _canvas(title, parts, fabrics)
    for axes, (part, lines) in zip(axes_list, parts.items(), strict=True):
        points = {name: _points(f"{title}: {part}: {name}", *line, x, y) for name, line in lines.items()}
        xs, ys = [at[0] for at in points.values()], [at[1] for at in points.values()]
        for name, (across, up) in points.items():
            draw(axes, across / x.factor(xs), up / y.factor(ys), name, looks[name])
        axes.set_title(part, fontsize=10)
        axes.set_xlabel(x.text(xs))
        axes.set_ylabel(y.text(ys))
        rule(axes, x, y)
        if not y.log and axes.get_ylim()[0] > 0:
            axes.set_ylim(0, axes.dataLim.ymax * (1 + rcParams["axes.ymargin"]))  # room above as for any axis
    _legend(figure, looks)
    return figure


def draw_cdf(
    title: str, parts: Mapping[str, Samples], x: Axis, what: str, fabrics: Mapping[str, str] | None = None
) -> Figure:
    """Draw a panel per part with a curve per series: the share of its values that are at most x.

    ``what`` names the counted items: "links", "pairs of servers".
    """
    figure, axes_list, looks = _canvas(title, parts, fabrics)
    share = Axis(f"cumulative share of {what} [%]")
    for axes, (part, samples) in zip(axes_list, parts.items(), strict=True):
        read = {name: _values(f"{title}: {part}: {name}", values, x) for name, values in samples.items()}
        factor = x.factor(read.values())
        for name, values in read.items():
            at, below = steps(values / factor)
            axes.step(at, 100 * below, where="post", label=name, **_lined(looks[name]))
        axes.set_title(part, fontsize=10)
        axes.set_xlabel(x.text(read.values()))
        axes.set_ylabel(share.label)
        axes.set_ylim(0, 103)
        rule(axes, x, share)
        if not x.log:
            axes.set_xlim(min(0.0, axes.get_xlim()[0]), 1.02 * axes.get_xlim()[1])
    _legend(figure, looks)
    return figure


def draw_bars(
    title: str, parts: Mapping[str, Bars], y: Axis, x_label: str = "", fabrics: Mapping[str, str] | None = None
) -> Figure:
    """Draw a panel per part: groups of bars, a bar per series. "a\\nb" is a group name of two lines."""
    figure, axes_list, looks = _canvas(title, parts, fabrics)
    for axes, (part, bars) in zip(axes_list, parts.items(), strict=True):
        groups = list(dict.fromkeys(group for values in bars.values() for group in values))
        heights: Floats = np.array(
            [[values.get(group, np.nan) for group in groups] for values in bars.values()], dtype=np.float64
        )
        y.check(f"{title}: {part}", heights)
        _draw_groups(axes, dict(zip(bars, heights / y.factor([heights]), strict=True)), looks)
        axes.margins(y=0.15)
        axes.set_title(part, fontsize=10)
        axes.set_xlabel(x_label)
        axes.set_ylabel(y.text([heights]))
        rule(axes, Axis(x_label), y)
        name_groups(axes, groups)
    _legend(figure, looks)
    return figure


def draw_heat_maps(title: str, matrices: Mapping[str, ArrayLike], what: str = "server") -> Figure:
    """Draw a panel per matrix [n, n] of bytes from row to column, all on one colour scale."""
    read = [np.asarray(matrix, dtype=np.float64) for matrix in matrices.values()]
    figure = heat_map.draw_matrices(list(matrices), read, what)
    figure.suptitle(title)
    return figure


def _points(where: str, xs: ArrayLike, ys: ArrayLike, x: Axis, y: Axis) -> tuple[Floats, Floats]:
    """Return the points of a series, sorted by x."""
    across, up = np.asarray(xs, dtype=np.float64), np.asarray(ys, dtype=np.float64)
    if across.ndim != 1 or across.shape != up.shape:
        raise ValueError(f"{where}: x and y must be lists of one length, got {across.shape} and {up.shape}")
    x.check(f"{where}: x", across)
    y.check(f"{where}: y", up)
    order = np.argsort(across, kind="stable")
    return across[order], up[order]


def _values(where: str, values: ArrayLike, axis: Axis) -> Floats:
    read = np.asarray(values, dtype=np.float64).ravel()
    axis.check(where, read)
    return read


def _draw_groups(axes: Axes, rows: Mapping[str, Floats], looks: Mapping[str, Look]) -> None:
    """Draw the bars of every series, side by side in every group; group g is around x = g."""
    width = 0.8 / len(rows)
    for position, (name, row) in enumerate(rows.items()):
        at = np.array([group - 0.4 + width * (position + 0.5) for group in range(len(row))])
        axes.bar(at, np.nan_to_num(row), width=0.92 * width, color=looks[name].colour, hatch=looks[name].hatch,
                 edgecolor="white", linewidth=0, label=name)  # fmt: skip
        _write_values(axes, at, row, len(rows) * len(row) <= MAX_VALUES)


def _write_values(axes: Axes, at: Floats, row: Floats, all_of_them: bool) -> None:
    """Write the value above every bar, or "none" where it is missing."""
    for x, height in zip(at, row, strict=True):
        text = (f"{height:,.0f}" if height >= NO_DECIMALS else f"{height:.3g}") if all_of_them else ""
        text = text if np.isfinite(height) else "none"
        axes.annotate(text, (x, np.nan_to_num(height)), (0, 2), textcoords="offset points", ha="center", va="bottom",
                      fontsize=7, rotation=90)  # fmt: skip


def _canvas(
    title: str, parts: Mapping[str, Mapping[str, object]], fabrics: Mapping[str, str] | None
) -> tuple[Figure, list[Axes], dict[str, Look]]:
    """Return a figure with a panel per part, and the look of every series in order of appearance."""
    for part in [part for part, series in parts.items() if not series] or ([] if parts else ["panels"]):
        raise ValueError(f"{title}: {part}: must have at least one, got none")
    looks = series_looks((name for part in parts.values() for name in part), fabrics)
    widest = 2 if len(parts) in (2, 4) else MAX_PANELS_PER_ROW
    rows, columns = grid_shape(len(parts), widest)
    width = 7.5 if columns == 1 else 4.3 * columns + 0.6
    figure = Figure(figsize=(width, (4.0 if columns == 1 else 3.3 * rows) + 0.6), layout="constrained")
    figure.suptitle(title)
    return figure, panels(figure, len(parts), widest), looks


def _legend(figure: Figure, looks: Mapping[str, Look]) -> None:
    """Draw one legend for all panels below them; none for a single series."""
    if len(looks) < 2:
        return
    handles: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, name in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(name, handle)
    rows = -(-len(looks) // legend_columns(list(looks), figure.get_figwidth()))
    figure.set_figheight(figure.get_figheight() + 0.25 * rows)
    figure.legend(
        handles=[handles[name] for name in looks],
        labels=list(looks),
        loc="outside lower center",
        ncols=-(-len(looks) // rows),
        frameon=False,
        fontsize=9,
    )


def _lined(look: Look) -> dict[str, Any]:
    """Return the style of a line."""
    return {"color": look.colour, "linestyle": look.line, "linewidth": 2, "zorder": 3 + look.number}


def _marked(look: Look) -> dict[str, Any]:
    """Return the style of a line with hollow markers of different sizes, so that coinciding ones stay visible."""
    size = (12 - 0.8 * (look.number % len(COLOURS))) * THIN.get(look.marker, 1.0)
    return _lined(look) | {"marker": look.marker, "markersize": size, "markerfacecolor": "none", "markeredgewidth": 1.5}
