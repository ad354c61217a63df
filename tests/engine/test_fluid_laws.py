"""Laws that every world obeys, thrown at random worlds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.twins import fluid as reference
from topoflow.engine.base import Run
from topoflow.engine.device import DeviceMemory
from topoflow.engine.fluid import Fluid

LAW = settings(max_examples=60)

capacities = st.one_of(st.sampled_from([1e9, 2e9, 3e9, 12.5e9]), st.floats(1e3, 1e14))
sizes = st.one_of(st.sampled_from([0.0, 1.0, 1e6, 1e9]), st.floats(1.0, 1e15))
seconds = st.one_of(st.sampled_from([0.0, 1e-6, 1e-3]), st.floats(0.0, 1.0))


@st.composite
def flows_on_links(draw):
    """Paths of flows, capacities of links."""
    capacity = draw(st.lists(capacities, min_size=1, max_size=8))
    path = st.lists(st.integers(0, len(capacity) - 1), min_size=1, max_size=4, unique=True)
    return draw(st.lists(path, min_size=1, max_size=16)), capacity


@st.composite
def worlds(draw, make_world, longest=24):
    """Tasks of every kind, each after any of the earlier ones."""
    links = draw(st.integers(1, 6))
    tasks = []
    for index in range(draw(st.integers(1, longest))):
        task = {"delay": draw(seconds), "release": draw(seconds)}
        if index:
            task["after"] = draw(st.lists(st.integers(0, index - 1), max_size=3, unique=True))
        if draw(st.booleans()):
            task["path"] = draw(st.lists(st.integers(0, links - 1), max_size=4, unique=True))
            task["bytes"] = draw(sizes)
        tasks.append(task)
    capacity = draw(st.lists(capacities, min_size=links, max_size=links))
    return make_world(tasks, capacity, draw(st.lists(seconds, min_size=links, max_size=links)))


def simulate(world, device):
    return Fluid().simulate([world], Run(DeviceMemory.named(device)))[0]


@LAW
@given(case=flows_on_links())
def test_every_flow_has_a_bottleneck(case):
    paths, capacity = case
    rates = reference.max_min(paths, capacity)
    load = np.zeros(len(capacity))
    fastest = np.zeros(len(capacity))
    for path, rate in zip(paths, rates, strict=True):
        np.add.at(load, path, rate)
        np.maximum.at(fastest, path, rate)
    assert np.all(load <= np.array(capacity) * (1 + 1e-9)), "a link is above its capacity"
    for path, rate in zip(paths, rates, strict=True):
        # Bertsekas and Gallager's proposition: max-min fair if and only if each flow crosses a full link on which
        # nobody is faster.
        assert any(load[link] >= capacity[link] * (1 - 1e-9) and rate >= fastest[link] * (1 - 1e-9) for link in path)


@LAW
@given(case=flows_on_links())
def test_the_kernel_gives_the_rates_of_the_twin(case, device, make_world):
    # Flows with as many bytes as they move in one second all end after one second.
    paths, capacity = case
    rates = reference.max_min(paths, capacity)
    world = make_world([{"path": path, "bytes": rate} for path, rate in zip(paths, rates, strict=True)], capacity)
    np.testing.assert_allclose(simulate(world, device).finish, 1.0, rtol=1e-11)


@LAW
@given(data=st.data())
def test_the_kernel_agrees_with_the_twin(data, device, make_world):
    world = data.draw(worlds(make_world))
    kernel, twin = simulate(world, device), reference.simulate(world)
    for field in ("start", "finish", "link_bytes", "task_start", "task_finish"):
        np.testing.assert_allclose(getattr(kernel, field), getattr(twin, field), rtol=1e-9, err_msg=field)


@LAW
@given(data=st.data())
def test_no_link_carries_more_than_its_capacity_allows(data, device, make_world):
    # A cut of one link: time >= bytes across it / its capacity.
    world = data.draw(worlds(make_world))
    timeline = simulate(world, device)
    assert np.all(timeline.link_bytes <= world.capacity * timeline.makespan * (1 + 1e-9))


@LAW
@given(data=st.data())
def test_no_task_is_faster_than_alone(data, device, make_world):
    world = data.draw(worlds(make_world))
    graph, timeline = world.graph, simulate(world, device)
    for task in range(graph.tasks):
        after = graph.after[graph.after_offsets[task] : graph.after_offsets[task + 1]]
        assert timeline.start[task] == max([graph.release[task], *timeline.finish[after]])
        alone = graph.delay[task]
        if graph.path[task] >= 0:
            path = slice(*graph.path_offsets[graph.path[task] : graph.path[task] + 2])
            links = graph.path_links[path]
            alone += world.latency[links].sum() + graph.bytes[task] / world.capacity[links].min(initial=np.inf)
        assert timeline.finish[task] >= (timeline.start[task] + alone) * (1 - 1e-11)


@LAW
@given(data=st.data(), k=st.sampled_from([2.0, 3.0, 1e3, 1e-3]))
def test_k_times_the_capacity_takes_a_kth_of_the_network_time(data, k, device, make_world):
    world = data.draw(worlds(make_world))
    silent = np.zeros_like(world.graph.delay)
    world = replace(
        world, graph=replace(world.graph, delay=silent, release=silent), latency=np.zeros_like(world.latency)
    )
    slow, fast = simulate(world, device), simulate(replace(world, capacity=world.capacity * k), device)
    np.testing.assert_allclose(fast.finish * k, slow.finish, rtol=1e-9)


@LAW
@given(data=st.data())
def test_time_has_no_origin(data, device, make_world):
    # Everything released a second later happens a second later.
    world = data.draw(worlds(make_world))
    later = replace(world, graph=replace(world.graph, release=world.graph.release + 1.0))
    np.testing.assert_allclose(simulate(later, device).finish, simulate(world, device).finish + 1.0, rtol=1e-9)


@LAW
@given(case=flows_on_links(), data=st.data())
def test_permuting_flows_permutes_the_answer(case, data, device, make_world):
    paths, capacity = case
    tasks = [{"path": path, "bytes": data.draw(sizes), "release": data.draw(seconds)} for path in paths]
    order = data.draw(st.permutations(range(len(tasks))))
    straight = simulate(make_world(tasks, capacity), device).finish
    permuted = simulate(make_world([tasks[i] for i in order], capacity), device).finish
    assert np.array_equal(permuted, straight[list(order)]), "not one bit may depend on the order of the flows"


@LAW
@given(data=st.data())
def test_worlds_do_not_see_each_other(data, device, make_world):
    batch = data.draw(st.lists(worlds(make_world, longest=8), min_size=2, max_size=5))
    together = Fluid().simulate(batch, Run(DeviceMemory.named(device)))
    for world, timeline in zip(batch, together, strict=True):
        alone = simulate(world, device)
        assert np.array_equal(timeline.finish, alone.finish)
        assert np.array_equal(timeline.start, alone.start)


@pytest.mark.parametrize("size", [1.0, 1e3, 1e9, 1e15])
@pytest.mark.parametrize("capacity", [1e3, 1e9, 1e14])
def test_two_flows_halve_any_bandwidth(size, capacity, run, make_world):
    world = make_world([{"path": [0], "bytes": size}] * 2, [capacity])
    np.testing.assert_allclose(run(world).finish, 2 * size / capacity, rtol=1e-12)


def test_a_mouse_among_elephants_is_not_lost(run, make_world):
    # 1e15 B beside 1 B on 1e14 B/s: the mouse ends after 2 / 1e14 s, the elephant after (1e15 + 1) / 1e14 s.
    world = make_world([{"path": [0], "bytes": 1e15}, {"path": [0], "bytes": 1}], [1e14])
    np.testing.assert_allclose(run(world).finish, [(1e15 + 1) / 1e14, 2e-14], rtol=1e-12)


@pytest.mark.parametrize("exponent", [-280, -290, -295, -300])
def test_times_depend_on_ratios_alone_however_little_the_links_carry(exponent, make_world, device):
    """An all-to-all, whose rates are refilled, with bytes and capacities near the least that numbers can say."""
    random = np.random.default_rng(0)
    ends = [(i, 16 + int(random.integers(4)), 8 + j) for i in range(8) for j in range(8) if i != j]
    size, capacity = random.uniform(1, 2, len(ends)), random.uniform(1, 2, 20)

    def finish(scale: float) -> np.ndarray:
        tasks = [{"path": path, "bytes": one * scale} for path, one in zip(ends, size, strict=True)]
        return Fluid().simulate([make_world(tasks, capacity * scale)], Run(DeviceMemory.named(device)))[0].finish

    # A unit is 1e-300 B/s and counted to 2^-30 of that: 56 flows of 1e-300 B/s and more know their rates to 1e-7.
    np.testing.assert_allclose(finish(10.0**exponent), finish(1.0), rtol=1e-12 if exponent > -295 else 1e-7)
