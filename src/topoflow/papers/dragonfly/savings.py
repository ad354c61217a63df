"""Savings of the power of links: the tapered dragonfly, section IV-C."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from topoflow.papers.dragonfly.link_power import LinkPower
from topoflow.papers.dragonfly.tapering import ALL, CABLES, KINDS, MOTIF, NIC
from topoflow.report.draw.axis import Axis
from topoflow.report.draw.figures import draw_bars
from topoflow.study.figures.base import FigurePicture, Heading, Row, distinct, grouped, number, where
from topoflow.units import check_positive

PORTS = (*KINDS, NIC)


@dataclass(frozen=True)
class Savings(LinkPower):
    """The five savings of IV-C, for the network with the most cables of each series.

    proportional    links that need power only while they send or wait, which saves the idle share of their power,
                    for the motif with the lowest idle power
    tapered         fewer cables between groups
    narrow          links of half the width, with the measured savings ``narrow_port``, ``narrow_nic`` and
                    ``narrow_optical``, in W each
    narrow, models  links of half the width, if half of the lanes need no power; a NIC has one port with such lanes
    dynamic         the rest of proportional when links are narrow, by models

    ``budget``: W of the whole machine per NIC, so that networks of all sizes can be compared with it.
    """

    narrow_port: float
    narrow_nic: float
    narrow_optical: float
    budget: float

    def __post_init__(self) -> None:
        super().__post_init__()
        for field in ("narrow_port", "narrow_nic", "narrow_optical", "budget"):
            check_positive(f"experiment.{field}", getattr(self, field))

    def summary(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Return each saving of each series, in W and as a share of the power of links and of the machine."""
        savings: list[Row] = []
        for series, of_series in grouped(rows, "series").items():
            most = max(number(row, CABLES) for row in of_series)
            widest = where(of_series, **{CABLES: int(most)})
            for name, row in self.savings(of_series, widest).items():
                watts = number(row, "power")
                budget = self.budget * number(widest[0], "nics")
                shares = {"of_links": watts / self.power(widest[0]), "of_budget": watts / budget}
                savings.append({"series": series, "saving": name, **row, **shares})
        return savings

    def savings(self, rows: Sequence[Row], widest: Sequence[Row]) -> dict[str, Row]:
        """Return the savings of a series: ``rows`` of all its networks, ``widest`` of the one with the most cables."""
        idle = {motif: self.idle_power(same, PORTS) for motif, same in grouped(widest, MOTIF).items()}
        least = min(idle, key=lambda motif: idle[motif])
        least_idle = where(widest, **{MOTIF: least})
        proportional, models = idle[least], self.narrow_by_models(least_idle[0])
        savings: dict[str, Row] = {"proportional": {"motif": least, "power": proportional}}
        for cables in sorted(distinct(rows, CABLES), reverse=True)[1:]:
            fewer = self.power(where(rows, **{CABLES: cables})[0])
            savings[f"tapered to {cables}"] = {"power": self.power(least_idle[0]) - fewer}
        (of_all,) = where(least_idle, kind=ALL)
        long = number(of_all, "idle_1us") / max(number(of_all, "idle_intervals"), 1.0)
        savings["narrow"] = {"power": self.narrow(least_idle[0])}
        savings["narrow, models"] = {"power": models}
        savings["dynamic"] = {"motif": least, "power": max(proportional - models, 0.0), "over_1us": long}
        return savings

    def narrow(self, row: Row) -> float:
        """Return the power (W) that narrow links save, as measured."""
        switches = self.narrow_port * (number(row, "local_ports") + number(row, "group_ports"))
        return switches + self.narrow_nic * number(row, "nics") + self.narrow_optical * number(row, "global_ports")

    def narrow_by_models(self, row: Row) -> float:
        """Return the power (W) that narrow links save, where half of the lanes need no power."""
        ports = sum(number(row, key) for key in ("local_ports", "group_ports", "nics"))
        return self.electrical * self.lanes / 2 * ports + self.narrow_optical * number(row, "global_ports")

    @property
    def headings(self) -> Mapping[str, Heading]:
        return {
            "motif": Heading("least idle motif"),
            "power": Heading("saved [W]"),
            "over_1us": Heading("idle intervals over 1 us", "%"),
            "of_links": Heading("of links and NICs", "%"),
            "of_budget": Heading("of a machine of that size", "%"),
        }

    def draw(self, rows: Sequence[Row]) -> Sequence[FigurePicture]:
        bars: dict[str, dict[str, float]] = {}
        for row in self.summary(rows):
            bars.setdefault(str(row["series"]), {})[str(row["saving"])] = 100 * number(row, "of_links")
        axis = Axis("of the power of links and NICs [%]")
        return [FigurePicture.of("savings.png", f"After {self.source}.", draw_bars(self.title, {"": bars}, axis))]
