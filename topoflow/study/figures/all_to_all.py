"""All-to-all exchanges over message sizes: how long they take on each network, and how many messages cross the spine.

MOTION's Figures 4 to 7. A point is an exchange on one network, simulated for all message sizes as one batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from topoflow.arrays import Floats
from topoflow.case.base import Job
from topoflow.engine.base import Timeline, World
from topoflow.engine.lowering.placement import Placer
from topoflow.report.draw.axis import Axis
from topoflow.report.draw.figures import Lines, draw_lines
from topoflow.report.draw.style import png
from topoflow.study.configure.decide import lowering_of
from topoflow.study.figures.base import Experiment, Heading, Picture, Row, check_roles, distinct, number, where
from topoflow.study.figures.setup import Setup
from topoflow.units import check_positive
from topoflow.workload.all_to_all import AllToAll

SIZE = Axis("message", "B", log=True)


@dataclass(frozen=True)
class Exchange(Experiment):
    """An exchange among ``servers`` of the grid on the network of each series, for messages of each of ``sizes``."""

    sizes: Sequence[float]  # B

    def __post_init__(self) -> None:
        check_roles("experiment.grid", self, "servers")
        if not self.sizes:
            raise ValueError("experiment.sizes: must have an entry, got none")
        for size in self.sizes:
            check_positive("experiment.sizes", size)

    @property
    def parameters(self) -> Mapping[str, object]:
        return {"sizes": self.sizes}

    def measure(self, setup: Setup) -> Sequence[Row]:
        """A row for each message size."""
        world = exchange_on(setup)
        graph = world.graph
        worlds = [
            replace(world, name=f"{size:g} B", graph=replace(graph, bytes=np.full(graph.tasks, float(size))))
            for size in self.sizes
        ]
        found = setup.problem.fidelity.simulate(worlds, setup.run)
        return [
            {"bytes": size, **crossing_of(world), **_times(timeline)}
            for size, timeline in zip(self.sizes, found, strict=True)
        ]

    @property
    def headings(self) -> Mapping[str, Heading]:
        return {
            "bytes": Heading("message", "B"),
            "slowest_bytes": Heading("message of the least", "B"),
            "fastest_bytes": Heading("message of the greatest", "B"),
            "completion": Heading("completion", "s"),
            "least": Heading("least speedup", "x"),
            "greatest": Heading("greatest speedup", "x"),
            "crossing": Heading("messages that cross the spine", "%"),
            "application": Heading("time over that of the baseline", "%"),
            "ratio": Heading("communication", "%"),
        }


@dataclass(frozen=True)
class Speedup(Exchange):
    """How much faster one series is than another: ``pairs`` are (faster, slower), a panel and a picture each."""

    pairs: Sequence[tuple[str, str]]

    def __post_init__(self) -> None:
        super().__post_init__()
        for pair in self.pairs:
            _check_series("experiment.pairs", self, *pair)

    def summary(self, rows: Sequence[Row]) -> Sequence[Row]:
        """The least and the greatest speedup over all sizes, for each pair and number of servers."""
        found = []
        for pair, title in self._chosen(rows):
            for servers in distinct(rows, "servers"):
                line = _speedups(where(rows, servers=servers), pair)
                if line:
                    least, most = min(line, key=line.__getitem__), max(line, key=line.__getitem__)
                    mine = {"least": line[least], "slowest_bytes": least, "greatest": line[most], "fastest_bytes": most}
                    found.append({"speedup": title, "servers": servers, **mine})
        return found

    def draw(self, rows: Sequence[Row]) -> Sequence[Picture]:
        pictures = []
        for pair, title in self._chosen(rows):
            lines: dict[str, tuple[Any, Any]] = {}
            for servers in distinct(rows, "servers"):
                line = _speedups(where(rows, servers=servers), pair)
                lines[f"{servers} servers"] = (list(line), list(line.values()))
            figure = draw_lines(self.title, {title: lines}, SIZE, Axis("speedup"))
            file = f"speedup_{'_over_'.join(pair)}.png".replace(" ", "_")
            pictures.append(Picture(file, f"Speedup, {title}. After {self.source}.", png(figure)))
        return pictures

    def _chosen(self, rows: Sequence[Row]) -> Iterator[tuple[tuple[str, str], str]]:
        """Pairs whose series were both simulated, and their titles."""
        there = distinct(rows, "series")
        for faster, slower in self.pairs:
            if faster in there and slower in there:
                yield (faster, slower), f"{faster} over {slower}"


@dataclass(frozen=True)
class Application(Exchange):
    """The time of an application that communicates for a share of its time, over that on the series ``base``.

    ``ratios`` are these shares on ``base``; computing takes as long on every network, and overlaps with
    no communication: (1 - ratio) + ratio * completion / completion on ``base``. A ratio of 1 is the exchange alone.
    """

    base: str
    ratios: Sequence[float]

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_series("experiment.base", self, self.base)
        for ratio in self.ratios:
            if not 0 < ratio <= 1:
                raise ValueError(f"experiment.ratios: must be within 0 < ratio <= 1, got {ratio}")

    def check(self, labels: Sequence[Row]) -> None:
        super().check(labels)
        if self.base not in distinct(labels, "series"):
            raise ValueError(f"series: must have {self.base}, which the others are compared with")

    def summary(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Every point, for each ratio."""
        keys = ("series", "servers", "bytes", "completion")
        return [
            {**{key: row[key] for key in keys}, "ratio": ratio, "application": self._over_base(row, rows, ratio)}
            for ratio in self.ratios
            for row in rows
        ]

    def draw(self, rows: Sequence[Row]) -> Sequence[Picture]:
        pictures = []
        for ratio in self.ratios:
            parts: dict[str, Lines] = {}
            for servers in distinct(rows, "servers"):
                mine = where(rows, servers=servers)
                parts[f"{servers} servers"] = {
                    series: self._line(where(mine, series=series), rows, ratio) for series in distinct(mine, "series")
                }
            what = "completion" if ratio == 1 else f"application, {100 * ratio:g} % communication"
            figure = draw_lines(self.title, parts, SIZE, Axis(f"time over {self.base}"))
            file = "completion.png" if ratio == 1 else f"application_{ratio:g}.png"
            pictures.append(
                Picture(file, f"Time of the {what}, over that on {self.base}. After {self.source}.", png(figure))
            )
        return pictures

    def _line(self, mine: Sequence[Row], rows: Sequence[Row], ratio: float) -> tuple[Floats, Floats]:
        points = sorted((number(row, "bytes"), self._over_base(row, rows, ratio)) for row in mine)
        return np.array([x for x, _ in points]), np.array([y for _, y in points])

    def _over_base(self, row: Row, rows: Sequence[Row], ratio: float) -> float:
        (base,) = where(rows, series=self.base, servers=row["servers"], bytes=row["bytes"])
        return 1 - ratio + ratio * number(row, "completion") / number(base, "completion")


@dataclass(frozen=True)
class Crossing(Exchange):
    """The share of the messages that cross the spine, over the number of servers; nothing is simulated."""

    def measure(self, setup: Setup) -> Sequence[Row]:
        return [crossing_of(exchange_on(setup))]

    def summary(self, rows: Sequence[Row]) -> Sequence[Row]:
        return [{key: row[key] for key in ("series", "servers", "crossing")} for row in rows]

    def draw(self, rows: Sequence[Row]) -> Sequence[Picture]:
        lines: dict[str, tuple[Any, Any]] = {}
        for series in distinct(rows, "series"):
            mine = where(rows, series=series)
            lines[series] = ([row["servers"] for row in mine], [100 * number(row, "crossing") for row in mine])
        figure = draw_lines(self.title, {"": lines}, Axis("servers"), Axis("messages that cross the spine [%]"))
        return [Picture("crossing.png", f"Messages that cross the spine. After {self.source}.", png(figure))]


def exchange_on(setup: Setup) -> World:
    """The exchange of a point on its network. Raises ``ValueError`` for a workload that is no exchange."""
    problem = setup.problem
    if not isinstance(problem.workload, AllToAll):
        raise ValueError(f"workload: must be all_to_all for this figure, got {problem.workload.name}")
    traffic = Job(problem.workload, problem.start).traffic
    return Placer(setup.unwired, lowering_of(setup.point)).place(traffic, f"{setup.servers} servers")


def crossing_of(world: World) -> Row:
    """How many messages there are, and the share of N^2 that take more than the two links of a leaf.

    Those of a server to itself count among the N^2, as in MOTION, though they are not sent.
    """
    graph = world.graph
    assert world.fabric is not None
    links = np.diff(graph.path_offsets)[graph.path]
    far = int(np.count_nonzero(links > 2))
    return {"messages": graph.tasks, "crossing": far / world.fabric.servers**2}


def _times(timeline: Timeline) -> Row:
    """When the last message has arrived and, of a simulation of packets, what ports saw."""
    ports = timeline.ports
    seen: Row = {}
    if ports is not None:
        seen = {
            "packet_hops": int(ports.packets.sum()),
            "latency_mean": ports.latency.mean,
            "latency_p99": ports.latency.quantile(0.99),
        }
    return {"completion": timeline.makespan, **seen}


def _speedups(rows: Sequence[Row], pair: tuple[str, str]) -> dict[float, float]:
    """Message size -> how much faster the first of the pair is than the second."""
    fast, slow = ({number(row, "bytes"): number(row, "completion") for row in where(rows, series=one)} for one in pair)
    return {size: slow[size] / fast[size] for size in sorted(fast) if size in slow}


def _check_series(field: str, experiment: Experiment, *names: str) -> None:
    for name in names:
        if name not in experiment.series:
            raise ValueError(f"{field}: must be of the series {', '.join(experiment.series)}, got {name!r}")
