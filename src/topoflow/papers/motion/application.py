"""Time of an application that communicates for a share of its time, on several networks: MOTION's Figures 6 and 7."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from topoflow.papers.motion.exchange import SIZE, Exchange
from topoflow.report.draw.axis import Axis
from topoflow.report.draw.figures import Lines, draw_lines
from topoflow.study.figures.base import FigurePicture, Line, Row, curves, distinct, grouped, number, where


@dataclass(frozen=True)
class Application(Exchange):
    """The time of an application that communicates for a share of its time, over its time on the series ``base``.

    ``ratios`` are the shares of communication on ``base``; computing takes as long on every network, and does not
    overlap with communication: (1 - ratio) + ratio * completion / completion on ``base``. A ratio of 1 is the exchange
    alone.
    """

    base: str
    ratios: Sequence[float]

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_series("base", self.base)
        for ratio in self.ratios:
            if not 0 < ratio <= 1:
                raise ValueError(f"experiment.ratios: must be within 0 < ratio <= 1, got {ratio}")

    def check(self, labels: Sequence[Row]) -> None:
        super().check(labels)
        if self.base not in distinct(labels, "series"):
            raise ValueError(f"series: must have {self.base}, which the others are compared with")

    def summary(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Return every point, for each ratio."""
        keys = ("series", "servers", "bytes", "completion")
        return [
            {**{key: row[key] for key in keys}, "ratio": ratio, "application": self._over_base(row, rows, ratio)}
            for ratio in self.ratios
            for row in rows
        ]

    def draw(self, rows: Sequence[Row]) -> Sequence[FigurePicture]:
        pictures = []
        for ratio in self.ratios:
            parts: dict[str, Lines] = {}
            for servers, same in grouped(rows, "servers").items():
                lines = {series: self._line(line, rows, ratio) for series, line in grouped(same, "series").items()}
                parts[f"{servers} servers"] = curves(lines)
            subject = "completion" if ratio == 1 else f"application, {100 * ratio:g} % communication"
            figure = draw_lines(self.title, parts, SIZE, Axis(f"time over {self.base}"), self.fabrics)
            file = "completion.png" if ratio == 1 else f"application_{ratio:g}.png"
            pictures.append(
                FigurePicture.of(file, f"Time of the {subject}, over that on {self.base}. After {self.source}.", figure)
            )
        return pictures

    def _line(self, line: Sequence[Row], rows: Sequence[Row], ratio: float) -> Line:
        return dict(sorted((number(row, "bytes"), self._over_base(row, rows, ratio)) for row in line))

    def _over_base(self, row: Row, rows: Sequence[Row], ratio: float) -> float:
        (base,) = where(rows, series=self.base, servers=row["servers"], bytes=row["bytes"])
        return 1 - ratio + ratio * number(row, "completion") / number(base, "completion")
