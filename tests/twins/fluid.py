"""The fluid model in plain Python: the oracle of the tests, written for the reader.

Nothing here is quick. ``topoflow.engine.fluid`` does the same on thousands of worlds; one test compares them.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topoflow.engine.base import SAME, Floats, LoweredGraph, Offsets, Pause, TaskTimes, Timeline, World
from topoflow.engine.fluid import checked


def max_min(
    paths: Sequence[Sequence[int]],
    capacity: Sequence[float],
    weights: Sequence[Sequence[float]] | None = None,
    limits: Sequence[float] | None = None,
) -> list[float]:
    """Max-min fair rates (B/s) of flows on ``paths`` of links: fill all evenly, freeze flows on a full link, repeat.

    A flow puts ``weights[flow][hop]`` of its rate (default all of it) on the links of its path, and gets at most
    ``limits[flow]`` (default any rate).

    ``max_min([[0], [0], [0]], [90.0]) == [30.0, 30.0, 30.0]``
    ``max_min([[0, 1], [0], [0]], [90.0, 10.0]) == [10.0, 40.0, 40.0]``
    ``max_min([[0], [0]], [90.0], weights=[[0.5], [1.0]]) == [60.0, 60.0]``
    ``max_min([[0], [0]], [90.0], limits=[20.0, math.inf]) == [20.0, 70.0]``

    Source: Bertsekas and Gallager, Data Networks, 2nd ed., 6.5.2, algorithm (6.43).
    """
    weights = [[1.0] * len(path) for path in paths] if weights is None else weights
    limits = [math.inf] * len(paths) if limits is None else limits
    rate: dict[int, float] = {}
    remaining = list(capacity)
    while rising := [flow for flow in range(len(paths)) if flow not in rate]:
        load: dict[int, float] = {}
        for flow in rising:
            for link, weight in zip(paths[flow], weights[flow], strict=True):
                load[link] = load.get(link, 0.0) + weight
        share = {link: max(remaining[link], 0.0) / load[link] for link in load}
        limit = {flow: min([limits[flow], *(share[link] for link in paths[flow])]) for flow in rising}
        lowest = min(limit.values())
        for flow in [flow for flow in rising if limit[flow] <= lowest * (1 + SAME)]:
            rate[flow] = lowest
            for link, weight in zip(paths[flow], weights[flow], strict=True):
                remaining[link] -= weight * lowest
    return [rate[flow] for flow in range(len(paths))]


def simulate(world: World, merge: float = 0.0) -> Timeline:
    """Simulate one world; the model is stated in ``topoflow.engine.base``.

    A flow that has lasted d at the beginning of an event and would end at most ``merge`` * d later ends with the event.
    It keeps the end that it had; the others continue from the beginning of the event. ``merge=0`` is exact.

    Of n flows that begin together at 0 and share one link, none ends later than by a factor of 1 + ``merge`` (it was
    not given what others of its event left), none earlier than by a factor of 1 + ``merge`` * (1 + 1/2 + ... + 1/n)
    (in every event it got what others left before they had left). In a network there is no such bound, as there one
    flow may gain what another lost.

    Raises ``ValueError`` when a flow has no bandwidth or a task waits forever.
    """
    start, finish, _ = _run(world, merge, math.inf)
    stuck = [t for t in range(world.graph.tasks) if t not in finish]
    if stuck:
        place = world.graph.where(stuck[0])
        raise ValueError(f"{world.name}: every task must become ready, got an endless wait for {place}")
    return _timeline(world, [start[t] for t in range(len(start))], [finish[t] for t in range(len(finish))])


def pause(world: World, until: float, merge: float = 0.0) -> Pause:
    """Return the state of ``world`` at ``until`` (s), after all events and flows up to then."""
    start, finish, remaining = _run(world, merge, until)

    def numbers(values: dict[int, float], otherwise: list[float]) -> Floats:
        return np.array([values.get(task, other) for task, other in enumerate(otherwise)])

    never = [math.inf] * world.graph.tasks
    begun = dict.fromkeys(finish, 0.0) | remaining
    return Pause(until, numbers(start, never), numbers(finish, never), numbers(begun, world.graph.bytes.tolist()))


class _Tasks:
    """The tasks that wait, run and are over; those that wait for none begin at once. Times in s."""

    def __init__(self, world: World) -> None:
        graph = world.graph
        self.graph, self.latency = graph, world.latency.tolist()
        self.paths, self.weights, self.limits = _paths(graph)
        self.after = _rows(graph.after_offsets, graph.after)
        self.followers = _followers(self.after)
        self.pending = [len(awaited) for awaited in self.after]
        self.start: dict[int, float] = {}
        self.finish: dict[int, float] = {}
        self.waiting: dict[int, float] = {}  # task -> when its wait ends
        self.resource = [-1] * graph.tasks if graph.resource is None else graph.resource.tolist()
        self.queued: list[int] = []  # tasks that have just become ready and occupy a resource
        self.queues: dict[int, list[tuple[float, int]]] = {}  # resource -> when those that wait for it were ready
        self.occupied: set[int] = set()
        self.free: dict[int, float] = {}  # resource -> when the last task that occupied it has finished
        for task in [task for task, count in enumerate(self.pending) if count == 0]:
            self.make_ready(task)
        self.serve(0.0)

    def make_ready(self, task: int) -> None:
        release = float(self.graph.release[task])
        if self.resource[task] >= 0 and release > max([0.0] + [self.finish[t] for t in self.after[task]]):
            self.waiting[task] = release
        elif self.resource[task] >= 0:
            self.queued.append(task)
        else:
            self.begin(task)

    def serve(self, now: float) -> bool:
        """Begin on every free resource the task that was ready first; return whether there was one."""
        for task in self.queued:
            heapq.heappush(self.queues.setdefault(self.resource[task], []), (now, task))
        self.queued.clear()
        served = [resource for resource, queue in self.queues.items() if queue and resource not in self.occupied]
        for resource in served:
            self.occupied.add(resource)
            _, task = heapq.heappop(self.queues[resource])
            self.begin(task, self.free.get(resource, 0.0))
        return bool(served)

    def begin(self, task: int, earliest: float = 0.0) -> None:
        released = max(earliest, float(self.graph.release[task]))
        self.start[task] = max([released] + [self.finish[t] for t in self.after[task]])
        hops = zip(self.paths[task], self.weights[task], strict=True)
        travel = sum(weight * self.latency[link] for link, weight in hops)
        self.waiting[task] = self.start[task] + float(self.graph.delay[task]) + travel

    def end(self, task: int, at: float) -> None:
        self.finish[task] = at
        self.occupied.discard(self.resource[task])
        self.free[self.resource[task]] = at
        for follower in self.followers[task]:
            self.pending[follower] -= 1
            if self.pending[follower] == 0:
                self.make_ready(follower)


def _run(world: World, merge: float, until: float) -> tuple[dict[int, float], dict[int, float], dict[int, float]]:
    """Start and finish (s) of the tasks that have any by ``until``, and the bytes that flows have left then."""
    merge = checked(merge)
    tasks, bytes_, capacity = _Tasks(world), world.graph.bytes, world.capacity.tolist()
    waiting = tasks.waiting
    flowing: dict[int, float] = {}  # task -> bytes that are left
    begun: dict[int, float] = {}  # flows of the last event -> when their wait ended
    now = 0.0
    while waiting or flowing:
        rates = _rates(tasks, list(flowing), capacity)
        for task, at in begun.items():  # it flows from the event on: what it gets before its own time, it has to send
            flowing[task] += rates[task] * (at - now)
        begun.clear()
        ends = {t: now + remaining / rates[t] if rates[t] > 0 else math.inf for t, remaining in flowing.items()}
        earlier, now = now, min([*waiting.values(), *ends.values()])
        if now > until:
            unsent = {
                task: max(0.0, remaining - rates[task] * (until - earlier)) for task, remaining in flowing.items()
            }
            return (
                tasks.start,
                tasks.finish,
                {task: min(remaining, float(bytes_[task])) for task, remaining in unsent.items()},
            )
        if math.isinf(now):
            place = world.graph.where(min(flowing))
            raise ValueError(f"{world.name}: every flow must get bandwidth, got none for {place}")
        horizon = now * (1 + SAME)
        for task in list(flowing):
            flowing[task] = max(0.0, flowing[task] - rates[task] * (now - earlier))
            if ends[task] <= horizon or ends[task] - now <= merge * (now - tasks.start[task]):
                del flowing[task]
                tasks.end(task, max(ends[task], tasks.start[task]))
        while (over := [t for t, waited in waiting.items() if waited <= horizon]) or tasks.serve(horizon):
            for task in over:
                waited = waiting.pop(task)
                if task not in tasks.start:  # it has been released, and waits for its resource
                    tasks.queued.append(task)
                elif bytes_[task] > 0 and tasks.paths[task]:
                    flowing[task], begun[task] = float(bytes_[task]), waited
                else:
                    tasks.end(task, waited)
    return tasks.start, tasks.finish, {}


def _rates(tasks: _Tasks, flows: list[int], capacity: list[float]) -> dict[int, float]:
    """B/s of each flow."""
    paths, weights = [tasks.paths[t] for t in flows], [tasks.weights[t] for t in flows]
    return dict(zip(flows, max_min(paths, capacity, weights, [tasks.limits[t] for t in flows]), strict=True))


def _followers(after: list[list[int]]) -> list[list[int]]:
    """``after`` the other way round: the tasks that wait for each task."""
    followers: list[list[int]] = [[] for _ in after]
    for task, awaited in enumerate(after):
        for earlier in awaited:
            followers[earlier].append(task)
    return followers


def _paths(graph: LoweredGraph) -> tuple[list[list[int]], list[list[float]], list[float]]:
    """Links and weights of every task's hops, none for a task off the network, and its limit."""
    paths = graph.path.tolist()
    links = _rows(graph.path_offsets, graph.path_links)
    weight = np.ones(len(graph.path_links)) if graph.path_weight is None else graph.path_weight
    weights = _rows(graph.path_offsets, weight)
    limits = [math.inf] * len(links) if graph.path_limit is None else graph.path_limit.tolist()
    return (
        [links[path] if path >= 0 else [] for path in paths],
        [weights[path] if path >= 0 else [] for path in paths],
        [limits[path] if path >= 0 else math.inf for path in paths],
    )


def _rows(offsets: Offsets, items: NDArray[Any]) -> list[list[Any]]:
    bounds, flat = offsets.tolist(), items.tolist()
    return [flat[first:end] for first, end in itertools.pairwise(bounds)]


def _timeline(world: World, start: list[float], finish: list[float]) -> Timeline:
    graph = world.graph
    link_bytes = [0.0] * graph.links
    for bytes, path, weights in zip(graph.bytes.tolist(), *_paths(graph)[:2], strict=True):
        for link, weight in zip(path, weights, strict=True):
            link_bytes[link] += weight * bytes
    return Timeline(world, TaskTimes(np.array(start), np.array(finish)), max(finish, default=0.0), np.array(link_bytes))
