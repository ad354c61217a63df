"""Runtimes of motifs on a dragonfly over the cables between its groups, and the activity of its ports.

This is the tapered dragonfly's Figure 3; its Figures 4 to 9 are other kinds of the same measurement.

Shapes: L links.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from topoflow.arrays import Floats, Mask
from topoflow.engine.base import Timeline
from topoflow.engine.lowering.addresses import next_hops
from topoflow.fabric.routing.next_hops import DOWN, GLOBAL, LOCAL, UP
from topoflow.report.draw.axis import Axis
from topoflow.report.draw.figures import Lines, draw_lines
from topoflow.study.figures.base import Experiment, FigurePicture, Grid, Heading, Row, grouped, number, where
from topoflow.study.figures.setup import Setup

CABLES, MOTIF = "fabric.global_links", "workload.name"  # keys of the grid
KINDS = {"local": DOWN, "group": LOCAL, "global": GLOBAL}  # ports of switches, with the paper's names (II)
ALL = "all"  # ports of switches
NIC = "nic"
SHARES = 50  # steps of an axis of a ternary plot


@dataclass(frozen=True)
class Tapering(Experiment):
    """The runtime over the cables between two groups, with a line for each of ``series`` and a panel for each motif.

    ``sizes``: keys of the grid for each value of ``scale``, the size of the network.
    """

    scale: str
    sizes: Mapping[str, Grid]

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.scale not in self.sizes:
            raise ValueError(f"experiment.scale: must be one of {', '.join(self.sizes)}, got {self.scale!r}")
        object.__setattr__(self, "grid", {**self.sizes[self.scale], **self.grid})
        self.check_keys("grid", CABLES, MOTIF)

    def measure(self, setup: Setup) -> Sequence[Row]:
        """Return a row for each kind of switch port and each cell of a ternary plot that has ports of this kind.

        Two more rows describe all ports of switches, and the ports of NICs, which are in no cell.
        """
        timeline = setup.result.timeline
        if timeline.ports is None:
            raise ValueError(f"fidelity: must have ports for this figure, got {setup.problem.fidelity.name}")
        level = next_hops(setup.unwired).level
        shared = {"runtime": timeline.makespan, "packet_hops": int(timeline.ports.packets.sum())}
        shared |= {f"{kind}_ports": int((level == number).sum()) for kind, number in KINDS.items()}
        shared |= {"nics": int((level == UP).sum())}
        rows: list[Row] = [
            {**shared, **_of_kind(timeline, level == number), "kind": kind, **cell}
            for kind, number in KINDS.items()
            for cell in _cells(timeline, level == number)
        ]
        totals = {ALL: level != UP, NIC: level == UP}
        return rows + [{**shared, **_of_kind(timeline, mask), "kind": kind} for kind, mask in totals.items()]

    def summary(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Return every point once, with its runtime over that of the network with the most cables in its series."""
        points: list[Row] = []
        for series, of_series in grouped(rows, "series").items():
            for motif, same in grouped(of_series, MOTIF).items():
                seconds_of = runtimes(same)
                base = seconds_of[max(seconds_of)]
                for cables, seconds in sorted(seconds_of.items(), reverse=True):
                    shares = _shares(where(same, **{CABLES: int(cables)}))
                    row = {"series": series, "motif": motif, "cables": int(cables), "runtime": seconds}
                    points.append({**row, "slowdown": seconds / base, **shares})
        return points

    @property
    def headings(self) -> Mapping[str, Heading]:
        names = {
            f"{kind}_{state}": f"{kind} ports {state}" for kind in KINDS for state in ("active", "stalled", "idle")
        }
        return {
            "runtime": Heading("run time", "s"),
            "slowdown": Heading("over the most cables", "x"),
            **{key: Heading(text, "%") for key, text in names.items()},
        }

    def draw(self, rows: Sequence[Row]) -> Sequence[FigurePicture]:
        parts: dict[str, Lines] = {}
        for motif, of_motif in grouped(rows, MOTIF).items():
            lines = {}
            for series, same in grouped(of_motif, "series").items():
                seconds_of = runtimes(same)
                lines[series] = (sorted(seconds_of), [seconds_of[cables] for cables in sorted(seconds_of)])
            parts[str(motif)] = lines
        axes = Axis("cables between two groups", log=True), Axis("runtime", "s")
        return [FigurePicture.of("runtime.png", f"After {self.source}.", draw_lines(self.title, parts, *axes))]


def runtimes(rows: Sequence[Row]) -> dict[float, float]:
    """Return cables between two groups -> runtime (s)."""
    return {number(row, CABLES): number(row, "runtime") for row in rows}


def _of_kind(timeline: Timeline, mask: Mask) -> Row:
    """Return the mean shares of the run that ports of a kind were active, stalled and idle, and idle intervals."""
    ports, run = timeline.ports, timeline.makespan
    assert ports is not None
    active, stalled = ports.active[mask] / run, ports.stalled[mask] / run
    idle = 1 - active - stalled
    return {
        "active": _mean(active),
        "stalled": _mean(stalled),
        "idle": _mean(idle),
        "idle_median": float(np.median(idle)) if len(idle) else 1.0,
        "idle_intervals": int(ports.idle_intervals[mask].sum()),
        "idle_1us": int(ports.idle_1us[mask].sum()),
        "idle_1ms": int(ports.idle_1ms[mask].sum()),
    }


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else 0.0


def _cells(timeline: Timeline, mask: Mask) -> list[Row]:
    """Count the ports in each cell of a ternary plot; shares of time are rounded to 1 / ``SHARES``."""
    ports, run = timeline.ports, timeline.makespan
    assert ports is not None
    shares = np.stack([ports.active[mask], ports.stalled[mask]]) / run
    cell, count = np.unique(np.rint(shares * SHARES).astype(np.int64), axis=1, return_counts=True)
    return [
        {"active_cell": int(active), "stalled_cell": int(stalled), "ports": int(ports)}
        for (active, stalled), ports in zip(cell.T, count, strict=True)
    ]


def _shares(rows: Sequence[Row]) -> Row:
    """Return the mean shares of each kind of port."""
    shares: dict[str, float] = {}
    for kind in KINDS:
        of_kind = where(rows, kind=kind)
        shares |= {f"{kind}_{state}": number(of_kind[0], state) for state in ("active", "stalled", "idle") if of_kind}
    return shares
