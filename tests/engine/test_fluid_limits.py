"""Limits of single flows: kept, and what they leave is shared by the others."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.twins import fluid as reference
from topoflow.engine.base import Run
from topoflow.engine.device import DeviceMemory
from topoflow.engine.fluid import Fluid


def test_a_limit_is_kept_by_a_flow_that_is_alone(run, make_world):
    # 100 B / 20 B/s = 5 s on a link of 100 B/s, after 1 s of latency.
    world = make_world([{"path": [0], "bytes": 100, "limit": 20}], [100], [1])
    assert run(world).finish[0] == pytest.approx(6, rel=1e-12)


def test_what_a_limit_leaves_is_shared_by_the_others(run, make_world):
    # 90 B/s: 20 for the limited flow, (90 - 20) / 2 = 35 for each of the others; all have bytes for 4 s.
    tasks = [{"path": [0], "bytes": 80, "limit": 20}, {"path": [0], "bytes": 140}, {"path": [0], "bytes": 140}]
    np.testing.assert_allclose(run(make_world(tasks, [90])).finish, 4, rtol=1e-12)


def test_a_limit_above_the_share_changes_nothing(run, make_world):
    # 30 B/s each; 60 B: 2 s.
    tasks = [{"path": [0], "bytes": 60, "limit": limit} for limit in (31, 1e9, math.inf)]
    np.testing.assert_allclose(run(make_world(tasks, [90])).finish, 2, rtol=1e-12)


def test_limits_one_above_the_other_fill_like_links_of_their_own(run, make_world):
    # 100 B/s: 10, 20, then (100 - 30) / 2 = 35 where 30 is allowed, and 40 for the last. 4 s each.
    rates = [10, 20, 30, 40]
    tasks = [
        {"path": [0], "bytes": 4 * rate, "limit": limit} for rate, limit in zip(rates, (10, 20, 30, 90), strict=True)
    ]
    np.testing.assert_allclose(run(make_world(tasks, [100])).finish, 4, rtol=1e-12)


def test_a_limit_bounds_the_flow_not_its_paths(run, make_world):
    # Half on each of two links of 10 B/s would be 20 B/s; 12 are allowed: 6 on each. 48 B / 12 = 4 s.
    world = make_world([{"path": [0, 1], "weight": [0.5, 0.5], "bytes": 48, "limit": 12}], [10, 10])
    assert run(world).finish[0] == pytest.approx(4, rel=1e-12)


def test_a_limited_flow_speeds_up_to_its_limit_when_another_leaves(run, make_world):
    # 50 B/s each until 2 s (100 B); then the limited one has 300 - 100 = 200 B at 80 B/s: 2.5 s more.
    tasks = [{"path": [0], "bytes": 100}, {"path": [0], "bytes": 300, "limit": 80}]
    np.testing.assert_allclose(run(make_world(tasks, [100])).finish, [2, 4.5], rtol=1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_a_limit_is_a_link_of_the_flow_s_own(seed, run, make_world):
    random = np.random.default_rng(seed)
    capacity = (random.random(6) * 1e10 + 1e8).tolist()
    limited, linked = [], []
    for flow in range(20):
        path = random.permutation(6)[: random.integers(1, 4)].tolist()
        task = {"path": path, "bytes": random.random() * 1e9, "release": random.random()}
        limit = random.random() * 2e9 + 1e6
        limited.append(task | {"limit": limit})
        linked.append(task | {"path": [*path, 6 + flow]})
        capacity.append(limit)
    one, other = run(make_world(limited, capacity)), run(make_world(linked, capacity))
    np.testing.assert_allclose(one.finish, other.finish, rtol=1e-9)


def test_worlds_with_and_without_weights_and_limits_share_a_batch(device, make_world):
    flow = {"path": [0, 1], "bytes": 100}
    tasks = ([flow], [flow | {"limit": 4}], [flow | {"weight": [0.5, 0.5]}], [flow | {"weight": [1, 0.5], "limit": 1}])
    batch = [make_world(list(some), [10, 10]) for some in tasks]
    together = [timeline.finish[0] for timeline in Fluid().simulate(batch, Run(DeviceMemory.named(device)))]
    # 100 B at 10, 4, 2 * 10 and 1 B/s
    assert together == pytest.approx([10, 25, 5, 100], rel=1e-12)


def test_what_the_docstring_of_max_min_says_is_true():
    assert reference.max_min([[0], [0], [0]], [90.0]) == [30.0, 30.0, 30.0]
    assert reference.max_min([[0, 1], [0], [0]], [90.0, 10.0]) == [10.0, 40.0, 40.0]
    assert reference.max_min([[0], [0]], [90.0], weights=[[0.5], [1.0]]) == [60.0, 60.0]
    assert reference.max_min([[0], [0]], [90.0], limits=[20.0, math.inf]) == [20.0, 70.0]
