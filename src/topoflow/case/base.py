"""Case: one job on one network, as objects, from the workload to the world that is simulated. Result: what it takes.

    workload, strategy -> traffic, demand        Job
    traffic, fabric, lowering -> world           Case
    world, fidelity -> timeline                  Result

Jobs, fabrics and worlds are shared by the cases that have them in common. What a job sends is lowered when it is first
asked for: a search makes worlds of most strategies without it.

Shapes: P ordered pairs of servers, L links.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topoflow.case.failures import Failures
from topoflow.case.frame import frame
from topoflow.case.rows import Row, bandwidth_tax, compute_time, flows_between, path_lengths
from topoflow.case.throughput import throughput
from topoflow.demand import Demand
from topoflow.engine.base import Timeline, World
from topoflow.engine.lowering.placement import Lowering
from topoflow.fabric.base import Fabric
from topoflow.fabric.prices import Prices
from topoflow.strategy.base import Strategy
from topoflow.traffic.base import Traffic
from topoflow.traffic.jobs import on_servers
from topoflow.traffic.lower import Lowerer
from topoflow.units import human
from topoflow.workload.base import RecordedJob, Workload


@dataclass(frozen=True, eq=False)
class Job:
    """A workload on the servers that a strategy gives it, and what these then send.

    ``landed`` are the servers of a cluster of ``cluster_servers`` that it runs on, the first for its server 0; None: it
    has a network of its own.
    """

    workload: Workload
    strategy: Strategy
    lowerer: Lowerer | None = None  # of the workload, where its strategies share one
    landed: tuple[int, ...] | None = None
    cluster_servers: int = 0

    @property
    def servers(self) -> int:
        """That the network has."""
        return self.strategy.servers if self.landed is None else self.cluster_servers

    @cached_property
    def traffic(self) -> Traffic:
        """One iteration as tasks. Raises ``ValueError`` where the strategy cannot be used for the workload."""
        lowerer = Lowerer(self.workload) if self.lowerer is None else self.lowerer
        traffic = lowerer.lower(self.strategy)
        return traffic if self.landed is None else on_servers(traffic, self.landed, self.cluster_servers)

    @cached_property
    def demand(self) -> Demand:
        """What the job asks a network for."""
        return self.traffic.demand()

    @cached_property
    def memory(self) -> float | None:
        """B that the strategy needs on the fullest GPU, at least; None of a recorded job, whose layers are unknown."""
        return self.strategy.memory_per_gpu(self.workload)

    @property
    def gpu_memory(self) -> float:
        """B that a GPU has."""
        return self.workload.gpu.memory

    @property
    def usable_memory(self) -> float:
        """B of it that the strategy may be estimated to need."""
        return self.workload.gpu.usable_memory

    @property
    def room(self) -> str:
        """The same for a person."""
        return self.workload.gpu.room

    @property
    def recorded(self) -> RecordedJob | None:
        """The job as it was recorded; None of a job of layers."""
        return self.workload if isinstance(self.workload, RecordedJob) else None

    @property
    def fits(self) -> bool:
        """Whether the GPUs have the memory that the strategy needs, and some to spare, as far as is known."""
        return self.memory is None or self.memory <= self.usable_memory


@dataclass(frozen=True)
class Settings:
    """What was asked for, as a report states it. Names are those of the configs; SI units."""

    world: str  # unique among the cases of a comparison
    workload: str
    strategy: str
    fabric: str
    prices: str
    latency: float  # s, of one link
    fidelity: str
    lower_bound_of: str = ""  # the fidelity whose times those are a lower bound of; empty: of none
    swept: Mapping[str, str] = field(default_factory=dict)  # what differs between cases: key -> value as it was typed
    config: Mapping[str, object] = field(default_factory=dict)  # the whole configuration, resolved
    notes: tuple[str, ...] = ()  # what was decided by the size of the job, a line each


@dataclass(frozen=True, eq=False)
class Case:
    """A job on a network: what a simulation answers a question about. ``world`` is the job's traffic, placed."""

    settings: Settings
    job: Job
    fabric: Fabric
    lowering: Lowering
    world: World
    prices: Prices | None = None  # None: parts have no price

    @cached_property
    def cost(self) -> float | None:
        """USD of the network's parts; None of a network without a bill of materials."""
        return self.prices.cost(self.fabric.bill) if self.prices is not None and self.fabric.bill else None

    @cached_property
    def power(self) -> float | None:
        """W that the network's parts draw; None of a network without a bill of materials."""
        return self.prices.power(self.fabric.bill) if self.prices is not None and self.fabric.bill else None


@dataclass(frozen=True, eq=False)
class Result:
    """A case, and when its tasks ran."""

    case: Case
    timeline: Timeline
    failures: tuple[Failures, ...] = ()  # of every fiber, of every server, where this was asked for

    @property
    def settings(self) -> Settings:
        return self.case.settings

    @property
    def world(self) -> World:
        """What was simulated: where circuits changed, the case on all links that ever existed."""
        return self.timeline.world

    @property
    def strategy(self) -> Strategy:
        return self.case.job.strategy

    @property
    def traffic(self) -> Traffic:
        return self.case.job.traffic

    @property
    def fabric(self) -> Fabric:
        """The network that the world was simulated on."""
        return self.case.fabric if self.world.fabric is None else self.world.fabric

    @property
    def own_servers(self) -> NDArray[np.int64]:
        """Those of the network that the job runs on."""
        landed = self.case.job.landed
        return np.arange(self.fabric.servers) if landed is None else np.array(landed, np.int64)

    @property
    def iteration_time(self) -> float:
        """s, until the last task of the iteration has finished."""
        return self.timeline.makespan

    @property
    def cost(self) -> float | None:
        """USD; None where the fabric has no bill of materials."""
        return self.case.cost

    @property
    def power(self) -> float | None:
        """W; None where the fabric has no bill of materials."""
        return self.case.power

    @property
    def memory(self) -> float | None:
        """B that the strategy needs on the fullest GPU; None of a job whose layers are unknown."""
        return self.case.job.memory

    @property
    def gpu_memory(self) -> float:
        """B that a GPU has."""
        return self.case.job.gpu_memory

    @property
    def recorded_time(self) -> float | None:
        """s that the iteration took when it was recorded; None of a job that was not, or without times."""
        recorded = self.case.job.recorded
        return None if recorded is None else recorded.period.seconds

    @property
    def unsized_time(self) -> float:
        """s of the iteration in communication of unknown size, which takes as long on any network."""
        recorded = self.case.job.recorded
        return 0.0 if recorded is None else recorded.unsized_time

    @property
    def notes(self) -> tuple[str, ...]:
        """What was decided by the size of the job, and what is assumed of a recorded one, a line each."""
        recorded = self.case.job.recorded
        rounds = self.world.graph.rounds
        once = (
            f"tasks of {rounds:,} equal rounds are listed once, from their start in the first to their end in the last"
        )
        return (*self.settings.notes, *((once,) if rounds > 1 else ()), *(() if recorded is None else recorded.notes))

    @property
    def fits(self) -> bool:
        """Whether the GPUs have the memory that the strategy needs, and some to spare, as far as is known."""
        return self.case.job.fits

    @cached_property
    def comparable(self) -> str:
        """Equal for results of the same job, asked for in the same way: their iteration times can be compared."""
        config = self.settings.config
        asked = config.get("fidelity", self.settings.fidelity)
        return repr((config.get("workload"), config.get("global_batch"), len(self.own_servers), asked))

    @cached_property
    def path_lengths(self) -> NDArray[np.float64]:
        """Links between two servers [P], for every ordered pair; the mean where a pair has several paths."""
        return path_lengths(self.fabric)

    @cached_property
    def flows(self) -> Demand:
        """Bytes from one of ``own_servers`` to another in one step, of pairs that send any."""
        return flows_between(self.world.graph, self.own_servers)

    @property
    def flow_matrix(self) -> NDArray[np.float64]:
        """The same as [n, n], for few servers: it takes 8 B for each pair of them."""
        return self.flows.matrix()

    @cached_property
    def all_reduces(self) -> frozenset[tuple[int, ...]]:
        """Groups of servers that all-reduce bytes with each other."""
        return frozenset(group for group, bytes_ in self.case.job.demand.all_reduce.items() if bytes_ > 0)

    @property
    def utilization(self) -> NDArray[np.float64]:
        """Share [L] of what each link could carry in the step that it did carry."""
        possible = self.fabric.bandwidth * self.iteration_time
        return np.divide(self.timeline.link_bytes, possible, out=np.zeros_like(possible), where=possible > 0)

    @cached_property
    def row(self) -> Row:
        """The numbers of this result."""
        settings, lowering = self.settings, self.case.lowering
        recorded = self.case.job.recorded
        rate = throughput(self.case.job.workload, len(self.own_servers), self.iteration_time)
        compute = None if recorded is not None and not recorded.computes else compute_time(self.traffic)
        return Row(
            world=settings.world,
            workload=settings.workload,
            strategy=settings.strategy,
            fabric=settings.fabric,
            servers=len(self.own_servers),
            bandwidth=self.fabric.interface_bandwidth,
            degree=self.fabric.degree,
            latency=settings.latency,
            all_reduce=lowering.all_reduce,
            routing=lowering.routing,
            rings=lowering.rings,
            fidelity=settings.fidelity,
            seed=lowering.seed,
            iteration_time=self.iteration_time,
            compute_time=compute,
            network_time=None if compute is None else max(0.0, self.iteration_time - compute),
            bandwidth_tax=bandwidth_tax(self.world.graph, self.fabric),
            path_length_mean=float(self.path_lengths.mean()) if self.path_lengths.size else 0.0,
            cost_usd=self.cost,
            power_w=self.power,
            memory_per_gpu=self.memory,
            recorded_time=self.recorded_time,
            samples_per_second=rate.samples,
            tokens_per_second=rate.tokens,
            mfu=rate.mfu,
        )

    def to_pandas(self) -> Any:
        """A ``pandas.DataFrame`` with a row per task of the job: what it is, when it started and finished (s).

        Raises ``ImportError`` where pandas is not installed.
        """
        traffic, timeline = self.traffic, self.timeline
        return frame(
            {
                "name": traffic.names(),
                "kind": traffic.kinds(),
                "server": traffic.server,
                "source": traffic.source,
                "target": traffic.target,
                "bytes": traffic.bytes,
                "start": timeline.task_start,
                "finish": timeline.task_finish,
            }
        )

    def __repr__(self) -> str:
        settings, price = self.settings, "" if self.cost is None else f", ${self.cost:,.0f}"
        job = f"{settings.workload}, {settings.strategy}, {len(self.own_servers)} servers"
        return f"<{settings.world}: {human(self.iteration_time, 's')} per step of {job}{price}>"
