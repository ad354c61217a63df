"""Power of 1 Tb/s from end to end, for 0 to four layers of switches: Sirius' Figure 2a.

    layers     nodes             switches on a path    links    W/(Tb/s) by the counted links
    0          2                 0                     1        50            two transceivers, 25 W each
    1          64                1                     1        50 + 20
    4          2 (64/2)^4        7                     7        7 * (50 + 20) = 487, as in 2

A path of L layers has 2 L - 1 switches and, from node to node, 2 L links. The paper's two numbers, 50 and 487, follow
from one link for each switch, as if a node and its first switch shared one transceiver; so both counts are given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from topoflow.fabric.base import Item
from topoflow.report.draw.axis import Axis
from topoflow.report.draw.figures import draw_lines
from topoflow.study.figures.base import Experiment, FigurePicture, Heading, Row, number
from topoflow.study.figures.setup import Setup
from topoflow.units import check_bandwidth, check_count

TERABIT = 1e12 / 8  # B/s
LINES = {"paper": "a link for each switch", "all_links": "with the links of both nodes"}


@dataclass(frozen=True)
class ScaleTax(Experiment):
    """Power over the nodes that 0 to ``layers`` layers of switches with ``radix`` ports support. Not simulated."""

    layers: int
    radix: int
    port_bandwidth: float  # B/s

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("experiment.layers", self.layers)
        check_count("experiment.radix", self.radix)
        check_bandwidth("experiment.port_bandwidth", self.port_bandwidth)
        if self.radix % 2:
            raise ValueError(f"experiment.radix: must be even, got {self.radix}")

    @property
    def parameters(self) -> Mapping[str, object]:
        return {"layers": self.layers, "radix": self.radix, "port_bandwidth": self.port_bandwidth}

    def measure(self, setup: Setup) -> Sequence[Row]:
        """Return a row for each number of layers."""
        rows: list[Row] = []
        for layers in range(self.layers + 1):
            switches = max(2 * layers - 1, 0)
            watts = {
                name: per_terabit(
                    setup.prices.power(path_bill(switches, links, self.port_bandwidth)), self.port_bandwidth
                )
                for name, links in (("paper", max(switches, 1)), ("all_links", max(2 * layers, 1)))
            }
            rows.append({"layers": layers, "nodes": 2 * (self.radix // 2) ** layers, **watts})
        return rows

    def summary(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Return every row."""
        return [{key: row[key] for key in ("layers", "nodes", *LINES)} for row in rows]

    @property
    def headings(self) -> Mapping[str, Heading]:
        return {name: Heading(f"W/(Tb/s), {text}") for name, text in LINES.items()}

    def draw(self, rows: Sequence[Row]) -> Sequence[FigurePicture]:
        nodes = np.array([number(row, "nodes") for row in rows])
        lines = {text: (nodes, np.array([number(row, name) for row in rows])) for name, text in LINES.items()}
        axes = Axis("nodes", log=True), Axis("power of a path [W/(Tb/s)]")
        return [FigurePicture.of("power.png", f"After {self.source}.", draw_lines(self.title, {"": lines}, *axes))]


def path_bill(switches: float, links: float, bandwidth: float) -> tuple[Item, ...]:
    """Return the parts of a path of ``bandwidth`` B/s: a port of each switch and two transceivers of each link."""
    return Item("switch_port", switches, bandwidth), Item("transceiver", 2 * links, bandwidth)


def per_terabit(amount: float, bandwidth: float) -> float:
    """Return the amount for 1 Tb/s, of one for ``bandwidth`` B/s."""
    return amount * TERABIT / bandwidth
