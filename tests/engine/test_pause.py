"""A world that is paused at a time: what the kernel and its plain-Python twin say of it, and how it goes on."""

from __future__ import annotations

import numpy as np
import pytest

from topoflow.engine import fluid


def test_a_flow_has_left_what_it_has_not_sent(make_world, pause):
    # 1 s of compute, 0.5 s of latency, then 100 B/s: at 2.0 s it has sent 50 of 100 B, and its follower all to send.
    tasks = [{"delay": 1}, {"path": [0], "bytes": 100, "after": [0]}, {"path": [0], "bytes": 30, "after": [1]}]
    paused = pause(make_world(tasks, [100], [0.5]), 2.0)
    np.testing.assert_allclose(paused.start, [0, 1, np.inf])
    np.testing.assert_allclose(paused.finish, [1, np.inf, np.inf])
    np.testing.assert_allclose(paused.left, [0, 50, 30])
    assert not paused.has_finished


def test_what_waits_has_all_left_and_what_is_over_nothing(make_world, pause):
    world = make_world([{"path": [0], "bytes": 100}, {"delay": 9}, {"path": [0], "bytes": 7, "release": 5}], [100])
    np.testing.assert_allclose(pause(world, 2.0).left, [0, 0, 7])
    np.testing.assert_allclose(pause(world, 2.0).finish, [1, np.inf, np.inf])
    assert pause(world, 10.0).has_finished


def test_a_flow_without_bandwidth_only_waits(make_world, pause):
    paused = pause(make_world([{"path": [0], "bytes": 100}, {"path": [1], "bytes": 100}], [0, 100]), 3.0)
    np.testing.assert_allclose(paused.left, [100, 0])


def test_a_pause_must_be_at_a_time(make_world):
    with pytest.raises(ValueError, match=r"world\.until: must be finite and not negative, got -1"):
        fluid.pause(make_world([{"delay": 1}], [1]), -1.0)
