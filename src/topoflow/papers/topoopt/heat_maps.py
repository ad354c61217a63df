"""Bytes between every two servers: TopoOpt's Figure 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from topoflow.case.rows import flow_matrix
from topoflow.report.draw.figures import draw_heat_maps
from topoflow.study.figures.base import Experiment, FigurePicture, Heading, Row, grouped, number
from topoflow.study.figures.setup import Setup


@dataclass(frozen=True)
class HeatMaps(Experiment):
    """A heat map for each of ``series``."""

    def measure(self, setup: Setup) -> Sequence[Row]:
        """Return a row for each ordered pair of servers with traffic: all bytes, and model-parallel bytes."""
        case = setup.case
        total, mp = flow_matrix(case.world.graph, np.arange(case.fabric.servers)), case.job.demand.matrix()
        return [
            {"source": int(i), "target": int(j), "bytes": float(total[i, j]), "mp_bytes": float(mp[i, j])}
            for i, j in np.argwhere(total > 0)
        ]

    def summary(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Return the largest transfer of each kind between two servers."""
        largest: list[Row] = []
        for series, same in grouped(rows, "series").items():
            reduced = max(number(row, "bytes") - number(row, "mp_bytes") for row in same)
            largest.append(
                {
                    "series": series,
                    "largest": max(number(row, "bytes") for row in same),
                    "largest_all_reduce": reduced,
                    "largest_mp": max(number(row, "mp_bytes") for row in same),
                }
            )
        return largest

    @property
    def headings(self) -> Mapping[str, Heading]:
        return {
            "largest": Heading("most from one server to another", "B"),
            "largest_all_reduce": Heading("most of all-reduces", "B"),
            "largest_mp": Heading("most of model-parallel traffic", "B"),
        }

    def draw(self, rows: Sequence[Row]) -> Sequence[FigurePicture]:
        servers = 1 + max(int(number(row, end)) for row in rows for end in ("source", "target"))
        maps = {series: _matrix(same, servers) for series, same in grouped(rows, "series").items()}
        caption = f"Bytes from the server of a row to that of a column in one iteration. After {self.source}."
        return [FigurePicture.of("traffic.png", caption, draw_heat_maps(self.title, maps))]


def _matrix(rows: Sequence[Row], servers: int) -> NDArray[np.float64]:
    matrix = np.zeros((servers, servers))
    for row in rows:
        matrix[int(number(row, "source")), int(number(row, "target"))] = number(row, "bytes")
    return matrix
