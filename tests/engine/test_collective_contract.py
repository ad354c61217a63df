"""Every algorithm of a collective that is found moves the right data: it is run on real arrays, in any order it allows.

Where parts are: a buffer of P parts in R pieces, one per order. In a reduce-scatter and an all-gather the rank at place
i of order r owns the i-th of n equal ranges of piece r; in an all-to-all, gather or scatter part i n + j is what rank i
has for rank j.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.twins.fluid import simulate
from topoflow.collectives.algorithm import Algorithm, CollectiveCall, algorithms, names
from topoflow.collectives.schedule import SendSchedule
from topoflow.collectives.trees import NO_PARENT, binary_tree
from topoflow.demand import Demand
from topoflow.engine.lowering.placement import place
from topoflow.fabric.base import Fabric
from topoflow.fabric.ideal_switch import IdealSwitch
from topoflow.fabric.ring import Ring
from topoflow.operations import COLLECTIVES, ROOTED, bus_factor, sent_by_all
from topoflow.traffic.base import Collective, Traffic

Parts = NDArray[np.int64]  # [n, P] numbers that a rank holds
RUNS = [(op, name) for name, algorithm in algorithms().items() for op in algorithm.ops]
RANKS = st.integers(1, 17)
B, A, S = 50e9, 1e-6, 1e6  # B/s, s, bytes


@st.composite
def calls(draw: st.DrawFn, op: str, algorithm: Algorithm, ranks: st.SearchStrategy[int] = RANKS) -> CollectiveCall:
    """Any size, root, and number of chunks; any orders, if the algorithm follows them."""
    n = draw(ranks)
    orders = [list(range(n))]
    if algorithm.orders is not None:
        orders = [draw(st.permutations(range(n))) for _ in range(draw(st.integers(1, 3)))]
    root = draw(st.integers(0, n - 1)) if op in ROOTED else None
    chunks = draw(st.integers(1, 4)) if algorithm.chunks(1.0, 1) else 0
    return CollectiveCall(op, np.array(orders), root, chunks)


def execute(schedule: SendSchedule, buffers: Parts, order: random.Random) -> Parts:
    """``buffers`` after all sends, in a random order among those that respect ``after``."""
    buffers = buffers.copy()
    waits = np.diff(schedule.after_offsets)
    followers: list[list[int]] = [[] for _ in range(schedule.sends)]
    for send in range(schedule.sends):
        for earlier in schedule.after[schedule.after_offsets[send] : schedule.after_offsets[send + 1]]:
            assert earlier < send
            followers[earlier].append(send)
    ready = np.flatnonzero(waits == 0).tolist()
    done = 0
    while ready:
        send = ready.pop(order.randrange(len(ready)))
        parts = slice(schedule.first[send], schedule.first[send] + schedule.count[send])
        data, target = buffers[schedule.source[send], parts], schedule.target[send]
        buffers[target, parts] = buffers[target, parts] + data if schedule.reduce[send] else data
        done += 1
        for follower in followers[send]:
            waits[follower] -= 1
            if waits[follower] == 0:
                ready.append(follower)
    assert done == schedule.sends
    return buffers


def numbers(ranks: int, parts: int) -> Parts:
    """Rank r has 3^r in every part (times 1 + part): a sum tells who is in it and how often, if at most twice."""
    return np.array([[3**rank * (1 + part) for part in range(parts)] for rank in range(ranks)])


def owners(call: CollectiveCall, parts: int) -> NDArray[np.int64]:
    """[P] the rank that has each part after a reduce-scatter, and before an all-gather."""
    assert parts % call.orders.size == 0
    return np.repeat(call.orders.ravel(), parts // call.orders.size)


def _all_reduce(call: CollectiveCall, parts: int, run: Callable[[Parts], Parts]) -> None:
    start = numbers(call.ranks, parts)
    assert (run(start) == start.sum(axis=0)).all()


def _reduce_scatter(call: CollectiveCall, parts: int, run: Callable[[Parts], Parts]) -> None:
    start = numbers(call.ranks, parts)
    assert (run(start)[owners(call, parts), np.arange(parts)] == start.sum(axis=0)).all()


def _all_gather(call: CollectiveCall, parts: int, run: Callable[[Parts], Parts]) -> None:
    start = np.full((call.ranks, parts), -1)
    start[owners(call, parts), np.arange(parts)] = np.arange(parts)
    assert (run(start) == np.arange(parts)).all()


def _broadcast(call: CollectiveCall, parts: int, run: Callable[[Parts], Parts]) -> None:
    start = numbers(call.ranks, parts)
    assert (run(start) == start[call.root]).all()


def _reduce(call: CollectiveCall, parts: int, run: Callable[[Parts], Parts]) -> None:
    start = numbers(call.ranks, parts)
    assert (run(start)[call.root] == start.sum(axis=0)).all()


def _pairwise(call: CollectiveCall, parts: int, run: Callable[[Parts], Parts]) -> None:
    ranks = np.arange(call.ranks)
    pairs = np.arange(call.ranks**2).reshape(call.ranks, call.ranks)
    start = np.full((call.ranks, pairs.size), -1)
    np.put_along_axis(start, pairs, pairs, axis=1)
    end = run(start)
    for rank in ranks:
        if call.op == "all_to_all":
            assert (end[rank, pairs[:, rank]] == pairs[:, rank]).all()
        else:
            here, part = (call.root, pairs[rank, call.root]) if call.op == "gather" else (rank, pairs[call.root, rank])
            assert end[here, part] == part


MEANING = {
    "all_reduce": _all_reduce,
    "reduce_scatter": _reduce_scatter,
    "all_gather": _all_gather,
    "broadcast": _broadcast,
    "reduce": _reduce,
    **dict.fromkeys(("all_to_all", "gather", "scatter"), _pairwise),
}


@pytest.mark.parametrize(("op", "name"), RUNS)
@given(st.data(), st.randoms(use_true_random=False))
def test_every_algorithm_does_what_its_operation_means(
    op: str, name: str, data: st.DataObject, order: random.Random
) -> None:
    algorithm = algorithms()[name]
    call = data.draw(calls(op, algorithm))
    schedule = algorithm.schedule(call)
    MEANING[op](call, schedule.parts, lambda start: execute(schedule, start, order))


@pytest.mark.parametrize(("op", "name"), RUNS)
@given(st.data())
def test_every_schedule_sends_what_its_algorithm_says(op: str, name: str, data: st.DataObject) -> None:
    algorithm = algorithms()[name]
    call = data.draw(calls(op, algorithm, st.integers(1, 70)))
    schedule = algorithm.schedule(call)
    assert schedule.share.sum() == pytest.approx(algorithm.sent(op, call.ranks), rel=1e-9)
    assert algorithm.sent(op, call.ranks) >= sent_by_all(op, call.ranks)
    assert schedule.sends <= len(call.orders) * algorithm.most_sends(call.ranks)
    assert (schedule.source != schedule.target).all()
    assert not (algorithm.at_once and len(schedule.after))
    assert (np.diff(schedule.after_offsets) >= 0).all()
    again = algorithm.schedule(call)  # the same call gives the same schedule
    for field, values in vars(schedule).items():
        np.testing.assert_array_equal(values, getattr(again, field))


@pytest.mark.parametrize(("op", "name"), [run for run in RUNS if algorithms()[run[1]].streams])
@given(st.data())
def test_streams_carry_what_the_sends_of_each_connection_do(op: str, name: str, data: st.DataObject) -> None:
    algorithm = algorithms()[name]
    call = data.draw(calls(op, algorithm))
    assert algorithm.streams is not None
    streams = algorithm.streams(call)
    totals = []
    for sends in (algorithm.schedule(call), streams):
        carried: dict[tuple[int, ...], float] = {}
        for *connection, share in zip(sends.source, sends.target, sends.channel, sends.share, strict=True):
            key = tuple(map(int, connection))
            carried[key] = carried.get(key, 0.0) + share
        totals.append(carried)
    assert totals[0] == pytest.approx(totals[1])
    assert algorithm.schedule(call).sends == len(streams.share) * streams.steps


def test_every_operation_has_one_default() -> None:
    for op in COLLECTIVES:
        assert sum(algorithms()[name].default for name in names(op)) == 1
        assert algorithms()[names(op)[0]].default


@pytest.mark.parametrize("end", ["source", "target"])
@pytest.mark.parametrize("ranks", [2, 4, 8, 32])
@pytest.mark.parametrize(("op", "name"), RUNS)
def test_no_rank_sends_more_than_the_bus_factor_where_ranks_are_a_power_of_two(
    op: str, name: str, ranks: int, end: str
) -> None:
    algorithm = algorithms()[name]
    call = CollectiveCall(op, np.arange(ranks)[None], 0 if op in ROOTED else None, 1 if algorithm.chunks(1.0, 1) else 0)
    schedule = algorithm.schedule(call)
    busiest = np.bincount(getattr(schedule, end), weights=schedule.share, minlength=ranks).max()
    if algorithm.orders == "trees":  # S/2 from each of two children and S/2 from the parent; a leaf of the other: S/2
        assert busiest <= 2 + 1e-9
    else:
        assert busiest <= bus_factor(op, ranks) * (1 + 1e-12)


@given(st.integers(2, 130), st.integers(1, 3), st.integers(1, 3), st.randoms(use_true_random=False))
def test_no_rank_of_a_pair_of_trees_receives_more_than_two_buffers(
    ranks: int, pairs: int, chunks: int, shuffle: random.Random
) -> None:
    order = np.array([shuffle.sample(range(ranks), ranks)] * pairs)
    schedule = algorithms()["double_binary_tree"].schedule(CollectiveCall("all_reduce", order, chunks=chunks))
    # For odd n one rank has children in both, and has at most 4 edges all the same.
    assert np.bincount(schedule.target, weights=schedule.share, minlength=ranks).max() <= 2 + 1e-9


@given(st.integers(1, 65).map(lambda half: 2 * half))
def test_for_even_n_who_has_children_in_one_tree_is_a_leaf_of_the_other(ranks: int) -> None:
    parents = binary_tree(ranks)
    inside = set(parents[parents != NO_PARENT].tolist())
    mirrored = {ranks - 1 - rank for rank in inside}
    assert not inside & mirrored
    # The tree is balanced: no rank is deeper than the bits of the largest rank.
    for rank in range(ranks):
        depth = 0
        while parents[rank] != NO_PARENT:
            rank, depth = parents[rank], depth + 1
        assert depth <= (ranks - 1).bit_length()


def test_the_tree_of_six_is_the_one_drawn_in_the_module() -> None:
    assert binary_tree(6).tolist() == [NO_PARENT, 2, 4, 2, 0, 4]


def seconds(fabric: Fabric, algorithm: str, **fields: int) -> float:
    task = Collective("all_reduce", S, tuple(range(fabric.servers)), algorithm=algorithm, **fields)
    return simulate(place(Traffic.from_tasks("t", fabric.servers, (task,)), fabric, name="world")).makespan


@pytest.mark.parametrize("n", [2, 4, 8, 16, 32])
def test_swing_between_equal_ports_takes_the_time_of_halving_doubling(n: int) -> None:
    switch = IdealSwitch(bandwidth=B, degree=1, latency=A / 2).build(n, Demand(n))  # up and down
    expected = 2 * np.log2(n) * A + 2 * (n - 1) / n * S / B
    assert seconds(switch, "swing") == pytest.approx(expected, rel=1e-9)
    assert seconds(switch, "halving_doubling") == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("n", "reaches"), [(4, (1, 1)), (8, (1, 1, 3)), (16, (1, 1, 3, 5)), (32, (1, 1, 3, 5, 11))])
def test_swing_on_a_ring_takes_its_closed_form_and_less_than_halving_doubling(n: int, reaches: tuple[int, ...]) -> None:
    # De Sensi et al., NSDI 2024, section 3: |rho(s)| hops, over links that as many share; each way S / 2^(s+2)
    ring = Ring(bandwidth=B, degree=2, latency=A).build(n, Demand(n))
    expected = 2 * sum(reach * (A + S / 2 ** (step + 2) / B) for step, reach in enumerate(reaches))
    assert seconds(ring, "swing") == pytest.approx(expected, rel=1e-9)
    assert seconds(ring, "swing") < seconds(ring, "halving_doubling")


@pytest.mark.parametrize(("n", "power"), [(3, 2), (6, 4), (11, 8)])
def test_swing_folds_what_exceeds_a_power_of_two(n: int, power: int) -> None:
    switch = IdealSwitch(bandwidth=B, degree=1, latency=A / 2).build(n, Demand(n))  # up and down
    expected = 2 * np.log2(power) * A + 2 * (power - 1) / power * S / B + 2 * (A + S / B)
    assert seconds(switch, "swing") == pytest.approx(expected, rel=1e-9)
