"""The fluid model in plain Python: the oracle of the tests, written for the reader.

Nothing here is quick. ``topoflow.engine.fluid`` does the same on thousands of worlds; one test compares them.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from topoflow.engine.base import Graph, Ints, Offsets, Timeline, World

# Two instants (or two shares) closer than this, relatively, are one.
SAME = 1e-12


def max_min(paths: list[list[int]], capacity: list[float]) -> list[float]:
    """Max-min fair rates (B/s) of flows on ``paths`` of links: fill all evenly, freeze who meets a full link, go on.

    ``max_min([[0], [0], [0]], [90.0]) == [30.0, 30.0, 30.0]``
    ``max_min([[0, 1], [0], [0]], [90.0, 10.0]) == [10.0, 40.0, 40.0]``

    Source: Bertsekas and Gallager, Data Networks, 2nd ed., 6.5.2, algorithm (6.43).
    """
    rate: dict[int, float] = {}
    left = list(capacity)
    while len(rate) < len(paths):
        count: dict[int, int] = {}
        for flow, path in enumerate(paths):
            for link in path if flow not in rate else []:
                count[link] = count.get(link, 0) + 1
        share = {link: max(left[link], 0.0) / n for link, n in count.items()}
        lowest = min(share.values(), default=math.inf)
        full = {link for link in share if share[link] <= lowest * (1 + SAME)}
        for flow, path in enumerate(paths):
            if flow not in rate and (not path or full.intersection(path)):
                rate[flow] = lowest if path else math.inf
                for link in path:
                    left[link] -= lowest
    return [rate[flow] for flow in range(len(paths))]


def simulate(world: World) -> Timeline:
    """When every task of one world ran; the model is stated in ``topoflow.engine.base``.

    Raises ``ValueError`` when a flow has no bandwidth or a task waits for ever.
    """
    graph = world.graph
    tasks = range(graph.tasks)
    paths = _paths(graph)
    after = _rows(graph.after_offsets, graph.after)
    capacity, latency = world.capacity.tolist(), world.latency.tolist()

    pending = {t: len(after[t]) for t in tasks}
    start: dict[int, float] = {}
    finish: dict[int, float] = {}
    waiting: dict[int, float] = {}  # task -> when its wait ends
    flowing: dict[int, tuple[float, float]] = {}  # task -> bytes that are left, since when

    def ready(task: int) -> None:
        start[task] = max([float(graph.release[task])] + [finish[t] for t in after[task]])
        waiting[task] = start[task] + float(graph.delay[task]) + sum(latency[link] for link in paths[task])

    followers = _followers(after)
    for task in [t for t in tasks if not after[t]]:
        ready(task)

    while waiting or flowing:
        rates = dict(zip(flowing, max_min([paths[t] for t in flowing], capacity), strict=True))
        ends = {t: since + left / rates[t] if rates[t] > 0 else math.inf for t, (left, since) in flowing.items()}
        then = min([*waiting.values(), *ends.values()])
        if math.isinf(then):
            raise ValueError(f"{world.name}: every flow must get bandwidth, got none for task {min(flowing)}")
        over = [t for t, end in {**waiting, **ends}.items() if end <= then * (1 + SAME)]
        for task, (left, since) in flowing.items():
            if then > since:
                flowing[task] = (max(0.0, left - rates[task] * (then - since)), then)
        for task in over:
            if task in waiting and graph.bytes[task] > 0 and paths[task]:
                flowing[task] = (float(graph.bytes[task]), waiting.pop(task))
                continue
            finish[task] = waiting.pop(task) if task in waiting else ends[task]
            flowing.pop(task, None)
            for follower in followers[task]:
                pending[follower] -= 1
                if not pending[follower]:
                    ready(follower)

    stuck = [t for t in tasks if t not in finish]
    if stuck:
        raise ValueError(f"{world.name}: every task must become ready, got task {stuck[0]} waiting for ever")
    return _timeline(world, paths, [start[t] for t in tasks], [finish[t] for t in tasks])


def _followers(after: list[list[int]]) -> list[list[int]]:
    """``after`` the other way round: the tasks that wait for each task."""
    followers: list[list[int]] = [[] for _ in after]
    for task, awaited in enumerate(after):
        for earlier in awaited:
            followers[earlier].append(task)
    return followers


def _rows(offsets: Offsets, items: Ints) -> list[list[int]]:
    bounds, flat = offsets.tolist(), items.tolist()
    return [flat[first:end] for first, end in itertools.pairwise(bounds)]


def _paths(graph: Graph) -> list[list[int]]:
    """Links of every task, none for a task off the network."""
    paths = _rows(graph.path_offsets, graph.path_links)
    return [paths[path] if path >= 0 else [] for path in graph.path.tolist()]


def _timeline(world: World, paths: list[list[int]], start: list[float], finish: list[float]) -> Timeline:
    graph = world.graph
    link_bytes = [0.0] * graph.links
    for task, path in enumerate(paths):
        for link in path:
            link_bytes[link] += float(graph.bytes[task])
    task_start, task_finish = [math.inf] * graph.owners, [0.0] * graph.owners
    for task, owner in enumerate(graph.owner.tolist()):
        task_start[owner] = min(task_start[owner], start[task])
        task_finish[owner] = max(task_finish[owner], finish[task])
    return Timeline(
        name=world.name,
        start=np.array(start),
        finish=np.array(finish),
        link_bytes=np.array(link_bytes),
        task_start=np.array([first if math.isfinite(first) else 0.0 for first in task_start]),
        task_finish=np.array(task_finish),
    )
