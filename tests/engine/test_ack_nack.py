"""Fast optical switches: the kernel is its plain-Python twin, every refusal and every loss is counted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.slots import SLOT, assert_equal, burst, has_ended
from tests.examples import examples
from tests.twins.slotted_ack_nack import AckNackReference
from topoflow.engine.base import Run
from topoflow.engine.slotted import SlotLog, SlottedResults, simulate_cells
from topoflow.engine.slotted.cells import NEVER, Cells
from topoflow.engine.slotted.settings import LOSSES, SlottedSettings
from topoflow.fabric.circuits.on_demand import Square

TIMING: dict[str, Any] = {"arrive": (900, 1400), "pause": (2, 3)}  # ps and slots, within a rack and between racks


def simulated(world: Cells, loss: str = "none") -> SlottedResults:
    (results,) = simulate_cells([world], SlottedSettings(loss=loss), Run(threads=1), log=True)
    return results


def alone(world: Cells, loss: str) -> Cells:
    """Where packets are lost no task waits for another one, which may never finish; there are more of them, at once."""
    if loss == "none":
        return world
    none = {"after": world.after[:0], "after_offsets": np.zeros_like(world.after_offsets)}
    return replace(world, pace=min(world.pace, world.slot // 8 + 1), release=world.release // 8, **none)


def log_of(results: SlottedResults) -> SlotLog:
    assert results.log is not None
    return results.log


@settings(max_examples=150)
@given(st.integers(0, 2**32 - 1))
def test_the_kernel_is_exactly_the_twin(
    random_square: Callable[..., Cells], run_cells: Callable[..., list[SlottedResults]], seed: int
) -> None:
    draw = np.random.default_rng(seed)
    seed, loss = int(draw.integers(0, 2**32)), str(draw.choice(LOSSES))
    world, model = alone(random_square(draw), loss), SlottedSettings(seed=seed, loss=loss)
    twin = AckNackReference(world, model)
    twin.run()
    (results,) = run_cells([world], model)
    assert_equal(results, twin)
    assert results.refused.tolist() == twin.refused
    assert results.dropped.tolist() == twin.lost
    assert sum(map(sum, twin.refused)) == twin.sent - len(twin.hops), "what is sent is accepted or refused"


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(
    ("first", "count"), [(0, 500), pytest.param(500, examples(2_000), marks=pytest.mark.slow)], ids=["some", "many"]
)
def test_every_packet_comes_once_or_is_counted_as_lost_and_an_output_has_one_in_a_slot(
    random_square: Callable[..., Cells],
    run_cells: Callable[..., list[SlottedResults]],
    first: int,
    count: int,
    loss: str,
) -> None:
    lost = 0
    for begin in range(first, first + count, 500):
        worlds = [alone(random_square(np.random.default_rng(seed)), loss) for seed in range(begin, begin + 500)]
        for results in run_cells(worlds, SlottedSettings(seed=begin, loss=loss)):
            check(results)
            check_losses(results)
            lost += int(results.dropped.sum())
    assert (lost > 0) == (loss == "drop")


def check_losses(results: SlottedResults) -> None:
    """What came and what was lost is all; a message that lost a packet never finishes, others do."""
    if results.world.until == NEVER:
        assert (results.delivered + results.dropped == results.world.cells).all()
        assert ((results.finish == NEVER) == (results.dropped > 0)).all()
        assert has_ended(results)


def check(results: SlottedResults) -> None:
    world, log = results.world, log_of(results)
    square = world.schedule
    assert isinstance(square, Square)
    task = np.repeat(np.arange(world.tasks), world.cells)
    source, target = world.node[world.source[task]], world.node[world.target[task]]
    if world.until == NEVER:
        sent, cross = np.bincount(task, log.sent >= 0, world.tasks), np.bincount(task, source != target, world.tasks)
        assert ((sent <= cross) & (sent >= cross - results.dropped)).all(), "what is not sent stays, or is lost"
        assert ((log.sent_on >= 0) == (log.through >= 0)).all()
    again, went = log.sent_on >= 0, log.sent >= 0
    went &= again | (results.dropped[task] == 0)  # where one that was lost has come to, is not logged
    to = np.where(again, log.through, target)
    slots = np.concatenate([log.sent[went], log.sent_on[again]])
    ends = np.concatenate([source[went], log.through[again]]), np.concatenate([to[went], target[again]])
    if world.until == NEVER:
        size = square.servers_per_rack
        (rack, place), (other, other_place) = (divmod(end, size) for end in ends)
        near = rack == other
        assert (near | (place == other_place)).all(), "a switch joins a rack, or a place of all racks"
        for kind, limit, of_kind in ((0, square.intra, near), (1, square.inter, ~near)):
            for node in ends:
                met = np.bincount(slots[of_kind] * square.nodes + node[of_kind])
                assert met.max(initial=0) <= limit
            waited = again & ((source // size == log.through // size) == (kind == 0))
            assert (log.sent_on[waited] - log.sent[waited] >= world.pause[kind]).all()
    assert results.hops == np.count_nonzero(log.sent >= 0) + np.count_nonzero(again)


def test_a_packet_alone_takes_the_slots_and_flights_that_its_path_has() -> None:
    """Near: the next slot and its flight. Corner to corner: the first flight and buffering fill whole slots."""
    square = Square(3, 3, 2, 1, 6)
    results = simulated(burst(square, np.array([0, 0, 0]), np.array([1, 3, 4]), 1, [1, 10_001, 20_001], **TIMING))
    assert results.finish[:2].tolist() == [1_000 + 900, 11_000 + 1_400]
    assert results.finish[2] in (21_000 + 2 * SLOT + 1_400, 21_000 + 3 * SLOT + 900)
    assert results.refused.sum() == 0


def test_all_that_meet_at_an_output_are_refused_but_one_and_take_turns() -> None:
    """Five servers of a rack send one packet each to the sixth by one transceiver: 4 + 3 + 2 + 1 refusals."""
    source = np.arange(1, 6)
    results = simulated(burst(Square(1, 6, 1, 1, 2), source, np.zeros(5, int), 1, **TIMING))
    assert results.refused.tolist()[0] == [4 + 3 + 2 + 1, 0]
    assert sorted(results.finish.tolist()) == [900 + slot * SLOT for slot in range(5)]
    long = simulated(burst(Square(1, 6, 1, 1, 2), source, np.zeros(5, int), 50, **TIMING))
    assert np.ptp(long.finish) <= 5 * SLOT, "as fair as turns are"


def test_a_burst_that_finds_a_full_buffer_loses_what_has_no_room_and_the_rest_comes() -> None:
    """A server has 9 packets at once for one transceiver with room for 4: 5 are lost. Without loss all 9 come."""
    world = burst(Square(1, 2, 1, 1, 4), np.array([0]), np.array([1]), 9, 1, **TIMING)
    results = simulated(world, "drop")
    assert (results.delivered[0], results.dropped[0], results.finish[0]) == (4, 5, NEVER)
    assert simulated(world).delivered[0] == 9


def test_a_switch_does_not_know_that_the_server_which_forwards_is_full() -> None:
    """To the far corner over servers of one transceiver each that forwards less than what comes: those lose the rest,
    and no packet is refused for their lack of room; without loss it is, and waits."""
    square = Square(2, 8, 4, 1, 3)
    source = np.arange(1, 8).repeat(4)
    world = burst(square, source, np.full(len(source), 8), 12, np.arange(len(source)) % 4 * 1000, **TIMING)
    lossy, lossless = simulated(world, "drop"), simulated(world)
    sent = np.bincount(np.repeat(np.arange(world.tasks), world.cells), log_of(lossy).sent >= 0)
    assert (lossy.delivered < sent).any(), "sent, accepted, and lost where they should be forwarded"
    assert (lossless.delivered == 12).all()
    assert lossy.epochs < lossless.epochs


def test_who_waits_for_a_message_that_may_be_lost_is_an_error_in_a_line() -> None:
    world = burst(Square(1, 2, 1, 1, 4), np.array([0, 1]), np.array([1, 0]), 9, **TIMING)
    world = replace(world, after_offsets=np.array([0, 0, 1]), after=np.array([0], np.int32))
    message = r"^burst: slotted.loss must be none where tasks wait for others, got drop and tasks that lost packets$"
    with pytest.raises(ValueError, match=message):
        simulated(world, "drop")


def test_saturated_switches_carry_what_theory_knows_of_fifo_buffers() -> None:
    """2 - sqrt(2) of all slots in the limit of many members. Source: Karol, Hluchyj, Morgan, "Input versus output
    queueing on a space-division packet switch", IEEE Transactions on Communications 35(12), 1987: 0.5858; N=8: 0.6184.
    """
    draw, members, per_member = np.random.default_rng(1), 64, 1500
    source = np.repeat(np.arange(members), per_member)
    target = (source + draw.integers(1, members, len(source))) % members
    world = burst(Square(1, members, 1, 1, 2), source, target, 1, **TIMING)
    sent = np.sort(log_of(simulated(world)).sent)
    slots = 2000
    assert np.count_nonzero((sent >= 200) & (sent < slots)) / members / (slots - 200) == pytest.approx(0.5858, rel=0.03)


def test_a_permutation_within_a_rack_uses_every_transceiver_and_is_never_refused() -> None:
    servers = np.arange(12)
    world = burst(Square(3, 4, 3, 1, 6), servers, servers // 4 * 4 + (servers + 1) % 4, 300, **TIMING)
    results = simulated(world)
    assert results.refused.sum() == 0
    assert results.epochs <= 300 / 3 + 3
