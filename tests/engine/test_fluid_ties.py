"""Links that tie: rates stay within capacity and fair, and ends are those of the plain-Python twin."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import emulation
import numpy as np
import pytest

from tests.engine.ties import Tasks, speed, tied_world
from tests.examples import examples
from tests.twins import fluid as reference
from topoflow.engine.base import World
from topoflow.engine.fluid import Fluid

PROGRAM = Path(__file__).with_name("checked_worlds.py")
SLOW_GRAPHS = examples(500)  # each with 10 speeds
PARTS = 4  # that workers share


@pytest.fixture(scope="session")
def checked_library() -> Path:
    """A build that verifies the laws of the rates after every event, on the CPU and on the emulated GPU."""
    try:
        folder = emulation.folder()
        return emulation.build(folder.with_name(f"{folder.name}_checked"), "-DTOPOFLOW_CHECKED=ON")
    except OSError as error:
        pytest.skip(f"needs cmake: {error}")


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("device", "first", "graphs"),
    [
        *(("cpu", part * SLOW_GRAPHS // PARTS, SLOW_GRAPHS // PARTS) for part in range(PARTS)),
        *(("cuda:0", first, 2) for first in range(0, 10, 2)),
    ],
)
def test_after_every_event_no_link_is_above_its_capacity_and_every_flow_has_a_bottleneck(
    checked_library: Path, device: str, first: int, graphs: int
) -> None:
    command = [sys.executable, str(PROGRAM), device, str(first), str(graphs)]
    ran = subprocess.run(command, env=emulation.environment(checked_library), capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (0, f"{10 * graphs} worlds\n"), ran.stderr[-4000:]


def scaled(world: World, factor: float) -> World:
    """``world`` with all speeds ``factor`` times as high, and all times as much shorter."""
    graph = world.graph
    limit = None if graph.path_limit is None else graph.path_limit * factor
    graph = replace(graph, release=graph.release / factor, delay=graph.delay / factor, path_limit=limit)
    return replace(world, graph=graph, capacity=world.capacity * factor, latency=world.latency / factor)


def sensitivity(world: World) -> float:
    """Return how far ends move, relative to the makespan, where sizes differ by 1e-12: chains may amplify it."""
    exact, largest = Fluid().simulate([world])[0], 0.0
    for seed in range(3):
        nudge = 1 + np.random.default_rng(seed).uniform(-1e-12, 1e-12, world.graph.tasks)
        nudged = Fluid().simulate([replace(world, graph=replace(world.graph, bytes=world.graph.bytes * nudge))])[0]
        largest = max(largest, float(np.abs(nudged.finish - exact.finish).max()) / exact.makespan)
    return largest


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_every_task_of_worlds_that_tie_ends_as_in_the_twin(first: int) -> None:
    """Within 1e-12 of the makespan, or within 10 times what sizes that differ by as much change."""
    compared = 0
    for world in map(tied_world, range(first, first + 50)):
        if world.graph.tasks > 400:
            continue
        kernel, twin = Fluid().simulate([world])[0], reference.simulate(world)
        off = float(np.abs(kernel.finish - twin.finish).max()) / twin.makespan
        assert off <= max(1e-12, 10 * sensitivity(world) if off > 1e-12 else 0.0), (first, world.name)
        compared += 1
    assert compared >= 20


@pytest.mark.parametrize("first", range(0, 400, 100))
def test_with_all_speeds_k_times_as_high_worlds_that_tie_take_a_kth_of_the_time(first: int) -> None:
    """Within 1e-12 of the makespan, or within 10 times what sizes that differ by as much change."""
    for world in map(tied_world, range(first, first + 100)):
        once = Fluid().simulate([world])[0]
        for factor in (3, 0.7, 10):
            faster = Fluid().simulate([scaled(world, factor)])[0]
            off = float(np.abs(faster.finish * factor - once.finish).max()) / once.makespan
            assert off <= max(1e-12, 10 * sensitivity(world) if off > 1e-12 else 0.0), (first, world.name, factor)


@pytest.mark.parametrize("seed", range(20))
def test_what_is_symmetric_ends_at_the_same_time(seed: int) -> None:
    """Every node sends the same chunks to the same offsets from 0 on: no node is ahead of another."""
    random = np.random.default_rng(seed)
    nodes, chunks = int(random.integers(3, 9)), int(random.integers(1, 30))
    offsets = random.choice(np.arange(1, nodes), int(random.integers(1, nodes)), replace=False).tolist()
    sizes = random.uniform(1e5, 1e6, (len(offsets), chunks))
    tasks = Tasks()
    for node in range(nodes):
        for offset, row in zip(offsets, sizes.tolist(), strict=True):
            before: list[int] = []
            for size in row:
                before = [tasks.add([node, nodes + (node + offset) % nodes], size, before)]
    finish = Fluid().simulate([tasks.world("symmetric", np.full(2 * nodes, speed(random)))])[0].finish
    of_node = finish.reshape(nodes, -1)
    np.testing.assert_allclose(of_node, np.broadcast_to(of_node[0], of_node.shape), rtol=1e-12)


@pytest.mark.parametrize("first", range(0, 200, 100))
def test_ends_do_not_depend_on_the_direction_of_the_links_nor_on_the_order_of_a_path(first: int) -> None:
    for world in map(tied_world, range(first, first + 100)):
        graph = world.graph
        rows = np.split(graph.path_links, graph.path_offsets[1:-1])
        backward = np.concatenate([graph.links - 1 - row[::-1] for row in rows]).astype(np.int32)
        reverse = replace(world, graph=replace(graph, path_links=backward), capacity=world.capacity[::-1].copy())
        there, back = Fluid().simulate([world])[0], Fluid().simulate([reverse])[0]
        off = float(np.abs(there.finish - back.finish).max()) / there.makespan
        assert off <= max(1e-12, 10 * sensitivity(world) if off > 1e-12 else 0.0), (first, world.name)


@pytest.mark.parametrize("seed", range(20))
def test_a_flow_that_is_added_to_a_link_speeds_up_no_other(seed: int) -> None:
    random = np.random.default_rng(seed)
    flows = list(zip(random.uniform(1e5, 1e7, 30).tolist(), random.uniform(0, 0.05, 30).tolist(), strict=True))
    finish = np.zeros(0)
    for count in range(1, len(flows) + 1):
        tasks = Tasks()
        for size, release in flows[:count]:
            tasks.add([0], size, release=release)
        later = Fluid().simulate([tasks.world("one link", [1e9])])[0].finish
        assert (later[: count - 1] >= finish * (1 - 1e-12)).all()
        finish = later
