"""Parts of two networks and the power of their optics: MOTION's section 3 and Table 1.

power of optics = sum over cables of (ends: 2) * B/s * 8 * J/bit        copper: 0
modules         = B/s of a switch / B/s of a module's channels, rounded up, if all cables are co-packaged optics
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from topoflow.fabric.base import Fabric
from topoflow.report.draw.axis import Axis
from topoflow.report.draw.figures import draw_bars
from topoflow.study.figures.base import Experiment, FigurePicture, Heading, Row, distinct, number, where
from topoflow.study.figures.setup import Setup
from topoflow.units import check_count, check_not_negative, check_positive

CABLES = ("servers", "switches")  # cables of servers, and between switches
BITS = 8
TERABITS = BITS / 1e12
QUANTITIES = {  # column of the rows -> title, displayed unit, factor to this unit
    "switches": ("switches", "", 1),
    "end_points": ("end points", "", 1),
    "groups": ("groups of servers", "", 1),
    "least_ports": ("ports of the smallest switch", "", 1),
    "most_ports": ("ports of the largest switch", "", 1),
    "switch_bandwidth": ("bandwidth of the largest switch", "Tb/s", TERABITS),
    "bisection": ("bandwidth to the spines", "Tb/s", TERABITS),
    "copper": ("copper cables", "", 1),
    "optical": ("optical cables", "", 1),
    "modules": ("modules of optics in a switch", "", 1),
    "optics_w": ("power of all optics", "kW", 1e-3),
    "optics_per_switch_w": ("of those in the largest switch", "W", 1),
    "optics_per_bandwidth": ("per bandwidth to the spines", "W/(Tb/s)", 1 / TERABITS),
    "cost_usd": ("all parts, by prices=", "USD", 1),
}


@dataclass(frozen=True)
class Bill(Experiment):
    """A table with a column for each series and a line for each quantity. Nothing is simulated.

    ``optics``: for each series, J/bit of the transceivers of each kind of cable (``CABLES``); 0: copper. ``paper``: its
    numbers for each quantity.
    """

    optics: Mapping[str, Mapping[str, float]]
    channel: float  # B/s
    channels: int  # per module
    paper: Mapping[str, Sequence[float]]

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("experiment.channel", self.channel)
        check_count("experiment.channels", self.channels)
        self.check_series("optics", *self.optics)
        for series in self.series:
            if set(self.optics.get(series, ())) != set(CABLES):
                rule = f"must have {' and '.join(CABLES)}"
                raise ValueError(f"experiment.optics.{series}: {rule}, got {', '.join(self.optics.get(series, ()))}")
            for cables, joules in self.optics[series].items():
                check_not_negative(f"experiment.optics.{series}.{cables}", joules)
        for quantity in self.paper:
            if quantity not in QUANTITIES:
                allowed = ", ".join(QUANTITIES)
                raise ValueError(f"experiment.paper: must be of {allowed}, got {quantity}")

    @property
    def parameters(self) -> Mapping[str, object]:
        return {"optics": self.optics, "channel": self.channel, "channels": self.channels}

    def measure(self, setup: Setup) -> Sequence[Row]:
        fabric, joules = setup.unwired, self.optics[str(setup.label["series"])]
        used = np.isin(np.arange(len(fabric.nodes)), fabric.source)
        ports, bandwidth = (values[fabric.servers :] for values in _by_node(fabric))
        between = (fabric.source >= fabric.servers) & (fabric.target >= fabric.servers)
        power = float(_joules(fabric, between, joules) @ fabric.bandwidth) * BITS
        largest = fabric.servers + int(np.argmax(bandwidth))
        joules_of_switch = (
            _joules(fabric, between, joules) * ((fabric.source == largest) | (fabric.target == largest)) / 2
        )
        optical = np.where(between, joules["switches"], joules["servers"]) > 0
        all_optical = bool(optical.all())
        bisection = float(fabric.bandwidth[between].sum()) / 2
        return [
            {
                "switches": int(used[fabric.servers :].sum()),
                "end_points": int(sum(item.count for item in fabric.bill if item.component == "nic_port")),
                "groups": _groups(fabric),
                "least_ports": int(ports.min()),
                "most_ports": int(ports.max()),
                "switch_bandwidth": float(bandwidth.max()),
                "bisection": bisection,
                "copper": int((~optical).sum()) // 2,
                "optical": int(optical.sum()) // 2,
                "modules": ceil(bandwidth.max() / (self.channel * self.channels) - 1e-9) if all_optical else 0,
                "optics_w": power,
                "optics_per_switch_w": float(joules_of_switch @ fabric.bandwidth) * BITS,
                "optics_per_bandwidth": power / bisection,
                "cost_usd": setup.cost,
            }
        ]

    def summary(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Return a line for each quantity: values of each series, the second over the first, the paper's numbers."""
        names = distinct(rows, "series")
        table: list[Row] = []
        for quantity, (title, _, _) in QUANTITIES.items():
            values = [number(where(rows, series=name)[0], quantity) for name in names]
            change = values[1] / values[0] if len(values) > 1 and values[0] else None
            stated = ", ".join(_text(quantity, value) for value in self.paper.get(quantity, ()))
            line = {name: _text(quantity, value) for name, value in zip(names, values, strict=True)}
            table.append({"quantity": title, **line, "change": change, "paper": stated})
        return table

    @property
    def headings(self) -> Mapping[str, Heading]:
        first, second = [*self.series, "", ""][:2]
        return {"change": Heading(f"{second} over {first}", "x"), "paper": Heading(f"the paper: {first}, {second}")}

    def draw(self, rows: Sequence[Row]) -> Sequence[FigurePicture]:
        bars = {str(row["series"]): {"": number(row, "optics_w") / 1e3} for row in rows}
        figure = draw_bars(self.title, {"": bars}, Axis("power of all optics [kW]"))
        return [FigurePicture.of("optics.png", f"What optics draw. After {self.source}.", figure)]


def _by_node(fabric: Fabric) -> tuple[np.ndarray, np.ndarray]:
    """Return the links that leave each node, and their bandwidth (B/s)."""
    nodes = len(fabric.nodes)
    return np.bincount(fabric.source, minlength=nodes), np.bincount(fabric.source, fabric.bandwidth, nodes)


def _joules(fabric: Fabric, between: np.ndarray, joules: Mapping[str, float]) -> np.ndarray:
    """Return the J/bit of each link, which is one direction of a cable: half of its two transceivers."""
    return np.where(between, joules["switches"], joules["servers"])


def _groups(fabric: Fabric) -> int:
    """Count the sets of servers below the same first switches."""
    first = fabric.source < fabric.servers
    below: dict[int, set[int]] = {}
    for server, switch in zip(fabric.source[first].tolist(), fabric.target[first].tolist(), strict=True):
        below.setdefault(server, set()).add(switch)
    return len({tuple(sorted(switches)) for switches in below.values()})


def _text(quantity: str, value: float) -> str:
    _, unit, factor = QUANTITIES[quantity]
    amount = value * factor
    whole = not unit or amount >= 1e5
    return f"{amount:,.0f} {unit}".strip() if whole else f"{amount:,.1f} {unit}"
