"""Capacities, limits and weights that the fluid kernel cannot tell apart are refused; within its range it is right."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from tests.twins import fluid as reference
from topoflow.engine import fluid
from topoflow.engine.base import Run
from topoflow.engine.bound import Bound
from topoflow.engine.device import DeviceMemory
from topoflow.engine.dynamic import reconfigure
from topoflow.engine.fluid import Fluid
from topoflow.engine.fluid.precision import SMALLEST_WEIGHT, SPREAD
from topoflow.engine.lowering.placement import place
from topoflow.fabric.ocs_reconfig import OcsReconfig
from topoflow.traffic.base import Traffic, Transfer

LAW = "capacities and limits must be at least 1 / 1e+12 of the largest"


@pytest.mark.parametrize("spread", [1.0, 1e6, 1e9, SPREAD])
def test_within_the_range_rates_are_those_of_the_oracle(spread, device, make_world):
    # 1e12 apart, a rate is known to 1e12 / 2^85 of itself; a few flows and events make that some 1e-12.
    for seed in range(40):
        draw = np.random.default_rng(seed)
        capacity = np.append(draw.choice([1e18, 1e18 / spread], 5) * draw.uniform(0.5, 1, 5), [1e18, 1e18 / spread])
        tasks = []
        for _ in range(20):
            path = draw.permutation(7)[: draw.integers(1, 4)]
            rate = capacity[path].min()
            task = {"path": path.tolist(), "bytes": rate * draw.uniform(0.1, 1)}
            if draw.random() < 0.3:
                task["limit"] = max(rate * draw.uniform(0.1, 1), 1e18 / spread)
            if draw.random() < 0.3:
                task["weight"] = draw.uniform(0.01, 1, len(path)).tolist()
            tasks.append(task)
        world = make_world(tasks, np.maximum(capacity, 1e18 / spread).tolist(), name=f"seed {seed}")
        (timeline,) = Fluid().simulate([world], Run(DeviceMemory.named(device)))
        np.testing.assert_allclose(timeline.finish, reference.simulate(world).finish, rtol=3e-11, err_msg=world.name)


@pytest.mark.parametrize(
    ("tasks", "capacity", "value"),
    [
        ([{}, {"path": [0], "bytes": 1, "limit": 1e-9}], [1e18], "got 1e-09 B/s for task 1"),
        ([{"path": [0], "bytes": 1}, {"path": [0, 1], "bytes": 1}], [1e9, 1e-4], "got 0.0001 B/s for task 1"),
        ([{"path": [0], "bytes": 1, "limit": 1e18}], [1.0], "got 1 B/s for task 0"),
    ],
)
def test_numbers_too_far_apart_are_refused_with_the_task(tasks, capacity, value, make_world):
    world = make_world(tasks, capacity, name="w")
    with pytest.raises(ValueError, match=f"^w: {re.escape(LAW)}, .* B/s, with fidelity=fluid, {re.escape(value)}$"):
        Fluid().simulate([make_world([{"path": [0], "bytes": 1}], [1.0]), world])
    assert np.isfinite(Bound().simulate([world])[0].makespan), "other fidelities have other ranges"


def test_links_that_no_path_crosses_and_links_without_bandwidth_do_not_count(make_world):
    world = make_world([{"path": [0], "bytes": 3}], [1.0, 1e18, 0.0])
    assert Fluid().simulate([world])[0].finish.tolist() == [3]
    cut = make_world([{"path": [0], "bytes": 3}, {"path": [0, 1]}], [1.0, 0.0])
    assert Fluid().simulate([cut])[0].finish.tolist() == [3, 0]


def test_a_weight_that_is_too_small_is_refused_with_the_task(make_world):
    tasks = [{"path": [0], "bytes": 1}, {"path": [0, 1], "bytes": 1, "weight": [1, SMALLEST_WEIGHT / 2]}]
    message = "the share of a flow on a link must be at least 1e-06 with fidelity=fluid, got 5e-07 for task 1"
    with pytest.raises(ValueError, match=f"^w: {re.escape(message)}$"):
        Fluid().simulate([make_world(tasks, [1, 1], name="w")])


def test_a_row_of_a_sweep_that_is_too_wide_is_named(make_world):
    graph = make_world([{"path": [0, 1], "bytes": 1}], [1, 1]).graph
    rows = np.array([[1.0, 0.0], [1e12, 1.0], [1e15, 0.0], [1.01e12, 1.0]])
    assert fluid.sweep(graph, rows[:3]).makespan == pytest.approx([np.inf, 1, np.inf], rel=1e-12)
    with pytest.raises(ValueError, match=rf"^capacity\[3\]: {re.escape(LAW)}, 1\.01e\+12 B/s, .*, got 1 B/s$"):
        fluid.sweep(graph, rows)
    limited = replace(graph, path_limit=np.array([1e-3]))
    with pytest.raises(ValueError, match=r"^capacity\[2\]: .*, got 0\.001 B/s$"):
        fluid.sweep(limited, np.array([[1.0, 1.0], [1e9, 0.0], [1.1e9, 1.1e9]]))


def test_a_limit_too_small_for_circuits_that_change_is_refused():
    design = OcsReconfig(
        bandwidth=1e12, degree=1, latency=0.0, interval=1.0, pause=0.5, forwarding=False, discount=0.5, paths=1
    )
    traffic = Traffic.from_tasks("job", 3, [Transfer(100.0, 0, 2, limit=0.1)])
    with pytest.raises(ValueError, match=f"^job: {re.escape(LAW)}, .*, got 0.1 B/s for task 0$"):
        reconfigure.simulate(place(traffic, design.build(3, traffic.demand()), name="job"))
