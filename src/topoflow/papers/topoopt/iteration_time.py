"""Iteration time over a key of the grid, with a line for each network: TopoOpt's Figures 11, 12, 17, 27 and 28."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from topoflow.case.rows import bandwidth_tax, compute_time
from topoflow.report.draw.axis import Axis
from topoflow.report.draw.figures import draw_lines
from topoflow.search.problem import SearchSettings
from topoflow.study.figures.base import (
    Experiment,
    FigurePicture,
    Heading,
    Row,
    against,
    curves,
    distinct,
    grouped,
    number,
    where,
)
from topoflow.study.figures.setup import Setup, wire_bytes


@dataclass(frozen=True)
class IterationTime(Experiment):
    """Iteration time over ``x``, with a panel for each value of ``panel`` and a line for each of ``series``.

    Times are averaged over ``seed`` ("each data point averages 5-10 simulation runs", TopoOpt 5.1). If points differ in
    other keys, such as ``strategy``, the fastest is drawn. With ``search``, each point is simulated with the best
    strategy that a search finds, which begins with the point's strategy.
    """

    panel: str
    x: str
    x_label: str
    baseline: str  # the series that the others are compared with in the summary
    x_unit: str = ""  # SI unit of x; ``x_label`` then has no unit
    x_log: bool = False
    y_log: bool = False
    names: Mapping[str, str] = field(default_factory=dict)  # displayed names of panels
    search: SearchSettings | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_keys("panel", self.panel)
        self.check_keys("x", self.x)
        self.check_series("baseline", self.baseline)

    def check(self, labels: Sequence[Row]) -> None:
        super().check(labels)
        for of_panel in grouped(labels, self.panel).values():
            if all(label.get(self.x) is None for label in of_panel):
                names = ", ".join(distinct(of_panel, "series"))
                raise ValueError(f"series: must include one with values of {self.x}, the x axis, got {names}")

    @property
    def parameters(self) -> Mapping[str, object]:
        return {} if self.search is None else {"search": self.search}

    def measure(self, setup: Setup) -> Sequence[Row]:
        """Simulate one iteration."""
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
        """Return panel -> series -> x -> seconds. A series without the key ``x`` takes the same time at every x."""
        lines: dict[Any, dict[Any, dict[float, float]]] = {}
        for panel, of_panel in grouped(rows, self.panel).items():
            xs = [float(x) for x in distinct(of_panel, self.x) if x is not None]
            lines[panel] = {}
            for series, line in grouped(of_panel, "series").items():
                rows_at = {x: where(line, **{self.x: x}) or where(line, **{self.x: None}) for x in xs}
                lines[panel][series] = {x: self._time(same) for x, same in rows_at.items() if same}
        return lines

    @staticmethod
    def _time(rows: Sequence[Row]) -> float:
        """Average the fastest time (s) of each seed."""
        return fmean(min(number(row, "iteration_time") for row in same) for same in grouped(rows, "seed").values())

    def summary(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Return each series' time at the lowest and the highest x, and its times over those of the baseline."""
        return against(self.lines(rows), self.baseline, self.panel, "time")

    @property
    def headings(self) -> Mapping[str, Heading]:
        return {
            "time_first": Heading(f"time of an iteration at the lowest {self.x_label}", "s"),
            "time_last": Heading("at the highest", "s"),
            "ratio_mean": Heading(f"over that of {self.baseline}, mean", "x"),
            "ratio_first": Heading("at the lowest", "x"),
            "ratio_last": Heading("at the highest", "x"),
        }

    def draw(self, rows: Sequence[Row]) -> Sequence[FigurePicture]:
        parts = {self.names.get(str(panel), str(panel)): curves(lines) for panel, lines in self.lines(rows).items()}
        figure = draw_lines(
            self.title,
            parts,
            Axis(self.x_label, self.x_unit, log=self.x_log),
            Axis("time of one iteration", "s", log=self.y_log),
            self.fabrics,
        )
        caption = f"Time of one training iteration; lower is better. After {self.source}."
        return [FigurePicture.of("iteration_time.png", caption, figure)]
