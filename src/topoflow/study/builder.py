"""Points of a comparison as cases: jobs, networks and worlds, each built once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import repeat
from typing import Any

import numpy as np

from topoflow.case.base import Case, CaseSettings, Job
from topoflow.collectives.algorithm import NCCL
from topoflow.engine.base import Fidelity, LoweredGraph, World
from topoflow.engine.lowering.placement import Placements
from topoflow.engine.observer import Observer, Silent
from topoflow.fabric.attached import Attached
from topoflow.fabric.base import Fabric, FabricDesign, Speed
from topoflow.fabric.channels.strides import WithStrides, check_fit
from topoflow.fabric.wiring import Interfaces
from topoflow.hardware.cluster import Cluster
from topoflow.hardware.presets import load
from topoflow.search.problem import Problem
from topoflow.strategy.base import Strategy, StrategyRule
from topoflow.strategy.grid import ParallelGrid
from topoflow.study.configure.build import build, fidelity_of
from topoflow.study.configure.decide import LOWERING, Decision, decided
from topoflow.study.configure.keys import LISTED, check_lost, each_of, fails
from topoflow.study.configure.os_errors import named, of_group
from topoflow.study.configure.point import EXECUTOR, FIDELITY, Point, at_point, unique_names
from topoflow.study.configure.user_object import UserObject
from topoflow.study.failures import surviving_fabrics
from topoflow.traffic.base import Traffic
from topoflow.units import counted, us
from topoflow.workload.base import LayerGraph, MessagePattern, RecordedJob, Workload, layer_graph
from topoflow.workload.efficiency import ROOFLINE

DEFAULT_SERVERS = 16  # of a job that was not captured; TopoOpt's shared cluster gives each job 16 (5.6)
MIN_FOLDED = 512  # GPUs of nodes; in a smaller job every GPU has its own tasks
JOINED_FLOWS = ("fluid", "bound")  # fidelities in which an endpoint may have several nodes
PIPELINE = "pipeline"  # of ``fold``: all GPUs of a pipeline rank are one endpoint
MOST_TASKS = 2**23  # of the jobs, and of the worlds, that are kept between batches of points; of 100 B each
JOB = (
    "workload",
    "strategy",
    "servers",
    "gpus",
    "node",
    "gpus_per_node",
    "fold",
    "efficiency",
    "global_batch",
    "micro_batch",
    "placement",
    "request",
)  # keys that a job depends on
FABRIC = ("fabric", "strides", "nccl", "node", "gpus_per_node")  # those that a network depends on, but for its job
WORKLOAD = ("workload", "efficiency")  # those that it depends on before it is divided
SPEEDS_OF_DESIGN = ("bandwidth", "latency")  # keys of ``fabric``
NO_COLUMNS: Mapping[str, Any] = {}
known_cluster = lru_cache(maxsize=32)(Cluster)  # it takes 0.3 ms to find which ports its GPUs use
PROBLEM = ("all_reduce", "routing", "seed")  # those that a search leaves as they are


@dataclass(frozen=True)
class PointCases:
    """A point and its cases: one, or after a failure one for each network that may be left; the fastest counts."""

    point: Point
    fidelity: Fidelity
    cases: tuple[Case, ...]


@dataclass
class Builder:
    """Builds every point; what several points have in common is made once."""

    built: dict[Hashable, Any] = field(default_factory=dict)
    placements: Placements = field(default_factory=Placements)
    left_out: list[str] = field(default_factory=list)  # why fabrics of the default sweep are missing

    def build(self, points: Sequence[Point], observer: Observer = Silent()) -> list[PointCases]:
        """The cases of the grid; ``observer`` sees each point.

        A fabric of the default sweep that cannot be built for this job is left out and noted; if none can,
        or the fabric was asked for, that is a ``ValueError``.
        """
        points = [*points]  # composed once
        done, names = 0, unique_names(points)
        built: dict[int, PointCases] = {}
        left_out: dict[int, str] = {}
        for numbers in alike(points):
            observer.advance(done, len(points))
            built |= self._built({number: (names[number], points[number]) for number in numbers}, left_out, observer)
            done += len(numbers)
        observer.advance(len(points), len(points))
        self.left_out.extend(left_out[number] for number in sorted(left_out))
        if not built:
            raise ValueError(left_out[min(left_out)])
        return [built[number] for number in sorted(built)]

    def _built(
        self, points: Mapping[int, tuple[str, Point]], left_out: dict[int, str], observer: Observer
    ) -> dict[int, PointCases]:
        """Return the cases of points that are alike, each with its name; add to ``left_out`` why there are none."""
        number, (name, first) = next(iter(points.items()))
        with at_point(first):
            job = self.job(first, observer=observer)
            try:
                fabric = self._network([point for _, point in points.values()], job)
            except ValueError as error:
                if "fabric" not in first.by_default:
                    raise
                left_out[number] = f"{name}: {error}"
                return {}
            if fabric is not None:
                decision = self._decision(first, job)
                left = self._after_failure(first, job, fabric)
                return dict(zip(points, self._cases([*points.values()], decision, *left), strict=True))
        one_by_one = [self._built({number: point}, left_out, observer) for number, point in points.items()]
        return {number: cases for built in one_by_one for number, cases in built.items()}

    def forget(self) -> None:
        """Keep no more than ``MOST_TASKS`` for points to come."""
        jobs = {key: value for key, value in self.built.items() if isinstance(value, Job)}
        self.built = jobs if sum(len(job.traffic) for job in jobs.values()) <= MOST_TASKS else {}
        self.placements.forget(MOST_TASKS)
        self.left_out.clear()

    def take(self, point: Point, traffic: Traffic, graph: LoweredGraph) -> None:
        """Take what another process has built of a point, before ``build`` makes its case."""
        job: Job = self._once(point, JOB, lambda point: job_of(point, self._workload(point)), "0 fewer")
        vars(job)["traffic"] = traffic
        fabric, lowering = self._fabric(point, job), self._decision(point, job).lowering
        world = World("", graph, fabric.bandwidth, fabric.latency, fabric, lowering.routing, lowering.seed)
        self.placements.add(traffic, world, lowering)

    def forget_jobs(self) -> None:
        """Keep networks and workloads only for points to come."""
        self.built = {key: value for key, value in self.built.items() if isinstance(value, Fabric | LayerGraph)}
        self.placements = Placements()

    def job(self, point: Point, fewer: int = 0, observer: Observer = Silent()) -> Job:
        """Return the job of a point, on ``fewer`` servers less than the point has. ``observer`` sees its size."""
        job: Job = self._once(
            point, JOB, lambda point: _job(point, self._workload(point), fewer, observer), f"{fewer} fewer"
        )
        return job

    def _workload(self, point: Point) -> Workload:
        """Return the job of a point before it is divided among servers."""
        workload: Workload = self._once(point, WORKLOAD, workload_of, "workload")
        return workload

    def _decision(self, point: Point, job: Job) -> Decision:
        name = point.config[FIDELITY]
        keys = (*LOWERING, *((FIDELITY, name) if name in point.config else (FIDELITY,)))
        which = id(job), id(point.objects.get(FIDELITY))
        decision: Decision = self._once(point, keys, lambda point: decided(point, job.traffic), which)
        return decision

    def _fabric(self, point: Point, job: Job) -> Fabric:
        check_fit(point.config["strides"], job.demand)
        digest, folded = job.network_digest, _gpus_of_endpoint(job)
        if point.config["node"] is not None and point.config["strides"] is None and folded > 1:
            digest = f"{job.servers} of {folded}"  # no rings in it are for the groups of a job
        fabric: Fabric = self._once(point, FABRIC, lambda point: _built(point, job), digest)
        return fabric

    def _network(self, points: Sequence[Point], job: Job) -> Fabric | None:
        """Return the network of points that are alike, with columns of speeds; None where one of several is wrong."""
        first = points[0]
        if len(points) == 1:
            return self._fabric(first, job)
        with suppress(ValueError):
            columns = {key: _column([point.config["fabric"][key] for point in points]) for key in SPEEDS_OF_DESIGN}
            check_fit(first.config["strides"], job.demand)
            return design_of(first, job, columns).build(job.servers, job.demand)
        return None

    def _after_failure(self, point: Point, job: Job, fabric: Fabric) -> tuple[Job, list[Fabric]]:
        """The job on the servers that are left, and the networks that may be left of one built for the whole job."""
        fail = point.config["fail"]
        if not fails(fail):
            return job, [fabric]
        if each_of(fail):
            self._check_each(point, job, fabric)
        if not any(fail[key] for key in LISTED):
            return job, [fabric]
        check_lost(fail, fabric)
        lost = {key: fail[key] for key in (*LISTED, "rings")}
        return self.job(point, len(set(fail["servers"]))), surviving_fabrics(fabric, **lost)

    def _check_each(self, point: Point, job: Job, fabric: Fabric) -> None:
        """Raise ``ValueError`` where some fiber or server cannot fail, before anything is simulated."""
        if not fabric.is_static:
            raise ValueError(f"fail.each: must be of a network that keeps its circuits, got {fabric.name}")
        kinds = each_of(point.config["fail"])
        if "fiber" in kinds and fabric.links == 0:
            raise ValueError(f"fail.each: must be of a network with a fiber to lose, got {fabric.name} without links")
        if "server" in kinds:
            if job.servers == 1:
                raise ValueError("fail.each: must leave a server to continue with, got server of a job on 1 server")
            self.job(point, fewer=1)

    def _cases(
        self, points: Sequence[tuple[str, Point]], decision: Decision, job: Job, fabrics: Sequence[Fabric]
    ) -> Iterator[PointCases]:
        """Yield the cases of one point on each of the networks, or of several on one with columns of speeds."""
        first, lowering = decision.of(points[0][1]), decision.lowering
        rows = fabrics if len(points) == 1 else fabrics[0].rows(len(points))
        names = [name for name, _ in points] * (len(rows) // len(points))
        worlds = self.placements.place(job.traffic, rows, lowering, names)
        costs = build(first, "prices"), build(first, "reliability")
        about = settings(first, job, decision)
        cases: Iterable[tuple[Case, ...]]
        if len(points) > 1:
            makers = (
                partial(settings_at, about, decision, world, pair[1])
                for world, pair in zip(worlds, points, strict=True)
            )
            latencies = (us(point.config["latency_us"]) for _, point in points)
            columns = Case(settings_at(about, decision, worlds[0], first), job, fabrics[0], lowering, worlds[0], *costs)
            cases = ((case,) for case in columns.rows(worlds, latencies, makers))
        else:
            parts = zip(fabrics, repeat(lowering), worlds, *map(repeat, costs), strict=False)
            cases = [tuple(Case(settings_at(about, decision, part[2], first), job, *part) for part in parts)]
        for (_, point), of_point in zip(points, cases, strict=True):
            yield PointCases(point, decision.fidelity, of_point)

    def _once(self, point: Point, keys: tuple[str, ...], make: Callable[[Point], Any], which: Hashable) -> Any:
        """Return what ``make`` makes of the first point with equal values of ``keys``."""
        key = (which, keys, *(repr(point.config[key]) for key in keys))
        if key not in self.built:
            self.built[key] = make(point)
        return self.built[key]


def alike(points: Sequence[Point]) -> Iterator[list[int]]:
    """Yield the numbers of points that differ in the speeds of links alone, and whose networks can be built as one."""
    groups: dict[object, list[int]] = {}
    for number, point in enumerate(points):
        groups.setdefault(number if point.alike is None else point.alike, []).append(number)
    for numbers in groups.values():
        if len(numbers) > 1 and _have_columns(points[numbers[0]]):
            yield numbers
        else:
            yield from ([number] for number in numbers)


def _column(values: list[float]) -> Speed:
    """Return [W, 1] the values of points, or the one of all. Raise ``ValueError`` unless all are float."""
    if {*map(type, values)} != {float}:
        raise ValueError("columns: must be float")
    return values[0] if len(set(values)) == 1 else np.array(values)[:, None]


def _have_columns(point: Point) -> bool:
    """Return whether the speeds of a network can be columns."""
    if fails(point.config["fail"]) or point.config["fold"] == PIPELINE:
        return False
    if any(type(point.config["fabric"].get(key)) is not float for key in SPEEDS_OF_DESIGN):
        return False
    with suppress(ValueError):
        return isinstance(build(point, "fabric"), Interfaces)
    return False


def settings(point: Point, job: Job, decision: Decision) -> CaseSettings:
    """Return what the settings of points that are alike have in common. A motif has its own name."""
    groups: dict[str, Any] = {group: point.choices[group] for group in ("strategy", "fabric", "prices")}
    return CaseSettings(
        world="",
        workload=job.workload.name if isinstance(job.workload, MessagePattern) else point.choices["workload"],
        latency=0.0,
        fidelity=point.config["fidelity"],
        lower_bound_of=decision.fidelity.lower_bound_of,
        notes=decision.notes,
        **groups,
    )


def settings_at(about: CaseSettings, decision: Decision, world: World, point: Point) -> CaseSettings:
    """Return the settings of a point as a report states them, with the decided values."""
    config = {key: value for key, value in decision.of(point).config.items() if key != EXECUTOR}
    fidelity = about.fidelity if decision.chooses is None else decision.chooses.chosen(world).name
    latency = us(config["latency_us"])
    return replace(about, world=world.name, latency=latency, fidelity=fidelity, swept=point.swept, config=config)


def workload_of(point: Point) -> Workload:
    """Return the workload of a point. Raises ``ValueError`` in one line that names the key."""
    gpu = build(point, "gpu")  # so that what is wrong with it is named as gpu.KEY, not as a part of the workload
    efficiency = point.config["efficiency"]
    if efficiency not in (ROOFLINE, gpu.efficiency):
        requirement = f"must be that of {gpu.name} (gpu.efficiency), which is {gpu.efficiency}"
        raise ValueError(f"efficiency: {requirement}, got {efficiency}")
    with named(of_group("workload", point.config["workload"])):
        workload: Workload = build(point, "workload").build()
        return workload


def servers_of(point: Point, workload: Workload) -> int | None:
    """Return the servers of the point, else of a strategy or a fabric made in Python; None: those of a recorded job.

    With nodes of GPUs these are the GPUs, each an endpoint.
    """
    servers: int | None = point.config["servers"]
    gpus = point.config.get("gpus")
    if gpus is not None:
        gpus_per_server = workload.gpus_per_server if isinstance(workload, LayerGraph) else 1
        if gpus % gpus_per_server:
            raise ValueError(f"gpus: must fill whole servers of {gpus_per_server}, got {gpus}")
        servers = gpus // gpus_per_server
    for group in ("strategy", "fabric"):
        user_object = point.objects.get(group)
        if servers is None and isinstance(user_object, UserObject):
            servers = user_object.servers
    return DEFAULT_SERVERS if servers is None and not isinstance(workload, RecordedJob) else servers


def gpus_of(point: Point) -> int:
    """Return the GPUs of a job of layers on nodes."""
    return point.config["gpus"] or DEFAULT_SERVERS


def cluster_of(point: Point) -> Cluster:
    """Return the nodes of a point."""
    return known_cluster(load(point.config["node"]), gpus_of(point), point.config["gpus_per_node"] or 0)


def job_of(point: Point, workload: Workload) -> Job:
    """Return the job of a point, not lowered yet. Raises ``ValueError`` in one line that names the key."""
    rule = build(point, "strategy")
    micro_batch = point.config["micro_batch"]
    if micro_batch != getattr(rule, "micro_batch", None):
        raise ValueError(f"micro_batch: must be null, or that of the strategy (parallel, fsdp), got {micro_batch}")
    if point.config.get("node") is not None:
        return _on_nodes(point, workload, rule)
    file, request = (point.config.get(key) for key in ("placement", "request"))
    if file is None:
        num_servers = servers_of(point, workload)
        workload = batched(point, workload, num_servers)
        return Job(workload, rule.place(workload, num_servers))
    from topoflow.scheduling.placement_file import read_placement  # most jobs have a network of their own

    landed = read_placement(file, None if request is None else str(request))
    servers = len(landed.servers)
    if point.config["servers"] not in (None, servers):
        requirement = f"must be left out, or the {servers} that the request got"
        raise ValueError(f"servers: {requirement}, got {point.config['servers']}")
    workload = batched(point, workload, servers)
    return Job(workload, rule.place(workload, servers), None, landed.servers, landed.cluster_servers)


def _on_nodes(point: Point, workload: Workload, rule: StrategyRule) -> Job:
    """Return the job on the GPUs of nodes: on every GPU or, where the GPUs of a node do the same, on every node."""
    fold = point.config["fold"]
    if not isinstance(workload, LayerGraph):
        if fold:
            raise ValueError(f"fold: must be false for {workload.name}, which has no layers, got true")
        return Job(workload, rule.place(workload, point.config["gpus"]))
    cluster = cluster_of(point)
    if fold == PIPELINE:
        return _on_pipeline_ranks(point, workload, rule, cluster)
    if fold or (fold is None and cluster.gpus >= MIN_FOLDED and not fails(point.config["fail"])):
        try:
            per_node = batched(point, replace(workload, gpus_per_server=cluster.per_node), cluster.nodes)
            strategy = rule.place(per_node, cluster.nodes)
            why = why_not_folded(strategy, cluster)
        except ValueError as error:
            why = str(error)
        if not why:
            return Job(per_node, strategy)
        if fold:
            raise ValueError(f"fold: must be false, as {why}")
    alone = batched(point, replace(workload, gpus_per_server=1, gpus_per_node=cluster.per_node), cluster.gpus)
    return Job(alone, rule.place(alone, cluster.gpus))


def has_joined_flows(point: Point) -> bool:
    """Return whether flows of the GPUs of a pipeline rank may be one: NCCL's, in a fidelity of flows."""
    return point.config["all_reduce"] == NCCL and point.config["fidelity"] in JOINED_FLOWS


def joins_nodes(cluster: Cluster, pipeline: int) -> bool:
    """Return whether each of ``pipeline`` ranks has several whole nodes."""
    nodes, left = divmod(cluster.nodes, pipeline)
    return nodes > 1 and not left


def _on_pipeline_ranks(point: Point, workload: LayerGraph, rule: StrategyRule, cluster: Cluster) -> Job:
    """Return the job with all GPUs of a pipeline rank as one endpoint."""
    if not has_joined_flows(point):
        got = f"all_reduce={point.config['all_reduce']} fidelity={point.config['fidelity']}"
        expected = f"must be true or false unless all_reduce={NCCL} and fidelity is {' or '.join(JOINED_FLOWS)}"
        raise ValueError(f"fold: {expected}, got {PIPELINE} with {got}")
    ranks = getattr(rule, "pipeline", 1)
    if not joins_nodes(cluster, ranks):
        expected = (
            f"must be true or false where pipeline ranks have no whole nodes of {cluster.per_node} GPUs, or one each"
        )
        raise ValueError(
            f"fold: {expected}, got {PIPELINE} with {counted(ranks, 'rank')} on {counted(cluster.gpus, 'GPU')}"
        )
    joined = replace(workload, gpus_per_server=cluster.gpus // ranks, gpus_per_node=cluster.per_node)
    joined = layer_graph(batched(point, joined, ranks))
    strategy = rule.place(joined, ranks)
    if why := why_not_folded(strategy, cluster):
        raise ValueError(f"fold: must be false, as {why}")
    return Job(joined, strategy)


def why_not_folded(strategy: Strategy, cluster: Cluster) -> str:
    """Return why the GPUs of a node do not do the same, or cannot be simulated as one; "" if they can."""
    if cluster.per_node > 1 and not cluster.node.switched:
        return f"no NVSwitch joins the GPUs of node {cluster.node.name}"
    if isinstance(strategy, ParallelGrid) and strategy.name == "fsdp" and strategy.replicate > 1:
        return "strategy.group counts endpoints"
    if isinstance(strategy, ParallelGrid) and strategy.expert == 1:
        return ""
    return f"GPUs of a node do different work with strategy {strategy.name}"


def batched(point: Point, workload: Workload, servers: int | None) -> Workload:
    """Return the job with the samples that the point asks for on all servers."""
    samples = point.config["global_batch"]
    if samples is None:
        return workload
    if not isinstance(workload, LayerGraph) or servers is None:
        raise ValueError(f"global_batch: must be null for {workload.name}, which has no layers, got {samples}")
    return workload.with_global_batch(samples, servers)


def design_of(point: Point, job: Job | None = None, columns: Mapping[str, Any] = NO_COLUMNS) -> FabricDesign:
    """Return the kind of network of a point, with the ring orders that it asks for; with nodes, attached to GPUs.

    ``columns``: the speeds of several points that are alike.
    """
    design: Any = build(point, "fabric")
    design = replace(design, **columns) if columns else design
    if job is not None and point.config.get("node") is not None:
        size = _gpus_of_endpoint(job)
        cluster = known_cluster(load(point.config["node"]), job.servers * size, point.config["gpus_per_node"] or 0)
        design = Attached(design, cluster, build(point, "nccl").pxn, size > 1, size)
    strides = point.config["strides"]
    return design if strides is None else WithStrides(design, tuple(strides))


def _built(point: Point, job: Job) -> Fabric:
    return design_of(point, job).build(job.servers, job.demand)


def _gpus_of_endpoint(job: Job) -> int:
    return job.workload.gpus_per_server if isinstance(job.workload, LayerGraph) else 1


def problem_of(point: Point) -> Problem:
    """A point as the beginning of a search. Raises ``ValueError`` in one line that names the key."""
    job = job_of(point, workload_of(point))
    return Problem(
        workload=job.workload,
        start=job.strategy,
        design=design_of(point),
        prices=build(point, "prices"),
        fidelity=fidelity_of(point),
        **{key: point.config[key] for key in PROBLEM},
    )


def _job(point: Point, workload: Workload, fewer: int, observer: Observer) -> Job:
    job = job_of(point, workload)
    observer.size(job.size)
    if fewer:
        job = _smaller(point, job, job.servers - fewer)
    job.traffic  # noqa: B018  raises here what is wrong with the job, before a fabric is built for it
    return job


def _smaller(point: Point, job: Job, left: int) -> Job:
    """Return the job on as many of the ``left`` servers as the strategy can use; the others are spare.

    A job that restarts after a failure has fewer whole replicas.
    """
    rule: StrategyRule = build(point, "strategy")
    first = ""
    for servers in range(left, 0, -1):
        try:
            workload = batched(point, job.workload, servers)
            return Job(workload, rule.place(workload, servers))
        except ValueError as error:
            first = first or str(error)
    raise ValueError(f"fail: must leave servers that the strategy can use, got {left} ({first})")
