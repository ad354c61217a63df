"""Activity of every port of a dragonfly, in ternary plots: the tapered dragonfly's Figures 4 to 8."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from topoflow.papers.dragonfly.tapering import CABLES, KINDS, MOTIF, SHARES, Tapering
from topoflow.report.draw.ternary import TimeShares, draw_ternary
from topoflow.study.figures.base import FigurePicture, Row, grouped, number, where


@dataclass(frozen=True)
class PortTime(Tapering):
    """A picture for each motif and series, with a panel for each number of cables between two groups."""

    def draw(self, rows: Sequence[Row]) -> Sequence[FigurePicture]:
        pictures = []
        for motif, of_motif in grouped(rows, MOTIF).items():
            for series, same in grouped(of_motif, "series").items():
                parts = {_cables(cables): _points(of_cables) for cables, of_cables in grouped(same, CABLES).items()}
                title = f"{self.title}: {motif}, {series}"
                file = f"{motif}_{series}.png".replace("/", " per ").replace(" ", "_")
                caption = f"The share of time of every port of a switch; darker: more ports. After {self.source}."
                pictures.append(FigurePicture.of(file, caption, draw_ternary(title, parts)))
        return pictures


def _cables(count: int) -> str:
    return f"{count} cable{'s' * (count != 1)} between two groups"


def _points(rows: Sequence[Row]) -> dict[str, TimeShares]:
    """Return the shares of time of each kind of port."""
    points: dict[str, TimeShares] = {}
    for kind in KINDS:
        of_kind = where(rows, kind=kind)
        columns = [
            np.array([number(row, key) for row in of_kind], np.float64)
            for key in ("active_cell", "stalled_cell", "ports")
        ]
        points[kind] = TimeShares(columns[0] / SHARES, columns[1] / SHARES, columns[2])
    return points
