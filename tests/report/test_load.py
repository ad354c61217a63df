"""Load over time: every byte of a link is in some part of the step, in the time of a transfer that brought it there."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.engine.test_fluid_random import random_world, with_latency
from topoflow.case.base import Result
from topoflow.engine.base import Timeline
from topoflow.engine.bound import Bound
from topoflow.engine.fluid import Fluid
from topoflow.fabric.base import Fabric
from topoflow.report.base import Report
from topoflow.report.load import bytes_over_time, flowing
from topoflow.report.page.data import network
from topoflow.traffic.base import Compute, Traffic, Transfer

LAW = settings(max_examples=40)
PARTS = 7
ROUNDING = 1e-9  # of times and of bytes

seeds = st.integers(0, 2**32 - 1)


def ran(seed: int) -> Timeline:
    return Fluid().simulate([with_latency(random_world(seed))])[0]


def crossing(timeline: Timeline) -> list[list[tuple[int, float]]]:
    """Of every link the tasks that send over it, each with its bytes there."""
    graph = timeline.world.graph
    senders: list[list[tuple[int, float]]] = [[] for _ in range(graph.links)]
    for task in np.flatnonzero((graph.path >= 0) & (graph.bytes > 0)).tolist():
        hops = range(*graph.path_offsets[graph.path[task] : graph.path[task] + 2].tolist())
        for hop in hops:
            weight = 1.0 if graph.path_weight is None else float(graph.path_weight[hop])
            senders[graph.path_links[hop]].append((task, weight * float(graph.bytes[task])))
    return senders


@LAW
@given(seed=seeds, bins=st.integers(1, 30), bound=st.booleans())
def test_all_parts_together_are_what_a_link_carries(seed: int, bins: int, bound: bool) -> None:
    timeline = Bound().simulate([random_world(seed)])[0] if bound else ran(seed)
    load = bytes_over_time(timeline, timeline.makespan, bins)
    assert load is not None
    assert (load >= 0).all()
    np.testing.assert_allclose(load.sum(axis=0), timeline.link_bytes, rtol=ROUNDING)


@LAW
@given(seed=seeds)
@example(seed=1_162_038_608)  # has a transfer that takes no time
def test_each_part_has_the_bytes_of_each_transfer_that_flow_in_it(seed: int) -> None:
    timeline = ran(seed)
    end = timeline.makespan
    load = bytes_over_time(timeline, end, PARTS)
    assert load is not None
    begin, finish = flowing(timeline, end)
    expected = np.zeros_like(load)
    for link, transfers in enumerate(crossing(timeline)):
        for task, sent in transfers:
            for part in range(PARTS):
                low, high = end * part / PARTS, end * (part + 1) / PARTS
                inside = max(0.0, min(high, finish[task]) - max(low, begin[task]))
                took = finish[task] - begin[task]  # 0: less than what a float can add to the time
                at_once = begin[task] <= high and (begin[task] > low or part == 0)
                expected[part, link] += sent * inside / took if took > 0 else sent * at_once
    np.testing.assert_allclose(load, expected, rtol=1e-6, atol=1e-6 * timeline.link_bytes.max(initial=1.0))


@LAW
@given(seed=seeds)
def test_parts_have_no_more_than_the_link_can_carry_while_their_transfers_flow(seed: int) -> None:
    # All bytes of the transfers that flow in some parts crossed the link between the first begin and the last end.
    timeline = ran(seed)
    end, capacity = timeline.makespan, timeline.world.capacity
    load = bytes_over_time(timeline, end, PARTS)
    assert load is not None
    begin, finish = flowing(timeline, end)
    for link, transfers in enumerate(crossing(timeline)):
        for first in range(PARTS):
            for last in range(first, PARTS):
                low, high = end * first / PARTS, end * (last + 1) / PARTS
                present = [task for task, _ in transfers if begin[task] < high and finish[task] > low]
                span = finish[present].max() - begin[present].min() if present else 0.0
                limit = capacity[link] * (span + ROUNDING * end)
                assert load[first : last + 1, link].sum() <= limit * (1 + ROUNDING)


def test_a_link_that_one_transfer_uses_at_a_time_is_exact(
    make_outcome: Callable[..., Result], fabrics: dict[str, Callable[[float], Fabric]]
) -> None:
    # 1 B/s, 0.5 s a link: 0 -> 1 flows from 1.5 s until 3.5 s, half of it in each half of the 5 s; 1 -> 2 from 4 s on.
    tasks = (Compute(1.0, 0), Transfer(2.0, 0, 1, after=(0,)), Transfer(1.0, 1, 2, after=(1,)))
    fabric = replace(fabrics["ring"](1.0), latency=np.full(4, 0.5))
    timeline = make_outcome(fabric, Traffic.from_tasks("job", 4, tasks)).timeline
    load = bytes_over_time(timeline, 5.0, 2)
    assert load is not None
    np.testing.assert_allclose(load, [[1, 0, 0, 0], [1, 1, 0, 0]])


def test_a_transfer_that_was_slow_and_then_quick_makes_a_part_look_overloaded(
    make_outcome: Callable[..., Result], fabrics: dict[str, Callable[[float], Fabric]]
) -> None:
    # Both share 1 B/s until 2, when the short one has its 1 B; the long one then has the link: 2 B from 0 to 3. Evenly
    # that is 4/3 B until 2, next to 1 B of the short one.
    tasks = (Transfer(1.0, 0, 1), Transfer(2.0, 0, 1))
    timeline = make_outcome(fabrics["ring"](1.0), Traffic.from_tasks("job", 4, tasks)).timeline
    load = bytes_over_time(timeline, 3.0, 3)
    assert load is not None
    np.testing.assert_allclose(load[:, 0], [7 / 6, 7 / 6, 2 / 3])


def test_what_was_sent_again_is_where_it_was_sent_first() -> None:
    timeline = ran(0)
    lossy = replace(timeline, link_bytes=1.5 * timeline.link_bytes)
    once, again = (bytes_over_time(variant, variant.makespan, PARTS) for variant in (timeline, lossy))
    assert once is not None
    assert again is not None
    np.testing.assert_allclose(again, 1.5 * once)


def test_load_that_no_path_brings_is_not_known_over_time() -> None:
    timeline = ran(0)
    graph = replace(timeline.world.graph, links=timeline.world.graph.links + 1)
    capacity, latency = np.append(timeline.world.capacity, 1.0), np.append(timeline.world.latency, 0.0)
    world = replace(timeline.world, graph=graph, capacity=capacity, latency=latency, fabric=None)
    chosen = replace(timeline, world=world, link_bytes=np.append(timeline.link_bytes, 1))
    assert bytes_over_time(chosen, timeline.makespan) is None


def test_a_step_without_time_has_no_parts() -> None:
    assert bytes_over_time(ran(0), 0.0) is None


def test_rounding_of_a_page_does_not_add_up(report: Report) -> None:
    for result in report.outcomes:
        over = json.loads(gzip.decompress(base64.b64decode(network(result)["over"])))
        decoded = np.array(over["lists"])[over["of"]].cumsum(axis=1) / over["steps"]
        load = bytes_over_time(result.timeline, result.iteration_time)
        assert load is not None
        possible = result.fabric.bandwidth * result.iteration_time / over["parts"]
        np.testing.assert_allclose(decoded.T, load.cumsum(axis=0) / possible, atol=0.5 / over["steps"] + ROUNDING)
