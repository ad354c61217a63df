"""Case: one job on one network, from the workload to the world that is simulated. Result: its simulated times.

    workload, strategy -> traffic, demand        Job
    traffic, fabric, lowering -> world           Case
    world, fidelity -> timeline                  Result

Cases share equal jobs, fabrics and worlds. A job's traffic is lowered at first use: a search makes the worlds of most
strategies without it.

Shapes: P ordered pairs of servers, L links.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topoflow.case.failures import Failures
from topoflow.case.frame import frame
from topoflow.case.rows import (
    ResultRow,
    bandwidth_tax,
    compute_time,
    endpoints,
    flows_between,
    host_time,
    mean_path_length,
    path_lengths,
)
from topoflow.case.throughput import Throughput, TrainingWork
from topoflow.demand import Demand
from topoflow.digest import digest
from topoflow.engine.base import Timeline, World
from topoflow.engine.lowering.placement import Lowering
from topoflow.fabric.base import Fabric, Item, numbers
from topoflow.fabric.prices import Prices
from topoflow.fabric.reliability import Goodput, Reliability
from topoflow.fields import Deferred, with_fields
from topoflow.printable import html_table
from topoflow.strategy.base import Strategy
from topoflow.traffic.base import Traffic
from topoflow.traffic.jobs import on_servers
from topoflow.traffic.lower import Lowerer
from topoflow.units import counted, human
from topoflow.workload.base import LayerGraph, RecordedJob, Workload
from topoflow.workload.optimizer import state_bytes


@dataclass(frozen=True, eq=False)
class Job:
    """A workload on the servers that a strategy assigns to it, and the traffic among them.

    ``landed`` are the servers of a cluster of ``cluster_servers`` that the job runs on, in the order of its own server
    numbers. None: the job has a network of its own.
    """

    workload: Workload
    strategy: Strategy
    lowerer: Lowerer | None = None  # the workload's, where several strategies share it
    landed: tuple[int, ...] | None = None
    cluster_servers: int = 0

    @property
    def servers(self) -> int:
        """Return the number of servers in the network."""
        return self.strategy.servers if self.landed is None else self.cluster_servers

    @property
    def size(self) -> str:
        """Return the size of the job, e.g. "bert on 16 servers, 146 layers"."""
        layers = getattr(self.workload, "layers", None)
        many = "" if layers is None else f", {counted(len(layers), 'layer')}"
        return f"{self.workload.name} on {counted(self.strategy.servers, 'server')}{many}"

    @cached_property
    def traffic(self) -> Traffic:
        """Return one iteration as tasks. Raises ``ValueError`` where the strategy does not fit the workload."""
        lowerer = Lowerer(self.workload) if self.lowerer is None else self.lowerer
        traffic = lowerer.lower(self.strategy)
        return traffic if self.landed is None else on_servers(traffic, self.landed, self.cluster_servers)

    @cached_property
    def demand(self) -> Demand:
        """Return the bytes that the job asks a network to carry."""
        return self.traffic.demand()

    @cached_property
    def network_digest(self) -> str:
        """Return the digest of what a network is built for: jobs that differ in what they compute share it."""
        workload = self.workload
        return digest([self.servers, workload.gpus_per_server if isinstance(workload, LayerGraph) else 1, self.demand])

    @cached_property
    def memory(self) -> float | None:
        """Return the bytes that the strategy needs at least on the fullest GPU; None for a recorded job."""
        return self.strategy.memory_per_gpu(self.workload)

    @cached_property
    def compute_time(self) -> float:
        """Return the seconds that the busiest server computes, a lower bound of the iteration time."""
        return compute_time(self.traffic)

    @cached_property
    def host_time(self) -> float:
        """Return the seconds that the GPU of the busiest server waits for its host."""
        return host_time(self.traffic)

    @cached_property
    def work(self) -> TrainingWork | None:
        """Return the arithmetic of an iteration; None for a recorded job, or messages."""
        return TrainingWork.of(self.workload, self.strategy.servers) if isinstance(self.workload, LayerGraph) else None

    @property
    def gpu_memory(self) -> float:
        """Return the memory of a GPU (B)."""
        return self.workload.gpu.memory

    @property
    def usable_memory(self) -> float:
        """Return the part of the GPU memory (B) that the strategy's estimated need may reach."""
        return self.workload.gpu.usable_memory

    @property
    def room(self) -> str:
        """Return the usable memory as text."""
        return self.workload.gpu.room

    @property
    def recorded(self) -> RecordedJob | None:
        """Return the job as it was recorded; None for a job of layers."""
        return self.workload if isinstance(self.workload, RecordedJob) else None

    @cached_property
    def fits(self) -> bool:
        """Return whether the strategy's known memory need fits in a GPU, with a reserve."""
        return self.memory is None or self.memory <= self.usable_memory


@dataclass(frozen=True)
class CaseSettings:
    """The settings of a case as a report states them. Names are those of the configs; SI units."""

    world: str  # unique among the cases of a comparison
    workload: str
    strategy: str
    fabric: str
    prices: str
    latency: float  # s, of one link
    fidelity: str
    lower_bound_of: str = ""  # the fidelity whose times are bounded from below; empty: the times are no bound
    swept: Mapping[str, str] = field(default_factory=dict)  # keys that differ between cases -> value as it was typed
    config: Mapping[str, object] = field(default_factory=dict)  # the whole configuration, resolved
    notes: tuple[str, ...] = ()  # choices that depended on the size of the job, a line each


@dataclass(frozen=True, eq=False)
class Case(Deferred):
    """A job on a network, the input of a simulation. ``world`` is the job's traffic with its paths."""

    settings: CaseSettings
    job: Job
    fabric: Fabric
    lowering: Lowering
    world: World
    prices: Prices | None = None  # None: parts have no price
    reliability: Reliability | None = None  # None: nothing is said of a long run

    @cached_property
    def cost(self) -> float | None:
        """Return the price of all parts (USD); None without a bill of materials, or a price of these nodes."""
        return None if self._tariffs is None else self._tariffs.cost(self.bill)

    @cached_property
    def power(self) -> float | None:
        """Return the power that all parts draw (W); None where ``cost`` is."""
        return None if self._tariffs is None else self._tariffs.power(self.bill)

    def cost_of_step(self, seconds: float) -> float | None:
        """Return the cost of a step of ``seconds`` (USD); None without prices, or without their years of use."""
        if self._tariffs is None or self.cost is None or self.power is None:
            return None
        return self._tariffs.cost_of_step(self.cost, self.power, seconds)

    def goodput(self, seconds: float, compute: float) -> float | None:
        """Return the share of new training in weeks of steps that take ``seconds``, ``compute`` of which GPUs compute.

        None without nodes, or for a job whose weights are not known.
        """
        goodput, cluster = self._goodput, self.fabric.cluster
        if goodput is None or self.reliability is None or cluster is None:
            return None
        return goodput.share * seconds / (seconds + self.reliability.waiting(compute, cluster.gpus))

    @cached_property
    def _goodput(self) -> Goodput | None:
        """The goodput of a run whose steps wait for no slow GPU."""
        cluster, workload = self.fabric.cluster, self.job.workload
        if self.reliability is None or cluster is None or not isinstance(workload, LayerGraph):
            return None
        state = workload.parameters * (workload.element_bytes + state_bytes(workload.optimizer, workload.dtype))
        return self.reliability.goodput(self.fabric.bill, cluster.gpus, state)

    def rows(
        self, worlds: Sequence[World], latencies: Iterable[float], settings: Iterable[Callable[[], CaseSettings]]
    ) -> Iterator[Case]:
        """Yield the case of each world, on a network whose speeds are rows of this one's; they share all else."""
        columns: list[tuple[str, Iterable[Any]]] = [("latency", latencies), ("make_settings", settings)]
        with suppress(ValueError):  # which each of them raises where it is read
            self.row_of_any_speed, self.without_price  # noqa: B018  computed once for all
            columns += [(name, numbers(getattr(self, name), len(worlds))) for name in ("cost", "power")]
        base, names = with_fields(self, ["settings"]), [name for name, _ in columns]
        for world, *values in zip(worlds, *(column for _, column in columns), strict=False):
            yield with_fields(base, world=world, fabric=world.fabric, **dict(zip(names, values, strict=True)))

    @cached_property
    def latency(self) -> float:
        """Return the latency (s) of one link."""
        return self.settings.latency

    @cached_property
    def row_of_any_speed(self) -> ResultRow:
        """Return the row of a result, with nothing where it depends on speeds and times."""
        settings, lowering, job, goodput = self.settings, self.lowering, self.job, self._goodput
        known = job.recorded is None or job.recorded.computes
        return ResultRow(
            workload=settings.workload,
            strategy=settings.strategy,
            fabric=settings.fabric,
            servers=job.traffic.servers if job.landed is None else len(job.landed),
            gpus=self.gpus,
            degree=self.fabric.degree,
            all_reduce=lowering.all_reduce,
            routing=lowering.routing,
            rings=lowering.rings,
            fidelity=settings.fidelity,
            seed=lowering.seed,
            compute_time=job.compute_time if known else None,
            host_time=job.host_time if known else None,
            memory_per_gpu=job.memory,
            recorded_time=None if job.recorded is None else job.recorded.period.seconds,
            failures_per_day=None if goodput is None else goodput.failures_per_day,
            checkpoint_interval=None if goodput is None else goodput.interval,
        )

    @property
    def gpus(self) -> int | None:
        """Return the number of GPUs of nodes; None where endpoints are servers."""
        if self.fabric.cluster is None:
            return None
        return self.fabric.cluster.gpus if self.fabric.is_folded else self.fabric.servers

    @property
    def bill(self) -> tuple[Item, ...]:
        """Return the parts of the network and of its nodes, with spare nodes."""
        bill, cluster = tuple(self.fabric.bill), self.fabric.cluster
        if self.reliability is None or cluster is None:
            return bill
        return self.reliability.with_spares(bill, cluster.nodes)

    @cached_property
    def _tariffs(self) -> Prices | None:
        """The prices of the bill of materials; None without one, or where a price list does not have these nodes."""
        if self.prices is None or not self.fabric.bill:
            return None
        return None if self.without_price else self.prices

    @cached_property
    def without_price(self) -> tuple[str, ...]:
        """Return the parts of nodes that the price list does not have: then nothing is known of cost and power."""
        if self.prices is None or self.fabric.cluster is None:
            return ()
        return self.prices.missing(self.fabric.bill)


@dataclass(frozen=True, eq=False)
class Result:
    """A case and the times at which its tasks ran."""

    case: Case
    timeline: Timeline
    failures: tuple[Failures, ...] = ()  # of all fibers and of all servers, if requested

    @property
    def settings(self) -> CaseSettings:
        return self.case.settings

    @property
    def world(self) -> World:
        """Return the simulated world; if circuits changed, it has all links that ever existed."""
        return self.timeline.world

    @property
    def strategy(self) -> Strategy:
        return self.case.job.strategy

    @property
    def traffic(self) -> Traffic:
        return self.case.job.traffic

    @property
    def fabric(self) -> Fabric:
        """Return the network that the world was simulated on."""
        return self.case.fabric if self.world.fabric is None else self.world.fabric

    @property
    def own_servers(self) -> NDArray[np.int64]:
        """Return the servers of the network that the job runs on, ascending."""
        landed = self.case.job.landed
        return np.arange(self.traffic.servers) if landed is None else np.array(landed, np.int64)

    @property
    def gpus(self) -> int | None:
        """Return the number of GPUs of nodes; None where endpoints are servers."""
        return self.case.gpus

    @property
    def iteration_time(self) -> float:
        """Return the time (s) until the last task of the iteration has finished."""
        return self.timeline.makespan

    @property
    def cost(self) -> float | None:
        """Return the price of the network's parts (USD); None without a bill of materials."""
        return self.case.cost

    @property
    def power(self) -> float | None:
        """Return the power that the network's parts draw (W); None without a bill of materials."""
        return self.case.power

    @property
    def memory(self) -> float | None:
        """Return the bytes that the strategy needs on the fullest GPU; None where the layers are unknown."""
        return self.case.job.memory

    @property
    def gpu_memory(self) -> float:
        """Return the memory of a GPU (B)."""
        return self.case.job.gpu_memory

    @property
    def recorded_time(self) -> float | None:
        """Return the recorded duration of the iteration (s); None for a job that was not recorded, or without times."""
        recorded = self.case.job.recorded
        return None if recorded is None else recorded.period.seconds

    @property
    def unsized_time(self) -> float:
        """Return the time (s) in communication of unknown size, which takes as long on any network."""
        recorded = self.case.job.recorded
        return 0.0 if recorded is None else recorded.unsized_time

    @property
    def notes(self) -> tuple[str, ...]:
        """Return the notes, a line each: choices that depended on the job's size, and assumptions on a recorded job."""
        recorded = self.case.job.recorded
        rounds = self.world.graph.rounds
        rounds_note = (
            f"tasks of {rounds:,} equal rounds are listed once, from their start in the first to their end in the last"
        )
        without_price = self.case.without_price
        price_note = f"cost and power are not known: the price list has no {', '.join(without_price)}"
        return (
            *self.settings.notes,
            *((rounds_note,) if rounds > 1 else ()),
            *((price_note,) if without_price else ()),
            *(() if recorded is None else recorded.notes),
        )

    @property
    def fits(self) -> bool:
        """Return whether the strategy's known memory need fits in a GPU, with a reserve."""
        return self.case.job.fits

    @cached_property
    def comparable(self) -> str:
        """Return a key that is equal for results of equal jobs and settings: their iteration times can be compared."""
        config = self.settings.config
        fidelity = config.get("fidelity", self.settings.fidelity)
        return repr((config.get("workload"), config.get("global_batch"), len(self.own_servers), fidelity))

    @cached_property
    def path_lengths(self) -> NDArray[np.float64]:
        """Return the number of links [P] between each ordered pair of servers; the mean over a pair's paths."""
        return path_lengths(self.fabric)

    @cached_property
    def flows(self) -> Demand:
        """Return the bytes sent from one of ``own_servers`` to another in one step, for pairs that send any."""
        return flows_between(self.world.graph, self.own_servers)

    @property
    def flow_matrix(self) -> NDArray[np.float64]:
        """Return the flows as a matrix [n, n], for few servers: it takes 8 B per pair."""
        return self.flows.matrix()

    @cached_property
    def all_reduces(self) -> frozenset[tuple[int, ...]]:
        """Return the groups of servers that all-reduce bytes with each other."""
        return frozenset(group for group, bytes_ in self.case.job.demand.all_reduce.items() if bytes_ > 0)

    @property
    def utilization(self) -> NDArray[np.float64]:
        """Return [L] the bytes carried by each link in the step, as a share of what its bandwidth allows."""
        possible = self.fabric.bandwidth * self.iteration_time
        return np.divide(self.timeline.link_bytes, possible, out=np.zeros_like(possible), where=possible > 0)

    @cached_property
    def row(self) -> ResultRow:
        """Return the numbers of this result."""
        case, fabric, seconds = self.case, self.fabric, self.iteration_time
        row, job = case.row_of_any_speed, case.job
        rate = Throughput() if job.work is None else job.work.throughput(seconds)
        step_usd, goodput, million = case.cost_of_step(seconds), case.goodput(seconds, job.compute_time), None
        if step_usd is not None and goodput is not None and rate.tokens and goodput > 0:
            million = 1e6 * step_usd / (rate.tokens * seconds * goodput)
        known = row.compute_time is not None
        return with_fields(
            row,
            world=case.world.name,
            bandwidth=fabric.interface_bandwidth,
            latency=case.latency,
            iteration_time=seconds,
            network_time=max(0.0, seconds - job.compute_time - job.host_time) if known else None,
            bandwidth_tax=bandwidth_tax(self.world.graph, fabric),
            path_length_mean=mean_path_length(fabric),
            cost_usd=case.cost,
            power_w=case.power,
            usd_per_step=step_usd,
            usd_per_million_tokens=million,
            samples_per_second=rate.samples,
            tokens_per_second=rate.tokens,
            mfu=rate.mfu,
            goodput=goodput,
        )

    def to_pandas(self) -> Any:
        """Return a ``pandas.DataFrame`` with a row per task of the job: its labels, start and finish (s).

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

    def _repr_html_(self) -> str:
        row = self.row
        times = {
            "step time": row.iteration_time,
            "computing": row.compute_time,
            "waiting for host": row.host_time or None,
            "exposed communication": row.network_time,
            "recorded": row.recorded_time,
        }
        texts = {
            "price": None if row.cost_usd is None else f"${row.cost_usd:,.0f}",
            "power": None if row.power_w is None else f"{row.power_w:,.0f} W",
            "GPU memory": None if row.memory_per_gpu is None else human(row.memory_per_gpu, "B"),
            "samples/s": None if row.samples_per_second is None else f"{row.samples_per_second:,.0f}",
            "MFU": None if row.mfu is None else f"{row.mfu:.1%}",
        }
        known = {name: human(time, "s") for name, time in times.items() if time is not None}
        return html_table(self.settings.world, {**known, **{k: v for k, v in texts.items() if v is not None}}.items())

    def __repr__(self) -> str:
        settings, price = self.settings, "" if self.cost is None else f", ${self.cost:,.0f}"
        job = f"{settings.workload}, {settings.strategy}, {endpoints(len(self.own_servers), self.gpus)}"
        return f"<{settings.world}: {human(self.iteration_time, 's')} per step of {job}{price}>"
