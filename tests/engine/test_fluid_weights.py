"""Flows over several paths: one rate, of which every hop carries its share."""

from __future__ import annotations

import math
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
shares = st.one_of(st.sampled_from([1.0, 0.5, 0.25]), st.floats(1e-3, 1.0))
limits = st.one_of(st.just(math.inf), st.sampled_from([1e8, 5e8, 1e9]), st.floats(1e3, 1e14))


@st.composite
def flows(draw, links):
    """A path, a weight of each of its links, a limit."""
    path = draw(st.lists(st.integers(0, links - 1), min_size=1, max_size=4, unique=True))
    weight = draw(st.lists(shares, min_size=len(path), max_size=len(path)))
    return {"path": path, "weight": weight, "limit": draw(limits)}


@st.composite
def flows_on_links(draw):
    """Flows, and capacities of links."""
    capacity = draw(st.lists(capacities, min_size=1, max_size=8))
    return draw(st.lists(flows(len(capacity)), min_size=1, max_size=16)), capacity


@st.composite
def worlds(draw, make_world):
    """Flows and waits, each after any of the earlier ones."""
    links = draw(st.integers(1, 6))
    tasks = []
    for index in range(draw(st.integers(1, 24))):
        task = {"delay": draw(seconds), "release": draw(seconds)}
        if index:
            task["after"] = draw(st.lists(st.integers(0, index - 1), max_size=3, unique=True))
        if draw(st.booleans()):
            task |= draw(flows(links)) | {"bytes": draw(sizes)}
        tasks.append(task)
    capacity = draw(st.lists(capacities, min_size=links, max_size=links))
    return make_world(tasks, capacity, draw(st.lists(seconds, min_size=links, max_size=links)))


def rates_of(tasks, capacity):
    paths, weights, rate_limits = ([task[field] for task in tasks] for field in ("path", "weight", "limit"))
    return reference.max_min(paths, capacity, weights, rate_limits)


@LAW
@given(case=flows_on_links())
def test_every_flow_is_at_its_limit_or_has_a_bottleneck(case):
    tasks, capacity = case
    rates = rates_of(tasks, capacity)
    load, fastest = np.zeros(len(capacity)), np.zeros(len(capacity))
    for task, rate in zip(tasks, rates, strict=True):
        np.add.at(load, task["path"], np.array(task["weight"]) * rate)
        np.maximum.at(fastest, task["path"], rate)
    assert np.all(load <= np.array(capacity) * (1 + 1e-9)), "a link is above its capacity"
    for task, rate in zip(tasks, rates, strict=True):
        assert rate <= task["limit"] * (1 + 1e-9)
        full = [link for link in task["path"] if load[link] >= capacity[link] * (1 - 1e-9)]
        assert rate >= task["limit"] * (1 - 1e-9) or any(rate >= fastest[link] * (1 - 1e-9) for link in full)


@LAW
@given(case=flows_on_links())
def test_flows_get_the_rates_of_the_twin(case, run, make_world):
    # Flows with as many bytes as they move in one second all end after one second.
    tasks, capacity = case
    rates = rates_of(tasks, capacity)
    world = make_world([task | {"bytes": rate} for task, rate in zip(tasks, rates, strict=True)], capacity)
    np.testing.assert_allclose(run(world).finish, 1.0, rtol=1e-11)


@LAW
@given(data=st.data(), merge=st.sampled_from([0.0, 0.0013, 0.29]))
def test_the_kernel_agrees_with_the_twin(data, merge, device, make_world):
    world = data.draw(worlds(make_world))
    (kernel,), twin = Fluid(merge).simulate([world], Run(DeviceMemory.named(device))), reference.simulate(world, merge)
    for field in ("start", "finish", "link_bytes", "task_start", "task_finish"):
        np.testing.assert_allclose(getattr(kernel, field), getattr(twin, field), rtol=1e-9, err_msg=field)


@LAW
@given(data=st.data())
def test_no_link_carries_more_than_its_capacity_allows(data, run, make_world):
    world = data.draw(worlds(make_world))
    timeline = run(world)
    assert np.all(timeline.link_bytes <= world.capacity * timeline.makespan * (1 + 1e-9))


@LAW
@given(data=st.data())
def test_weights_of_one_and_limits_of_none_change_nothing(data, run, make_world):
    world = data.draw(worlds(make_world))
    plain = replace(world, graph=replace(world.graph, path_weight=None, path_limit=None))
    hops, paths = len(world.graph.path_links), len(world.graph.path_offsets) - 1
    neutral = replace(plain.graph, path_weight=np.ones(hops), path_limit=np.full(paths, np.inf))
    assert np.array_equal(run(replace(world, graph=neutral)).finish, run(plain).finish)


@LAW
@given(data=st.data(), share=st.sampled_from([1.0, 0.5]))
def test_links_that_others_imply_change_nothing(data, share, run, make_world):
    # Flows also cross a copy of each of their links, which carries as much of them as the link does, or half of it.
    world = data.draw(worlds(make_world))
    graph = world.graph
    weight = np.ones(len(graph.path_links)) if graph.path_weight is None else graph.path_weight
    copied = replace(
        graph,
        path_offsets=2 * graph.path_offsets,
        path_links=np.stack([graph.path_links, graph.path_links + graph.links], axis=1).ravel(),
        path_weight=np.stack([weight, share * weight], axis=1).ravel(),
        links=2 * graph.links,
    )
    capacity = np.tile(world.capacity, 2)
    latency = np.concatenate([world.latency, np.zeros(graph.links)])
    both = replace(world, graph=copied, capacity=capacity, latency=latency)
    np.testing.assert_allclose(run(both).finish, run(world).finish, rtol=1e-9)


def test_two_halves_of_a_flow_get_what_two_paths_carry(run, make_world):
    # Two links of 10 B/s, half of the bytes on each: r / 2 <= 10, so r = 20 B/s; 100 B / 20 = 5 s. 50 B on each.
    timeline = run(make_world([{"path": [0, 1], "weight": [0.5, 0.5], "bytes": 100}], [10, 10]))
    assert timeline.finish[0] == pytest.approx(5, rel=1e-12)
    assert timeline.link_bytes.tolist() == [50, 50]


def test_the_narrower_path_holds_both_halves_back(run, make_world):
    # r / 2 <= 4: 8 B/s, of which the wide link of 20 B/s carries 4; the 16 left are another flow's. Both take 10 s.
    tasks = [{"path": [0, 1], "weight": [0.5, 0.5], "bytes": 80}, {"path": [0], "bytes": 160}]
    np.testing.assert_allclose(run(make_world(tasks, [20, 4])).finish, [10, 10], rtol=1e-12)


def test_shares_are_fair_in_the_rate_of_the_flow_not_on_the_link(run, make_world):
    # A flow with a quarter of its bytes here beside a whole one: r / 4 + r = 100 B/s, 80 B/s for both.
    tasks = [{"path": [0], "weight": [0.25], "bytes": 160}, {"path": [0], "bytes": 160}]
    np.testing.assert_allclose(run(make_world(tasks, [100])).finish, 2, rtol=1e-12)


def test_a_sprayed_flow_waits_the_mean_latency_of_its_paths(run, make_world):
    # Common link 1 s, then a quarter over 4 s, three quarters over 8 s: 1 + 1 + 6 = 8 s, and 10 B / 10 B/s = 1 s.
    world = make_world([{"path": [0, 1, 2], "weight": [1, 0.25, 0.75], "bytes": 10}], [10, 99, 99], [1, 4, 8])
    assert run(world).finish[0] == pytest.approx(9, rel=1e-12)


@pytest.mark.parametrize("paths", [1, 2, 3, 7])
def test_spraying_over_equal_paths_is_one_path_of_all_their_capacity(paths, run, make_world):
    # Flows of 10 to 90 B over `paths` links of 10 B/s, and the same flows over one of paths * 10 B/s.
    sizes = [10.0, 20.0, 50.0, 90.0]
    sprayed = [{"path": list(range(paths)), "weight": [1 / paths] * paths, "bytes": size} for size in sizes]
    wide = [{"path": [0], "bytes": size} for size in sizes]
    one, other = run(make_world(sprayed, [10.0] * paths)), run(make_world(wide, [10.0 * paths]))
    np.testing.assert_allclose(one.finish, other.finish, rtol=1e-12)
