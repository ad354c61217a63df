"""Worlds drawn at random, with all that a graph may have, run as their plain-Python twin runs them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.twins import fluid as reference
from tests.twins.dynamic import resume
from topoflow.engine import fluid
from topoflow.engine.base import LoweredGraph, Run, World
from topoflow.engine.device import DeviceMemory
from topoflow.engine.fluid import Fluid


def random_world(seed: int) -> World:
    """Paths with several flows, weights, limits, capacities of one size or of twelve orders, sizes equal or not."""
    random = np.random.default_rng(seed)
    links, paths, tasks = (int(random.integers(1, limit)) for limit in (30, 60, 120))
    crossed = [random.choice(links, size=random.integers(1, min(links, 6) + 1), replace=False) for _ in range(paths)]
    after = [np.unique(random.integers(0, task, min(task, random.integers(0, 3)))) for task in range(tasks)]
    hops = sum(map(len, crossed))
    capacity = [np.full(links, 1e9), random.choice([1e9, 1e10], links), 10 ** random.uniform(0, 12, links)][seed % 3]
    limits = np.where(random.random(paths) < 0.5, np.inf, np.median(capacity) * 10 ** random.uniform(-1, 1, paths))
    graph = LoweredGraph(
        delay=random.choice([0, 1e-6], tasks),
        bytes=[np.full(tasks, 1e6), random.choice([1e6, 2e6], tasks), 10 ** random.uniform(0, 9, tasks)][seed // 3 % 3],
        release=random.choice([0, 1e-3], tasks) * random.random(tasks),
        path=random.integers(0, paths, tasks).astype(np.int32),
        after_offsets=np.cumsum([0, *map(len, after)]),
        after=np.concatenate(after).astype(np.int32),
        path_offsets=np.cumsum([0, *map(len, crossed)]),
        path_links=np.concatenate(crossed).astype(np.int32),
        owner=np.arange(tasks, dtype=np.int32),
        owners=tasks,
        links=links,
        path_weight=random.choice([1, 0.5, 0.25, 0.1, 1 / 3], hops) if seed // 9 % 2 else None,
        path_limit=limits if seed // 18 % 2 else None,
    )
    return World(f"world {seed}", graph, capacity, np.zeros(links))


@pytest.mark.parametrize("first", range(0, 108, 36))  # each has all combinations of the choices above
def test_random_worlds_run_as_their_twins(first, device):
    worlds = [random_world(seed) for seed in range(first, first + 36)]
    for world, timeline in zip(worlds, Fluid().simulate(worlds, Run(DeviceMemory.named(device))), strict=True):
        np.testing.assert_allclose(timeline.finish, reference.simulate(world).finish, rtol=1e-9, err_msg=world.name)


def test_a_limit_is_of_each_flow_on_the_path(run, make_world):
    # Two flows of 60 B share a path with a limit of 20 B/s on a link of 100 B/s: 20 B/s each, 3 s.
    world = make_world([{"path": [0], "bytes": 60, "limit": 20}, {"path": [0], "bytes": 60, "limit": 20}], [100])
    world.graph.path[:] = 0
    assert run(world).finish.tolist() == pytest.approx([3, 3], rel=1e-12)


def with_latency(world: World) -> World:
    return replace(world, latency=np.random.default_rng(1).choice([0.0, 1e-6, 1e-4], world.graph.links))


def instants(world: World, count: int) -> list[float]:
    """Times within the run at which no task begins or ends, and 0."""
    ran = reference.simulate(world)
    events = np.unique(np.concatenate([[0.0], ran.start, ran.finish]))
    middles = (events[1:] + events[:-1])[np.diff(events) > 1e-6 * events[1:]] / 2
    return [0.0, *middles[:: max(1, len(middles) // count)].tolist()]


@pytest.mark.parametrize("seed", range(36))
def test_a_paused_world_is_where_its_twin_is(seed):
    world = with_latency(random_world(seed))
    for until in instants(world, 4):
        ours, twin = fluid.pause(world, until), reference.pause(world, until)
        np.testing.assert_allclose(ours.start, twin.start, rtol=1e-9)
        np.testing.assert_allclose(ours.finish, twin.finish, rtol=1e-9)
        np.testing.assert_allclose(ours.left, twin.left, rtol=1e-9, atol=1e-9 * world.graph.bytes.max())


@pytest.mark.parametrize("seed", range(36))
def test_stop_and_continue_is_the_unbroken_run(seed):
    world = with_latency(random_world(seed))
    unbroken = Fluid().simulate([world])[0]
    finish, rest, task = np.full(world.graph.tasks, np.inf), world, np.arange(world.graph.tasks)
    for until in instants(world, 6):
        paused = fluid.pause(rest, until)
        finish[task] = np.minimum(finish[task], paused.finish)
        rest, remaining = resume(rest, paused)
        task = task[remaining]
    if len(task):
        finish[task] = Fluid().simulate([rest])[0].finish
    np.testing.assert_allclose(finish, unbroken.finish, rtol=1e-9)


def test_a_world_ends_to_the_bit_as_alone_in_a_batch_with_worlds_that_have_weights_or_limits(device):
    worlds = [random_world(seed) for seed in range(36)]
    together = Fluid().simulate(worlds, Run(DeviceMemory.named(device)))
    for world, timeline in zip(worlds, together, strict=True):
        np.testing.assert_array_equal(
            timeline.finish, Fluid().simulate([world], Run(DeviceMemory.named(device)))[0].finish
        )
