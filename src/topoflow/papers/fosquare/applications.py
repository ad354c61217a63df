"""Latency of an application's messages on a machine whose other cores are busy: FOSquare's Figures 6 to 9."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from topoflow.engine.lowering.placement import place
from topoflow.engine.simulation import simulate
from topoflow.papers.fosquare.mappings import place as map_processes
from topoflow.papers.fosquare.mappings import within
from topoflow.papers.fosquare.synthetic import PROCESSES, Background, Index, SyntheticMessages, application
from topoflow.report.draw.axis import Axis
from topoflow.report.draw.figures import draw_bars
from topoflow.study.figures.base import Experiment, FigurePicture, Heading, Row, distinct, number, where
from topoflow.study.figures.setup import Setup
from topoflow.units import check_positive


@dataclass(frozen=True)
class Applications(Experiment):
    """A bar for each of ``series`` and each mapping over the number of cores that are ``available``.

    Available cores are on different servers; all other cores send as ``background`` says. The latency of a message is
    the time from its release until all of it has arrived, averaged over the messages of the application, which begins
    after ``warmup``. A message that lost a packet has no latency and is counted as lost.
    """

    application: str
    volume: float  # B that all processes send
    load: float  # of the bandwidth of a core, while a process sends
    available: Sequence[int]
    cores: Mapping[int, Sequence[int]]  # available -> the cores; other sets are drawn
    mappings: Sequence[str]
    cores_per_server: int
    servers_per_rack: int
    background: Background
    warmup: float  # s

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_keys("grid", "servers")
        check_positive("experiment.load", self.load)
        check_positive("experiment.cores_per_server", self.cores_per_server)
        check_positive("experiment.servers_per_rack", self.servers_per_rack)
        for field in ("available", "mappings"):
            if not getattr(self, field):
                raise ValueError(f"experiment.{field}: must have an entry, got none")
        for available in self.available:
            if available < PROCESSES:
                raise ValueError(f"experiment.available: must be at least the {PROCESSES} processes, got {available}")
        for available, cores in self.cores.items():
            if len(cores) != available or len(self._servers(cores)) != available:
                rule = f"must be {available} cores of as many servers"
                raise ValueError(f"experiment.cores.{available}: {rule}, got {len(self._servers(cores))}")
        for name in self.mappings:
            map_processes(name, np.zeros((1, 1), np.int64), np.zeros(1, np.int64))
        application(self.application, self.volume, self.rate)

    @property
    def rate(self) -> float:
        """The rate (B/s) of a process while it sends."""
        return self.load * self.background.bandwidth

    @property
    def parameters(self) -> Mapping[str, object]:
        names = ("application", "volume", "load", "available", "cores", "mappings", "cores_per_server")
        return {name: getattr(self, name) for name in (*names, "servers_per_rack", "background", "warmup")}

    def measure(self, setup: Setup) -> Sequence[Row]:
        """Return a row for each number of available cores and each mapping."""
        seed = int(setup.point.config["seed"])
        self._check_servers(setup.servers)
        job = application(self.application, self.volume, self.rate, seed)
        rows: list[Row] = []
        for available in self.available:
            server = self._available(available, setup.servers, seed) // self.cores_per_server
            rack = server // self.servers_per_rack
            busy = np.full(setup.servers, self.cores_per_server)
            np.subtract.at(busy, server, 1)
            end = self.warmup + float(job.release.max())
            background = self.background.draw(busy, self.servers_per_rack, end, seed)
            for mapping in self.mappings:
                core = map_processes(mapping, job.counts(PROCESSES), rack, seed)
                mapped = SyntheticMessages(
                    server[core][job.source], server[core][job.target], job.bytes, self.warmup + job.release
                )
                near = within(job.counts(PROCESSES), rack, core) / len(job.source)
                label: Row = {"available": available, "mapping": mapping, "near": near}
                rows.append({**label, **self._latency(setup, mapped, background)})
        return rows

    def _latency(self, setup: Setup, job: SyntheticMessages, background: SyntheticMessages) -> Row:
        traffic = job.joined(background).traffic(setup.servers)
        config = setup.point.config
        world = place(
            traffic, setup.unwired, name=self.application, routing=str(config["routing"]), seed=int(config["seed"])
        )
        (timeline,) = simulate([world], setup.problem.fidelity, setup.run)
        latency = timeline.task_finish - traffic.release
        job_latency, background_latency = latency[: len(job.source)], latency[len(job.source) :]
        arrived, background_arrived = (
            job_latency[np.isfinite(job_latency)],
            background_latency[np.isfinite(background_latency)],
        )
        slots = timeline.slots
        return {
            "latency": float(arrived.mean()) if len(arrived) else None,
            "latency_p99": float(np.quantile(arrived, 0.99)) if len(arrived) else None,
            "background": float(background_arrived.mean()) if len(background_arrived) else None,
            "lost": 1 - len(arrived) / len(job_latency),
            "background_lost": 1 - len(background_arrived) / len(background_latency)
            if len(background_latency)
            else 0.0,
            "refused": None if slots is None else float(slots.refused.sum() / (slots.refused.sum() + slots.hops)),
        }

    def _servers(self, cores: Sequence[int]) -> set[int]:
        return {core // self.cores_per_server for core in cores}

    def _check_servers(self, servers: int) -> None:
        if servers % self.servers_per_rack or servers // self.servers_per_rack < 2 or self.servers_per_rack < 2:
            rule = f"must be two racks of {self.servers_per_rack} servers at least"
            raise ValueError(f"servers: {rule}, each of two at least, got {servers}")
        if max(self.available) > servers:
            rule = f"must be at most the {servers} servers, as each core is on one of its own"
            raise ValueError(f"experiment.available: {rule}, got {max(self.available)}")

    def _available(self, available: int, servers: int, seed: int) -> Index:
        """Return ascending cores, each on a different server."""
        if available in self.cores:
            return np.sort(np.array(self.cores[available]))
        random = np.random.Generator(np.random.Philox(key=[seed, available]))
        chosen = np.sort(random.permutation(servers)[:available])
        return chosen * self.cores_per_server + random.integers(0, self.cores_per_server, available)

    def summary(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Return means over seeds, and their ratio to the first series with the same mapping and cores."""
        means: list[Row] = []
        first = distinct(rows, "series")[0]
        for available in distinct(rows, "available"):
            for mapping in distinct(rows, "mapping"):
                base = self._mean(rows, "latency", first, available, mapping)
                for series in distinct(rows, "series"):
                    rows_of_bar = where(rows, series=series, available=available, mapping=mapping)
                    values = {key: self._mean(rows, key, series, available, mapping) for key in MEANS}
                    ratio = values["latency"] / base
                    refused = [number(row, "refused") for row in rows_of_bar if row.get("refused") is not None]
                    row = {"series": series, "available": available, "mapping": mapping, **values, "ratio": ratio}
                    means.append({**row, "refused": fmean(refused) if refused else None})
        return means

    def _mean(self, rows: Sequence[Row], key: str, series: str, available: int, mapping: str) -> float:
        return fmean(number(row, key) for row in where(rows, series=series, available=available, mapping=mapping))

    @property
    def headings(self) -> Mapping[str, Heading]:
        return {
            "available": Heading("available cores"),
            "near": Heading("messages within a rack", "%"),
            "latency": Heading("mean latency", "s"),
            "latency_p99": Heading("99th percentile", "s"),
            "background": Heading("mean of the others", "s"),
            "ratio": Heading("over the first", "x"),
            "lost": Heading("messages lost", "%"),
            "background_lost": Heading("of the others", "%"),
            "refused": Heading("packets refused", "%"),
        }

    def draw(self, rows: Sequence[Row]) -> Sequence[FigurePicture]:
        parts = {
            mapping: {
                series: {
                    str(available): self._mean(rows, "latency", series, available, mapping)
                    for available in distinct(rows, "available")
                }
                for series in distinct(rows, "series")
            }
            for mapping in distinct(rows, "mapping")
        }
        figure = draw_bars(self.title, parts, Axis("mean latency of a message", "s"), "available cores", self.fabrics)
        return [FigurePicture.of("latency.png", f"Mean over all messages and seeds. After {self.source}.", figure)]


MEANS = ("near", "latency", "latency_p99", "background", "lost", "background_lost")
