"""Jobs that share a network and repeat their iterations.

Jobs that do not share a link do not affect each other; jobs that share one are slower when both send. As iterations of
jobs take different times, the jobs that send at the same time change, and so a job's iterations differ: they have a
mean and a tail.

Shapes: T tasks, D dependencies, P paths, H hops, L links, J jobs.

Source: TopoOpt (Wang et al., NSDI 2023), 5.6.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import ceil

import numpy as np

from topoflow.arrays import filled, offsets
from topoflow.engine.alternatives import joined as alternatives
from topoflow.engine.base import Fidelity, Floats, Ints, LoweredGraph, Offsets, Run, World
from topoflow.engine.fluid import Fluid
from topoflow.engine.simulation import simulate
from topoflow.memory import check_memory

BYTES_PER_TASK = 2**7  # of a repeated graph and its timeline, at least


def shared(
    worlds: Sequence[World],
    fidelity: Fidelity = Fluid(),
    *,
    rounds: float,
    starts: Sequence[float] | None = None,
    alone: Sequence[float] | None = None,
    run: Run = Run(),
) -> list[Floats]:
    """Return the seconds of every iteration that each job finishes; ``worlds`` [J] are one job each, on one fabric.

    Each job has separate servers of the fabric (``traffic.jobs``), begins at ``starts`` [J] s (None: 0) and runs for
    ``rounds`` iterations of the slowest job alone. Then all jobs stop: the number of running jobs never changes.
    ``alone`` [J] are the seconds of an iteration of each job alone; None: they are simulated.

    ``Fluid.merge`` neglects differences relative to the time since the beginning; with many iterations these are large
    relative to one iteration.

    Raises ``ValueError`` if the time is too short for some job to finish an iteration.
    """
    if alone is None:
        alone = [timeline.makespan for timeline in simulate(worlds, fidelity, run)]
    if min(alone, default=0.0) <= 0:
        raise ValueError("jobs: must take some time each, got one that takes none, or no job")
    begins = [0.0] * len(worlds) if starts is None else starts
    until = max(begins) + rounds * max(alone)
    counts = [ceil((until - begin) / time) + 1 for begin, time in zip(begins, alone, strict=True)]  # and one in reserve
    tasks = sum(count * world.graph.tasks for count, world in zip(counts, worlds, strict=True))
    check_memory("jobs", f"{tasks:,} tasks in all iterations", tasks * BYTES_PER_TASK)
    ends = _ends(worlds, counts, begins, until, fidelity, run)
    while any(job_ends[-1] <= until for job_ends in ends):  # max-min sharing made a job faster than alone
        counts = [2 * count for count in counts]
        ends = _ends(worlds, counts, begins, until, fidelity, run)
    seconds = [
        np.diff(job_ends[job_ends <= until], prepend=begin) for job_ends, begin in zip(ends, begins, strict=True)
    ]
    unfinished = [world.name for world, iterations in zip(worlds, seconds, strict=True) if iterations.size == 0]
    if unfinished:
        raise ValueError(f"rounds: must let every job finish an iteration, got {rounds}, too few for {unfinished[0]}")
    return seconds


def _ends(
    worlds: Sequence[World],
    counts: Sequence[int],
    begins: Sequence[float],
    until: float,
    fidelity: Fidelity,
    run: Run,
) -> list[Floats]:
    """Return the ends of each of the ``counts`` [J] iterations of every job; ends after ``until`` are arbitrary."""
    graphs = [repeated(world.graph, count, begin) for world, count, begin in zip(worlds, counts, begins, strict=True)]
    jobs = side_by_side(graphs, [world.name for world in worlds])
    together = replace(worlds[0], name=f"{len(worlds)} jobs side by side", graph=jobs, until=until)
    (timeline,) = simulate([together], fidelity, run)
    of_jobs = np.split(timeline.finish, np.cumsum([graph.tasks for graph in graphs])[:-1])
    return [of_job[world.graph.tasks :: world.graph.tasks + 1] for of_job, world in zip(of_jobs, worlds, strict=True)]


def mean_and_tail(times: Sequence[Floats], percent: float = 99.0) -> tuple[float, float]:
    """Return the mean iteration time and a percentile; all jobs [J] have the same weight.

    The percentile is the shortest time that ``percent`` of the iterations do not exceed.
    """
    all_times = np.concatenate(times)
    weight = np.concatenate([np.full(len(job_times), 1 / len(job_times)) for job_times in times])
    order = np.argsort(all_times)
    reached = np.cumsum(weight[order]) >= percent / 100 * len(times) * (1 - 1e-12)
    return float(all_times @ weight / len(times)), float(all_times[order][np.argmax(reached)])


def dedicated(worlds: Sequence[World], fidelity: Fidelity = Fluid(), *, run: Run = Run()) -> list[Floats]:
    """Return the seconds of one iteration of each job, alone on its network, where all its iterations are equal."""
    return [np.array([timeline.makespan]) for timeline in simulate(worlds, fidelity, run)]


def repeated(graph: LoweredGraph, times: int, start: float = 0.0) -> LoweredGraph:
    """Repeat the T tasks of ``graph``, each time followed by an end task.

    There are ``times`` iterations; the first begins at ``start`` (s). An iteration begins when the end task of the
    previous one has finished, which waits for all its tasks. So task (i + 1) (T + 1) - 1 is the end of iteration i; end
    tasks have a separate owner.
    """
    if graph.release.any():
        raise ValueError("jobs: must not name start times, as their iterations are repeated")
    tasks, awaited = graph.tasks, np.diff(graph.after_offsets)
    sinks = np.setdiff1d(np.arange(tasks), graph.after)
    first = np.append(awaited == 0, False)
    counts = np.where(first, 1, np.append(awaited, len(sinks)))
    within = np.full(int(counts.sum()), -1)  # -1: the task before the iteration, the end of the previous one
    within[np.repeat(~first, counts)] = np.concatenate([graph.after, sinks])
    after = (within + (tasks + 1) * np.arange(times)[:, None]).ravel()
    counts = np.tile(counts, times)
    counts[: tasks + 1][first] = 0

    def tiled(array: Floats, of_end: float) -> Floats:
        return np.tile(np.append(array, of_end), times)

    release = np.zeros(times * (tasks + 1))
    release[: tasks + 1][first] = start
    return replace(
        graph,
        delay=tiled(graph.delay, 0.0),
        bytes=tiled(graph.bytes, 0.0),
        release=release,
        path=np.tile(np.append(graph.path, -1), times).astype(np.int32),
        resource=None if graph.resource is None else np.tile(np.append(graph.resource, np.int32(-1)), times),
        after_offsets=offsets(counts),
        after=after[after >= 0].astype(np.int32),
        owner=np.tile(np.append(graph.owner, graph.owners), times).astype(np.int32),
        owners=graph.owners + 1,
        named=partial(_of_repeated, graph),
        ends=None if graph.ends is None else np.tile(np.pad(graph.ends, ((0, 0), (0, 1)), constant_values=-1), times),
    )


def _of_repeated(graph: LoweredGraph, owner: int) -> str:
    return graph.where_owner(owner) if owner < graph.owners else "the end of an iteration"


def side_by_side(graphs: Sequence[LoweredGraph], names: Sequence[str] | None = None) -> LoweredGraph:
    """Join graphs that share links at the same time; tasks, paths and owners follow those of the previous graph.

    ``names`` are the names of the jobs in error messages; None: the jobs are numbered.
    """
    for graph in graphs:
        if graph.rounds > 1:
            rule = "must be few enough to write all tasks of a job that shares a cluster"
            raise ValueError(f"workload.iterations: {rule}, got {graph.rounds} of {graph.tasks} tasks")
    tasks, paths = _before([graph.tasks for graph in graphs]), _before([len(g.path_offsets) - 1 for g in graphs])
    owners = _before([graph.owners for graph in graphs])

    def joined(field: str) -> Floats:
        return np.concatenate([getattr(graph, field) for graph in graphs])

    def shifted(field: str, by: Offsets) -> Ints:
        parts = [getattr(graph, field) for graph in graphs]
        return np.concatenate(
            [np.where(part < 0, part, part + shift) for part, shift in zip(parts, by, strict=True)]
        ).astype(np.int32)

    def rows(field: str) -> Offsets:
        return offsets(np.concatenate([np.diff(getattr(graph, field)) for graph in graphs]))

    weights = any(graph.path_weight is not None for graph in graphs)
    limits = any(graph.path_limit is not None for graph in graphs)
    placed = all(graph.ends is not None for graph in graphs)
    paths_of = [(graph.path_offsets, graph.path_links) for graph in graphs]
    return LoweredGraph(
        delay=joined("delay"),
        bytes=joined("bytes"),
        release=joined("release"),
        path=shifted("path", paths),
        after_offsets=rows("after_offsets"),
        after=shifted("after", tasks),
        path_offsets=rows("path_offsets"),
        path_links=joined("path_links").astype(np.int32),
        owner=shifted("owner", owners),
        owners=sum(graph.owners for graph in graphs),
        links=graphs[0].links,
        path_weight=np.concatenate([_weights(graph) for graph in graphs]) if weights else None,
        path_limit=np.concatenate([_limits(graph) for graph in graphs]) if limits else None,
        resource=_resources(graphs, tasks),
        alternatives=alternatives([graph.alternatives for graph in graphs], paths_of),
        ends=np.concatenate([graph.ends for graph in graphs if graph.ends is not None], axis=1) if placed else None,
        named=partial(_of_jobs, tuple(graphs), tuple(names or ())),
    )


def _of_jobs(graphs: Sequence[LoweredGraph], names: Sequence[str], owner: int) -> str:
    first = _before([graph.owners for graph in graphs])
    job = int(np.searchsorted(first, owner, side="right")) - 1
    name = f" ({names[job]})" if names else ""
    return f"job {job}{name}, {graphs[job].where_owner(owner - int(first[job]))}"


def _before(counts: Sequence[int]) -> Offsets:
    """Return the sum of the counts before each entry."""
    return offsets(counts)[:-1]


def _weights(graph: LoweredGraph) -> Floats:
    return np.ones(len(graph.path_links)) if graph.path_weight is None else graph.path_weight


def _resources(graphs: Sequence[LoweredGraph], tasks: Offsets) -> Ints | None:
    """Return [T] the resources of all graphs, numbered by their tasks; None if no task occupies one."""
    resources = [
        None if graph.resource is None else np.where(graph.resource < 0, -1, graph.resource + before)
        for graph, before in zip(graphs, tasks, strict=True)
    ]
    resource = filled(resources, [graph.tasks for graph in graphs], -1)
    return resource if resource.size else None


def _limits(graph: LoweredGraph) -> Floats:
    return np.full(len(graph.path_offsets) - 1, np.inf) if graph.path_limit is None else graph.path_limit
