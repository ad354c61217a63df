"""Rotor switches: the kernel is its plain-Python twin; matchings, conservation, stores, rates that theory knows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.slots import SLOT, assert_equal, burst
from topoflow.engine.base import Run
from topoflow.engine.slotted import Found, simulate_cells
from topoflow.engine.slotted.cells import NEVER, Cells
from topoflow.engine.slotted.reference_rotor import RotorReference
from topoflow.engine.slotted.settings import CABLES, Settings
from topoflow.fabric.circuits.rotors import Rotors
from topoflow.fabric.circuits.schedule import EMPTY

TIMING = {"arrive": (150, 50)}  # ps: a gap of 100, then a cell each 50


@pytest.mark.parametrize("nodes", [2, 3, 7, 16, 19])
def test_every_switch_is_a_matching_in_every_slot_and_a_cycle_joins_every_pair_once(nodes: int) -> None:
    for switches in range(1, nodes + 1):
        rotors = Rotors(nodes, switches, 4)
        joined = np.zeros((nodes, nodes), int)
        for slot in range(rotors.cycle):
            for switch in range(switches):
                ends = [(node, rotors.target(node, switch, slot)) for node in range(nodes)]
                ends = [(node, target) for node, target in ends if target != EMPTY]
                assert len({target for _, target in ends}) == len(ends), "no two meet"
                assert all(rotors.meeting(*pair) == (switch, slot) for pair in ends)
                for pair in ends:
                    joined[pair] += 1
        assert (joined == 1 - np.eye(nodes)).all()
        assert (rotors.cycle - 1) * switches < nodes


@settings(max_examples=150)
@given(st.integers(0, 2**32 - 1))
def test_the_kernel_is_exactly_the_twin(
    random_rotors: Callable[..., Cells], run_cells: Callable[..., list[Found]], seed: int
) -> None:
    draw = np.random.default_rng(seed)
    world, model = random_rotors(draw), Settings(cable=str(draw.choice(list(CABLES))))
    twin = RotorReference(world, model)
    twin.run()
    (found,) = run_cells([world], model)
    assert_equal(found, twin)


@pytest.mark.parametrize(
    ("first", "count"), [(0, 500), pytest.param(500, 10_000, marks=pytest.mark.slow)], ids=["some", "many"]
)
def test_every_cell_comes_once_by_one_detour_at_most_and_no_link_or_store_has_more_than_it_can(
    random_rotors: Callable[..., Cells], run_cells: Callable[..., list[Found]], first: int, count: int
) -> None:
    for begin in range(first, first + count, 500):
        worlds = [random_rotors(np.random.default_rng(seed), most_cells=60) for seed in range(begin, begin + 500)]
        for found in run_cells(worlds, Settings()):
            check(found)


def check(found: Found) -> None:
    world, log = found.world, found.log
    rotors = world.schedule
    assert isinstance(rotors, Rotors)
    assert log is not None
    task = np.repeat(np.arange(world.tasks), world.cells)
    source, target = world.node[world.source[task]], world.node[world.target[task]]
    went, again = log.sent >= 0, log.sent_on >= 0
    if world.until == NEVER:
        assert found.has_ended
        assert (found.delivered == world.cells).all()
        assert (went == (source != target)).all()
        assert (again == (log.through >= 0)).all()
        to = np.where(again, log.through, target)
        ends = np.concatenate([source[went], log.through[again]]), np.concatenate([to[went], target[again]])
        slots = np.concatenate([log.sent[went], log.sent_on[again]])
        switch, slot = rotors.meeting(ends[0].astype(np.int64), ends[1].astype(np.int64))
        assert (slots % rotors.cycle == slot).all(), "links carry what their switch joins"
        carried = np.bincount((slots * rotors.nodes + ends[0]) * rotors.switches + switch)
        assert carried.max(initial=0) <= rotors.cells
    assert found.hops == np.count_nonzero(went) + np.count_nonzero(again)
    waited = log.sent_on[again] - log.sent[again]
    assert ((waited > 0) & (waited <= rotors.cycle)).all(), "what is stored leaves when its node is next joined"
    assert found.fullest.max(initial=0) <= rotors.cells * (rotors.nodes - 1), "K for each destination"


def hops_per_slot(world: Cells) -> float:
    """The share of what links can carry that they carry."""
    (found,) = simulate_cells([world], Settings(), Run(threads=1))
    rotors = world.schedule
    assert isinstance(rotors, Rotors)
    links = rotors.nodes * (rotors.nodes - 1) / rotors.cycle  # in a slot, on average
    return found.hops / (found.epochs * links * rotors.cells)


@pytest.mark.parametrize(("nodes", "switches"), [(16, 4), (17, 3)])
def test_uniform_traffic_goes_directly_and_gets_every_slot(nodes: int, switches: int) -> None:
    source, target = np.nonzero(~np.eye(nodes, dtype=bool))
    rotors = Rotors(nodes, switches, 20)
    world = burst(rotors, source, target, 20 * 30, **TIMING)
    (found,) = simulate_cells([world], Settings(), Run(threads=1), log=True)
    assert found.log is not None
    begin, end = 5 * rotors.cycle, 25 * rotors.cycle  # all are there, and not yet few
    slots = np.concatenate([found.log.sent, found.log.sent_on[found.log.through >= 0]])
    assert np.count_nonzero((slots >= begin) & (slots < end)) == 20 * nodes * (nodes - 1) * 20
    steady = (found.log.sent >= begin) & (found.log.sent < end)
    assert (found.log.through[steady] == -1).all(), "nobody has room for others while all have cells for all"


@pytest.mark.parametrize("cells", [1, 20])
def test_a_permutation_gets_half_of_the_bandwidth(cells: int) -> None:
    """Of N - 1 links of a cycle one is direct, each other one half of a detour: N / 2 links' worth of cells."""
    nodes, cycles = np.arange(16), 100
    world = burst(Rotors(16, 4, cells), nodes, (nodes + 5) % 16, cells * 8 * cycles, **TIMING)
    assert hops_per_slot(world) > 0.95
    (found,) = simulate_cells([world], Settings(), Run(threads=1))
    assert found.epochs / 4 == pytest.approx(cycles, rel=0.05)


def test_a_cell_alone_waits_for_its_link_or_takes_an_earlier_detour() -> None:
    """At the beginning of slot 1: to the node that a switch joins now it comes by the first cell of the slot."""
    rotors = Rotors(8, 2, 4)  # slot 1: i -> i + 1, i + 5
    now, later = (burst(rotors, np.array([0]), np.array([node]), 1, 1, **TIMING) for node in (5, 3))
    found = simulate_cells([now, later], Settings(), Run(threads=1), log=True)
    assert found[0].finish[0] == SLOT + 150 + 1
    assert found[1].log is not None
    direct = found[1].log.through[0] == -1
    assert found[1].finish[0] // SLOT == (3 if direct else 2)
    assert not direct, "1 is joined to 3 in slot 2, 0 only in slot 3"


@pytest.mark.parametrize(("field", "value"), [("nodes", 1), ("switches", 0), ("switches", 9), ("cells", 256)])
def test_rotors_that_cannot_be_are_refused_in_a_line(field: str, value: int) -> None:
    fields = {"nodes": 8, "switches": 2, "cells": 4, field: value}
    with pytest.raises(ValueError, match=rf"^rotors.{field}: must be within .*, got {value}$"):
        Rotors(**fields)
