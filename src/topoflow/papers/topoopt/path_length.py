"""Path lengths between every two servers: TopoOpt's Figure 14."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from topoflow.case.rows import path_lengths
from topoflow.report.draw.axis import Axis
from topoflow.report.draw.figures import draw_cdf
from topoflow.study.figures.base import Experiment, FigurePicture, Heading, Row, grouped, number
from topoflow.study.figures.setup import Setup


@dataclass(frozen=True)
class PathLength(Experiment):
    """The distribution of path lengths over all ordered pairs of servers, with a curve for each of ``series``."""

    def measure(self, setup: Setup) -> Sequence[Row]:
        """Return a row for each path length, with the number of pairs of servers."""
        counts = Counter(path_lengths(setup.case.fabric).tolist())
        return [{"links": links, "pairs": counts[links]} for links in sorted(counts)]

    def summary(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Return the mean and the largest number of links."""
        statistics: list[Row] = []
        for series, same in grouped(rows, "series").items():
            lengths = self._lengths(same)
            statistics.append({"series": series, "mean": float(lengths.mean()), "largest": float(lengths.max())})
        return statistics

    @property
    def headings(self) -> Mapping[str, Heading]:
        return {"mean": Heading("links between two servers, mean"), "largest": Heading("at most")}

    def draw(self, rows: Sequence[Row]) -> Sequence[FigurePicture]:
        curves = {series: self._lengths(same) for series, same in grouped(rows, "series").items()}
        figure = draw_cdf(self.title, {"": curves}, Axis("links between two servers"), "pairs of servers", self.fabrics)
        return [
            FigurePicture.of("path_length.png", f"A curve that rises early is better. After {self.source}.", figure)
        ]

    @staticmethod
    def _lengths(rows: Sequence[Row]) -> NDArray[np.float64]:
        return np.repeat([number(row, "links") for row in rows], [int(number(row, "pairs")) for row in rows])
