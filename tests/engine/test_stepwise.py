"""Jobs in steps of time, with their plain twin: every step a world of all that is left."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import CancelledError
from dataclasses import replace

import numpy as np
import pytest

from tests.examples import examples
from tests.twins import fluid as reference
from tests.twins.dynamic import resume
from topoflow.engine import fluid
from topoflow.engine.base import LoweredGraph, World
from topoflow.engine.dynamic.stepwise import NO_LINK, RoutesAtTime, Stepwise

LATENCY = 1e-3  # s of each link
INTERVAL = 0.0973  # s of a step
Links = Sequence[np.ndarray]  # of every path


def job(seed: int, tasks: int = 60, paths: int = 8, links: int = 6) -> World:
    """Computes and flows that wait for each other; some paths are taken by several flows at once."""
    random = np.random.default_rng(seed)
    after = [np.unique(random.integers(0, task, min(task, random.integers(0, 3)))) for task in range(tasks)]
    flows = random.random(tasks) < 0.6
    route = crossed(random, paths, links)
    graph = LoweredGraph(
        delay=np.where(flows, 0.0, random.choice([0.0, 0.01, 0.5], tasks)),
        bytes=np.where(flows, random.choice([0.0, 1.0, 10.0, 100.0], tasks), 0.0),
        release=random.choice([0.0, 0.3], tasks),
        path=np.where(flows, random.integers(0, paths, tasks), -1).astype(np.int32),
        after_offsets=np.cumsum([0, *map(len, after)]),
        after=np.concatenate(after).astype(np.int32),
        path_offsets=np.cumsum([0, *map(len, route)]),
        path_links=np.concatenate(route).astype(np.int32),
        owner=np.zeros(tasks, np.int32),
        owners=1,
        links=links,
        path_limit=random.choice([np.inf, 30.0], paths) if seed % 2 else None,
    )
    return World(f"job {seed}", graph, np.full(links, 100.0), np.full(links, LATENCY))


def crossed(random: np.random.Generator, paths: int, links: int) -> Links:
    return [random.choice(links, random.integers(1, 4), replace=False) for _ in range(paths)]


def routes(route: Links, weights: np.ndarray | None = None) -> RoutesAtTime:
    offsets, links = np.cumsum([0, *map(len, route)]), np.concatenate(route).astype(np.int32)
    path = np.repeat(np.arange(len(route)), np.diff(offsets))
    return RoutesAtTime(offsets, links, weights, LATENCY * np.bincount(path, weights, len(route)))


def drawn(seed: int, world: World) -> tuple[RoutesAtTime, np.ndarray]:
    """Routes and capacities for a step: other paths, some without a link, some with part of the bytes on each hop."""
    random = np.random.default_rng(seed)
    route = crossed(random, len(world.graph.path_offsets) - 1, world.graph.links)
    route = [np.array([NO_LINK]) if random.random() < 0.2 else way for way in route]
    weights = random.choice([1.0, 0.5], sum(map(len, route))) if seed % 3 == 0 else None
    return routes(route, weights), random.choice([0.0, 50.0, 100.0], world.graph.links, p=[0.1, 0.3, 0.6])


class Twin:
    """What ``Stepwise`` says it does, with all tasks that are left in every step."""

    def __init__(self, world: World) -> None:
        tasks = world.graph.tasks
        self.rest, self.task, self.now = world, np.arange(tasks), 0.0
        self.start, self.finish = np.full(tasks, np.inf), np.full(tasks, np.inf)
        self.left, self.waited = world.graph.bytes.copy(), np.full(tasks, np.inf)

    def advance(self, over: RoutesAtTime, capacity: np.ndarray, until: float, merge: float) -> None:
        links = np.where(over.links == NO_LINK, len(capacity), over.links).astype(np.int32)
        graph = replace(
            self.rest.graph,
            path_offsets=over.offsets,
            path_links=links,
            path_weight=over.weights,
            links=len(capacity) + 1,
        )
        wait = np.append(over.latency, 0.0)[graph.path]
        zero = self.now - wait.max(initial=0.0)
        waited = self.waited[self.task]
        ready = np.where(np.isinf(waited), graph.release, np.maximum(waited, self.now) - wait)
        graph = replace(graph, release=np.maximum(ready - zero, 0.0))
        world = World(self.rest.name, graph, np.append(capacity, 0.0), np.full(graph.links, LATENCY))
        paused = fluid.pause(world, until - zero, merge=merge)
        later = self.rest.graph.release > zero + (until - zero) * (1 + merge)  # routes may be others then
        paused = replace(paused, start=np.where(later, np.inf, paused.start))
        self.left[self.task] = paused.left
        new = np.isinf(self.start[self.task])
        self.start[self.task[new]] = paused.start[new] + zero
        self.waited[self.task[new]] = (paused.start + graph.delay + wait)[new] + zero
        self.finish[self.task] = paused.finish + zero
        rest, remaining = resume(world, paused)
        begun = np.isfinite(paused.start[remaining])
        release = np.where(begun, 0.0, self.rest.graph.release[remaining])
        self.rest = replace(rest, graph=replace(rest.graph, release=release))
        self.task, self.now = self.task[remaining], until


@pytest.mark.parametrize("merge", [0.0, 0.01, 0.3])
@pytest.mark.parametrize("seed", range(examples(4)))
def test_a_step_runs_what_can_move_as_it_runs_in_the_whole(seed: int, merge: float) -> None:
    world = job(seed)
    steps = Stepwise("job", world.graph, 0.0, merge=merge, cancel=np.zeros(1, np.int32))
    twin = Twin(world)
    before = steps.left.copy()
    for step in range(600):
        if len(twin.task) == 0:
            break
        (over, capacity), until = drawn(1000 * seed + step, world), (step + 1) * INTERVAL
        twin.advance(over, capacity, until, merge)
        sent = steps.advance(over, capacity, LATENCY, until)
        np.testing.assert_allclose(steps.finish, twin.finish, rtol=1e-9)
        np.testing.assert_allclose(steps.left, twin.left, rtol=1e-9, atol=1e-7)
        np.testing.assert_allclose(sent.bytes, (before - steps.left)[sent.task], atol=1e-9)
        assert (np.delete(before - steps.left, sent.task) == 0).all()
        before = steps.left.copy()
    assert steps.has_finished
    assert len(twin.task) == 0
    np.testing.assert_allclose(steps.start, twin.start, rtol=1e-9)


@pytest.mark.parametrize("seed", range(12))
def test_over_ways_that_stay_pieces_are_the_unbroken_run(seed: int) -> None:
    world = job(seed)
    fixed = routes(np.split(world.graph.path_links, world.graph.path_offsets[1:-1]))
    steps = Stepwise("job", world.graph, 0.0, merge=0.0, cancel=np.zeros(1, np.int32))
    for step in range(1000):
        steps.advance(fixed, world.capacity, LATENCY, (step + 1) * 0.037)
    np.testing.assert_allclose(steps.finish, reference.simulate(world).finish, rtol=1e-9)


def test_what_no_link_carries_does_not_move(make_world) -> None:
    world = make_world([{"path": [0], "bytes": 100}, {"path": [1], "bytes": 100}, {"delay": 9}], [100, 100])
    steps = Stepwise("job", world.graph, 0.0, merge=0.0, cancel=np.zeros(1, np.int32))
    over = routes([np.array([NO_LINK]), np.array([1])])
    steps.advance(over, world.capacity, LATENCY, 0.5)  # all begin
    sent = steps.advance(over, world.capacity, LATENCY, 0.75)
    assert steps.left.tolist() == pytest.approx([100, 100 - 0.749 * 100, 0])
    assert sent.task[sent.bytes > 0].tolist() == [1]
    assert len(steps.advance(routes([np.array([NO_LINK])] * 2), world.capacity, LATENCY, 1.0).task) == 0


def test_a_piece_that_is_cancelled_says_so(make_world) -> None:
    world = make_world([{"path": [0], "bytes": 1}], [100])
    steps = Stepwise("job", world.graph, 0.0, merge=0.0, cancel=np.ones(1, np.int32))
    with pytest.raises(CancelledError):
        steps.advance(routes([np.array([0])]), world.capacity, LATENCY, 2.0)


def test_who_waits_for_each_other_is_told_by_name(make_world) -> None:
    world = make_world([{"path": [0], "bytes": 1}, {"after": [2]}, {"after": [1]}], [100])
    steps = Stepwise("job", world.graph, 0.0, merge=0.0, cancel=np.zeros(1, np.int32))
    with pytest.raises(ValueError, match="job: every task must become ready, got an endless wait for task 1"):
        steps.advance(routes([np.array([0])]), world.capacity, LATENCY, 2.0)
