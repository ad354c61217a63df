"""Every algorithm moves the right data: its schedule is run on real arrays, in any order that it allows."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from topoflow.engine.lowering.collectives.direct import all_to_all, gather, scatter
from topoflow.engine.lowering.collectives.halving_doubling import halving_doubling
from topoflow.engine.lowering.collectives.ring import ALL_GATHER, REDUCE_SCATTER, ring
from topoflow.engine.lowering.collectives.schedule import Schedule
from topoflow.engine.lowering.collectives.tree import broadcast, double_binary_trees, reduce
from topoflow.fabric.double_binary_tree import NO_PARENT, binary_tree

RANKS = st.integers(1, 17)
SEEDS = st.randoms(use_true_random=False)
ALL_REDUCE = (REDUCE_SCATTER, ALL_GATHER)


def execute(schedule: Schedule, buffers: NDArray[np.int64], order: random.Random) -> NDArray[np.int64]:
    """``buffers`` [ranks, parts] after all sends, in a random order among those that respect ``after``."""
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


def numbers(ranks: int, parts: int) -> NDArray[np.int64]:
    """Rank r has 3^r in every part (times 1 + part): a sum tells who is in it and how often, if at most twice."""
    return np.array([[3**rank * (1 + part) for part in range(parts)] for rank in range(ranks)])


def orders(ranks: int, rings: int, shuffle: random.Random) -> NDArray[np.int64]:
    return np.array([shuffle.sample(range(ranks), ranks) for _ in range(rings)])


@given(RANKS, st.integers(1, 3), SEEDS)
def test_a_ring_all_reduce_gives_every_rank_the_sum(ranks: int, rings: int, shuffle: random.Random) -> None:
    schedule = ring(orders(ranks, rings, shuffle), ALL_REDUCE)
    start = numbers(ranks, schedule.parts)
    assert (execute(schedule, start, shuffle) == start.sum(axis=0)).all()


@given(RANKS, st.integers(1, 3), SEEDS)
def test_a_ring_reduce_scatter_gives_every_rank_the_sum_of_its_part(
    ranks: int, rings: int, shuffle: random.Random
) -> None:
    order = orders(ranks, rings, shuffle)
    start = numbers(ranks, rings * ranks)
    end = execute(ring(order, (REDUCE_SCATTER,)), start, shuffle)
    for part in range(rings * ranks):  # ring r's i-th rank owns part r n + i
        assert end[order.ravel()[part], part] == start[:, part].sum()


@given(RANKS, st.integers(1, 3), SEEDS)
def test_a_ring_all_gather_gives_every_rank_all_parts(ranks: int, rings: int, shuffle: random.Random) -> None:
    order = orders(ranks, rings, shuffle)
    start = np.full((ranks, rings * ranks), -1)
    start[order.ravel(), np.arange(rings * ranks)] = np.arange(rings * ranks)
    assert (execute(ring(order, (ALL_GATHER,)), start, shuffle) == np.arange(rings * ranks)).all()


@given(RANKS, SEEDS)
def test_halving_doubling_gives_every_rank_the_sum(ranks: int, shuffle: random.Random) -> None:
    schedule = halving_doubling(ranks)
    start = numbers(ranks, schedule.parts)
    assert (execute(schedule, start, shuffle) == start.sum(axis=0)).all()


@given(RANKS, st.integers(1, 3), st.integers(1, 4), SEEDS)
def test_double_binary_trees_in_any_order_give_every_rank_the_sum(
    ranks: int, pairs: int, chunks: int, shuffle: random.Random
) -> None:
    schedule = double_binary_trees(orders(ranks, pairs, shuffle), chunks)
    start = numbers(ranks, schedule.parts)
    assert (execute(schedule, start, shuffle) == start.sum(axis=0)).all()


@given(RANKS, st.data(), SEEDS)
def test_a_chain_broadcasts_and_reduces(ranks: int, data: st.DataObject, shuffle: random.Random) -> None:
    root, chunks = data.draw(st.integers(0, ranks - 1)), data.draw(st.integers(1, 4))
    start = numbers(ranks, chunks)
    assert (execute(broadcast(ranks, root, chunks), start, shuffle) == start[root]).all()
    assert (execute(reduce(ranks, root, chunks), start, shuffle)[root] == start.sum(axis=0)).all()


@given(RANKS, st.data(), SEEDS)
def test_direct_sends_bring_each_part_to_its_rank(ranks: int, data: st.DataObject, shuffle: random.Random) -> None:
    root = data.draw(st.integers(0, ranks - 1))
    pairs = np.arange(ranks * ranks).reshape(ranks, ranks)  # part i n + j: what i has for j
    start = np.full((ranks, ranks * ranks), -1)
    np.put_along_axis(start, pairs, pairs, axis=1)
    everything = execute(all_to_all(ranks), start, shuffle)
    collected = execute(gather(ranks, root), start, shuffle)
    dealt = execute(scatter(ranks, root), start, shuffle)
    for rank in range(ranks):
        assert (everything[rank, pairs[:, rank]] == pairs[:, rank]).all()
        assert collected[root, pairs[rank, root]] == pairs[rank, root]
        assert dealt[rank, pairs[root, rank]] == pairs[root, rank]


def bytes_by(schedule: Schedule, ranks: int, end: str) -> NDArray[np.float64]:
    """[ranks] bytes that each sends ("source") or receives ("target"), per byte of the buffer."""
    return np.bincount(getattr(schedule, end), weights=schedule.share, minlength=ranks)


@pytest.mark.parametrize("end", ["source", "target"])
@pytest.mark.parametrize("ranks", [2, 3, 8, 12])
def test_a_ring_all_reduce_sends_2_n_minus_1_over_n_per_rank(ranks: int, end: str) -> None:
    sent = bytes_by(ring(np.array([np.arange(ranks), np.arange(ranks)[::-1]]), ALL_REDUCE), ranks, end)
    np.testing.assert_allclose(sent, 2 * (ranks - 1) / ranks, rtol=1e-12)


@pytest.mark.parametrize("ranks", [2, 4, 8, 32])
def test_halving_doubling_sends_2_n_minus_1_over_n_per_rank_of_a_power_of_two(ranks: int) -> None:
    np.testing.assert_allclose(bytes_by(halving_doubling(ranks), ranks, "source"), 2 * (ranks - 1) / ranks)


@given(st.integers(2, 130), st.integers(1, 3), st.integers(1, 3), SEEDS)
def test_trees_send_2_n_minus_1_buffers_and_no_rank_more_than_two(
    ranks: int, pairs: int, chunks: int, shuffle: random.Random
) -> None:
    order = orders(ranks, 1, shuffle)
    schedule = double_binary_trees(np.repeat(order, pairs, axis=0), chunks)
    # each edge of each tree carries S/2 up and S/2 down: 2 trees * (n-1) edges * 2 * S/2; R pairs S/R each
    assert schedule.share.sum() == pytest.approx(2 * (ranks - 1))
    # Inside one tree: S/2 from each of two children and S/2 down from the parent; a leaf of the other: S/2.
    # For odd n one rank is inside both, and has at most 4 edges all the same.
    assert bytes_by(schedule, ranks, "target").max() <= 2 + 1e-9


@given(st.integers(1, 65).map(lambda half: 2 * half))
def test_for_even_n_the_inside_of_one_tree_are_leaves_of_the_other(ranks: int) -> None:
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
