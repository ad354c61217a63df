"""Rates that a block of a GPU's threads finds by rounds are those that a CPU finds one link after the other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from topoflow.engine.base import LoweredGraph, Run, World
from topoflow.engine.device import DeviceMemory
from topoflow.engine.fluid import Fluid, pause

SEEDS = range(6)


def crossing(seed: int, *, hops: int = 4, paths: int = 24, links: int = 12) -> World:
    """Up to four flows at once on each path, released at few times; paths of up to ``hops`` links that many share."""
    random = np.random.default_rng(seed)
    tasks = 4 * paths
    rows = [random.permutation(links)[: random.integers(1, hops + 1)] for _ in range(paths)]
    after = [random.integers(0, task, int(random.integers(0, 2))) if task else [] for task in range(tasks)]
    graph = LoweredGraph(
        delay=random.choice([0.0, 0.0, 1.0], tasks),
        bytes=random.choice([0.0, 10.0, 10.0, 30.0], tasks) * (1 + random.random(tasks) * (seed % 2)),
        release=random.choice([0.0, 2.0], tasks),
        path=random.integers(0, paths, tasks).astype(np.int32),
        after_offsets=np.cumsum([0, *map(len, after)]),
        after=np.concatenate(after).astype(np.int32),
        path_offsets=np.cumsum([0, *map(len, rows)]),
        path_links=np.concatenate(rows).astype(np.int32),
        owner=np.arange(tasks, dtype=np.int32),
        owners=tasks,
        links=links,
    )
    capacity = random.choice([1.0, 2.0, 2.0, 5.0], links) * (1 + random.random(links) * (seed % 3 > 0))
    return World(f"crossing {seed}", graph, capacity, np.full(links, 0.01 * (seed % 2)))


def both(worlds: list[World], gpu: DeviceMemory, *, merge: float = 0.0) -> list[tuple[np.ndarray, np.ndarray]]:
    pairs = zip(Fluid(merge).simulate(worlds, Run(gpu)), Fluid(merge).simulate(worlds), strict=True)
    return [(on_gpu.finish, on_cpu.finish) for on_gpu, on_cpu in pairs]


@pytest.fixture(scope="module")
def gpu(check_device) -> DeviceMemory:
    return DeviceMemory.named(check_device("cuda"))


@pytest.mark.gpu
@pytest.mark.parametrize("hops", [2, 6, 8, 11])
def test_a_gpu_finds_the_ends_that_a_cpu_finds(hops, gpu):
    """A path's links have 16 bits each in memory if it has eight at most."""
    for on_gpu, on_cpu in both([crossing(seed, hops=hops) for seed in SEEDS], gpu):
        np.testing.assert_allclose(on_gpu, on_cpu, rtol=1e-11)


@pytest.mark.gpu
def test_links_that_tie_are_filled_in_one_round(gpu):
    """All links have the same capacity: paths have their lowest share on several links at once."""
    world = crossing(2)
    graph = replace(world.graph, bytes=np.where(world.graph.bytes > 0, 32.0, 0.0))
    for on_gpu, on_cpu in both([replace(world, graph=graph, capacity=np.full(graph.links, 64.0))], gpu):
        np.testing.assert_allclose(on_gpu, on_cpu, rtol=1e-13)


@pytest.mark.gpu
def test_a_world_ends_to_the_bit_as_alone_whatever_worlds_are_run_with_it(gpu):
    """Beside a link of a millionth of another, rates are found one link after the other: both kinds in one batch."""
    worlds = [crossing(seed) for seed in SEEDS]
    uneven = [replace(world, capacity=np.append(world.capacity[:-1], 1e-6)) for world in worlds]
    together = Fluid().simulate([*worlds, *uneven], Run(gpu))
    for world, timeline in zip([*worlds, *uneven], together, strict=True):
        (alone,) = Fluid().simulate([world], Run(gpu))
        np.testing.assert_array_equal(timeline.finish, alone.finish)
    for timeline, (_, on_cpu) in zip(together, both([*worlds, *uneven], gpu), strict=True):
        np.testing.assert_allclose(timeline.finish, on_cpu, rtol=1e-11)


@pytest.mark.gpu
def test_links_without_bandwidth_starve_the_same_flows(gpu):
    world = crossing(4)
    closed = replace(world, capacity=np.where(np.arange(world.graph.links) % 5 == 0, 0.0, world.capacity))
    on_gpu, on_cpu = (pause(closed, 20.0, run=run) for run in (Run(gpu), Run()))
    assert np.any(on_cpu.left > 0)
    np.testing.assert_allclose(on_gpu.finish, on_cpu.finish, rtol=1e-11)
    np.testing.assert_allclose(on_gpu.left, on_cpu.left, rtol=1e-9, atol=1e-9)


@pytest.mark.gpu
def test_paths_without_flows_get_flows_again(gpu):
    """80 paths lose their flows and get others, twice: 64 are removed from the list of paths with flows at once."""
    paths, rounds = 80, 3
    random = np.random.default_rng(1)
    tasks = paths * rounds
    graph = LoweredGraph(
        delay=np.zeros(tasks),
        bytes=1 + random.random(tasks),
        release=np.repeat(1000.0 * np.arange(rounds), paths),
        path=np.tile(np.arange(paths), rounds).astype(np.int32),
        after_offsets=np.zeros(tasks + 1, np.int64),
        after=np.zeros(0, np.int32),
        path_offsets=2 * np.arange(paths + 1),
        path_links=np.stack([np.arange(paths) % 9, 9 + np.arange(paths) % 7], axis=1).reshape(-1).astype(np.int32),
        owner=np.arange(tasks, dtype=np.int32),
        owners=tasks,
        links=16,
    )
    for on_gpu, on_cpu in both([World("waves", graph, 1 + random.random(16), np.zeros(16))], gpu):
        np.testing.assert_allclose(on_gpu, on_cpu, rtol=1e-11)


@pytest.mark.gpu
def test_merged_events_are_those_of_a_cpu(gpu):
    for on_gpu, on_cpu in both([crossing(seed) for seed in SEEDS], gpu, merge=1e-3):
        np.testing.assert_allclose(on_gpu, on_cpu, rtol=1e-11)
