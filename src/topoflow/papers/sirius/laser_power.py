"""Power of Sirius over that of electrical switches, by the power of tunable lasers: Sirius' Figure 6a.

There are two bases:

path    W/(Tb/s) from end to end, as in Figure 2a. Electrical, L layers: 2 L - 1 switches and as many links. Sirius, by
        the wording of 5: the switches of both racks and two tunable transceivers, times ``overprovision`` ("we double
        the number of transceivers"); gratings draw no power.
bill    W of all parts of both networks; a series is a network.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from topoflow.arrays import Floats
from topoflow.fabric.base import Item
from topoflow.papers.sirius.scale_tax import TERABIT, path_power
from topoflow.report.draw.axis import Axis
from topoflow.report.draw.figures import draw_lines
from topoflow.study.figures.base import Experiment, FigurePicture, Heading, Row, grouped, number, where
from topoflow.study.figures.setup import Setup
from topoflow.units import check_bandwidth, check_count, check_positive

BASES = {"path": "of a path", "bill": "of all parts"}
TUNABLE = "tunable_transceiver"


@dataclass(frozen=True)
class LaserPower(Experiment):
    """Power over ``overheads``, the power of a tunable laser over a fixed one, with a line for each basis.

    A transceiver with a tunable laser draws ``laser`` (overhead - 1) more than one with a fixed laser, for each
    ``laser_bandwidth``, the bandwidth of one laser.
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
        """Return a row for each overhead: W/(Tb/s) of a path, W of all parts."""
        rows: list[Row] = []
        for overhead in self.overheads:
            fixed = setup.prices.power([Item("transceiver", 1, self.laser_bandwidth)])
            tunable = (fixed + (overhead - 1) * self.laser) / (self.laser_bandwidth * 8 / 1e9)  # W per Gb/s
            prices = replace(setup.prices, watts={**setup.prices.watts, TUNABLE: {"per_gbps": tunable}})
            if setup.label["series"] == self.baseline:
                path = path_power(prices, 2 * self.layers - 1, 2 * self.layers - 1, self.laser_bandwidth)
            else:
                lasers = [Item(TUNABLE, 2 * self.overprovision, self.laser_bandwidth)]
                path = path_power(prices, 2, 0, self.laser_bandwidth)
                path += prices.power(lasers) * TERABIT / self.laser_bandwidth
            rows.append({"overhead": overhead, "path": path, "bill": prices.power(setup.unwired.bill)})
        return rows

    def summary(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Return both bases for each overhead, and their ratios to the bases of the baseline."""
        points: list[Row] = []
        for servers, same in grouped(rows, "servers").items():
            base = {row["overhead"]: row for row in where(same, series=self.baseline)}
            for row in same:
                if row["series"] != self.baseline and row["overhead"] in base:
                    baseline = base[row["overhead"]]
                    ratios = {f"{name}_ratio": number(row, name) / number(baseline, name) for name in BASES}
                    points.append({"servers": servers, "overhead": row["overhead"], "path": row["path"], **ratios})
        return points

    @property
    def headings(self) -> Mapping[str, Heading]:
        return {
            "overhead": Heading("tunable over fixed laser", "x"),
            "path": Heading("of a path [W/(Tb/s)]"),
            **{f"{name}_ratio": Heading(f"power {text} over {self.baseline}", "%") for name, text in BASES.items()},
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
        axes = Axis("power of a tunable laser over a fixed one"), Axis(f"power over that of {self.baseline}")
        return [FigurePicture.of("power.png", f"After {self.source}.", draw_lines(self.title, parts, *axes))]


def _column(rows: Sequence[Row], key: str) -> Floats:
    return np.array([number(row, key) for row in rows])
