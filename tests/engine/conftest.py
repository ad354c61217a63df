"""Small worlds by hand, and what runs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.twins import fluid as reference
from topoflow.arrays import offsets as row_offsets
from topoflow.engine import fluid
from topoflow.engine.base import LoweredGraph, Run, Timeline, World
from topoflow.engine.device import DeviceMemory
from topoflow.engine.fluid import Fluid
from topoflow.engine.slotted import SlottedResults, simulate_cells
from topoflow.engine.slotted.cells import NEVER, Cells
from topoflow.engine.slotted.settings import SlottedSettings
from topoflow.fabric.circuits.on_demand import Square
from topoflow.fabric.circuits.rotors import Rotors
from topoflow.fabric.circuits.schedule import CircuitSchedule
from topoflow.fabric.circuits.staggered import Staggered

Task = dict[str, Any]


def offsets(rows: Sequence[Sequence[int]]) -> np.ndarray:
    return np.cumsum([0, *(len(row) for row in rows)], dtype=np.int64)


def joined(rows: Sequence[Sequence[int]]) -> np.ndarray:
    return np.array([item for row in rows for item in row], dtype=np.int32)


@pytest.fixture(scope="session")
def make_world() -> Callable[..., World]:
    """``make_world([{"path": [0, 1], "bytes": 100.0, "after": [..], "delay": .., "release": ..}], capacity)``.

    A task with a path may also have a "weight" of each of its links, and a "limit".
    """

    def make(
        tasks: Sequence[Task], capacity: Sequence[float], latency: Sequence[float] = (), name: str = "world"
    ) -> World:
        flows = [task for task in tasks if "path" in task]
        paths = [task["path"] for task in flows]
        weights = [task.get("weight", [1.0] * len(task["path"])) for task in flows]
        limits = [float(task.get("limit", np.inf)) for task in flows]
        index = iter(range(len(paths)))
        after = [task.get("after", []) for task in tasks]

        def numbers(field: str) -> np.ndarray:
            return np.array([float(task.get(field, 0.0)) for task in tasks])

        graph = LoweredGraph(
            delay=numbers("delay"),
            bytes=numbers("bytes"),
            release=numbers("release"),
            path=np.array([next(index) if "path" in task else -1 for task in tasks], dtype=np.int32),
            after_offsets=offsets(after),
            after=joined(after),
            path_offsets=offsets(paths),
            path_links=joined(paths),
            owner=np.array([task.get("owner", t) for t, task in enumerate(tasks)], dtype=np.int32),
            owners=max((task.get("owner", t) + 1 for t, task in enumerate(tasks)), default=0),
            links=len(capacity),
            path_weight=np.concatenate(weights).astype(float) if any("weight" in task for task in flows) else None,
            path_limit=np.array(limits) if any("limit" in task for task in flows) else None,
        )
        return World(name, graph, np.array(capacity, float), np.array(latency or [0.0] * len(capacity), float))

    return make


@pytest.fixture(scope="session", params=["twin", "cpu", "cuda"])
def run(request: pytest.FixtureRequest, check_device: Callable[[str], str]) -> Callable[..., Timeline]:
    """``run(world, merge=0.0)``: the fluid model, by its plain-Python twin and by the kernel on every device."""
    if request.param == "twin":
        return reference.simulate
    device = check_device(request.param)
    return lambda world, merge=0.0: Fluid(merge).simulate([world], Run(DeviceMemory.named(device)))[0]


@pytest.fixture(scope="session", params=["twin", "cpu", "cuda"])
def pause(request: pytest.FixtureRequest, check_device: Callable[[str], str]) -> Callable[..., fluid.Pause]:
    """``pause(world, until)``: by the plain-Python twin and by the kernel on every device."""
    if request.param == "twin":
        return reference.pause
    device = check_device(request.param)
    return lambda world, until: fluid.pause(world, until, run=Run(DeviceMemory.named(device)))


@pytest.fixture(scope="session")
def random_cells() -> Callable[..., Cells]:
    """``random_cells(draw, most_nodes=7, most_cells=40)``: a small world of slots."""
    return draw_cells


@pytest.fixture(scope="session")
def random_square() -> Callable[..., Cells]:
    """``random_square(draw, most_cells=20)``: a small world of servers whose switches are asked for every packet."""
    return draw_square


def draw_square(draw: np.random.Generator, *, most_cells: int = 20) -> Cells:
    racks, size = int(draw.integers(1, 5)), int(draw.integers(2, 5))
    square = Square(racks, size, int(draw.integers(1, 4)), int(draw.integers(1, 3)), int(draw.integers(2, 7)))
    world = draw_cells(draw, most_nodes=racks * size, most_cells=most_cells)
    node = np.sort(np.append(np.arange(square.nodes), draw.integers(0, square.nodes, draw.integers(0, 4))))
    pause = int(draw.integers(1, 4)), int(draw.integers(1, 4))
    ends = {name: draw.integers(0, len(node), world.tasks) for name in ("source", "target")}
    ends["target"] = np.where(ends["target"] == ends["source"], (ends["source"] + 1) % len(node), ends["target"])
    sends = {name: np.where(world.cells > 0, end, -1).astype(np.int32) for name, end in ends.items()}
    arrive = int(draw.integers(1, 3_000)), int(draw.integers(1, 3_000))
    return replace(world, schedule=square, node=node.astype(np.int32), arrive=arrive, pause=pause, **sends)


@pytest.fixture(scope="session")
def random_rotors() -> Callable[..., Cells]:
    """``random_rotors(draw, most_cells=40)``: a small world of nodes that rotor switches join."""
    return draw_rotors


def draw_rotors(draw: np.random.Generator, *, most_cells: int = 40) -> Cells:
    world = draw_cells(draw, most_cells=most_cells)
    nodes, cells = world.schedule.nodes, int(draw.choice([1, 2, 3, 10]))
    cell_time = int(draw.integers(1, max(world.slot // cells, 2)))
    arrive = int(draw.integers(cell_time, max(world.slot - cell_time * (cells - 1), cell_time) + 1)), cell_time
    rotors = Rotors(nodes, int(draw.integers(1, nodes + 1)), cells)
    return replace(world, schedule=rotors, arrive=arrive)


@pytest.fixture(scope="session")
def random_staggered() -> Callable[..., Cells]:
    """``random_staggered(draw, most_cells=40)``: a small world of nodes that staggered rotor switches join."""
    return draw_staggered


def draw_staggered(draw: np.random.Generator, *, most_cells: int = 40) -> Cells:
    nodes, switches = draw.choice([(4, 4), (6, 3), (8, 4), (10, 5)]).tolist()
    world = draw_cells(draw, most_nodes=nodes, most_cells=most_cells)
    cells = int(draw.choice([1, 2, 3, 10]))
    rotors = Staggered(nodes, switches, cells, turning=int(draw.integers(0, cells + 1)), seed=int(draw.integers(0, 3)))
    node = np.sort(np.append(np.arange(nodes), draw.integers(0, nodes, draw.integers(0, 4)))).astype(np.int32)
    source = draw.integers(0, len(node), world.tasks)
    target = (source + draw.integers(1, len(node), world.tasks)) % len(node)
    ends = {"source": source, "target": np.where(draw.random(world.tasks) < 0.3, (source == 0).astype(int), target)}
    cell_time = int(draw.integers(1, max(world.slot // cells, 2)))
    return replace(
        world,
        schedule=rotors,
        node=node,
        arrive=(cell_time, cell_time),
        pause=(int(draw.integers(1, 4)), 1),
        low_latency=(world.cells > 0) & (draw.random(world.tasks) < draw.choice([0.0, 0.5, 1.0])),
        **{name: np.where(world.cells > 0, end, -1).astype(np.int32) for name, end in ends.items()},
    )


def draw_cells(draw: np.random.Generator, *, most_nodes: int = 7, most_cells: int = 40) -> Cells:
    """Tasks between servers of few racks: many meet, some wait for others, some stay in their rack."""
    nodes = int(draw.integers(2, most_nodes + 1))
    schedule = CircuitSchedule(nodes, int(draw.integers(1, nodes + 1)))
    node = np.sort(np.append(np.arange(nodes), draw.integers(0, nodes, draw.integers(0, 8)))).astype(np.int32)
    tasks = int(draw.integers(1, 25))
    cells = draw.integers(0, most_cells + 1, tasks) * (draw.random(tasks) < 0.9)
    source = draw.integers(0, len(node), tasks)
    shift = draw.integers(1, len(node), tasks)
    target = np.where(draw.random(tasks) < 0.3, 0, (source + shift) % len(node))
    target = np.where(target == source, (source + 1) % len(node), target)
    after = [np.unique(draw.integers(0, t, draw.choice([0, 0, 1, 2]))) if t else np.zeros(0, int) for t in range(tasks)]
    slot = int(draw.choice([100, 1000]))
    return Cells(
        name="random",
        schedule=schedule,
        slot=slot,
        node=node,
        pace=int(draw.choice([1, slot // 3, 2 * slot])),
        cells=cells.astype(np.int32),
        source=np.where(cells > 0, source, -1).astype(np.int32),
        target=np.where(cells > 0, target, -1).astype(np.int32),
        delay=draw.choice([0, 0, 70, 100_000], tasks),
        release=draw.choice([0, 0, 333, 5_000], tasks),
        after_offsets=row_offsets([len(predecessors) for predecessors in after]),
        after=np.concatenate(after).astype(np.int32),
        until=NEVER if draw.random() < 0.8 else int(draw.integers(1, 60_000)),
        window=int(draw.integers(1, 60_000)),
        seed=int(draw.integers(0, 2**32)),
    )


@pytest.fixture(scope="session")
def run_cells(device: str) -> Callable[..., list[SlottedResults]]:
    """``run_cells(worlds, settings, threads=1)``: worlds of slots by the kernel, with all that it logs."""

    def run(worlds: Sequence[Cells], settings: SlottedSettings, threads: int = 1) -> list[SlottedResults]:
        return simulate_cells(worlds, settings, Run(DeviceMemory.named(device), threads), log=True)

    return run
