"""The bound in plain Python: the oracle of the tests, written for the reader. ``topoflow.engine.bound`` states it."""

from __future__ import annotations

import math

from topoflow.engine.base import LoweredGraph, World


def bound(world: World) -> tuple[list[float], list[float], float]:
    """Return start and finish of every task if it were alone, and the least time of all; inf: no bandwidth."""
    graph = world.graph
    start: list[float] = []
    finish: list[float] = []
    begin = [math.inf] * graph.links  # s, the first moment at which a flow on the link can begin
    moved = [0.0] * graph.links  # B
    for task in range(graph.tasks):
        after = graph.after[graph.after_offsets[task] : graph.after_offsets[task + 1]].tolist()
        start.append(max([float(graph.release[task]), *(finish[earlier] for earlier in after)]))
        hops = _hops(graph, task)
        waits = float(graph.delay[task]) + sum(weight * float(world.latency[link]) for link, weight in hops)
        bytes = float(graph.bytes[task]) if hops else 0.0
        finish.append(start[task] + waits + (bytes / _rate(world, task, hops) if bytes > 0 else 0.0))
        for link, weight in hops if bytes > 0 else []:
            begin[link] = min(begin[link], start[task] + waits)
            moved[link] += weight * bytes
    loads = [
        first + size / capacity if capacity > 0 else math.inf
        for first, size, capacity in zip(begin, moved, world.capacity.tolist(), strict=True)
        if size > 0
    ]
    return start, finish, max([0.0, *finish, *loads, *_busy(graph, start)])


def _busy(graph: LoweredGraph, start: list[float]) -> list[float]:
    """Return the first moment at which each resource can have run all its tasks."""
    resource = [] if graph.resource is None else graph.resource.tolist()
    tasks: dict[int, list[int]] = {}
    for task, index in enumerate(resource):
        tasks.setdefault(index, []).append(task)
    tasks.pop(-1, None)
    return [min(start[t] for t in users) + sum(float(graph.delay[t]) for t in users) for users in tasks.values()]


def _hops(graph: LoweredGraph, task: int) -> list[tuple[int, float]]:
    """Links of a task and the share of its bytes that each carries; none for a task off the network."""
    path = int(graph.path[task])
    if path < 0:
        return []
    hops = range(graph.path_offsets[path], graph.path_offsets[path + 1])
    return [(int(graph.path_links[h]), 1.0 if graph.path_weight is None else float(graph.path_weight[h])) for h in hops]


def _rate(world: World, task: int, hops: list[tuple[int, float]]) -> float:
    """B/s of a task that has its path for itself; the smallest positive number instead of 0."""
    limits = world.graph.path_limit
    limit = math.inf if limits is None else float(limits[world.graph.path[task]])
    rate = min([limit, *(float(world.capacity[link]) / weight for link, weight in hops)])
    return max(rate, 5e-324)
