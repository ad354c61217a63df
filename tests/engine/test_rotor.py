"""Rotor switches: the kernel is its plain-Python twin; matchings, conservation, stores, rates that theory knows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.slots import SLOT, burst, check_twin, has_ended, of_seeds, random_failed_rotors
from tests.examples import examples
from tests.twins.slotted_rotor import RotorReference
from topoflow.engine.base import Run
from topoflow.engine.slotted import SlottedResults, simulate_cells
from topoflow.engine.slotted.cells import NEVER, Cells
from topoflow.engine.slotted.settings import SlottedSettings
from topoflow.fabric.circuits.rotors import FailedRotors, Rotors
from topoflow.fabric.circuits.schedule import EMPTY

TIMING = {"arrive": (150, 50)}  # ps: a gap of 100, then a cell each 50


@pytest.mark.parametrize("nodes", [2, 3, 7, 16, 19])
def test_every_switch_is_a_matching_in_every_slot_and_a_cycle_joins_every_pair_once(nodes: int) -> None:
    draw = np.random.default_rng(nodes)
    for switches in range(1, nodes + 1):
        intact = Rotors(nodes, switches, 4)
        assert (joined_in_a_cycle(intact) == 1 - np.eye(nodes)).all()
        assert (intact.cycle - 1) * switches < nodes
        failed = random_failed_rotors(draw, intact)
        assert (joined_in_a_cycle(failed) == failed.joined()).all()


def joined_in_a_cycle(rotors: Rotors) -> np.ndarray:
    """[N, N] how often each node sends to each."""
    joined, failed = np.zeros((rotors.nodes, rotors.nodes), int), rotors.failed
    for slot in range(rotors.cycle):
        for switch in range(rotors.switches):
            ends = [(node, rotors.target(node, switch, slot)) for node in range(rotors.nodes)]
            ends = [(node, target) for node, target in ends if target != EMPTY]
            assert len({target for _, target in ends}) == len(ends), "no two meet"
            assert all(rotors.meeting(*pair) == (switch, slot) for pair in ends)
            assert not ends or switch not in failed.switches
            for pair in ends:
                assert not any(node in failed.nodes or (node, switch) in failed.transceivers for node in pair)
                joined[pair] += 1
    return joined


@settings(max_examples=150)
@given(st.integers(0, 2**32 - 1))
def test_the_kernel_is_exactly_the_twin(
    random_rotors: Callable[..., Cells], run_cells: Callable[..., list[SlottedResults]], seed: int
) -> None:
    draw = np.random.default_rng(seed)
    check_twin(draw, random_rotors(draw), RotorReference, run_cells)


@pytest.mark.parametrize(
    ("first", "count"), [(0, 500), pytest.param(500, examples(2_000), marks=pytest.mark.slow)], ids=["some", "many"]
)
def test_every_cell_comes_once_by_one_detour_at_most_and_no_link_or_store_has_more_than_it_can(
    random_rotors: Callable[..., Cells], run_cells: Callable[..., list[SlottedResults]], first: int, count: int
) -> None:
    for results in of_seeds(first, count, random_rotors, run_cells):
        check(results)


def check(results: SlottedResults) -> None:
    world, log = results.world, results.log
    rotors = world.schedule
    assert isinstance(rotors, Rotors)
    assert log is not None
    task = np.repeat(np.arange(world.tasks), world.cells)
    source, target = world.node[world.source[task]], world.node[world.target[task]]
    went, again = log.sent >= 0, log.sent_on >= 0
    if world.until == NEVER:
        assert has_ended(results)
        assert (results.delivered == world.cells).all()
        assert (went == (source != target)).all()
        assert (again == (log.through >= 0)).all()
        to = np.where(again, log.through, target)
        ends = np.concatenate([source[went], log.through[again]]), np.concatenate([to[went], target[again]])
        slots = np.concatenate([log.sent[went], log.sent_on[again]])
        switch, slot = rotors.meeting(ends[0].astype(np.int64), ends[1].astype(np.int64))
        assert (slots % rotors.cycle == slot).all(), "links carry what their switch joins"
        assert rotors.joined()[ends].all(), "nothing is sent where a part has failed"
        carried = np.bincount((slots * rotors.nodes + ends[0]) * rotors.switches + switch)
        assert carried.max(initial=0) <= rotors.cells
    assert results.hops == np.count_nonzero(went) + np.count_nonzero(again)
    waited = log.sent_on[again] - log.sent[again]
    assert ((waited > 0) & (waited <= rotors.cycle)).all(), "what is stored leaves when its node is next joined"
    assert results.fullest.max(initial=0) <= rotors.cells * (rotors.nodes - 1), "K for each destination"


def hops_per_slot(world: Cells) -> float:
    """The share of what links can carry that they carry."""
    (results,) = simulate_cells([world], SlottedSettings(), Run(threads=1))
    rotors = world.schedule
    assert isinstance(rotors, Rotors)
    links = rotors.nodes * (rotors.nodes - 1) / rotors.cycle  # in a slot, on average
    return results.hops / (results.epochs * links * rotors.cells)


@pytest.mark.parametrize(("nodes", "switches"), [(16, 4), (17, 3)])
def test_uniform_traffic_goes_directly_and_gets_every_slot(nodes: int, switches: int) -> None:
    source, target = np.nonzero(~np.eye(nodes, dtype=bool))
    rotors = Rotors(nodes, switches, 20)
    world = burst(rotors, source, target, 20 * 30, **TIMING)
    (results,) = simulate_cells([world], SlottedSettings(), Run(threads=1), log=True)
    assert results.log is not None
    begin, end = 5 * rotors.cycle, 25 * rotors.cycle  # all are there, and not yet few
    slots = np.concatenate([results.log.sent, results.log.sent_on[results.log.through >= 0]])
    assert np.count_nonzero((slots >= begin) & (slots < end)) == 20 * nodes * (nodes - 1) * 20
    steady = (results.log.sent >= begin) & (results.log.sent < end)
    assert (results.log.through[steady] == -1).all(), "nobody has room for others while all have cells for all"


# 17 nodes, 5 switches with 3, 4, 4, 4 and 1 of the 16 matchings.
FAILED = {
    "a node": (FailedRotors(nodes=(6,)), 1 - 2 / 17),
    "a switch": (FailedRotors(switches=(2,)), 1 - 4 / 16),
    "the switch with the empty matching": (FailedRotors(switches=(0,)), 1 - 3 / 16),
    "a transceiver": (FailedRotors(transceivers=((6, 3),)), 1 - 4 / 16 * 2 / 17),
}


@pytest.mark.parametrize("part", FAILED)
def test_a_failure_takes_the_share_of_the_bandwidth_that_the_part_had(part: str) -> None:
    """Uniform traffic without end: every link that is left is full, and carries what is for its other end."""
    failed, share = FAILED[part]
    carried = []
    for rotors in (Rotors(17, 5, 20), Rotors(17, 5, 20, failed)):
        works = np.ones(17, bool)
        works[list(rotors.failed.nodes)] = False
        source, target = np.nonzero(~np.eye(17, dtype=bool) & works & works[:, None])
        cycles = 20
        world = burst(rotors, source, target, 20 * 2 * cycles, **TIMING)
        (results,) = simulate_cells(
            [replace(world, until=cycles * rotors.cycle * SLOT)], SlottedSettings(), Run(threads=1), log=True
        )
        assert results.log is not None
        steady = results.log.sent >= 4 * rotors.cycle  # all cells are there
        carried.append(np.count_nonzero(steady))
        assert (results.log.through[steady] == -1).all(), "nobody has room for others while all have cells for all"
        assert (results.log.sent_on < 4 * rotors.cycle).all()
        assert carried[-1] == 20 * (cycles - 4) * rotors.joined().sum()
    assert carried[1] / carried[0] == pytest.approx(share, rel=1e-12)


def test_a_permutation_over_a_switch_that_failed_gets_what_detours_leave() -> None:
    """16 nodes send by 5. Shifts 4 to 7 are lost: the direct one, and s where 5 - s is lost (1, 14, 15).

    Of the 8 links of a cycle that are left each is half for own cells and half for those of others: 4 in place of 8.
    """
    nodes, cycles = np.arange(16), 100
    rotors = Rotors(16, 4, 20, FailedRotors(switches=(1,)))
    usable = [s for s in range(1, 16) if s // 4 != 1 and (5 - s) % 16 // 4 != 1 and (5 - s) % 16]
    assert len(usable) == 8
    world = burst(rotors, nodes, (nodes + 5) % 16, 20 * len(usable) // 2 * cycles, **TIMING)
    (results,) = simulate_cells([world], SlottedSettings(), Run(threads=1), log=True)
    assert results.log is not None
    assert (results.log.through >= 0).all()
    assert results.epochs / rotors.cycle == pytest.approx(cycles, rel=0.05)


def test_what_cannot_be_sent_is_a_status_that_names_the_queue() -> None:
    rotors = Rotors(8, 2, 4, FailedRotors(nodes=(5,)))
    world = burst(rotors, np.array([0, 1]), np.array([5, 2]), 3, **TIMING)
    with pytest.raises(ValueError) as error:  # noqa: PT011  the whole line is compared
        simulate_cells([world], SlottedSettings(), Run(threads=1))
    assert str(error.value) == "burst: every cell must get a slot, got a queue of node 0 for node 5 that nothing leaves"
    with pytest.raises(ValueError, match="cells wait that nothing sends"):
        RotorReference(world, SlottedSettings()).run()


@pytest.mark.parametrize(("switch", "transceiver", "target"), [(1, 3, 7), (2, 1, 3), (2, 3, 6), (2, 3, 7), (3, 1, 3)])
def test_a_cell_gets_its_turn_on_each_link_that_is_left(switch: int, transceiver: int, target: int) -> None:
    """Two slots in a cycle, two free links in each: turns that change with the slot would leave out one for ever."""
    rotors = Rotors(8, 4, 1, FailedRotors(switches=(switch,), transceivers=((0, transceiver),)))
    world = burst(rotors, np.array([0]), np.array([target]), 1, **TIMING)
    (results,) = simulate_cells([world], SlottedSettings(), Run(threads=1))
    assert has_ended(results)


@pytest.mark.parametrize("cells", [1, 20])
def test_a_permutation_gets_half_of_the_bandwidth(cells: int) -> None:
    """Of N - 1 links of a cycle one is direct, each other one half of a detour: N / 2 links' worth of cells."""
    nodes, cycles = np.arange(16), 100
    world = burst(Rotors(16, 4, cells), nodes, (nodes + 5) % 16, cells * 8 * cycles, **TIMING)
    assert hops_per_slot(world) > 0.95
    (results,) = simulate_cells([world], SlottedSettings(), Run(threads=1))
    assert results.epochs / 4 == pytest.approx(cycles, rel=0.05)


def test_a_cell_alone_waits_for_its_link_or_takes_an_earlier_detour() -> None:
    """At the beginning of slot 1: to the node that a switch joins now it comes by the first cell of the slot."""
    rotors = Rotors(8, 2, 4)  # slot 1: i -> i + 1, i + 5
    now, later = (burst(rotors, np.array([0]), np.array([node]), 1, 1, **TIMING) for node in (5, 3))
    results = simulate_cells([now, later], SlottedSettings(), Run(threads=1), log=True)
    assert results[0].finish[0] == SLOT + 150 + 1
    assert results[1].log is not None
    direct = results[1].log.through[0] == -1
    assert results[1].finish[0] // SLOT == (3 if direct else 2)
    assert not direct, "1 is joined to 3 in slot 2, 0 only in slot 3"


@pytest.mark.parametrize(("field", "value"), [("nodes", 1), ("switches", 0), ("switches", 9), ("cells", 256)])
def test_rotors_that_cannot_be_are_refused_in_a_line(field: str, value: int) -> None:
    fields = {"nodes": 8, "switches": 2, "cells": 4, field: value}
    with pytest.raises(ValueError, match=rf"^rotors.{field}: must be within .*, got {value}$"):
        Rotors(**fields)
