"""Power of a dragonfly's links against the mean runtime: the tapered dragonfly's Figure 9."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from topoflow.papers.dragonfly.tapering import CABLES, KINDS, MOTIF, NIC, Tapering, runtimes
from topoflow.report.draw.axis import Axis
from topoflow.report.draw.figures import draw_lines
from topoflow.study.figures.base import FigurePicture, Heading, Row, distinct, grouped, number, where
from topoflow.units import check_positive


@dataclass(frozen=True)
class LinkPower(Tapering):
    """Power of links and NICs against the mean runtime over all motifs, with a line for each series.

    In W: ``electrical`` for each of the ``lanes`` of a port inside a group or to a server, ``optical`` for a port
    between groups, ``nic`` for a NIC.
    """

    electrical: float
    lanes: float
    optical: float
    nic: float

    def __post_init__(self) -> None:
        super().__post_init__()
        for field in ("electrical", "lanes", "optical", "nic"):
            check_positive(f"experiment.{field}", getattr(self, field))

    def summary(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Return each network's mean runtime over the best of each motif, its power, and its idle ports' power."""
        best = {motif: min(runtimes_of(rows, motif)) for motif in distinct(rows, MOTIF)}
        points: list[Row] = []
        for series, of_series in grouped(rows, "series").items():
            for cables, of_cables in grouped(of_series, CABLES).items():
                power = self.power(of_cables[0])
                saved = [self.idle_power(of_motif, KINDS) for of_motif in grouped(of_cables, MOTIF).values()]
                ratio = fmean(number(where(of_cables, **{MOTIF: motif})[0], "runtime") / best[motif] for motif in best)
                row = {"series": series, "cables": cables, "runtime_over_best": ratio, "power": power}
                points.append({**row, "idle_least": min(saved), "idle_most": max(saved)})
        return points

    def power(self, row: Row) -> float:
        """Return the power (W) of all ports and NICs of a network."""
        electrical = self.lanes * (number(row, "local_ports") + number(row, "group_ports"))
        optical, nics = number(row, "global_ports"), number(row, "nics")
        return self.electrical * electrical + self.optical * optical + self.nic * nics

    def idle_power(self, rows: Sequence[Row], kinds: Iterable[str]) -> float:
        """Return the power (W) of idle ports of these kinds; a NIC's port draws as much as a port inside a group."""
        total = 0.0
        for kind in kinds:
            for row in where(rows, kind=kind)[:1]:  # all rows of a kind have the same idle share
                watts = self.optical if kind == "global" else self.lanes * self.electrical
                total += watts * number(row, "idle") * number(row, "nics" if kind == NIC else f"{kind}_ports")
        return total

    @property
    def headings(self) -> Mapping[str, Heading]:
        return {
            "runtime_over_best": Heading("mean runtime over the best", "x"),
            "power": Heading("power [W]"),
            "idle_least": Heading("of idle ports of switches, least motif [W]"),
            "idle_most": Heading("most [W]"),
        }

    def draw(self, rows: Sequence[Row]) -> Sequence[FigurePicture]:
        summary = self.summary(rows)
        lines = {}
        for series, of_series in grouped(summary, "series").items():
            lines[series] = (
                [number(row, "power") / 1e3 for row in of_series],
                [number(row, "runtime_over_best") for row in of_series],
            )
        axes = Axis("power of links and NICs [kW]"), Axis("mean runtime over the best")
        return [FigurePicture.of("power.png", f"After {self.source}.", draw_lines(self.title, {"": lines}, *axes))]


def runtimes_of(rows: Sequence[Row], motif: str) -> list[float]:
    """Return the runtimes of a motif on all networks."""
    same = grouped(where(rows, **{MOTIF: motif}), "series").values()
    return [seconds for of_series in same for seconds in runtimes(of_series).values()]
