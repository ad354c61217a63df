"""Worlds with more links or tasks than a team keeps in one block, in one group of blocks, or in its fast memory."""

from __future__ import annotations

import numpy as np
import pytest

from topoflow.engine.base import LoweredGraph, Run, World
from topoflow.engine.device import DeviceMemory
from topoflow.engine.fluid import Fluid


def star(flows: int) -> World:
    """Flow i crosses link i, which only it uses, and then the last link, which all share.

    Capacities and sizes have few values, so that many flows end at once.
    """
    random = np.random.default_rng(flows)
    private = random.choice([1.0, 1.5, 2.0, 2.5, 4.0, 9.0], flows)
    graph = LoweredGraph(
        delay=np.zeros(flows),
        bytes=random.choice([3.0, 5.0, 8.0], flows),
        release=np.zeros(flows),
        path=np.arange(flows, dtype=np.int32),
        after_offsets=np.zeros(flows + 1, np.int64),
        after=np.zeros(0, np.int32),
        path_offsets=2 * np.arange(flows + 1),
        path_links=np.stack([np.arange(flows), np.full(flows, flows)], axis=1).reshape(-1).astype(np.int32),
        owner=np.arange(flows, dtype=np.int32),
        owners=flows,
        links=flows + 1,
    )
    return World(f"star of {flows}", graph, np.append(private, 1.6 * flows), np.zeros(flows + 1))


def ends(world: World) -> np.ndarray:
    """[T] s, by filling the shared link up to one level: a flow gets that, or what its own link has."""
    private, shared = world.capacity[:-1], world.capacity[-1]
    remaining, end, now = world.graph.bytes.copy(), np.zeros(len(private)), 0.0
    while (flowing := remaining > 0).any():
        caps = np.sort(private[flowing])
        below = np.append(0, np.cumsum(caps))[:-1]
        levels = (shared - below) / np.arange(len(caps), 0, -1)
        fits = np.flatnonzero(levels <= caps)
        level = levels[fits[0]] if fits.size else np.inf
        rate = np.where(flowing, np.minimum(private, level), 1)
        step = (remaining[flowing] / rate[flowing]).min()
        now += step
        remaining = np.where(flowing, remaining - step * rate, 0)
        remaining[remaining < 1e-9] = 0
        end[flowing & (remaining == 0)] = now
    return end


@pytest.mark.parametrize("flows", [3, 40, 700, 1500])
def test_many_links_fill_in_one_event(flows, device):
    world = star(flows)
    (timeline,) = Fluid().simulate([world], Run(DeviceMemory.named(device)))
    np.testing.assert_allclose(timeline.finish, ends(world), rtol=1e-9)


def test_twenty_thousand_links_fill_in_one_event():
    world = star(20_000)
    (timeline,) = Fluid().simulate([world])
    np.testing.assert_allclose(timeline.finish, ends(world), rtol=1e-9)


def test_each_of_forty_thousand_waits_ends_when_it_is_over():
    random = np.random.default_rng(1)
    tasks = 40_000
    delay, release = random.uniform(0, 1, tasks), random.uniform(0, 100, tasks)
    after = random.integers(0, np.maximum(np.arange(tasks), 1))[1:].astype(np.int32)  # task i waits for after[i - 1]
    graph = LoweredGraph(
        delay=delay,
        bytes=np.zeros(tasks),
        release=release,
        path=np.full(tasks, -1, np.int32),
        after_offsets=np.arange(-1, tasks).clip(0),
        after=after,
        path_offsets=np.zeros(1, np.int64),
        path_links=np.zeros(0, np.int32),
        owner=np.arange(tasks, dtype=np.int32),
        owners=tasks,
        links=0,
    )
    (timeline,) = Fluid().simulate([World("waits", graph, np.zeros(0), np.zeros(0))])
    finish = release + delay
    for task in range(1, tasks):
        finish[task] = max(release[task], finish[after[task - 1]]) + delay[task]
    assert np.array_equal(timeline.finish, finish)
