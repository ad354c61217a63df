"""Cumulative distributions of path lengths, link loads, and slowdowns by failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from topoflow.case.base import Result
from topoflow.report.base import Report
from topoflow.report.draw.style import COLOURS, LINES, Look, fabric_looks, legend_columns, panels, plain, scale

MAX_CURVES = len(COLOURS)  # with different colours


def steps(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the empirical distribution as (x, share of values <= x), starting at share 0; empty without values."""
    ordered = np.sort(values)
    if not ordered.size:
        return ordered, ordered
    return np.concatenate((ordered[:1], ordered)), np.arange(len(ordered) + 1) / len(ordered)


def _curve(axes: Axes, look: Look, values: NDArray[np.float64], label: str | None) -> None:
    """Draw the distribution of values; infinite ones are left out, so that the curve ends below 100 %."""
    x, share = steps(values)
    x, share = x[np.isfinite(x)], share[np.isfinite(x)]
    axes.step(x, 100 * share, where="post", color=look.colour, linestyle=look.line, linewidth=2, label=label)


def _looks(report: Report, outcomes: Sequence[Result]) -> list[Look]:
    """Return the look of each curve: the colour of its fabric, and a line style if the fabric has several."""
    of_fabric, used, looks = fabric_looks(report.fabrics), Counter[str](), []
    for position, name in enumerate(outcome.settings.fabric for outcome in outcomes):
        several = sum(other.settings.fabric == name for other in outcomes) > 1
        line = LINES[used[name] if several else position]
        looks.append(replace(of_fabric[name], line=line))
        used[name] += 1
    return looks


def draw_path_length(report: Report) -> Figure:
    """Draw one curve per wiring; worlds that differ in bandwidth only share a curve."""
    wirings: dict[tuple[str, bytes], Result] = {}
    for outcome in report.outcomes:
        wirings.setdefault((outcome.settings.fabric, np.sort(outcome.path_lengths).tobytes()), outcome)
    shown = list(wirings.values())[:MAX_CURVES]
    names = wiring_names(report, shown)
    figure = Figure(figsize=(8, 4.8), layout="constrained")
    axes = figure.subplots()
    for look, outcome, name in zip(_looks(report, shown), shown, names, strict=True):
        _curve(axes, look, outcome.path_lengths, f"{name} (mean {outcome.row.path_length_mean:.2f})")
    axes.set_xlim(left=0)
    axes.set_ylim(0, 103)
    axes.set_xlabel("links between two servers (a switch in between makes it 2)")
    axes.set_ylabel("pairs of servers with at most this many links [%]")
    plain(axes, "both")
    _finish(figure, "How far servers are from each other", len(shown), len(wirings))
    return figure


def wiring_names(report: Report, outcomes: Sequence[Result]) -> list[str]:
    """Return the fabric of each world, with the settings that distinguish worlds of one fabric."""
    names = []
    for outcome in outcomes:
        same = [other for other in outcomes if other.settings.fabric == outcome.settings.fabric]
        names.append(report.labels(same)[same.index(outcome)] if len(same) > 1 else outcome.settings.fabric)
    return names


def draw_link_load(report: Report) -> Figure:
    """Draw the bytes of every link (left) and the share of the step in which it is busy at full rate (right)."""
    shown = report.representatives(MAX_CURVES)
    factor, unit = scale((float(outcome.timeline.link_bytes.max(initial=0.0)) for outcome in shown), "B")
    figure = Figure(figsize=(10, 4.8), layout="constrained")
    load, use = panels(figure, 2, widest=2)
    for look, outcome, name in zip(_looks(report, shown), shown, report.labels(shown), strict=True):
        _curve(load, look, outcome.timeline.link_bytes / factor, name)
        _curve(use, look, 100 * outcome.utilization, None)
    load.set_xlabel(f"carried by a link in one step [{unit}]")
    use.set_xlabel("of what the link could carry in that time [%]")
    for axes in (load, use):
        axes.set_xlim(left=0)
        axes.set_ylim(0, 103)
        axes.set_ylabel("cumulative share of links [%]")
        plain(axes, "both")
    _finish(figure, "How evenly links are loaded", len(shown), len(report.outcomes))
    return figure


def draw_failures(report: Report) -> Figure:
    """Draw the slowdowns by single failures: a panel for fibers, one for servers, a curve per network."""
    shown = report.failures[:MAX_CURVES]
    kinds = list(dict.fromkeys(failures.what for _, failures in shown))
    looks = _looks(report, [outcome for outcome in report.ranking for _ in outcome.failures][:MAX_CURVES])
    figure = Figure(figsize=(7.5 if len(kinds) == 1 else 11, 4.8), layout="constrained")
    for axes, kind in zip(panels(figure, len(kinds), 2), kinds, strict=True):
        for look, (name, failures) in zip(looks, shown, strict=True):
            if failures.what == kind:
                _curve(axes, look, failures.all_slowdowns, name)
        axes.set_ylim(0, 103)
        axes.set_xlabel("time of one training step, of that when nothing has failed")
        axes.set_ylabel(f"cumulative share of {kind} failures [%]")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}x")
        plain(axes, "both")
    _finish(figure, "How much a single failure slows the job down", len(shown), len(report.failures))
    return figure


def _finish(figure: Figure, title: str, shown: int, total: int) -> None:
    labels = [label for axes in figure.axes for label in axes.get_legend_handles_labels()[1]]
    columns = legend_columns(labels, figure.get_figwidth())
    figure.set_figheight(4.2 + 0.22 * -(-len(labels) // columns))
    figure.legend(loc="outside lower center", ncols=columns, frameon=False, fontsize=9)
    figure.suptitle(title if shown == total else f"{title} ({shown} of {total} shown)")
