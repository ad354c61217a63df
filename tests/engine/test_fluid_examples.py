"""Worlds small enough to be worked out on paper: the twin and the kernel must both give these numbers."""

from __future__ import annotations

import numpy as np
import pytest

from tests.twins import fluid as reference


def test_flows_on_one_link_share_it_evenly(run, make_world):
    # 90 B/s / 3 = 30 B/s each; 60 B / 30 B/s = 2 s.
    world = make_world([{"path": [0], "bytes": 60}] * 3, [90])
    np.testing.assert_allclose(run(world).finish, [2, 2, 2], rtol=1e-12)


def test_a_flow_held_back_elsewhere_leaves_its_share_to_the_others(run, make_world):
    # Flow 0 also crosses a 10 B/s link: 10, then (90 - 10) / 2 = 40 B/s for the others. 400 B / 40 = 10 s = 100 B / 10.
    world = make_world(
        [{"path": [0, 1], "bytes": 100}, {"path": [0], "bytes": 400}, {"path": [0], "bytes": 400}], [90, 10]
    )
    np.testing.assert_allclose(run(world).finish, [10, 10, 10], rtol=1e-12)


def test_five_sessions_of_bertsekas_and_gallager(run, make_world):
    # Data Networks, 2nd ed., 6.5.2, Fig. 6.11, links of capacity 1. Sessions 2, 3, 5 fill link (2,3): 1/3 each.
    # Session 1 meets session 3 on (3,5): 1 - 1/3 = 2/3. Session 4 is alone on (4,5): 1. With bytes = rate all end
    # at 1 s.
    paths = [[1], [0], [0, 1], [2], [0]]
    rates = [2 / 3, 1 / 3, 1 / 3, 1, 1 / 3]
    np.testing.assert_allclose(reference.max_min(paths, [1.0, 1.0, 1.0]), rates, rtol=1e-12)
    tasks = [{"path": path, "bytes": rate} for path, rate in zip(paths, rates, strict=True)]
    np.testing.assert_allclose(run(make_world(tasks, [1, 1, 1])).finish, 1, rtol=1e-12)


@pytest.mark.parametrize("links", [1, 2, 7])
def test_parking_lot_gives_everyone_half(run, make_world, links):
    # One flow crosses all links, each link has one flow of its own: 10 / 2 = 5 B/s for all; 20 B / 5 = 4 s.
    tasks = [{"path": list(range(links)), "bytes": 20}, *({"path": [link], "bytes": 20} for link in range(links))]
    np.testing.assert_allclose(run(make_world(tasks, [10] * links)).finish, 4, rtol=1e-12)


def test_bottlenecks_are_found_one_behind_the_other(run, make_world):
    # Link i of 2, 4, 8, 16, 32 B/s carries flows i and i + 1. Link 0 gives 1 to both of its flows; link 1 then has
    # 4 - 1 = 3 for flow 2, link 2 has 8 - 3 = 5 for flow 3, then 16 - 5 = 11 and 32 - 11 = 21.
    rates = [1, 1, 3, 5, 11, 21]
    paths = [[0], [0, 1], [1, 2], [2, 3], [3, 4], [4]]
    tasks = [{"path": path, "bytes": 7 * rate} for path, rate in zip(paths, rates, strict=True)]
    np.testing.assert_allclose(run(make_world(tasks, [2, 4, 8, 16, 32])).finish, 7, rtol=1e-12)


def test_who_stays_speeds_up_when_the_other_leaves(run, make_world):
    # 100 B/s, 50 each: flow 0 (100 B) ends at 2 s; flow 1 has 300 - 100 = 200 B left at 100 B/s: 4 s.
    world = make_world([{"path": [0], "bytes": 100}, {"path": [0], "bytes": 300}], [100])
    np.testing.assert_allclose(run(world).finish, [2, 4], rtol=1e-12)


def test_who_is_there_slows_down_when_another_comes(run, make_world):
    # Flow 0 has 300 - 100 B left when flow 1 comes at 1 s; 50 B/s each: flow 1 ends at 1 + 50/50 = 2 s,
    # flow 0 then has 150 B at 100 B/s: 3.5 s.
    world = make_world([{"path": [0], "bytes": 300}, {"path": [0], "bytes": 50, "release": 1}], [100])
    timeline = run(world)
    np.testing.assert_allclose(timeline.start, [0, 1], rtol=1e-12)
    np.testing.assert_allclose(timeline.finish, [3.5, 2], rtol=1e-12)


def test_latency_comes_before_sharing(run, make_world):
    # Flow 0 waits 1 + 2 s, flow 1 has the first link alone for 2 s after its own 1 s (40 B), then both get 10 B/s:
    # flow 0 ends at 3 + 30/10 = 6 s, flow 1 then has 100 - 40 - 30 = 30 B at 20 B/s: 7.5 s.
    world = make_world([{"path": [0, 1], "bytes": 30}, {"path": [0], "bytes": 100}], [20, 50], [1, 2])
    np.testing.assert_allclose(run(world).finish, [6, 7.5], rtol=1e-12)


def test_a_delay_adds_to_the_latency(run, make_world):
    # 0.5 + 0.25 s, then 100 B at 100 B/s.
    world = make_world([{"path": [0], "bytes": 100, "delay": 0.5}], [100], [0.25])
    assert run(world).finish[0] == pytest.approx(1.75, rel=1e-12)


def test_a_flow_without_bytes_ends_after_its_wait(run, make_world):
    world = make_world([{"path": [0], "bytes": 0}, {"delay": 2}, {}], [100], [0.25])
    assert run(world).finish.tolist() == [0.25, 2, 0]


def test_a_path_without_links_takes_no_time(run, make_world):
    assert run(make_world([{"path": [], "bytes": 1e9}], [])).finish.tolist() == [0]


def test_a_task_is_ready_with_the_last_of_those_it_waits_for(run, make_world):
    world = make_world([{"delay": 1}, {"delay": 3}, {"after": [0, 1], "delay": 1}, {"after": [0], "release": 2}], [])
    timeline = run(world)
    assert timeline.start.tolist() == [0, 0, 3, 2]
    assert timeline.finish.tolist() == [1, 3, 4, 2]


def test_a_long_chain_adds_up(run, make_world):
    # 2000 times (latency 1 us + 1 kB at 1 GB/s = 1 us + compute 3 us) = 2000 * 5 us = 10 ms.
    tasks = []
    for i in range(2000):
        tasks.append({"path": [0], "bytes": 1000, "after": [2 * i - 1] if i else []})
        tasks.append({"delay": 3e-6, "after": [2 * i]})
    assert run(make_world(tasks, [1e9], [1e-6])).makespan == pytest.approx(0.01, rel=1e-12)


def test_a_traffic_task_lasts_from_its_first_to_its_last_part(run, make_world):
    world = make_world(
        [{"delay": 1, "owner": 1}, {"delay": 2, "owner": 0}, {"delay": 1, "after": [1], "owner": 1, "release": 5}], []
    )
    timeline = run(world)
    assert timeline.task_start.tolist() == [0, 0]
    assert timeline.task_finish.tolist() == [2, 6]
    assert timeline.makespan == 6


def test_a_world_without_tasks_takes_no_time(run, make_world):
    assert run(make_world([], [1.0])).makespan == 0


def test_a_flow_over_a_dead_link_is_an_error_that_names_it(run, make_world):
    world = make_world([{"path": [0], "bytes": 1}, {"path": [1], "bytes": 1}], [1, 0], name="ring 4")
    with pytest.raises(ValueError, match="ring 4: every flow must get bandwidth, got none for task 1"):
        run(world)


def test_tasks_that_wait_for_each_other_are_an_error(run, make_world):
    world = make_world([{}, {"after": [2]}, {"after": [1]}], [], name="knot")
    with pytest.raises(ValueError, match=r"knot: every task must become ready, got .*task 1"):
        run(world)
