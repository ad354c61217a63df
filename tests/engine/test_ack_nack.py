"""Fast optical switches: the kernel is its plain-Python twin, nothing is lost, every refusal is counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.slots import SLOT, assert_equal, burst
from topoflow.engine.base import Run
from topoflow.engine.slotted import Found, Log, simulate_cells
from topoflow.engine.slotted.cells import NEVER, Cells
from topoflow.engine.slotted.reference_ack_nack import AckNackReference
from topoflow.engine.slotted.settings import Settings
from topoflow.fabric.circuits.on_demand import Square

TIMING: dict[str, Any] = {"arrive": (900, 1400), "pause": (2, 3)}  # ps and slots, within a rack and between racks


def simulated(world: Cells) -> Found:
    (found,) = simulate_cells([world], Settings(), Run(threads=1), log=True)
    return found


def log_of(found: Found) -> Log:
    assert found.log is not None
    return found.log


@settings(max_examples=150)
@given(st.integers(0, 2**32 - 1))
def test_the_kernel_is_exactly_the_twin(
    random_square: Callable[..., Cells], run_cells: Callable[..., list[Found]], seed: int
) -> None:
    draw = np.random.default_rng(seed)
    world, model = random_square(draw), Settings(seed=int(draw.integers(0, 2**32)))
    twin = AckNackReference(world, model)
    twin.run()
    (found,) = run_cells([world], model)
    assert_equal(found, twin)
    assert found.refused.tolist() == twin.refused
    assert sum(map(sum, twin.refused)) == twin.sent - len(twin.hops), "what is sent is accepted or refused"


@pytest.mark.parametrize(
    ("first", "count"), [(0, 500), pytest.param(500, 10_000, marks=pytest.mark.slow)], ids=["some", "many"]
)
def test_no_packet_is_lost_and_an_output_has_one_in_a_slot(
    random_square: Callable[..., Cells], run_cells: Callable[..., list[Found]], first: int, count: int
) -> None:
    for begin in range(first, first + count, 500):
        worlds = [random_square(np.random.default_rng(seed)) for seed in range(begin, begin + 500)]
        for found in run_cells(worlds, Settings(seed=begin)):
            check(found)


def check(found: Found) -> None:
    world, log = found.world, log_of(found)
    square = world.schedule
    assert isinstance(square, Square)
    task = np.repeat(np.arange(world.tasks), world.cells)
    source, target = world.node[world.source[task]], world.node[world.target[task]]
    if world.until == NEVER:
        assert (found.delivered == world.cells).all()
        assert ((log.sent >= 0) == (source != target)).all()
        assert ((log.sent_on >= 0) == (log.through >= 0)).all()
    again, went = log.sent_on >= 0, log.sent >= 0
    to = np.where(again, log.through, target)
    slots = np.concatenate([log.sent[went], log.sent_on[again]])
    ends = np.concatenate([source[went], log.through[again]]), np.concatenate([to[went], target[again]])
    if world.until == NEVER:
        size = square.servers_per_rack
        (rack, place), (other, there) = (divmod(each, size) for each in ends)
        near = rack == other
        assert (near | (place == there)).all(), "a switch joins a rack, or a place of all racks"
        for kind, most, of_kind in ((0, square.intra, near), (1, square.inter, ~near)):
            for node in ends:
                met = np.bincount(slots[of_kind] * square.nodes + node[of_kind])
                assert met.max(initial=0) <= most
            waited = again & ((source // size == log.through // size) == (kind == 0))
            assert (log.sent_on[waited] - log.sent[waited] >= world.pause[kind]).all()
    assert found.hops == len(slots)


def test_a_packet_alone_takes_the_slots_and_flights_that_its_path_has() -> None:
    """Near: the next slot and its flight. Corner to corner: the first flight and buffering fill whole slots."""
    square = Square(3, 3, 2, 1, 6)
    found = simulated(burst(square, np.array([0, 0, 0]), np.array([1, 3, 4]), 1, [1, 10_001, 20_001], **TIMING))
    assert found.finish[:2].tolist() == [1_000 + 900, 11_000 + 1_400]
    assert found.finish[2] in (21_000 + 2 * SLOT + 1_400, 21_000 + 3 * SLOT + 900)
    assert found.refused.sum() == 0


def test_all_that_meet_at_an_output_are_refused_but_one_and_take_turns() -> None:
    """Five servers of a rack send one packet each to the sixth by one transceiver: 4 + 3 + 2 + 1 refusals."""
    source = np.arange(1, 6)
    found = simulated(burst(Square(1, 6, 1, 1, 2), source, np.zeros(5, int), 1, **TIMING))
    assert found.refused.tolist()[0] == [4 + 3 + 2 + 1, 0]
    assert sorted(found.finish.tolist()) == [900 + slot * SLOT for slot in range(5)]
    long = simulated(burst(Square(1, 6, 1, 1, 2), source, np.zeros(5, int), 50, **TIMING))
    assert np.ptp(long.finish) <= 5 * SLOT, "as fair as turns are"


def test_saturated_switches_carry_what_theory_knows_of_fifo_buffers() -> None:
    """2 - sqrt(2) of all slots in the limit of many members. Source: Karol, Hluchyj, Morgan, "Input versus output
    queueing on a space-division packet switch", IEEE Transactions on Communications 35(12), 1987: 0.5858; N=8: 0.6184.
    """
    draw, members, each = np.random.default_rng(1), 64, 1500
    source = np.repeat(np.arange(members), each)
    target = (source + draw.integers(1, members, len(source))) % members
    world = burst(Square(1, members, 1, 1, 2), source, target, 1, **TIMING)
    sent = np.sort(log_of(simulated(world)).sent)
    slots = 2000
    assert np.count_nonzero((sent >= 200) & (sent < slots)) / members / (slots - 200) == pytest.approx(0.5858, rel=0.03)


def test_a_permutation_within_a_rack_uses_every_transceiver_and_is_never_refused() -> None:
    servers = np.arange(12)
    world = burst(Square(3, 4, 3, 1, 6), servers, servers // 4 * 4 + (servers + 1) % 4, 300, **TIMING)
    found = simulated(world)
    assert found.refused.sum() == 0
    assert found.epochs <= 300 / 3 + 3
