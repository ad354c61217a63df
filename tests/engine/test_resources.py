"""Resources that tasks occupy one at a time: the task that was ready first runs first, in every model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain, pairwise
from typing import TypedDict

import numpy as np
import pytest

from tests.twins import bound as bound_twin
from tests.twins import fluid as fluid_twin
from topoflow.engine import fluid
from topoflow.engine.base import LoweredGraph, Run, World
from topoflow.engine.bound import Bound
from topoflow.engine.device import DeviceMemory
from topoflow.engine.dynamic.stepwise import RoutesAtTime, Stepwise
from topoflow.engine.fluid import Fluid
from topoflow.engine.lowering.placement import place
from topoflow.engine.packet import Packet
from topoflow.engine.shared_network import repeated, side_by_side
from topoflow.engine.simulation import simulate
from topoflow.engine.slotted import Slotted
from topoflow.fabric.dragonfly import Dragonfly
from topoflow.fabric.sirius import Sirius
from topoflow.traffic.base import Compute, Traffic

SEEDS = range(20)
MICROSECOND = 1e-6  # s


def random_job(seed: int, tasks: int = 60, links: int = 4, *, sends: bool = True) -> World:
    """Return a job of computes on few resources, computes on none, and flows; many are ready at one time."""
    random = np.random.default_rng(seed)
    after = [np.unique(random.integers(0, task, min(task, random.integers(0, 3)))) for task in range(tasks)]
    flows = (random.random(tasks) < 0.3) & sends
    resource = np.where(random.random(tasks) < 0.8, random.integers(0, 3, tasks), -1)
    delay = MICROSECOND * random.integers(1, 5, tasks)
    graph = LoweredGraph(
        delay=np.where(flows, 0.0, delay),
        bytes=np.where(flows, random.choice([1e3, 2e3, 5e3], tasks), 0.0),
        release=MICROSECOND * random.choice([0, 0, 0, 3, 20], tasks),
        path=np.where(flows, random.integers(0, links, tasks), -1).astype(np.int32),
        after_offsets=np.cumsum([0, *map(len, after)]),
        after=np.concatenate(after).astype(np.int32),
        path_offsets=np.arange(links + 1),
        path_links=np.arange(links, dtype=np.int32),
        owner=np.arange(tasks, dtype=np.int32),
        owners=tasks,
        links=links,
        resource=np.where(flows, -1, resource).astype(np.int32),
    )
    return World(f"job {seed}", graph, np.full(links, 1e9), np.zeros(links))


class Row(TypedDict, total=False):
    """A compute."""

    delay: float
    release: float
    after: Sequence[int]
    resource: int


def computes(*rows: Row) -> World:
    """Return a world of computes without a network."""
    after = [list(row.get("after", [])) for row in rows]
    graph = LoweredGraph(
        delay=np.array([row["delay"] for row in rows], np.float64),
        bytes=np.zeros(len(rows)),
        release=np.array([row.get("release", 0) for row in rows], np.float64),
        path=np.full(len(rows), -1, np.int32),
        after_offsets=np.cumsum([0, *map(len, after)]),
        after=np.array([*chain(*after)], np.int32),
        path_offsets=np.zeros(1, np.int64),
        path_links=np.zeros(0, np.int32),
        owner=np.arange(len(rows), dtype=np.int32),
        owners=len(rows),
        links=0,
        resource=np.array([row.get("resource", -1) for row in rows], np.int32),
    )
    return World("computes", graph, np.zeros(0), np.zeros(0))


def replaced(world: World, fidelity: Packet | Slotted, fabric: Dragonfly | Sirius, routing: str = "ecmp") -> np.ndarray:
    """Return when the computes of ``world`` have finished on another network."""
    graph = world.graph
    assert graph.resource is not None
    after = [graph.after[first:end].tolist() for first, end in pairwise(graph.after_offsets.tolist())]
    columns = graph.delay.tolist(), after, graph.release.tolist(), graph.resource.tolist()
    tasks = [
        Compute(delay, None, tuple(awaited), "", release, None if resource < 0 else resource)
        for delay, awaited, release, resource in zip(*columns, strict=True)
    ]
    traffic = Traffic.from_tasks("computes", 8, tasks)
    placed = place(traffic, fabric.build(8, traffic.demand()), name="computes", routing=routing)
    return simulate([placed], fidelity)[0].finish


MODELS: dict[str, Callable[[World, str], np.ndarray]] = {
    "fluid": lambda world, device: Fluid().simulate([world], Run(DeviceMemory.named(device)))[0].finish,
    "packet": lambda world, device: Packet().simulate([world], Run(DeviceMemory.named(device)))[0].finish,
}
PLACED: dict[str, Callable[[World], np.ndarray]] = {
    "packet, SST": lambda world: replaced(world, Packet(model="sst"), Dragonfly(1e9, 1, 1e-6), "minimal"),
    "slotted": lambda world: replaced(world, Slotted(), Sirius(1.25e9, 4, 0.0)),
}


@pytest.mark.parametrize("model", MODELS)
def test_the_task_that_is_ready_first_runs_first_and_of_several_the_first_listed(model: str, device: str) -> None:
    world = computes(
        {"delay": 5},
        {"delay": 2, "after": [0], "resource": 4},  # ready at 5 s, when 4 holds the resource
        {"delay": 4, "resource": 4},  # ready at 0 s
        {"delay": 3, "resource": 4},  # too, but listed later
        {"delay": 1, "after": [2], "resource": 4},  # ready at 4 s, before task 1
    )
    assert MODELS[model](world, device).tolist() == [5, 10, 4, 7, 8]


@pytest.mark.parametrize("model", MODELS)
def test_computes_run_in_every_model_as_in_the_twin_of_fluid(model: str, device: str) -> None:
    for seed in SEEDS:
        world = random_job(seed, sends=False)
        twin = fluid_twin.simulate(world).finish
        np.testing.assert_allclose(MODELS[model](world, device), twin, rtol=1e-9, err_msg=world.name)


@pytest.mark.parametrize("model", PLACED)
def test_computes_run_on_every_network_as_in_the_twin_of_fluid(model: str) -> None:
    for seed in SEEDS:
        world = random_job(seed, sends=False)
        twin = fluid_twin.simulate(world).finish
        np.testing.assert_allclose(PLACED[model](world), twin, rtol=1e-9, err_msg=world.name)


def test_random_jobs_run_in_fluid_as_in_its_twin(device: str) -> None:
    worlds = [random_job(seed) for seed in SEEDS]
    for world, timeline in zip(worlds, Fluid().simulate(worlds, Run(DeviceMemory.named(device))), strict=True):
        twin = fluid_twin.simulate(world)
        np.testing.assert_allclose(timeline.start, twin.start, rtol=1e-9, err_msg=world.name)
        np.testing.assert_allclose(timeline.finish, twin.finish, rtol=1e-9, err_msg=world.name)


@pytest.mark.parametrize("model", MODELS)
def test_tasks_of_a_resource_never_overlap(model: str, device: str) -> None:
    for seed in SEEDS:
        world = random_job(seed)
        graph, finish = world.graph, MODELS[model](world, device)
        assert graph.resource is not None
        for resource in range(3):
            tasks = np.flatnonzero(graph.resource == resource)
            tasks = tasks[np.argsort(finish[tasks])]
            assert (finish[tasks[1:]] - graph.delay[tasks[1:]] >= finish[tasks[:-1]] * (1 - 1e-9)).all()


def test_a_batch_with_worlds_without_resources_changes_no_bit(device: str) -> None:
    worlds = [random_job(seed) for seed in SEEDS]
    worlds += [replace(world, graph=replace(world.graph, resource=None)) for world in worlds]
    for world, timeline in zip(worlds, Fluid().simulate(worlds, Run(DeviceMemory.named(device))), strict=True):
        alone = Fluid().simulate([world], Run(DeviceMemory.named(device)))[0]
        np.testing.assert_array_equal(timeline.finish, alone.finish)


def test_a_paused_job_is_where_its_twin_is() -> None:
    for seed in SEEDS:
        world = random_job(seed)
        for until in (0.0, 5.37e-6, 20.37e-6, 60.37e-6):
            ours, twin = fluid.pause(world, until), fluid_twin.pause(world, until)
            np.testing.assert_allclose(ours.start, twin.start, rtol=1e-9)
            np.testing.assert_allclose(ours.finish, twin.finish, rtol=1e-9)


@pytest.mark.parametrize("interval", [0.7 * MICROSECOND, 3.3 * MICROSECOND, 1.0])
def test_a_job_in_steps_of_time_is_the_unbroken_run(interval: float) -> None:
    for seed in SEEDS:
        world = random_job(seed)
        graph, unbroken = world.graph, Fluid().simulate([world])[0]
        tasks = Stepwise(world.name, graph, 0.0, merge=0.0, cancel=np.zeros(1, np.int32))
        routes = RoutesAtTime(graph.path_offsets, graph.path_links, None, np.zeros(graph.links))
        step = 0
        while not tasks.has_finished:
            step += 1
            tasks.advance(routes, world.capacity, 0.0, step * interval)
        np.testing.assert_allclose(tasks.start, unbroken.start, rtol=1e-9, err_msg=world.name)
        np.testing.assert_allclose(tasks.finish, unbroken.finish, rtol=1e-9, err_msg=world.name)


def test_jobs_side_by_side_have_resources_of_their_own() -> None:
    worlds = [random_job(seed, sends=False) for seed in (1, 2)]
    jobs = [repeated(replace(world.graph, release=np.zeros(world.graph.tasks)), 2) for world in worlds]
    together = replace(worlds[0], graph=side_by_side(jobs))
    alone = [Fluid().simulate([replace(worlds[0], graph=job)])[0].finish for job in jobs]
    np.testing.assert_allclose(Fluid().simulate([together])[0].finish, np.concatenate(alone), rtol=1e-9)


def test_the_bound_is_that_of_its_twin_and_never_above_fluid(device: str) -> None:
    for seed in SEEDS:
        world = random_job(seed)
        makespan = Bound().simulate([world], Run(DeviceMemory.named(device)))[0].makespan
        assert makespan == pytest.approx(bound_twin.bound(world)[2], rel=1e-12)
        assert makespan <= Fluid().simulate([world])[0].makespan * (1 + 1e-12)


def test_the_bound_of_tasks_of_a_resource_is_their_sum(device: str) -> None:
    world = computes(*({"delay": 2, "resource": 0} for _ in range(5)))
    assert Bound().simulate([world], Run(DeviceMemory.named(device)))[0].makespan == 10


@pytest.mark.parametrize(
    "row", [{"delay": 0, "resource": 0}, {"delay": 1, "resource": 1}, {"delay": 1, "resource": -2}]
)
def test_a_resource_is_of_tasks_that_have_a_delay_and_has_the_number_of_one(row: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"graph\.resource"):
        computes(row)


def test_a_world_with_resources_has_no_gradient() -> None:
    torch = pytest.importorskip("torch")
    world = random_job(0)
    capacity = torch.tensor(world.capacity[None], requires_grad=True)
    with pytest.raises(ValueError, match=r"graph\.resource"):
        fluid.sweep(world.graph, capacity)
