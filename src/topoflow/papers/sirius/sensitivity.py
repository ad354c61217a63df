"""Completion and goodput by each reading of what Sirius' section 7 leaves open.

The series of a reading are a network of the paper and its rival: what R, the bandwidth of a server, is, and how a rack
serves its servers. Of each simulation there are three measures:

longest     until the last flow arrives; flows that have not ended by then count as longer than all others
ended       the same; completion times are of the flows that have ended
completed   until the last flow ends; completion times are of all flows
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from topoflow.engine.base import World
from topoflow.papers.sirius.completion import COMPLETION, LOAD, METRICS, Completion
from topoflow.report.draw.axis import Axis
from topoflow.report.draw.figures import draw_lines
from topoflow.study.figures.base import FigurePicture, Heading, Row, distinct, grouped, number, where
from topoflow.study.figures.setup import Setup

MEASURES = {
    "longest": "until the last flow arrives",
    "ended": "the same, of flows that have ended",
    "completed": "until the last flow ends",
}
RATIOS = {COMPLETION: "completion over the rival's", "goodput": "goodput over the rival's"}


@dataclass(frozen=True, kw_only=True)
class Sensitivity(Completion):
    """Ratios of a network to its rival, over the load, for each of ``readings``: name -> [rival, network], series."""

    readings: Mapping[str, Sequence[str]]

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, pair in self.readings.items():
            if len(pair) != 2:
                raise ValueError(f"experiment.readings.{name}: must be a rival and a network, got {list(pair)}")
            self.check_series(f"readings.{name}", *pair)

    def point(self, setup: Setup, world: World, bandwidth: float) -> Sequence[Row]:
        """Return a row for each measure."""
        longest = self.row(setup, world, bandwidth)
        return [
            {"measure": "longest", **longest},
            {"measure": "ended", **self.row(setup, world, bandwidth, ended=True)},
            {"measure": "completed", **self.row(setup, replace(world, until=np.inf), bandwidth)},
        ]

    def summary(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Return the ratios of every reading, load and measure."""
        ratio_rows: list[Row] = []
        for name, (rival, network) in self.readings.items():
            for load in distinct(rows, LOAD):
                for measure, text in MEASURES.items():
                    same = where(rows, measure=measure, **{LOAD: load})
                    pair = [where(same, series=series) for series in (rival, network)]
                    if all(pair):
                        (base,), (row,) = pair
                        ratios = {f"{key}_ratio": _ratio(number(row, key), number(base, key)) for key in RATIOS}
                        values = {key: row[key] for key in (COMPLETION, "goodput", "unfinished")}
                        ratio_rows.append({"reading": name, LOAD: load, "measure": text, **values, **ratios})
        return ratio_rows

    @property
    def headings(self) -> Mapping[str, Heading]:
        return {
            **super().headings,
            "goodput": Heading(METRICS["goodput"][0], "%"),
            **{f"{key}_ratio": Heading(text, "x") for key, text in RATIOS.items()},
        }

    def draw(self, rows: Sequence[Row]) -> Sequence[FigurePicture]:
        summary = self.summary(rows)
        pictures = []
        for key, text in RATIOS.items():
            parts = {}
            for measure, same in grouped(summary, "measure").items():
                lines = {
                    name: self._line(of_reading, f"{key}_ratio")
                    for name, of_reading in grouped(same, "reading").items()
                }
                parts[measure] = {name: line for name, line in lines.items() if len(line[0])}
            parts = {measure: lines for measure, lines in parts.items() if lines}
            if parts:
                figure = draw_lines(self.title, parts, Axis("load"), Axis(text))
                pictures.append(FigurePicture.of(f"{key}.png", f"{text.capitalize()}. After {self.source}.", figure))
        return pictures


def _ratio(value: float, base: float) -> float | None:
    """Return the ratio, or None where one of both is unknown."""
    return value / base if np.isfinite(value / base) else None
