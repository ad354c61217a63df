"""Iteration times of jobs that share a cluster: TopoOpt's Figure 16.

Each job gets ``servers_per_job`` servers; ``shares`` give the share of jobs of each kind. On a network in ``sharded``
every job has a separate part of the network; on other networks jobs share links while all of them iterate
(``shared_network``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from topoflow.case.base import Job
from topoflow.engine.lowering.placement import Placer
from topoflow.engine.shared_network import dedicated, mean_and_tail, shared
from topoflow.papers.topoopt.allocation import allocate, apportion
from topoflow.report.draw.axis import Axis
from topoflow.report.draw.figures import draw_lines
from topoflow.strategy.base import StrategyRule
from topoflow.study.figures.base import Experiment, FigurePicture, Heading, Row, curves, grouped, number, where
from topoflow.study.figures.setup import Setup
from topoflow.traffic.base import Traffic
from topoflow.traffic.jobs import on_servers
from topoflow.units import check_not_negative, check_positive
from topoflow.workload.base import WorkloadModel

Floats = NDArray[np.float64]
PARTS = {"mean": "average", "p99": "99th percentile"}


@dataclass(frozen=True)
class SharedCluster(Experiment):
    """Average and 99th percentile over the number of ``jobs``, with a line for each of ``series``.

    All jobs have the same weight, regardless of their numbers of iterations (``shared_network.mean_and_tail``).
    """

    baseline: str
    sharded: Sequence[str]  # series in which each job has a separate network
    kinds: Mapping[str, WorkloadModel]
    shares: Mapping[str, float]  # kind -> share of the jobs
    jobs: Sequence[int]
    servers_per_job: int
    allocation: str  # allocation of servers to jobs: random or consecutive
    rounds: float  # simulated time, in iterations of the slowest job alone
    starts: float  # s; jobs start at random times up to this

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_keys("grid", "servers")
        if set(self.shares) != set(self.kinds):
            raise ValueError(f"experiment.shares: must be of {', '.join(self.kinds)}, got {', '.join(self.shares)}")
        check_positive("experiment.servers_per_job", self.servers_per_job)
        check_positive("experiment.rounds", self.rounds)
        check_not_negative("experiment.starts", self.starts)

    @property
    def parameters(self) -> Mapping[str, object]:
        names = ("sharded", "shares", "jobs", "servers_per_job", "allocation", "rounds", "starts")
        built = {kind: model.build() for kind, model in self.kinds.items()}
        return {"kinds": built, **{name: getattr(self, name) for name in names}}

    def measure(self, setup: Setup) -> Sequence[Row]:
        """Return a row for each number of jobs and each kind of job, and a row for all kinds together."""
        kinds = {kind: self._job(setup.strategy, model).traffic for kind, model in self.kinds.items()}
        return [row for jobs in self.jobs for row in self._rows(setup, kinds, jobs)]

    def _job(self, rule: StrategyRule, model: WorkloadModel) -> Job:
        workload = model.build()
        return Job(workload, rule.place(workload, self.servers_per_job))

    def _rows(self, setup: Setup, kinds: Mapping[str, Traffic], jobs: int) -> Sequence[Row]:
        counts = apportion(jobs, [self.shares[kind] for kind in kinds])
        names = [kind for kind, count in zip(kinds, counts, strict=True) for _ in range(count)]
        seconds = self._times(setup, [kinds[name] for name in names])
        load = jobs * self.servers_per_job / setup.servers
        rows: list[Row] = []
        for kind in ("all", *dict.fromkeys(names)):
            chosen = [time for name, time in zip(names, seconds, strict=True) if kind in ("all", name)]
            mean, p99 = mean_and_tail(chosen)
            rows.append({"jobs": jobs, "load": load, "kind": kind, "mean": mean, "p99": p99})
        return rows

    def _times(self, setup: Setup, traffics: Sequence[Traffic]) -> list[Floats]:
        """Return the iteration times of each job (s)."""
        lowering, fidelity = setup.lowering, setup.problem.fidelity
        if setup.label["series"] in self.sharded:
            shards = [Placer(setup.design.build(traffic.servers, traffic.demand()), lowering) for traffic in traffics]
            worlds = [shard.place(traffic, traffic.name) for shard, traffic in zip(shards, traffics, strict=True)]
            return dedicated(worlds, fidelity, run=setup.run)
        sizes = [traffic.servers for traffic in traffics]
        places = allocate(sizes, setup.servers, how=self.allocation, seed=lowering.seed)
        jobs = [on_servers(traffic, at, setup.servers) for traffic, at in zip(traffics, places, strict=True)]
        starts = np.random.Generator(np.random.Philox(key=[lowering.seed, 1])).uniform(0, self.starts, len(jobs))
        worlds = [setup.placer.place(job, job.name) for job in jobs]
        return shared(worlds, fidelity, rounds=self.rounds, starts=starts.tolist(), run=setup.run)

    def lines(self, rows: Sequence[Row], part: str, kind: str = "all") -> dict[str, dict[float, float]]:
        """Return series -> number of jobs -> seconds of ``part``, averaged over seeds."""
        return {
            series: {
                float(jobs): fmean(number(row, part) for row in same) for jobs, same in grouped(line, "jobs").items()
            }
            for series, line in grouped(where(rows, kind=kind), "series").items()
        }

    def summary(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Return the times of each series at each number of jobs, and their ratios to the baseline's times."""
        lines = {part: self.lines(rows, part) for part in PARTS}
        points: list[Row] = []
        for series, line in lines["mean"].items():
            for jobs in line:
                seconds = {part: lines[part][series][jobs] for part in PARTS}
                base = {part: lines[part].get(self.baseline, {}).get(jobs) for part in PARTS}
                over = {f"ratio_{part}": seconds[part] / base_s for part, base_s in base.items() if base_s is not None}
                points.append({"series": series, "jobs": int(jobs), **seconds, **over})
        return points

    @property
    def headings(self) -> Mapping[str, Heading]:
        times = {part: Heading(f"time of an iteration, {title}", "s") for part, title in PARTS.items()}
        over = {f"ratio_{part}": Heading(f"{title} over that of {self.baseline}", "x") for part, title in PARTS.items()}
        return {**times, **over}

    def draw(self, rows: Sequence[Row]) -> Sequence[FigurePicture]:
        parts = {title: curves(self.lines(rows, part)) for part, title in PARTS.items()}
        figure = draw_lines(self.title, parts, Axis("jobs"), Axis("time of one iteration", "s"), self.fabrics)
        return [FigurePicture.of("cluster.png", f"Each job has a weight of 1. After {self.source}.", figure)]
