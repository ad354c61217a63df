"""Time against price of several plans, with the Pareto-optimal ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from topoflow.fabric.prices import front
from topoflow.report.draw.price import scales
from topoflow.report.draw.style import COLOURS, plain, scale
from topoflow.units import check_not_negative

MAX_LABELS = 14  # points with a number and a name

FRONT, REST = COLOURS[0], "#AAAAAA"


@dataclass(frozen=True)
class PricedPlan:
    """A plan: its name, the time of a training step (s), and the price of its network (USD)."""

    name: str
    time: float
    price: float

    def __post_init__(self) -> None:
        check_not_negative(f"{self.name}.time", self.time)
        check_not_negative(f"{self.name}.price", self.price)


def draw(points: Sequence[PricedPlan]) -> Figure:
    """Draw the front as a staircase with points numbered by price, and the other points in grey."""
    best = [points[number] for number in front([point.price for point in points], [point.time for point in points])]
    factor, seconds = scale([point.time for point in points], "s")
    price_factor, dollars = scale([point.price for point in points], "$")
    figure = Figure(figsize=(8, 4.8 + 0.17 * min(len(best), MAX_LABELS)), layout="constrained")
    axes = figure.subplots()
    dominated = [point for point in points if point not in best]
    axes.plot([point.price / price_factor for point in dominated], [point.time / factor for point in dominated],
              linestyle="",
              marker="o", color=REST, markersize=6, label="another is as good in both, or better")  # fmt: skip
    axes.step([point.price / price_factor for point in best], [point.time / factor for point in best], where="post",
              color=FRONT, marker="o", markersize=6, linewidth=1.5,
              label="worth considering")  # fmt: skip
    for number, point in enumerate(best[:MAX_LABELS], start=1):
        axes.annotate(str(number), (point.price / price_factor, point.time / factor), (-4, -3),
                      textcoords="offset points", ha="right", va="top", fontsize=9, fontweight="bold",
                      color=FRONT)  # fmt: skip
    scales(axes, [point.price / price_factor for point in points], [point.time / factor for point in points])
    axes.set_xlabel(f"price of the network [{dollars}]")
    axes.set_ylabel(f"time of one training step [{seconds}]")
    plain(axes, "both")
    if dominated:
        axes.legend(frameon=False, fontsize=9)
    names = "\n".join(
        f"{number:>2}  {point.name}: {point.time / factor:.4g} {seconds}, {point.price / price_factor:.4g} {dollars}"
        for number, point in enumerate(best[:MAX_LABELS], start=1)
    )
    figure.supxlabel(names, fontsize=9, x=0.02, ha="left", family="monospace")
    limit = "" if len(best) <= MAX_LABELS else f" (the {MAX_LABELS} cheapest of {len(best)} named)"
    figure.suptitle(f"Time against price of the network; lower left is better{limit}")
    return figure
