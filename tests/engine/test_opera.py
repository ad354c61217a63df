"""Staggered rotor switches: matchings, paths, the kernel is its twin, conservation, priority, bandwidth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

import networkx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.slots import SLOT, burst, check_twin, has_ended, of_seeds, random_failed_rotors
from tests.examples import examples
from tests.twins.slotted_opera import OperaReference
from tests.twins.slotted_rotor import carries
from topoflow.engine.base import Run
from topoflow.engine.slotted import SlottedResults, simulate_cells
from topoflow.engine.slotted.cells import NEVER, Cells
from topoflow.engine.slotted.settings import SlottedSettings
from topoflow.fabric.circuits.rotors import FailedRotors, Rotors
from topoflow.fabric.circuits.schedule import EMPTY
from topoflow.fabric.circuits.staggered import NO_SWITCH, Staggered, factorize

CELL_TIME = 50  # ps of a cell: 20 fit in a slot
TIMING = {"arrive": (CELL_TIME, CELL_TIME)}
NO_FAILURES = FailedRotors()
SIZES = [(4, 4, 0), (6, 3, 1), (8, 4, 0), (15, 5, 2), (16, 4, 0), (24, 6, 3)]


def rotors_of(nodes: int = 16, switches: int = 4, failed: FailedRotors = NO_FAILURES) -> Staggered:
    return Staggered(nodes, switches, 20, failed, turning=18)


@pytest.mark.parametrize("nodes", [2, 3, 4, 9, 16, 31])
def test_matchings_join_every_pair_once_in_both_directions(nodes: int) -> None:
    matchings = factorize(nodes, np.random.default_rng(nodes))
    every = np.arange(nodes)
    assert (matchings[every[:, None], matchings] == every).all(), "who is joined to me I am joined to"
    assert (np.sort(matchings, axis=0) == every[:, None]).all(), "each other node once, and myself once"


@pytest.mark.parametrize(("nodes", "switches", "seed"), SIZES)
def test_one_switch_turns_in_each_slot_the_others_join_all_and_a_cycle_joins_every_pair(
    nodes: int, switches: int, seed: int
) -> None:
    intact = Staggered(nodes, switches, 4, seed=seed)
    failed = random_failed_rotors(np.random.default_rng(seed), intact)
    slots = range(2 * intact.cycle)  # so that pairs are not joined over its end
    for rotors in (intact, failed):
        joined = np.zeros((nodes, nodes, len(slots)), int)
        for slot in slots:
            assert sum(rotors.turns(switch, slot) for switch in range(switches)) == 1
            graph = networkx.empty_graph(nodes)
            for switch in range(switches):
                pairs = [(node, rotors.target(node, switch, slot)) for node in range(nodes)]
                pairs = [(node, target) for node, target in pairs if target != EMPTY]
                assert {(target, node) for node, target in pairs} == set(pairs), "no two meet, in both directions"
                assert not pairs or switch not in rotors.failed.switches
                for node, target in pairs:
                    assert node != target
                    assert rotors.meeting(node, target)[0] == switch
                    assert node not in rotors.failed.nodes
                    assert (node, switch) not in rotors.failed.transceivers
                    joined[node, target, slot] += 1
                if not rotors.turns(switch, slot):
                    graph.add_edges_from(pairs)
            assert rotors is failed or networkx.is_connected(graph)
        assert (joined.sum(axis=2) == 2 * switches * rotors.joined()).all()
        assert joined.max() <= 1
        runs = (np.diff(joined, axis=2) == 1).sum(axis=2) + joined[:, :, 0]
        assert runs.max() <= 3, "the slots of a pair follow each other"


@pytest.mark.parametrize(("nodes", "switches", "seed"), SIZES)
def test_routes_are_shortest_paths_of_their_slot_over_switches_that_do_not_turn(
    nodes: int, switches: int, seed: int
) -> None:
    intact = Staggered(nodes, switches, 4, seed=seed)
    for rotors in (intact, random_failed_rotors(np.random.default_rng(seed), intact)):
        for slot in range(rotors.cycle):
            graph = networkx.empty_graph(nodes)
            for switch in range(switches):
                if not rotors.turns(switch, slot):
                    ends = [(node, rotors.target(node, switch, slot)) for node in range(nodes)]
                    graph.add_edges_from(pair for pair in ends if pair[1] != EMPTY)
            hops = dict(networkx.all_pairs_shortest_path_length(graph))
            for source in range(nodes):
                for target in range(nodes):
                    path = list(follow(rotors, slot, source, target))
                    assert len(path) == hops[source].get(target, 0)
                    assert not any(rotors.turns(switch, slot) for _, switch in path)


def follow(rotors: Staggered, slot: int, source: int, target: int) -> Iterator[tuple[int, int]]:
    """(node, switch) of each hop of a cell of low latency; none where there is no path."""
    while (switch := int(rotors.routes[slot % rotors.cycle, source, target])) != NO_SWITCH:
        yield source, switch
        source = rotors.target(source, switch, slot)


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1))
def test_the_kernel_is_exactly_the_twin(
    random_staggered: Callable[..., Cells], run_cells: Callable[..., list[SlottedResults]], seed: int
) -> None:
    draw = np.random.default_rng(seed)
    check_twin(draw, random_staggered(draw), OperaReference, run_cells)


@pytest.mark.parametrize(
    ("first", "count"),
    [(0, 500), pytest.param(500, examples(2_000), marks=pytest.mark.slow)],
    ids=["some", "many"],
)
def test_every_cell_comes_once_by_one_detour_or_a_shortest_path_and_no_link_has_more_than_it_can(
    random_staggered: Callable[..., Cells], run_cells: Callable[..., list[SlottedResults]], first: int, count: int
) -> None:
    for results in of_seeds(first, count, random_staggered, run_cells):
        check(results)


def check(results: SlottedResults) -> None:
    world, log = results.world, results.log
    rotors = world.schedule
    assert isinstance(rotors, Staggered)
    assert log is not None
    assert world.low_latency is not None
    task = np.repeat(np.arange(world.tasks), world.cells)
    source, target = world.node[world.source[task]], world.node[world.target[task]]
    went, again, prompt = log.sent >= 0, log.sent_on >= 0, world.low_latency[task]
    assert (again == (log.through >= 0)).all()
    assert results.fullest.max(initial=0) <= rotors.stored * (rotors.nodes - 1)
    if world.until < NEVER:
        return  # cells are under way
    assert has_ended(results)
    assert (results.delivered == world.cells).all()
    assert (went == (source != target)).all()
    bulk = went & ~prompt
    detour = bulk & again
    assert (log.sent_on[detour] > log.sent[detour]).all()
    to = np.where(again, log.through, target)
    ends = np.concatenate([source[bulk], log.through[detour]]), np.concatenate([to[bulk], target[detour]])
    slots = np.concatenate([log.sent[bulk], log.sent_on[detour]])
    assert rotors.joined()[ends].all(), "nothing is sent where a part has failed"
    used = []
    for slot, node, other in np.stack([slots, *ends], axis=1).tolist():
        switch, _ = rotors.meeting(node, other)
        assert rotors.target(node, switch, slot) == other, "links carry what their switch joins"
        used.append((slot, node, switch))
    for cell in np.flatnonzero(went & prompt).tolist():
        path = list(follow(rotors, int(log.sent[cell]), int(source[cell]), int(target[cell])))
        assert path
        assert log.through[cell] == (path[-1][0] if len(path) > 1 else -1)
        assert log.sent_on[cell] == (log.sent[cell] if len(path) > 1 else -1), "all of it in one slot"
        used += [(int(log.sent[cell]), *hop) for hop in path]
    assert results.hops == len(used)
    for (slot, _, switch), carried in Counter(used).items():
        assert carried <= carries(rotors, switch, slot)


def low(world: Cells, mask: object = True) -> Cells:
    return replace(world, low_latency=np.broadcast_to(np.asarray(mask), world.tasks).copy())


def test_a_cell_of_low_latency_alone_takes_a_shortest_path_of_its_slot() -> None:
    """From every node to every other, beginning in every slot of a cycle, with two times from a hop to the next."""
    rotors = rotors_of()
    source, target = np.nonzero(~np.eye(16, dtype=bool))
    worlds = []
    for number, pair in enumerate(zip(source, target, strict=True)):
        before = number % rotors.cycle * SLOT  # what begins during a slot leaves in the next one
        worlds.append(low(burst(rotors, *np.array(pair).reshape(2, 1), 1, before + 1, pause=(2, 1), **TIMING)))
    for number, results in enumerate(simulate_cells(worlds, SlottedSettings(), Run(threads=1))):
        slot = number % rotors.cycle + 1
        path = list(follow(rotors, slot, int(source[number]), int(target[number])))
        assert results.hops == len(path)
        assert results.finish[0] == slot * SLOT + (2 * (len(path) - 1) + 1) * CELL_TIME + 1


def test_what_does_not_fit_in_a_slot_waits_for_the_next() -> None:
    """50 cells from one node to another: 20 in a slot by one path, less the times that its hops take."""
    rotors = rotors_of()
    (results,) = simulate_cells(
        [low(burst(rotors, np.array([0]), np.array([9]), 50, **TIMING))], SlottedSettings(), Run(threads=1), log=True
    )
    assert results.log is not None
    slots, cells = np.unique(results.log.sent, return_counts=True)
    hops = [len(list(follow(rotors, int(slot), 0, 9))) for slot in slots]
    assert cells[:-1].tolist() == [21 - hop_count for hop_count in hops[:-1]]
    assert results.hops == (cells * hops).sum()


def mixed(small: bool, large: bool) -> Cells:
    """Small messages of one server of each rack, and large ones of its other server."""
    draw = np.random.default_rng(0)
    source = np.repeat(np.arange(16), 12)
    target = (source + draw.integers(1, 16, len(source))) % 16
    ends = np.concatenate([2 * source, 2 * source + 1]), np.concatenate([2 * target, 2 * target + 1])
    release = np.concatenate([draw.integers(0, 40 * SLOT, len(source)), np.zeros(len(source), int)])
    mask = np.repeat([True, False], len(source))
    keep = mask & small | ~mask & large
    world = burst(rotors_of(), ends[0][keep], ends[1][keep], 3, release[keep], **TIMING)
    cells = np.where(mask[keep], 3, 400).astype(np.int32)
    return low(replace(world, cells=cells, node=np.repeat(np.arange(16, dtype=np.int32), 2)), mask[keep])


def test_bulk_does_not_delay_low_latency() -> None:
    alone, both, bulk = simulate_cells([mixed(True, False), mixed(True, True), mixed(False, True)], SlottedSettings())
    small = both.world.cells == 3
    assert both.finish[small].tolist() == alone.finish.tolist()
    assert both.finish[~small].sum() > bulk.finish.sum(), "but low latency delays bulk"


def test_low_latency_is_sooner_than_on_rotornet_with_the_same_slot() -> None:
    world = mixed(True, False)
    rotornet = replace(world, schedule=Rotors(16, 4, 20), low_latency=None)
    opera_times, rotornet_times = (
        results.finish - results.world.release for results in simulate_cells([world, rotornet], SlottedSettings())
    )
    assert opera_times.max() < 2 * SLOT, "the slot after that in which it began"
    assert opera_times.mean() < 0.6 * rotornet_times.mean()


@pytest.mark.parametrize(("nodes", "switches"), [(16, 4), (15, 5)])
def test_uniform_bulk_goes_directly_and_gets_every_link_less_what_is_dark(nodes: int, switches: int) -> None:
    """Each pair has U slots of a cycle of N, of which the last has 18 cells of 20."""
    rotors = rotors_of(nodes, switches)
    assert rotors.stored == 20 * switches - 2
    source, target = np.nonzero(~np.eye(nodes, dtype=bool))
    world = low(burst(rotors, source, target, rotors.stored * 12, **TIMING), False)
    (results,) = simulate_cells([world], SlottedSettings(), Run(threads=1), log=True)
    assert results.log is not None
    begin, end = 3 * rotors.cycle, 10 * rotors.cycle  # all are there, and not yet few
    slots = np.concatenate([results.log.sent, results.log.sent_on[results.log.through >= 0]])
    carried = np.count_nonzero((slots >= begin) & (slots < end))
    assert carried == 7 * nodes * (nodes - 1) * rotors.stored
    links = [(slot, switch) for slot in range(rotors.cycle) for switch in range(switches)]
    works = [sum(rotors.target(node, switch, slot) != EMPTY for node in range(nodes)) for slot, switch in links]
    limits = [carries(rotors, switch, slot) for slot, switch in links]
    assert carried == 7 * np.dot(works, limits)
    steady = (results.log.sent >= begin) & (results.log.sent < end)
    assert (results.log.through[steady] == -1).all(), "nobody has room for others while all have cells for all"


def test_a_permutation_of_bulk_gets_half_of_the_bandwidth() -> None:
    """Of N - 1 links of a cycle one is direct, each other one half of a detour: N / 2 links' worth of cells."""
    rotors, nodes, cycles = rotors_of(), np.arange(16), 40
    world = low(burst(rotors, nodes, (nodes + 5) % 16, rotors.stored * 8 * cycles, **TIMING), False)
    (results,) = simulate_cells([world], SlottedSettings(), Run(threads=1))
    assert results.epochs / rotors.cycle == pytest.approx(cycles, rel=0.1)


def test_what_cannot_be_sent_is_a_status_that_names_the_queue() -> None:
    rotors = rotors_of(8, 4, FailedRotors(nodes=(5,)))
    for prompt in (True, False):
        world = low(burst(rotors, np.array([0, 1]), np.array([5, 2]), 3, **TIMING), prompt)
        with pytest.raises(ValueError) as error:  # noqa: PT011  the whole line is compared
            simulate_cells([world], SlottedSettings(), Run(threads=1))
        message = "every cell must get a slot, got a queue of node 0 for node 5 that nothing leaves"
        assert str(error.value) == f"burst: {message}"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"nodes": 257}, "opera.racks: must be within 2..256, got 257"),
        ({"switches": 3}, "opera.uplinks: must be at most 255 and divide the 16 racks, got 3"),
        ({"switches": 0}, "opera.uplinks: must be at most 255 and divide the 16 racks, got 0"),
        ({"turning": 21}, "rotors.turning: must be within 0..20, got 21"),
        (
            {"cells": 64, "turning": 64},
            "rotors.cells: must let a link carry at most 255 while its switch holds a matching, got 256",
        ),
        (
            {"switches": 2},
            "opera.uplinks: must be such that all but one join the 16 racks in every slot, got 2: "
            "none of 1000 drawings does",
        ),
    ],
)
def test_rotors_that_cannot_be_are_refused_in_a_line(fields: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011  the whole line is compared
        _ = Staggered(**({"nodes": 16, "switches": 4, "cells": 20} | fields)).drawn
    assert str(error.value) == message
