"""Power and cost of Sirius over those of electrical switches, by the overhead of tunable lasers: Sirius' Figure 6.

A path is what carries a bit from end to end (section 5 counts both networks by it), in W and USD of 1 Tb/s. Electrical,
L layers: 2 L - 1 switches and, of the links, one for each switch, as Figure 2a's numbers have it, or, with servers'
cables apart, the 2 L - 2 between switches. Sirius, by the wording of 5: the switches of both racks, two tunable
transceivers and a grating, both times ``overprovision`` ("we double the number of transceivers and rack uplink
capacity"); gratings draw no power, and no cable of a server is counted. The bill is all parts of both networks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from topoflow.arrays import Floats
from topoflow.fabric.base import Item
from topoflow.papers.sirius.scale_tax import path_bill, per_terabit
from topoflow.report.draw.axis import Axis
from topoflow.report.draw.figures import draw_lines
from topoflow.study.figures.base import Experiment, FigurePicture, Heading, Row, grouped, number, where
from topoflow.study.figures.setup import Setup
from topoflow.units import check_bandwidth, check_count, check_positive

BASES = {
    "path": "power of a path",
    "apart": "power of a path, servers' cables apart",
    "bill": "power of all parts",
    "path_usd": "cost of a path",
    "apart_usd": "cost of a path, servers' cables apart",
    "bill_usd": "cost of all parts",
}
TUNABLE = "tunable_transceiver"


@dataclass(frozen=True)
class LaserPower(Experiment):
    """Power and cost over ``overheads``, those of a tunable laser over a fixed one, with a line for each basis.

    A transceiver with a tunable laser draws ``laser`` (overhead - 1) more than one with a fixed laser, for each
    ``laser_bandwidth``, the bandwidth of one laser. A laser is the same share of a transceiver's price as of its power
    ("we use packaged chip area for our laser and its power as a first-order ... proxy for fundamental cost", 5).
    """

    baseline: str  # the series of electrical switches
    overheads: Sequence[float]
    layers: int  # of electrical switches
    overprovision: float
    laser: float  # W of a fixed laser
    laser_bandwidth: float  # B/s

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_keys("grid", "servers")
        check_count("experiment.layers", self.layers)
        check_bandwidth("experiment.laser_bandwidth", self.laser_bandwidth)
        for field in ("overprovision", "laser"):
            check_positive(f"experiment.{field}", getattr(self, field))
        if self.baseline not in self.series or len(self.series) != 2:
            rule = "must be one of two series"
            raise ValueError(f"experiment.baseline: {rule}, {', '.join(self.series)}, got {self.baseline!r}")
        if not self.overheads:
            raise ValueError("experiment.overheads: must have an entry, got none")
        for overhead in self.overheads:
            if not 1 <= overhead < np.inf:
                raise ValueError(f"experiment.overheads: must be at least 1, got {overhead}")

    @property
    def parameters(self) -> Mapping[str, object]:
        names = ("baseline", "overheads", "layers", "overprovision", "laser", "laser_bandwidth")
        return {name: getattr(self, name) for name in names}

    def measure(self, setup: Setup) -> Sequence[Row]:
        """Return a row for each overhead: W and USD of 1 Tb/s of a path, and of all parts."""
        return [{"overhead": overhead, **self._bases(setup, overhead)} for overhead in self.overheads]

    def _bases(self, setup: Setup, overhead: float) -> Row:
        prices, bandwidth = setup.prices, self.laser_bandwidth
        fixed = [Item("transceiver", 1, bandwidth)]
        gigabits = bandwidth * 8 / 1e9
        more = (overhead - 1) * self.laser  # W
        watts, usd = prices.power(fixed) + more, prices.cost(fixed) * (1 + more / prices.power(fixed))
        prices = replace(
            prices,
            watts={**prices.watts, TUNABLE: {"per_gbps": watts / gigabits}},
            usd={**prices.usd, TUNABLE: {"per_gbps": usd / gigabits}},
        )
        if setup.label["series"] == self.baseline:
            switches = 2 * self.layers - 1
            bills = {
                "path": path_bill(switches, switches, bandwidth),
                "apart": path_bill(switches, switches - 1, bandwidth),
            }
        else:
            optics = (
                Item(TUNABLE, 2 * self.overprovision, bandwidth),
                Item("grating_port", self.overprovision, bandwidth),
            )
            bills = dict.fromkeys(("path", "apart"), (*path_bill(2, 0, bandwidth), *optics))
        row: dict[str, float] = {}
        for name, bill in bills.items():
            row[name] = per_terabit(prices.power(bill), bandwidth)
            row[f"{name}_usd"] = per_terabit(prices.cost(bill), bandwidth)
        return {**row, "bill": prices.power(setup.unwired.bill), "bill_usd": prices.cost(setup.unwired.bill)}

    def summary(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Return both bases for each overhead, and their ratios to the bases of the baseline."""
        points: list[Row] = []
        for servers, same in grouped(rows, "servers").items():
            base = {row["overhead"]: row for row in where(same, series=self.baseline)}
            for row in same:
                if row["series"] != self.baseline and row["overhead"] in base:
                    baseline = base[row["overhead"]]
                    ratios = {f"{name}_ratio": number(row, name) / number(baseline, name) for name in BASES}
                    path = {key: row[key] for key in ("overhead", "path", "path_usd")}
                    points.append({"servers": servers, **path, **ratios})
        return points

    @property
    def headings(self) -> Mapping[str, Heading]:
        return {
            "overhead": Heading("tunable over fixed laser", "x"),
            "path": Heading("of a path [W/(Tb/s)]"),
            "path_usd": Heading("of a path [USD/(Tb/s)]"),
            **{f"{name}_ratio": Heading(f"{text} over {self.baseline}", "%") for name, text in BASES.items()},
        }

    def draw(self, rows: Sequence[Row]) -> Sequence[FigurePicture]:
        summary = self.summary(rows)
        if not summary:
            return []
        parts = {
            f"{servers} servers": {
                text: (_column(same, "overhead"), _column(same, f"{name}_ratio")) for name, text in BASES.items()
            }
            for servers, same in grouped(summary, "servers").items()
        }
        axes = Axis("power of a tunable laser over a fixed one"), Axis(f"power and cost over those of {self.baseline}")
        return [FigurePicture.of("power.png", f"After {self.source}.", draw_lines(self.title, parts, *axes))]


def _column(rows: Sequence[Row], key: str) -> Floats:
    return np.array([number(row, key) for row in rows])
