"""What networks cost, over the number of servers: TopoOpt's Figure 10."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from topoflow.report.draw.axis import Axis
from topoflow.report.draw.figures import draw_lines
from topoflow.report.draw.style import png
from topoflow.study.figures.base import (
    Experiment,
    Heading,
    Picture,
    Row,
    check_roles,
    distinct,
    number,
    where,
)
from topoflow.study.figures.setup import Setup


@dataclass(frozen=True)
class Cost(Experiment):
    """A panel for each value of ``panel``, a line for each of ``series``, over ``servers``. Nothing is simulated."""

    panel: str
    baseline: str

    def __post_init__(self) -> None:
        check_roles("experiment.panel", self, self.panel, "servers")

    def measure(self, setup: Setup) -> Sequence[Row]:
        """What is bought does not depend on the job."""
        bought = setup.unwired
        return [
            {
                "cost_usd": setup.cost,
                "power_w": setup.prices.power(bought.bill),
                "interface_bandwidth": bought.interface_bandwidth,
            }
        ]

    def summary(self, rows: Sequence[Row]) -> Sequence[Row]:
        """The cost of each series over that of the baseline: the mean over the numbers of servers, and both ends."""
        found: list[Row] = []
        for panel in distinct(rows, self.panel):
            of_panel = where(rows, **{self.panel: panel})
            base = {row["servers"]: number(row, "cost_usd") for row in where(of_panel, series=self.baseline)}
            for series in distinct(of_panel, "series"):
                line = where(of_panel, series=series)
                ratios = [number(row, "cost_usd") / base[row["servers"]] for row in line if row["servers"] in base]
                if series != self.baseline and ratios:
                    ends = {"ratio_first": ratios[0], "ratio_last": ratios[-1]}
                    found.append({self.panel: panel, "series": series, "ratio_mean": fmean(ratios), **ends})
        return found

    @property
    def headings(self) -> Mapping[str, Heading]:
        mean = Heading(f"cost over that of {self.baseline}, mean over servers", "x")
        ends = {"ratio_first": Heading("with the fewest", "x"), "ratio_last": Heading("with the most", "x")}
        return {"ratio_mean": mean, **ends}

    def draw(self, rows: Sequence[Row]) -> Sequence[Picture]:
        parts = {
            f"{self.panel} = {panel}": {
                series: (
                    np.array([number(row, "servers") for row in line]),
                    np.array([number(row, "cost_usd") for row in line]),
                )
                for series in distinct(rows, "series")
                if (line := where(rows, series=series, **{self.panel: panel}))
            }
            for panel in distinct(rows, self.panel)
        }
        figure = draw_lines(self.title, parts, Axis("servers", log=True), Axis("cost of the network [USD]", log=True))
        return [Picture("cost.png", f"What the parts of each network cost. After {self.source}.", png(figure))]
