"""Ends that almost coincide as one event: exact without, bounded on one link, and each task keeps its own end."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

LAW = settings(max_examples=60)


def test_ends_within_the_horizon_keep_their_own_end(run, make_world):
    # 100 B/s, two flows: 50 each. 100 B end at 2 s. 105 B would end at 2 + 5/100 = 2.05 s, but 2.1 s is within 10 % of
    # 2 s: one event, nobody speeds up.
    world = make_world([{"path": [0], "bytes": 100}, {"path": [0], "bytes": 105}], [100])
    np.testing.assert_allclose(run(world).finish, [2, 2.05], rtol=1e-12)
    np.testing.assert_allclose(run(world, merge=0.1).finish, [2, 2.1], rtol=1e-12)


def test_who_stays_gets_what_the_event_left_from_its_beginning(run, make_world):
    # 99 B/s, three flows: 33 each. 66 B end at 2 s, 69.3 B at 2.1 s, in one event with merge=0.1. The third has
    # 264 - 66 = 198 B left at 2 s, and 99 B/s: 4 s. Exactly: 3.3 B at 49.5 until 2 + 1/15, then 191.4 + 3.3 left ...
    # in all 66 + 69.3 + 264 = 399.3 B / 99 B/s.
    tasks = [{"path": [0], "bytes": size} for size in (66, 69.3, 264)]
    np.testing.assert_allclose(run(make_world(tasks, [99]), merge=0.1).finish, [2, 2.1, 4], rtol=1e-12)
    np.testing.assert_allclose(run(make_world(tasks, [99])).finish, [2, 2 + 1 / 15, 399.3 / 99], rtol=1e-12)


def test_waits_are_not_merged(run, make_world):
    # Task 1 follows task 0 by 0.05 s, and flows from 1.05 s on, whatever merge is. Task 2 has sent 105 B by then, and
    # then both get 50 B/s: 1.05 + 100/50. Task 2 has 300 - 105 - 100 B left at 3.05 s.
    tasks = [{"delay": 1}, {"path": [0], "bytes": 100, "after": [0], "delay": 0.05}, {"path": [0], "bytes": 300}]
    finish = [1, 3.05, 3.05 + 95 / 100]
    np.testing.assert_allclose(run(make_world(tasks, [100]), merge=0.1).finish, finish, rtol=1e-12)


def test_a_flow_is_merged_by_how_long_it_has_lasted_and_not_by_the_time_since_the_beginning(run, make_world):
    # From 100 s on, 50 B and 55 B share 100 B/s. The first ends at 101 s; the second would end 0.1 s later, which is
    # more than 1 % of the second that it has lasted, though less than 1 % of 101 s. So it speeds up: 101 + 5/100.
    flows = [{"path": [0], "bytes": size, "after": [0]} for size in (50, 55)]
    world = make_world([{"delay": 100}, *flows], [100])
    np.testing.assert_allclose(run(world, merge=0.01).finish, [100, 101, 101.05], rtol=1e-12)
    np.testing.assert_allclose(run(world, merge=0.1).finish, [100, 101, 101.1], rtol=1e-12)


def test_a_chain_of_short_waits_is_exact(run, make_world):
    # Four waits of 0.02 s behind 1 s, then a flow: it flows from 1.08 s.
    chain = [{"delay": 1}, *({"delay": 0.02, "after": [task]} for task in range(4))]
    world = make_world([*chain, {"path": [0], "bytes": 50, "after": [4]}], [100])
    for merge in (0.0, 0.1):
        timeline = run(world, merge=merge)
        np.testing.assert_allclose(timeline.finish, [1, 1.02, 1.04, 1.06, 1.08, 1.58], rtol=1e-12)


@LAW
@given(
    sizes=st.lists(st.floats(1.0, 1e3), min_size=1, max_size=30),
    merge=st.sampled_from([1e-6, 1e-3, 0.1, 0.9]),
)
def test_on_one_link_ends_are_later_by_at_most_merge_and_earlier_by_a_harmonic_number_of_it(
    sizes, merge, run, make_world
):
    # The derivation. Let V(t) be what a flow that is still open has got at t. Merging only takes flows out too early,
    # so merged V >= exact V: an event that takes flow k in at `now` finds V(now) <= bytes of k, so k ends exactly at
    # `now` or later, and merged before now (1 + merge). In an event, n of N open flows leave; what they still
    # sent after `now` is at most n/N of capacity * merge * now. All flows that left before k together: sum n/N <= 1 +
    # 1/2 + ... + 1/flows times capacity * merge * end of k, which is what k can have gained.
    world = make_world([{"path": [0], "bytes": size} for size in sizes], [10.0])
    ratio = run(world, merge=merge).finish / run(world).finish
    harmonic = sum(1 / n for n in range(1, len(sizes) + 1))
    assert ratio.max() <= (1 + merge) * (1 + 1e-9)
    assert ratio.min() >= 1 / (1 + merge * harmonic) * (1 - 1e-9)


@pytest.mark.parametrize("merge", [1e-3, 1e-2])
def test_on_the_links_of_a_switch_no_end_moves_by_more_than_merge(merge, run, make_world):
    # All-to-all of 6 hosts, 30 flows of 0.5 to 1.5 MB at 10 GB/s. No bound is known for a network; measured with six
    # and ten hosts, seven seeds, merge 0.001 to 0.1: 0.87 merge earlier and 0.27 merge later at most.
    random = np.random.default_rng(1)
    pairs = [(a, b) for a in range(6) for b in range(6) if a != b]
    world = make_world([{"path": [a, 6 + b], "bytes": 1e6 * (0.5 + random.random())} for a, b in pairs], [1e10] * 12)
    exact, merged = run(world).finish, run(world, merge=merge).finish
    assert np.abs(merged / exact - 1).max() <= merge
    assert not np.array_equal(merged, exact)


@pytest.mark.parametrize("merge", [-1e-3, 1.0, float("nan"), float("inf")])
def test_a_merge_outside_zero_to_one_is_refused(merge, run, make_world):
    with pytest.raises(ValueError, match=r"^fluid.merge: must be a number in \[0, 1\) or auto, got"):
        run(make_world([{}], []), merge=merge)
