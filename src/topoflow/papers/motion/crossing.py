"""Messages of an all-to-all that cross the spine: MOTION's Figure 4."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from topoflow.papers.motion.exchange import Exchange, crossing_of, exchange_on
from topoflow.report.draw.axis import Axis
from topoflow.report.draw.figures import draw_lines
from topoflow.study.figures.base import FigurePicture, Row, grouped, number
from topoflow.study.figures.setup import Setup


@dataclass(frozen=True)
class Crossing(Exchange):
    """The share of the messages that cross the spine, over the number of servers; nothing is simulated."""

    def measure(self, setup: Setup) -> Sequence[Row]:
        return [crossing_of(exchange_on(setup))]

    def summary(self, rows: Sequence[Row]) -> Sequence[Row]:
        return [{key: row[key] for key in ("series", "servers", "crossing")} for row in rows]

    def draw(self, rows: Sequence[Row]) -> Sequence[FigurePicture]:
        lines: dict[str, tuple[Any, Any]] = {}
        for series, line in grouped(rows, "series").items():
            lines[series] = ([row["servers"] for row in line], [100 * number(row, "crossing") for row in line])
        figure = draw_lines(
            self.title, {"": lines}, Axis("servers"), Axis("messages that cross the spine [%]"), self.fabrics
        )
        return [FigurePicture.of("crossing.png", f"Messages that cross the spine. After {self.source}.", figure)]
