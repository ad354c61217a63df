"""Completion times of flows and goodput over the load: Sirius' Figures 9 to 13."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from topoflow.arrays import Floats
from topoflow.case.base import Job
from topoflow.engine.base import PausingFidelity, World
from topoflow.report.draw.axis import Axis
from topoflow.report.draw.figures import draw_bars, draw_lines
from topoflow.study.figures.base import Experiment, FigurePicture, Heading, Row, distinct, grouped, number, words
from topoflow.study.figures.setup import Setup
from topoflow.units import check_positive
from topoflow.workload.messages.flows import Arrivals

COMPLETION = "completion_p99"
LOAD, MEAN = "workload.load", "workload.mean"  # keys of the grid

# Metric -> title, unit of the axis, logarithmic
METRICS = {
    COMPLETION: ("99th percentile completion of short flows", "s", True),
    "goodput": ("goodput over all cables of servers", "", False),
    "queue": ("most that waited at a rack", "B", False),
    "reorder": ("most that a flow put in order", "B", False),
}


@dataclass(frozen=True)
class Completion(Experiment):
    """A metric over ``x``, a key of the grid, with a line for each of ``series``, or a bar if ``x`` has one value.

    The workload is ``flows``. The simulation ends when the last flow arrives. Goodput is the rate that servers received
    until then. Completion times are those of flows below ``short`` bytes that arrived before the last ``settle`` of
    that time; a flow that has not ended by then counts as longer than all others.
    """

    x: str
    metrics: Sequence[str]
    short: float = 100e3  # B
    settle: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_keys("x", self.x)
        if not self.metrics:
            raise ValueError("experiment.metrics: must have an entry, got none")
        for metric in self.metrics:
            if metric not in METRICS:
                raise ValueError(f"experiment.metrics: must be of {', '.join(METRICS)}, got {metric!r}")
        check_positive("experiment.short", self.short)
        if not 0 <= self.settle < 1:
            raise ValueError(f"experiment.settle: must be within 0..1, got {self.settle}")

    @property
    def parameters(self) -> Mapping[str, object]:
        return {"short": self.short, "settle": self.settle}

    def measure(self, setup: Setup) -> Sequence[Row]:
        """Return one row."""
        problem = setup.problem
        if not isinstance(problem.workload, Arrivals):
            raise ValueError(f"workload: must be flows for this figure, got {problem.workload.name}")
        traffic = Job(problem.workload, problem.start).traffic
        world = setup.placer.place(traffic, problem.workload.name)
        world = replace(world, until=float(traffic.release[-1]))
        return self.point(setup, world, problem.workload.bandwidth)

    def point(self, setup: Setup, world: World, bandwidth: float) -> Sequence[Row]:
        """Return the rows of a point, whose world ends when the last flow arrives."""
        return [self.row(setup, world, bandwidth)]

    def row(self, setup: Setup, world: World, bandwidth: float, *, ended: bool = False) -> Row:
        """Return one row. Without an ``until``, the world ends with its last flow, and all flows are judged.

        ``ended``: all short flows that have ended are judged, and no others.
        """
        graph, end = world.graph, world.until
        fidelity = setup.problem.fidelity
        if not isinstance(fidelity, PausingFidelity):
            raise ValueError(f"fidelity: must be one that can pause for this figure, got {fidelity.name}")
        judged = (graph.bytes < self.short) & (graph.release <= (1 - self.settle) * end)
        if np.isinf(end):
            (timeline,) = setup.problem.fidelity.simulate([world], setup.run)
            finish, slots, received = timeline.finish, timeline.slots, float(graph.bytes.sum())
            end = float(finish.max())
        else:
            paused = fidelity.pause(world, end, setup.run)
            finish, slots = paused.finish, paused.slots
            received = slots.received if slots else float((graph.bytes - paused.left).sum())
        if ended:
            judged = (graph.bytes < self.short) & np.isfinite(finish)
        completion = np.sort((finish - graph.release)[judged])
        p99 = float(completion[int(np.ceil(0.99 * len(completion))) - 1]) if len(completion) else np.inf
        carried = bandwidth * setup.servers * end  # B, if all cables were full
        return {
            "completion_p99": p99 if np.isfinite(p99) else None,
            "unfinished": float(np.isinf(completion).mean()) if len(completion) else 0.0,
            "goodput": received / carried,
            "offered": float(graph.bytes.sum()) / carried,
            "queue": float(slots.fullest.max()) if slots else None,
            "reorder": float(slots.reorder.max(initial=0.0)) if slots else None,
        }

    def summary(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Return a row for every point."""
        keys = ("series", *dict.fromkeys((LOAD, MEAN, self.x)), *self.metrics, "offered", "unfinished")
        return [{key: row.get(key) for key in keys} for row in rows]

    @property
    def headings(self) -> Mapping[str, Heading]:
        named = {metric: Heading(METRICS[metric][0], METRICS[metric][1]) for metric in self.metrics}
        return {
            **named,
            "goodput": Heading(METRICS["goodput"][0], "%"),
            LOAD: Heading("load"),
            MEAN: Heading("mean size", "B"),
            "offered": Heading("bytes of all flows over the same", "%"),
            "unfinished": Heading("short flows that had not ended", "%"),
        }

    def draw(self, rows: Sequence[Row]) -> Sequence[FigurePicture]:
        pictures = []
        for metric in self.metrics:
            title, unit, log = METRICS[metric]
            lines = {series: self._line(same, metric) for series, same in grouped(rows, "series").items()}
            lines = {series: line for series, line in lines.items() if len(line[0])}
            if not lines:
                continue  # no flow has ended
            axis = Axis("mean size of flows", "B", log=True) if self.x == MEAN else Axis(words(self.x))
            if len(distinct(rows, self.x)) > 1:
                figure = draw_lines(self.title, {"": lines}, axis, Axis(title, unit, log=log), self.fabrics)
            else:
                bars = {str(row["series"]): number(row, metric) for row in rows}
                at = f"{axis.label} {number(rows[0], self.x):g}"
                figure = draw_bars(self.title, {at: {title: bars}}, Axis(title, unit))
            caption = f"{title}. After {self.source}.{_left_out(rows) if metric == COMPLETION else ''}"
            pictures.append(FigurePicture.of(f"{metric}.png", caption, figure))
        return pictures

    def _line(self, rows: Sequence[Row], metric: str) -> tuple[Floats, Floats]:
        points = sorted((number(row, self.x), number(row, metric)) for row in rows)
        finite = [point for point in points if np.isfinite(point[1])]
        return np.array([x for x, _ in finite]), np.array([y for _, y in finite])


def _left_out(rows: Sequence[Row]) -> str:
    """Say how many points a picture of completion times does not show."""
    missing = sum(row[COMPLETION] is None for row in rows)
    rule = "points have none, as more than 1 % of the short flows had not ended"
    return f" {missing} of {len(rows)} {rule}." if missing else ""
