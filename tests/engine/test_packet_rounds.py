"""Tasks of many rounds that are written once: the answers are those of all rounds written one after the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings

from tests.engine.test_packet_addresses import dragonfly, model_of
from tests.engine.test_packet_addresses import random_world as addressed_world
from tests.engine.test_packet_random import CASES, by_twin, random_model, random_transport, random_world, seconds
from tests.engine.test_packet_sst import random_model as sst_model
from tests.engine.test_packet_sst import random_world as sst_world
from tests.engine.test_packet_threads import same_bytes
from topoflow.arrays import distinct, offsets
from topoflow.engine.base import Fidelity, LoweredGraph, Run, Timeline, World
from topoflow.engine.bound import Bound
from topoflow.engine.device import DeviceMemory
from topoflow.engine.fluid import Fluid
from topoflow.engine.lowering.placement import place
from topoflow.engine.packet import Packet
from topoflow.engine.packet.addresses import ROUTINGS
from topoflow.engine.shared_network import side_by_side
from topoflow.engine.simulation import simulate
from topoflow.engine.slotted import Slotted
from topoflow.traffic.base import Compute, Task, Traffic, Transfer

Case = Callable[[np.random.Generator], tuple[World, Packet]]


def by_path(draw: np.random.Generator) -> tuple[World, Packet]:
    return random_world(draw), replace(random_model(draw), virtual_channels="auto")


def by_address(draw: np.random.Generator) -> tuple[World, Packet]:
    return addressed_world(draw, str(draw.choice(ROUTINGS))), model_of(draw)


def by_sst(draw: np.random.Generator) -> tuple[World, Packet]:
    world = sst_world(draw, str(draw.choice(["minimal", "valiant_group", "adaptive_local"])))
    return world, sst_model(draw)


CASES_OF = (by_path, by_address, by_sst)


def repeated(draw: np.random.Generator, world: World) -> World:
    """Some rounds of its tasks, some of which wait for tasks of the round before, earlier or later ones."""
    tasks, count = world.graph.tasks, int(draw.integers(0, 6))
    pairs = distinct(draw.integers(0, tasks, count) * tasks + draw.integers(0, tasks, count))
    carried = np.stack(np.divmod(pairs, tasks)).astype(np.int32)
    return replace(world, graph=replace(world.graph, rounds=int(draw.integers(2, 6)), carried=carried))


def written(graph: LoweredGraph) -> LoweredGraph:
    """All rounds one after the other: a task waits for itself in the round before, too."""
    rounds, tasks, count = graph.rounds, graph.tasks, len(graph.after)
    assert graph.carried is not None
    successor = np.repeat(np.arange(tasks), np.diff(graph.after_offsets))
    later = np.concatenate([graph.carried[0], np.arange(tasks)]), np.concatenate([graph.carried[1], np.arange(tasks)])
    task = [successor + r * tasks for r in range(rounds)] + [later[0] + r * tasks for r in range(1, rounds)]
    earlier = [graph.after[:count] + r * tasks for r in range(rounds)]
    earlier += [later[1] + (r - 1) * tasks for r in range(1, rounds)]
    total = rounds * tasks
    waiter, awaited = np.divmod(distinct(np.concatenate(task) * total + np.concatenate(earlier)), total)
    many: dict[str, Any] = {
        name: np.tile(getattr(graph, name), rounds) for name in ("delay", "bytes", "release", "path", "owner")
    }
    return replace(
        graph,
        **many,
        after_offsets=offsets(np.bincount(waiter, minlength=total)),
        after=awaited.astype(np.int32),
        rounds=1,
        carried=None,
        ends=None if graph.ends is None else np.tile(graph.ends, rounds),
    )


def agree(once: Timeline, all_of: Timeline) -> None:
    """One written once, the other round by round."""
    tasks = once.world.graph.tasks
    assert once.start.tolist() == all_of.start[:tasks].tolist()
    assert once.finish.tolist() == all_of.finish[-tasks:].tolist()
    assert once.link_bytes.tolist() == all_of.link_bytes.tolist()
    assert once.makespan == all_of.makespan
    ports: Any = once.ports
    for name, expected in vars(all_of.ports).items():
        actual = getattr(ports, name)
        if isinstance(expected, np.ndarray):
            assert actual.tolist() == expected.tolist(), name
        elif expected is not None:
            for field, numbers in vars(expected).items():
                assert np.array_equal(getattr(actual, field), numbers), (name, field)


@pytest.mark.parametrize("case", CASES_OF)
@settings(max_examples=40)
@given(seed=CASES)
def test_rounds_are_as_if_they_were_written_one_after_the_other(device: str, case: Case, seed: int) -> None:
    """Of tasks the start in the first and the finish in the last round, and all that ports have seen."""
    draw = np.random.default_rng(seed)
    world, model = case(draw)
    world = repeated(draw, world)
    run = Run(DeviceMemory.named(device), threads=1)
    all_of = replace(world, graph=written(world.graph))
    (timeline,), (expected,) = model.simulate([world], run), model.simulate([all_of], run)
    agree(timeline, expected)


@settings(max_examples=30)
@given(seed=CASES)
def test_a_kernel_of_rounds_is_exactly_the_twin_of_all_of_them(device: str, seed: int) -> None:
    draw = np.random.default_rng(seed)
    world, model = by_path(draw)
    world = repeated(draw, world)
    expected = by_twin(replace(world, graph=written(world.graph)), model)
    (timeline,) = model.simulate([world], Run(DeviceMemory.named(device), threads=1))
    assert timeline.start.tolist() == seconds(expected.start[: world.graph.tasks])
    assert timeline.finish.tolist() == seconds(expected.finish[-world.graph.tasks :])


@pytest.mark.parametrize("rounds", [1, 5])
@pytest.mark.parametrize("wide", [False, True])
def test_tasks_that_take_no_time_change_no_other(device: str, wide: bool, rounds: int) -> None:
    """Many between a message and its answer: one after the other, or all at once and a last one that waits for them."""
    network, many = dragonfly(2, 4, 3, 1), 3000
    between = [Compute(0.0, None, (0 if wide else i,)) for i in range(many)]
    between.append(Compute(0.0, None, tuple(range(1, many + 1)) if wide else (many,)))
    answer, last = Transfer(5000.0, 9, 0), many + 2
    ends = np.array([0, last])

    def simulated(tasks: list[Task]) -> Timeline:
        world = place(Traffic.from_tasks("pair", 24, tasks), network, name="pair", routing="adaptive_local")
        if rounds > 1:
            carried = np.array([[0], [len(tasks) - 1]], np.int32)
            world = replace(world, graph=replace(world.graph, rounds=rounds, carried=carried))
        (timeline,) = Packet(size=2048, nic_latency=1e-8).simulate([world], Run(DeviceMemory.named(device), threads=1))
        return timeline

    direct = simulated([Transfer(3000.0, 0, 9), replace(answer, after=(0,))])
    timeline = simulated([Transfer(3000.0, 0, 9), *between, replace(answer, after=(last - 1,))])
    assert timeline.start[ends].tolist() == direct.start.tolist()
    assert timeline.finish[ends].tolist() == direct.finish.tolist()
    assert (timeline.start[1:last] == direct.start[1]).all()
    assert (timeline.finish[1:last] == direct.finish[0]).all()


@pytest.mark.parametrize("bytes", [3000.0, 60_000.0])
@pytest.mark.parametrize("routing", ["valiant_group", "adaptive_local"])
def test_credits_that_nobody_takes_need_no_slots_for_every_round(device: str, routing: str, bytes: float) -> None:
    """Two servers of a large network: each round has routes of its own, by channels that no later one crosses."""
    network = dragonfly(2, 4, 30, 2)
    far = network.servers - 1
    tasks = [Transfer(bytes, 0, far), Transfer(bytes, far, 0, after=(0,))]
    world = place(Traffic.from_tasks("pair", network.servers, tasks), network, name="pair", routing=routing)
    carried = np.array([[0], [1]], np.int32)
    world = replace(world, graph=replace(world.graph, rounds=400, carried=carried))
    model, run = (
        Packet(size=2048, nic_latency=1e-8, samples=0, draws="message"),
        Run(DeviceMemory.named(device), threads=1),
    )
    (timeline,), (expected,) = (
        model.simulate([variant], run) for variant in (world, replace(world, graph=written(world.graph)))
    )
    agree(timeline, expected)


@pytest.mark.parametrize("case", CASES_OF)
@settings(max_examples=8)
@given(seed=CASES)
@example(seed=73736)  # senders of one message in several parts
def test_any_number_of_threads_and_other_worlds_beside_it_change_nothing(case: Case, seed: int) -> None:
    draw = np.random.default_rng(seed)
    world, model = case(draw)
    several = [repeated(draw, world), world]
    same_bytes(several, model, most=3)


@settings(max_examples=30)
@given(seed=CASES)
def test_what_has_not_ended_by_then_has_no_end(seed: int) -> None:
    """A task is done when it has been in its last round."""
    draw = np.random.default_rng(seed)
    world, model = by_path(draw)
    world = repeated(draw, world)
    (whole,) = model.simulate([world], Run(threads=1))
    (part,) = model.simulate([replace(world, until=whole.makespan * float(draw.random()))], Run(threads=1))
    ended = np.isfinite(part.finish)
    assert part.finish[ended].tolist() == whole.finish[ended].tolist()
    assert (whole.finish[~ended] >= part.world.until).all()


@pytest.mark.parametrize("fidelity", [Fluid(), Bound(), Slotted()], ids=lambda model: model.name)
def test_fidelities_that_need_every_task_say_so(fidelity: Fidelity) -> None:
    world = repeated(np.random.default_rng(0), random_world(np.random.default_rng(5)))
    message = f"must be few enough to write all tasks of a job with fidelity={fidelity.name}"
    with pytest.raises(ValueError, match=f"workload.iterations: {message}, got [2-5] of [0-9]+ tasks in random"):
        simulate([world], fidelity)


def test_jobs_that_share_a_cluster_need_every_task() -> None:
    world = repeated(np.random.default_rng(0), random_world(np.random.default_rng(5)))
    message = "must be few enough to write all tasks of a job that shares a cluster"
    with pytest.raises(ValueError, match=f"workload.iterations: {message}, got [2-5] of [0-9]+ tasks"):
        side_by_side([world.graph, world.graph])


def test_packets_with_losses_need_every_task() -> None:
    draw = np.random.default_rng(1)
    world = repeated(draw, random_world(draw, one_interface=True))
    with pytest.raises(ValueError, match=r"workload\.iterations: must be few enough .* fidelity=packet with packet\."):
        simulate([world], random_transport(draw))


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        ({"rounds": 0}, r"graph\.rounds: must be a whole number within 1\.\.[0-9]+, got 0"),
        ({"rounds": 2**30 + 1}, r"random\.tasks: must be at most 1073741824 in all rounds, got [0-9]+"),
        ({"rounds": 1, "carried": np.zeros((2, 0), np.int32)}, r"graph\.rounds: must be at least 2 .*, got 1"),
        ({"rounds": 2, "carried": np.array([[99], [0]], np.int32)}, r"graph\.carried\[0\]: must be in .*, got 99"),
        ({"rounds": 2, "carried": np.zeros((3, 1), np.int32)}, r"graph\.carried: expected \[2, C\], got \[3, 1\]"),
    ],
)
def test_a_graph_that_breaks_a_law_of_rounds_is_refused(graph: dict[str, Any], message: str) -> None:
    world = random_world(np.random.default_rng(0))
    with pytest.raises(ValueError, match=f"^{message}"):
        Packet().simulate([replace(world, graph=replace(world.graph, **graph))])
