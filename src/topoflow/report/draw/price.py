"""Iteration time against the price of the network."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter

from topoflow.case.base import Result
from topoflow.fabric.prices import front
from topoflow.report.answer import fits, place, recommended
from topoflow.report.base import Report
from topoflow.report.draw.style import fabric_looks, panels, plain, scale

MAX_PANELS = 6  # jobs, one panel each


def frontier(outcomes: tuple[Result, ...]) -> list[Result]:
    """Return the Pareto-optimal worlds in time and price, cheapest first.

    Only worlds that fit in memory and can be built count; if all networks are ideal, ideal networks count.
    """
    fitting = [(outcome.cost, outcome) for outcome in outcomes if outcome.cost is not None and outcome.fits]
    priced = [(cost, outcome) for cost, outcome in fitting if not outcome.fabric.is_ideal] or fitting
    best = front([cost for cost, _ in priced], [outcome.row.iteration_time for _, outcome in priced])
    return [priced[number][1] for number in best]


def draw(report: Report) -> Figure:
    """Draw a point for each world, a ring around the recommended one, and a line of those that nothing beats."""
    jobs = [job for job in report.jobs if any(outcome.cost is not None for outcome in job)][:MAX_PANELS]
    looks = fabric_looks(report.fabrics)
    figure = Figure(figsize=(9 if len(jobs) > 1 else 8, 4.6 * -(-len(jobs) // 2)), layout="constrained")
    for axes, job in zip(panels(figure, len(jobs), widest=2), jobs, strict=True):
        priced = [outcome for outcome in job if outcome.cost is not None]
        factor, unit = scale((outcome.row.iteration_time for outcome in priced), "s")
        best = frontier(job)
        axes.plot([(o.cost or 0.0) / 1e3 for o in best], [o.row.iteration_time / factor for o in best],
                  color="#888888", linestyle="--", zorder=1)  # fmt: skip
        for outcome in priced:
            look = looks[outcome.settings.fabric]
            style = look.number % 8
            size = (190 - 18 * style) / (1 if len(priced) <= 16 else 2)  # points on top of each other stay visible
            axes.scatter((outcome.cost or 0.0) / 1e3, outcome.row.iteration_time / factor, s=size, zorder=2 + style,
                         color=look.colour, marker=look.marker, edgecolor="white")  # fmt: skip
        if fits(job) and (choice := recommended(job)[0]).cost is not None:
            axes.scatter((choice.cost or 0.0) / 1e3, choice.row.iteration_time / factor, s=330, zorder=20,
                         facecolor="none", edgecolor="#222222", linewidth=1.8)  # fmt: skip
        scales(axes, [(o.cost or 0.0) / 1e3 for o in priced], [o.row.iteration_time / factor for o in priced])
        axes.set_title(place(report, job[0]), fontsize=10)
        axes.set_xlabel("price of the network [1000 US dollars]")
        axes.set_ylabel(f"time of one training step [{unit}]")
        plain(axes, "both")
    handles = [
        Line2D([], [], color=look.colour, marker=look.marker, linestyle="", markersize=8, label=name)
        for name, look in looks.items()
    ]
    handles.append(Line2D([], [], color="#888888", linestyle="--", label="nothing is both faster and cheaper"))
    ring = Line2D([], [], color="none", marker="o", markersize=14, markeredgecolor="#222222", label="recommended")
    handles.append(ring)
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False)
    limit = "" if len(jobs) == len(report.jobs) else f" ({len(jobs)} of {len(report.jobs)} jobs)"
    figure.suptitle(f"Iteration time against price; lower left is better{limit}")
    return figure


def scales(axes: Axes, prices: list[float], times: list[float]) -> None:
    """Scale both axes from zero, or logarithmically if one large value would squeeze all others."""
    if _log(prices):
        axes.set_xscale("log")
        _log_ticks(axes.xaxis)
    if _log(times):
        axes.set_yscale("log")
        _log_ticks(axes.yaxis)
    axes.set_xlim(_limits(prices))
    axes.set_ylim(_limits(times))


def _log(values: list[float]) -> bool:
    """Return whether one large value would squeeze all others on a linear axis."""
    return min(values) > 0 and max(values) > 4 * min(values)


def _limits(values: list[float]) -> tuple[float, float]:
    return (min(values) / 1.5, max(values) * 1.5) if _log(values) else (0.0, 1.15 * max(values) or 1.0)


def _log_ticks(axis: Axis) -> None:
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())
