"""Report: what was simulated and what came out, for a person and for a program.

Shapes: P ordered pairs of servers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from topoflow.engine.base import Timeline, World
from topoflow.fabric.base import Fabric
from topoflow.report.failures import Failures
from topoflow.report.rows import Row, bandwidth_tax, compute_time, flow_matrix, path_lengths
from topoflow.traffic.base import Traffic


@dataclass(frozen=True)
class Settings:
    """What was asked for: one point of the grid. Names are those of the configs; SI units."""

    world: str  # unique in a report
    workload: str
    strategy: str
    fabric: str
    prices: str
    latency: float  # s, of one link
    all_reduce: str
    routing: str
    rings: str
    fidelity: str
    seed: int
    swept: Mapping[str, str]  # what differs between the points of the grid: key -> value as it was typed
    config: Mapping[str, object]  # the whole configuration, resolved


@dataclass(frozen=True, eq=False)
class Outcome:
    """One world: what was asked for, what that was built into, and what happened."""

    settings: Settings
    traffic: Traffic
    fabric: Fabric
    world: World
    timeline: Timeline
    cost: float | None  # USD; None when the fabric has no bill of materials
    power: float | None  # W
    memory: float | None = None  # B that the strategy needs on the fullest GPU; None of a job whose layers are unknown
    gpu_memory: float = float("inf")  # B that a GPU has
    failures: Failures | None = None  # of every fiber or server, where this was asked for

    @property
    def fits(self) -> bool:
        """Whether the GPUs have the memory that the strategy needs, as far as is known."""
        return self.memory is None or self.memory <= self.gpu_memory

    @property
    def job(self) -> str:
        """Worlds with the same job, simulated alike, can be compared by their iteration time."""
        return repr((self.settings.config["workload"], self.fabric.servers, self.settings.fidelity))

    @cached_property
    def path_lengths(self) -> NDArray[np.float64]:
        """Links between two servers [P], for every ordered pair; the mean where a pair has several paths."""
        return path_lengths(self.fabric)

    @cached_property
    def flow_matrix(self) -> NDArray[np.float64]:
        """Bytes [servers, servers] from one server to another in one step."""
        return flow_matrix(self.world.graph, self.fabric)

    @property
    def utilization(self) -> NDArray[np.float64]:
        """Share [L] of what each link could carry in the step that it did carry."""
        possible = self.fabric.bandwidth * self.timeline.makespan
        return np.divide(self.timeline.link_bytes, possible, out=np.zeros_like(possible), where=possible > 0)

    @cached_property
    def row(self) -> Row:
        """The numbers of this world."""
        iteration = self.timeline.makespan
        compute = compute_time(self.traffic)
        return Row(
            world=self.settings.world,
            workload=self.settings.workload,
            strategy=self.settings.strategy,
            fabric=self.settings.fabric,
            servers=self.fabric.servers,
            bandwidth=self.fabric.interface_bandwidth,
            degree=self.fabric.degree,
            latency=self.settings.latency,
            all_reduce=self.settings.all_reduce,
            routing=self.settings.routing,
            rings=self.settings.rings,
            fidelity=self.settings.fidelity,
            seed=self.settings.seed,
            iteration_time=iteration,
            compute_time=compute,
            network_time=max(0.0, iteration - compute),
            bandwidth_tax=bandwidth_tax(self.world.graph, self.fabric),
            path_length_mean=float(self.path_lengths.mean()) if self.path_lengths.size else 0.0,
            cost_usd=self.cost,
            power_w=self.power,
            memory_per_gpu=self.memory,
        )


@dataclass(frozen=True)
class Report:
    """Everything a comparison found, in the order of the grid."""

    outcomes: tuple[Outcome, ...]
    command: str  # what was typed, to reproduce it
    left_out: tuple[str, ...] = ()  # worlds of the default grid that cannot be built, and why

    def __post_init__(self) -> None:
        names = [outcome.settings.world for outcome in self.outcomes]
        if not names:
            raise ValueError("report: must have at least one world, got none")
        if len(set(names)) != len(names):
            raise ValueError(f"report: worlds must have different names, got {names}")

    @property
    def rows(self) -> list[Row]:
        return [outcome.row for outcome in self.outcomes]

    @cached_property
    def swept(self) -> tuple[str, ...]:
        """Keys that take more than one value, in the order of the command line."""
        keys = dict.fromkeys(key for outcome in self.outcomes for key in outcome.settings.swept)
        return tuple(key for key in keys if len({o.settings.swept.get(key) for o in self.outcomes}) > 1)

    def labels(self, outcomes: Sequence[Outcome]) -> list[str]:
        """What tells these worlds from each other, short: ``fat_tree, 25 Gb/s, degree=4``."""
        keys = [key for key in self.swept if key != "fabric"]
        keys = [key for key in keys if len({outcome.settings.swept.get(key) for outcome in outcomes}) > 1]
        return [
            ", ".join([outcome.settings.fabric, *(_short(key, outcome.settings.swept.get(key, "")) for key in keys)])
            for outcome in outcomes
        ]

    @property
    def failures(self) -> dict[str, Failures]:
        """What single failures do, by the short names of the worlds that were asked."""
        asked = [outcome for outcome in self.ranking if outcome.failures is not None]
        labels = self.labels(asked)
        return {label: one.failures for label, one in zip(labels, asked, strict=True) if one.failures is not None}

    @cached_property
    def ranking(self) -> tuple[Outcome, ...]:
        """Fastest first, the cheaper one where two are as fast; what does not fit in memory after all that does."""
        return tuple(
            sorted(self.outcomes, key=lambda o: (not o.fits, o.row.iteration_time, o.cost is None, o.cost or 0.0))
        )

    @cached_property
    def jobs(self) -> tuple[tuple[Outcome, ...], ...]:
        """The ranking, job by job: times of different jobs say nothing about each other."""
        groups: dict[str, list[Outcome]] = {}
        for outcome in self.outcomes:
            groups.setdefault(outcome.job, [])
        for outcome in self.ranking:
            groups[outcome.job].append(outcome)
        return tuple(tuple(group) for group in groups.values())

    def representatives(self, most: int) -> tuple[Outcome, ...]:
        """At most so many worlds, to be drawn: the fastest of each fabric, then the fastest of the rest."""
        if len(self.outcomes) <= most:
            return self.outcomes
        first: dict[str, Outcome] = {}
        for outcome in self.ranking:
            first.setdefault(outcome.settings.fabric, outcome)
        chosen = list(first.values())
        chosen += [outcome for outcome in self.ranking if first[outcome.settings.fabric] is not outcome]
        names = {outcome.settings.world for outcome in chosen[:most]}
        return tuple(outcome for outcome in self.outcomes if outcome.settings.world in names)


def _short(key: str, value: str) -> str:
    return f"{value} Gb/s" if key == "bandwidth_gbps" else f"{key.rpartition('.')[2]}={value}"
