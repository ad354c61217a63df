"""Cost of networks over the number of servers: TopoOpt's Figure 10 and Sirius' Figure 6b."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from topoflow.report.draw.axis import Axis
from topoflow.report.draw.figures import draw_lines
from topoflow.study.figures.base import (
    Experiment,
    FigurePicture,
    Heading,
    Row,
    Value,
    against,
    curves,
    grouped,
    number,
    words,
)
from topoflow.study.figures.setup import Setup


@dataclass(frozen=True)
class Cost(Experiment):
    """A panel for each value of ``panel``, a line for each of ``series``, over ``servers``. Nothing is simulated."""

    panel: str
    baseline: str

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_keys("panel", self.panel, "servers")

    def measure(self, setup: Setup) -> Sequence[Row]:
        """Return the price and power of what is bought, which does not depend on the job."""
        bought = setup.unwired
        return [
            {
                "cost_usd": setup.cost,
                "power_w": setup.prices.power(bought.bill),
                "interface_bandwidth": bought.interface_bandwidth,
            }
        ]

    def summary(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Return the cost of each series with the fewest and the most servers, and its ratio to the baseline's."""
        return against(self._lines(rows), self.baseline, self.panel, "cost")

    def _lines(self, rows: Sequence[Row]) -> dict[Value, dict[str, dict[float, float]]]:
        """Return panel -> series -> number of servers -> USD."""
        return {
            panel: {
                series: {number(row, "servers"): number(row, "cost_usd") for row in line}
                for series, line in grouped(of_panel, "series").items()
            }
            for panel, of_panel in grouped(rows, self.panel).items()
        }

    @property
    def headings(self) -> Mapping[str, Heading]:
        return {
            "cost_first": Heading("cost with the fewest servers", "USD"),
            "cost_last": Heading("with the most", "USD"),
            "ratio_mean": Heading(f"over that of {self.baseline}, mean", "x"),
            "ratio_first": Heading("with the fewest", "x"),
            "ratio_last": Heading("with the most", "x"),
        }

    def draw(self, rows: Sequence[Row]) -> Sequence[FigurePicture]:
        parts = {f"{words(self.panel)} = {panel}": curves(lines) for panel, lines in self._lines(rows).items()}
        figure = draw_lines(
            self.title, parts, Axis("servers", log=True), Axis("cost of the network [USD]", log=True), self.fabrics
        )
        return [FigurePicture.of("cost.png", f"What the parts of each network cost. After {self.source}.", figure)]
