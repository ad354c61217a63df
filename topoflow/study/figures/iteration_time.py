"""Iteration time over whatever is swept, a line per network: TopoOpt's Figures 11, 12, 17, 27 and 28."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

import numpy as np

from topoflow.case.rows import bandwidth_tax, compute_time
from topoflow.report.draw.axis import Axis
from topoflow.report.draw.figures import draw_lines
from topoflow.report.draw.style import png
from topoflow.search.problem import Settings
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
from topoflow.study.figures.setup import Setup, wire_bytes


@dataclass(frozen=True)
class IterationTime(Experiment):
    """A panel for each value of ``panel``, a line for each of ``series``, over the values of ``x``.

    What else the grid sweeps is not drawn: of the points that differ in it the fastest counts, except for ``seed``,
    over which times are averaged ("each data point averages 5-10 simulation runs", TopoOpt 5.1). With ``search``, each
    point looks for its best strategy, beginning with the grid's.
    """

    panel: str
    x: str
    x_label: str
    baseline: str  # the series that the others are compared with in the summary
    x_log: bool = False
    y_log: bool = False
    names: Mapping[str, str] = field(default_factory=dict)  # of panels, for a reader
    search: Settings | None = None

    def __post_init__(self) -> None:
        check_roles("experiment.panel", self, self.panel)
        check_roles("experiment.x", self, self.x)
        if self.baseline not in self.series:
            known = ", ".join(self.series)
            raise ValueError(f"experiment.baseline: must be one of the series {known}, got {self.baseline!r}")

    @property
    def parameters(self) -> Mapping[str, object]:
        return {} if self.search is None else {"search": self.search}

    def measure(self, setup: Setup) -> Sequence[Row]:
        """One simulated iteration. What goes over the network is the job's, whatever the network is."""
        result = setup.result if self.search is None else setup.searched(self.search)
        demand = result.case.job.demand
        return [
            {
                "iteration_time": result.iteration_time,
                "compute_time": compute_time(result.traffic),
                "interface_bandwidth": result.fabric.interface_bandwidth,
                "cost_usd": setup.cost,
                "bandwidth_tax": bandwidth_tax(result.world.graph, result.fabric),
                "mp_bytes": float(demand.bytes.sum()),
                "all_reduce_bytes": wire_bytes(demand),
                "memory_per_gpu": result.memory,
                "memory_of_gpu": result.gpu_memory,
            }
        ]

    def lines(self, rows: Sequence[Row]) -> dict[Any, dict[Any, dict[float, float]]]:
        """Panel -> series -> x -> seconds. A series that has no such key as ``x`` takes as long at every x."""
        found: dict[Any, dict[Any, dict[float, float]]] = {}
        for panel in distinct(rows, self.panel):
            of_panel = where(rows, **{self.panel: panel})
            xs = [number({self.x: x}, self.x) for x in distinct(of_panel, self.x) if x is not None]
            found[panel] = {}
            for series in distinct(of_panel, "series"):
                line = where(of_panel, series=series)
                times = {x: where(line, **{self.x: x}) or where(line, **{self.x: None}) for x in xs}
                found[panel][series] = {x: self._time(same) for x, same in times.items() if same}
        return found

    @staticmethod
    def _time(rows: Sequence[Row]) -> float:
        """s: the fastest of what is not drawn, averaged over seeds."""
        return fmean(
            min(number(row, "iteration_time") for row in rows if row.get("seed") == seed)
            for seed in distinct(rows, "seed")
        )

    def summary(self, rows: Sequence[Row]) -> Sequence[Row]:
        """How many times as long each series takes as the baseline at the same x: the mean over x, and both ends."""
        found: list[Row] = []
        for panel, lines in self.lines(rows).items():
            base = lines.get(self.baseline, {})
            for series, line in lines.items():
                ratios = {x: line[x] / base[x] for x in line if x in base}
                if series != self.baseline and ratios:
                    found.append(
                        {
                            self.panel: panel,
                            "series": series,
                            "ratio_mean": fmean(ratios.values()),
                            "ratio_first": ratios[min(ratios)],
                            "ratio_last": ratios[max(ratios)],
                        }
                    )
        return found

    @property
    def headings(self) -> Mapping[str, Heading]:
        mean = f"time of an iteration over that of {self.baseline}, mean over {self.x_label}"
        ends = {"ratio_first": Heading("at the lowest", "x"), "ratio_last": Heading("at the highest", "x")}
        return {"ratio_mean": Heading(mean, "x"), **ends}

    def draw(self, rows: Sequence[Row]) -> Sequence[Picture]:
        parts = {
            self.names.get(str(panel), str(panel)): {
                series: (np.array(list(line)), np.array(list(line.values()))) for series, line in lines.items()
            }
            for panel, lines in self.lines(rows).items()
        }
        figure = draw_lines(
            self.title,
            parts,
            Axis(self.x_label, log=self.x_log),
            Axis("time of one iteration", "s", log=self.y_log),
        )
        caption = f"Time of one training iteration; lower is better. After {self.source}."
        return [Picture("iteration_time.png", caption, png(figure))]
