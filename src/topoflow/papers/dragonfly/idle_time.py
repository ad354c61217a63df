"""Idle time of ports, and the length of idle intervals: the tapered dragonfly's Table I."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from topoflow.papers.dragonfly.tapering import ALL, CABLES, KINDS, MOTIF, Tapering
from topoflow.report.draw.axis import Axis
from topoflow.report.draw.figures import draw_bars
from topoflow.study.figures.base import FigurePicture, Heading, Row, grouped, number, where


@dataclass(frozen=True)
class IdleTime(Tapering):
    """A table with a row for each motif and network, and a picture with a panel for each column."""

    def summary(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Return the median share of the run that a port of a switch is idle, and the share of long idle intervals."""
        medians: list[Row] = []
        for series, of_series in grouped(rows, "series").items():
            for motif, of_motif in grouped(of_series, MOTIF).items():
                for cables, of_cables in grouped(of_motif, CABLES).items():
                    row = {"series": series, "motif": motif, "cables": cables}
                    (of_all,) = where(of_cables, kind=ALL)
                    medians.append({**row, **_intervals(of_all), **_medians(of_cables)})
        return medians

    @property
    def headings(self) -> Mapping[str, Heading]:
        return {
            "idle_median": Heading("median idle time", "%"),
            "over_1us": Heading("idle intervals over 1 us", "%"),
            "over_1ms": Heading("over 1 ms", "%"),
            "idle_intervals": Heading("idle intervals"),
            **{f"{kind}_median": Heading(f"median of {kind} ports", "%") for kind in KINDS},
        }

    def draw(self, rows: Sequence[Row]) -> Sequence[FigurePicture]:
        summary = self.summary(rows)
        parts = {}
        for key in ("idle_median", "over_1us", "over_1ms"):
            bars: dict[str, dict[str, float]] = {}
            for row in summary:
                name = f"{row['series']}, {row['cables']} cables"
                bars.setdefault(name, {})[str(row["motif"])] = 100 * number(row, key)
            parts[f"{self.headings[key].text} [%]"] = bars
        axis = Axis("share [%]")
        return [FigurePicture.of("idle.png", f"After {self.source}.", draw_bars(self.title, parts, axis))]


def _intervals(of_all: Row) -> Row:
    """Return the share of long intervals among the idle intervals of all ports."""
    count = max(number(of_all, "idle_intervals"), 1.0)
    return {
        "idle_median": number(of_all, "idle_median"),
        "over_1us": number(of_all, "idle_1us") / count,
        "over_1ms": number(of_all, "idle_1ms") / count,
        "idle_intervals": int(number(of_all, "idle_intervals")),
    }


def _medians(rows: Sequence[Row]) -> Row:
    """Return the median idle time of each kind of port."""
    of_kinds = {kind: where(rows, kind=kind) for kind in KINDS}
    return {f"{kind}_median": number(of_kind[0], "idle_median") for kind, of_kind in of_kinds.items() if of_kind}
