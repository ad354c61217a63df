"""Several training jobs on one cluster: the step time of each alone and with the others, on every network.

All jobs train at the same time, each on GPUs of its own, and repeat their steps. They meet on links of the network,
where flows share the bandwidth (``engine.shared_network``). A step alone has the whole network. Jobs begin at random
moments of a step (``seed``), as those of a cluster do; which of them send at the same time changes from step to step.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from topoflow.case.base import Job
from topoflow.demand import Demand
from topoflow.engine.base import Fidelity, Run, World
from topoflow.engine.lowering.placement import Placer
from topoflow.engine.observer import Observer, Silent
from topoflow.engine.shared_network import shared
from topoflow.engine.simulation import simulate
from topoflow.fabric.base import Fabric
from topoflow.report.draw.axis import Axis
from topoflow.report.draw.figures import draw_bars
from topoflow.scheduling.jobs_file import KEYS, SharingJob, read_jobs
from topoflow.study.builder import MIN_FOLDED, Builder, cluster_of, design_of
from topoflow.study.configure.decide import decided
from topoflow.study.configure.grid import Grid
from topoflow.study.configure.keys import check, fails
from topoflow.study.configure.point import Point, at_point, unique_names
from topoflow.study.configure.recipe import with_recipe
from topoflow.study.figures.base import FigurePicture, Heading, Row, grouped, number

KEY = "jobs"
ROUNDS = 8.0  # steps of the slowest job alone that all jobs train for, as in TopoOpt's Figure 16
OF_FILE = (KEY, "placement", "request")  # arguments that are not those of a single job


@dataclass(frozen=True)
class JobsPoint:
    """A network and the settings of a cluster: a point for each job, whose ``gpus`` are the number of its own."""

    name: str
    cluster: Point
    jobs: tuple[Point, ...]


@dataclass(frozen=True)
class SharingJobs:
    """The jobs of a file, and the points of the command line that they are compared at."""

    jobs: Sequence[SharingJob]
    points: Sequence[JobsPoint]

    @classmethod
    def of(cls, arguments: Sequence[str], folders: Sequence[str] = (), observer: Observer = Silent()) -> SharingJobs:
        """Return what ``jobs=FILE`` and the other ``arguments`` of a comparison ask for."""
        values = {_key(argument): argument.partition("=")[2] for argument in arguments}
        file, of_cluster = values[KEY], [argument for argument in arguments if _key(argument) not in OF_FILE]
        if not file or "," in file:
            raise ValueError(f"{KEY}: must be one file, got {file or 'none'}")
        for key, value in values.items():
            if key.partition(".")[0] in ("request", *KEYS):
                raise ValueError(f"{key}: must be in {file} for each job, got {value}")
        cluster = Grid.of(of_cluster, check, folders=folders)
        gpus, per_node = _cluster_size(cluster)
        jobs = read_jobs(Path(file), gpus, per_node, values.get("placement"))
        of_jobs = [_points(file, job, of_cluster, cluster.product.varying, folders) for job in jobs]
        composed = cluster.compose(observer=observer)
        points = zip(unique_names(composed), composed, zip(*of_jobs, strict=True), strict=True)
        return cls(jobs, tuple(JobsPoint(*point) for point in points))


def _points(
    file: str, job: SharingJob, arguments: Sequence[str], swept: Collection[str], folders: Sequence[str]
) -> list[Point]:
    """Return the points of a job, one for each of the cluster, whose ``swept`` keys are all that vary."""
    others = [argument for argument in arguments if _key(argument) != "gpus"]
    try:
        grid = Grid.of([*others, *with_recipe([*job.keys, f"gpus={len(job.gpus)}"])], check, folders=folders)
        for key in sorted(grid.product.varying - {*swept}):
            values = ", ".join(grid.product.values[key])
            raise ValueError(f"{key}: must be one value, as the command line alone sweeps keys, got {values}")
        return grid.compose()
    except ValueError as error:
        raise ValueError(f"{file}: {job.name}: {error}") from error


def _key(argument: str) -> str:
    return argument.lstrip("+").partition("=")[0]


def _cluster_size(grid: Grid) -> tuple[int, int]:
    """Return the GPUs of the cluster, and those of a node."""
    for key in ("node", "gpus", "gpus_per_node"):
        if key in grid.product.varying:
            raise ValueError(f"{key}: must be one value with {KEY}, got {', '.join(grid.product.values[key])}")
    point = grid[0]
    if point.config["node"] is None or point.config["gpus"] is None:
        missing = "node" if point.config["node"] is None else "gpus"
        raise ValueError(f"{missing}: must be given with {KEY}, that of the cluster")
    if fails(point.config["fail"]):
        raise ValueError(f"fail: must be left out with {KEY}, got {point.config['fail']}")
    cluster = cluster_of(point)
    return cluster.gpus, cluster.per_node


@dataclass
class JobsComparison:
    """Simulates the jobs alone and together, point by point; ``left_out`` says why networks are missing."""

    sharing: SharingJobs
    run: Run
    builder: Builder = field(default_factory=Builder)
    left_out: list[str] = field(default_factory=list)

    def rows(self) -> list[Row]:
        """Return a row for each job at each point."""
        rows: list[Row] = []
        for done, point in enumerate(self.sharing.points):
            self.run.observer.advance(done, len(self.sharing.points))
            with at_point(point.cluster):
                try:
                    rows += self._rows(point)
                except ValueError as error:
                    if "fabric" not in point.cluster.by_default:
                        raise
                    self.left_out.append(f"{point.name}: {error}")
        self.run.observer.advance(len(self.sharing.points), len(self.sharing.points))
        if not rows:
            raise ValueError(self.left_out[0])
        return rows

    def _rows(self, point: JobsPoint) -> list[Row]:
        jobs = self._jobs(point)
        fabric = design_of(point.cluster, jobs[0]).build(jobs[0].servers, _demand(jobs))
        worlds, fidelity = self._worlds(point, jobs, fabric)
        quiet = replace(self.run, observer=Silent())
        alone = [timeline.makespan for timeline in simulate(worlds, fidelity, quiet)]
        draws = np.random.Generator(np.random.Philox(key=[point.cluster.config["seed"], 1]))
        starts = (draws.uniform(0, 1, len(alone)) * alone).tolist()
        times = shared(worlds, fidelity, rounds=ROUNDS, starts=starts, alone=alone, run=quiet)
        swept = point.cluster.swept or {"fabric": point.cluster.choices["fabric"]}
        return [
            {
                **swept,
                "job": job.name,
                "gpus": len(job.gpus),
                "alone": seconds,
                "together": float(steps.mean()),
                "longest": float(steps.max()),
                "slowdown": float(steps.mean()) / seconds,
                "steps": len(steps),
            }
            for job, seconds, steps in zip(self.sharing.jobs, alone, times, strict=True)
        ]

    def _jobs(self, point: JobsPoint) -> list[Job]:
        """Return the jobs where they are. In a large cluster the endpoints are nodes, if all jobs allow it."""
        fold, cluster = point.cluster.config["fold"], cluster_of(point.cluster)
        nodes = [_nodes(job.gpus, cluster.per_node) for job in self.sharing.jobs]
        if fold not in (None, True, False):
            raise ValueError(f"fold: must be true or false with jobs, got {fold}")
        if fold and not all(nodes):
            name = self.sharing.jobs[nodes.index(())].name
            raise ValueError(f"fold: must be false, as {name} has no whole nodes, got true")
        if fold or (fold is None and cluster.gpus >= MIN_FOLDED and all(nodes)):
            try:
                return self._landed(point, nodes, cluster.nodes, fold=True)
            except ValueError:  # which is raised again below where it is not about nodes
                if fold:
                    raise
        return self._landed(point, [job.gpus for job in self.sharing.jobs], cluster.gpus, fold=False)

    def _landed(self, point: JobsPoint, endpoints: Sequence[tuple[int, ...]], count: int, *, fold: bool) -> list[Job]:
        """Return the jobs on their ``endpoints`` of ``count``."""
        jobs = []
        for sharing_job, job_point, job_endpoints in zip(self.sharing.jobs, point.jobs, endpoints, strict=True):
            try:
                job = self.builder.job(replace(job_point, config={**job_point.config, "fold": fold}))
            except ValueError as error:
                raise ValueError(f"{sharing_job.name}: {error}") from error
            jobs.append(replace(job, landed=job_endpoints, cluster_servers=count))
        return jobs

    def _worlds(self, point: JobsPoint, jobs: Sequence[Job], fabric: Fabric) -> tuple[list[World], Fidelity]:
        """Return each job as a world of the whole cluster, and the fidelity that they are simulated in."""
        decisions = [decided(job_point, job.traffic) for job_point, job in zip(point.jobs, jobs, strict=True)]
        worlds = [
            Placer(fabric, decision.lowering).place(job.traffic, sharing_job.name)
            for decision, job, sharing_job in zip(decisions, jobs, self.sharing.jobs, strict=True)
        ]
        return worlds, decisions[0].fidelity


def _nodes(gpus: Sequence[int], per_node: int) -> tuple[int, ...]:
    """Return the nodes that GPUs fill in the order of their numbers; none where they do not fill nodes so."""
    nodes = tuple(gpu // per_node for gpu in gpus[::per_node])
    filled = [node * per_node + gpu for node in nodes for gpu in range(per_node)]
    return nodes if filled == list(gpus) else ()


def _demand(jobs: Sequence[Job]) -> Demand:
    """Return the bytes that all jobs together ask the network to carry in a step of each."""
    groups: dict[tuple[int, ...], float] = {}
    for job in jobs:
        for group, bytes_ in job.demand.all_reduce.items():
            groups[group] = groups.get(group, 0.0) + bytes_
    source, target, sent = (
        np.concatenate([getattr(job.demand, name) for job in jobs]) for name in ("source", "target", "bytes")
    )
    return Demand.from_pairs(jobs[0].servers, source, target, sent, groups)


@dataclass(frozen=True)
class JobsFigure:
    """The table and the picture of jobs that share a cluster."""

    title: str = "Step times of jobs that share a cluster"
    source: str = "jobs that train at the same time"

    @property
    def headings(self) -> Mapping[str, Heading]:
        return {
            "gpus": Heading("GPUs"),
            "alone": Heading("step time alone", "s"),
            "together": Heading("with the others, mean", "s"),
            "longest": Heading("longest", "s"),
            "slowdown": Heading("slowdown", "x"),
            "steps": Heading("steps"),
        }

    def summary(self, rows: Sequence[Row]) -> Sequence[Row]:
        return rows

    def draw(self, rows: Sequence[Row]) -> Sequence[FigurePicture]:
        parts: dict[str, dict[str, dict[str, float]]] = {}
        for job, mine in grouped(rows, "job").items():
            named = {_name(row): row for row in mine}
            parts[str(job)] = {
                text: {name: number(row, key) for name, row in named.items()}
                for key, text in (("alone", "alone"), ("together", "with the others"))
            }
        figure = draw_bars(self.title, parts, Axis("step time", "s"))
        return [FigurePicture.of("step_times.png", "The mean step time of each job, by network.", figure)]


def _name(row: Row) -> str:
    known = ("job", "gpus", "alone", "together", "longest", "slowdown", "steps")
    return "\n".join(str(value) for key, value in row.items() if key not in known)
