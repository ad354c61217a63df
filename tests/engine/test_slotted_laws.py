"""What holds for slots in every world: conservation, no contention, bounded queues; and rates that theory knows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tests.engine.slots import SLOT, burst, has_ended, random_failed, with_failures
from tests.examples import examples
from topoflow import _C
from topoflow.engine.base import Run
from topoflow.engine.device import HOST_MEMORY
from topoflow.engine.slotted import SlottedResults, simulate_cells
from topoflow.engine.slotted.batch import pack
from topoflow.engine.slotted.cells import NEVER, Cells
from topoflow.engine.slotted.settings import CABLES, PROTOCOLS, SlottedSettings
from topoflow.fabric.circuits.schedule import EMPTY, CircuitSchedule, Failed


def simulated(world: Cells, protocol: str, queue: int = 4) -> SlottedResults:
    (results,) = simulate_cells([world], SlottedSettings(protocol, queue, None, seed=1), Run(threads=1))
    return results


def used(world: Cells, protocol: str, queue: int = 4) -> float:
    """The share of all slots, but those of nodes to themselves, in which a cell is sent."""
    results, nodes = simulated(world, protocol, queue), world.schedule.nodes
    return results.hops / (results.epochs * nodes * (nodes - 1))


@pytest.mark.parametrize("nodes", range(2, 20))
def test_a_schedule_has_no_contention_and_joins_every_pair_once_an_epoch(nodes: int) -> None:
    draw = np.random.default_rng(nodes)
    for uplinks in range(1, nodes + 1):
        intact = CircuitSchedule(nodes, uplinks)
        check_schedule(intact)
        assert (intact.joined() == 1 - np.eye(nodes)).all()
        check_schedule(random_failed(draw, intact))


def check_schedule(schedule: CircuitSchedule) -> None:
    nodes, uplinks = schedule.nodes, schedule.uplinks
    assert (schedule.slots - 1) * uplinks < nodes <= schedule.slots * uplinks, "no epoch could be shorter"
    joined = np.zeros((nodes, nodes), int)
    for slot in range(schedule.slots):
        occupied = set()
        for node in range(nodes):
            for uplink in range(uplinks):
                target = schedule.target(node, uplink, slot)
                if target == EMPTY:
                    continue
                port = (target, node // schedule.slots)  # a receiver for the grating from each group
                assert port not in occupied
                occupied.add(port)
                joined[node, target] += 1
                assert schedule.slot(node, target) == slot
    assert (joined == schedule.joined()).all()


@pytest.mark.parametrize(
    ("first", "count"), [(0, 500), pytest.param(500, examples(2_000), marks=pytest.mark.slow)], ids=["some", "many"]
)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_cell_comes_once_by_one_detour_at_most_and_no_two_meet(
    random_cells: Callable[..., Cells],
    run_cells: Callable[..., list[SlottedResults]],
    protocol: str,
    first: int,
    count: int,
) -> None:
    for begin in range(first, first + count, 500):
        draws = [np.random.default_rng(seed) for seed in range(begin, begin + 500)]
        worlds = [random_cells(draw, most_cells=20) for draw in draws]
        queue = int(draws[0].integers(2, 17))
        failed = zip(draws[::2], worlds[::2], strict=True)
        worlds = [*worlds[1::2], *(with_failures(draw, world, protocol) for draw, world in failed)]
        for results in run_cells(worlds, SlottedSettings(protocol, queue, seed=begin)):
            check_conservation(results)
            check_queues(results, queue)


def check_conservation(results: SlottedResults) -> None:
    world, log = results.world, results.log
    assert log is not None
    schedule, through, sent, sent_on = world.schedule, log.through, log.sent, log.sent_on
    task = np.repeat(np.arange(world.tasks), world.cells)
    source, target = world.node[world.source[task]], world.node[world.target[task]]
    if world.until == NEVER:
        assert (results.delivered == world.cells).all()
        assert has_ended(results)
        assert ((sent >= 0) == (source != target)).all(), "only what stays in a rack is not sent"
        assert ((sent_on >= 0) == (through >= 0)).all()
    again = sent_on >= 0
    assert (sent_on[again] > sent[again]).all()
    assert ((through[again] != source[again]) & (through[again] != target[again])).all()
    went = sent >= 0
    to = np.where(through >= 0, through, target)[went & (again | (through < 0))]
    slots = np.concatenate([sent[went & (again | (through < 0))], sent_on[again]])
    ends = np.concatenate([source[went & (again | (through < 0))], through[again]]), np.concatenate([to, target[again]])
    if world.until == NEVER:
        assert schedule.joined()[ends].all(), "nothing is sent where a part has failed"
        assert (slots % schedule.slots == (ends[1] - ends[0]) % schedule.slots).all(), "as the schedule has it"
        port = (slots * schedule.nodes + ends[1]) * schedule.nodes + ends[0] // schedule.slots
        assert len(np.unique(port)) == len(port), "two cells at one port in one slot"
    assert results.hops == np.count_nonzero(went) + np.count_nonzero(again)


def check_queues(results: SlottedResults, queue: int) -> None:
    """No node ever has more than ``queue`` cells for a destination: those that came, less those that left before."""
    world, log = results.world, results.log
    assert log is not None
    task = np.repeat(np.arange(world.tasks), world.cells)
    (detours,) = np.nonzero(log.through >= 0)
    at = log.through[detours].astype(np.int64) * world.schedule.nodes + world.node[world.target[task[detours]]]
    came = np.stack([at, log.sent[detours] + 1, np.ones_like(at)])
    left = np.stack([at, log.sent_on[detours] + 1, -np.ones_like(at)])  # after its slot its place is free
    where, when, change = np.concatenate([came, left], axis=1)
    order = np.lexsort((change, when, where))
    assert np.cumsum(change[order]).max(initial=0) <= queue, "every queue is empty in the end, so that one sum does"


@pytest.mark.parametrize("protocol", ["request_grant", "ideal"])
@pytest.mark.parametrize("queue", [2, 4, 16])
def test_a_permutation_gets_half_of_the_bandwidth(protocol: str, queue: int) -> None:
    """Of N-1 links, a node has that to the target for itself; each other one is half its own and half of others'."""
    nodes = np.arange(16)
    world = burst(CircuitSchedule(16, 4), nodes, (nodes + 5) % 16, 4000)
    assert used(world, protocol, queue) > 0.98
    assert 4000 / simulated(world, protocol, queue).epochs == pytest.approx(16 / 2, rel=0.02)


def test_uniform_traffic_gets_what_detours_allow_and_a_queue_of_two_is_short() -> None:
    source, target = np.nonzero(~np.eye(16, dtype=bool))
    world = burst(CircuitSchedule(16, 4), source, target, 1000)
    shares = {queue: used(world, "request_grant", queue) for queue in (2, 4, 16)}
    assert shares[4] > 0.95
    assert shares[2] < shares[4] <= shares[16] + 0.01, "Sirius 7, Figure 10: Q = 2 loses goodput"
    assert used(world, "ideal") > shares[4] - 0.01


def test_without_detours_a_pair_has_one_cell_an_epoch_and_uniform_traffic_all_slots() -> None:
    nodes = np.arange(16)
    results = simulated(burst(CircuitSchedule(16, 4), nodes, (nodes + 5) % 16, 500), "direct")
    assert results.epochs == pytest.approx(500, abs=2)
    source, target = np.nonzero(~np.eye(16, dtype=bool))
    assert used(burst(CircuitSchedule(16, 4), source, target, 500), "direct") > 0.99


FAILED = {
    "a node": (Failed(nodes=(6,)), 1 - 2 / 16),
    "a grating": (Failed(gratings=((0, 2),)), 1 - 1 / 16),
    "a grating of a group with itself": (Failed(gratings=((1, 1),)), 1 - 1 / 16),
    "a transceiver": (Failed(transceivers=((6, 3),)), 1 - 2 / 64),
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("part", FAILED)
def test_a_failure_takes_the_share_of_the_bandwidth_that_the_part_had(protocol: str, part: str) -> None:
    """Uniform traffic without end: what is left of the slots is used as all are before.

    Source: Sirius 4.5, "only result in a proportional loss of network bandwidth": a node 1 / N of that of others.
    """
    failed, share = FAILED[part]
    rates = {}
    for schedule in (CircuitSchedule(16, 4), CircuitSchedule(16, 4, failed)):
        reach = schedule.joined() if protocol == "direct" else np.ones((16, 16), bool)
        reach = reach & ~np.eye(16, dtype=bool)
        reach[list(schedule.failed.nodes)] = reach[:, list(schedule.failed.nodes)] = False
        source, target = np.nonzero(reach)
        world = replace(burst(schedule, source, target, 2000), until=400 * schedule.slots * SLOT)
        results = simulated(world, protocol)
        assert results.hops / results.epochs / schedule.joined().sum() > 0.96
        rates[schedule] = results.hops / results.epochs
    intact, less = rates.values()
    assert less / intact == pytest.approx(share, rel=0.02)


@pytest.mark.parametrize(
    ("protocol", "failed", "queue"),
    [
        ("direct", Failed(gratings=((0, 1),)), "node 0 for node 5"),
        ("request_grant", Failed(gratings=((0, 1), (1, 1))), "node 0 for node 5"),
        ("ideal", Failed(nodes=(5,)), "node 0 for node 5"),
    ],
)
def test_what_cannot_be_sent_is_a_status_that_names_the_queue(protocol: str, failed: Failed, queue: str) -> None:
    world = burst(CircuitSchedule(8, 2, failed), np.array([0, 1]), np.array([5, 2]), 3)
    with pytest.raises(ValueError) as error:  # noqa: PT011  the whole line is compared
        simulated(world, protocol)
    assert str(error.value) == f"burst: every cell must get a slot, got a queue of {queue} that nothing leaves"


@pytest.mark.parametrize("epochs", [10, 511, 512, 513, 5000])
def test_samples_of_what_waits_are_evenly_spread_over_any_time(epochs: int) -> None:
    source, target = np.nonzero(~np.eye(8, dtype=bool))
    schedule = CircuitSchedule(8, 2)
    results = simulated(
        replace(burst(schedule, source, target, epochs), until=epochs * schedule.slots * SLOT), "request_grant"
    )
    numbers, all_, fullest = results.sampled.T
    spacing = -(-epochs // 512)
    assert (np.diff(numbers) == numbers[1] - numbers[0]).all()
    assert numbers[0] == 0
    assert spacing <= numbers[1] < 2 * spacing + 1
    assert (all_ >= fullest).all()
    assert (fullest[3:] > 0).all()
    assert fullest.max() <= results.fullest.max()


@pytest.mark.parametrize("queue", [2, 4, 8, 16])
def test_a_place_for_a_cell_takes_32_bytes_at_most(queue: int) -> None:
    """Tables and bits of all pairs of 128 racks included; cells at their source are numbers of their flow."""
    batch = pack([burst(CircuitSchedule(128, 12), np.array([0]), np.array([5]), 1)], SlottedSettings(queue=queue))
    assert _C.slots(batch.arrays, HOST_MEMORY, 0, 1) / (128 * 128 * queue) <= 32


def test_a_long_wait_for_a_slow_cable_is_no_lack_of_progress() -> None:
    schedule = CircuitSchedule(8, 2)
    world = replace(burst(schedule, np.array([0]), np.array([5]), 3), pace=10_000 * schedule.slots * SLOT)
    assert has_ended(simulated(world, "request_grant"))


@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_waiting_without_detours_is_that_of_a_queue_with_one_service_an_epoch(load: float) -> None:
    """M/D/1: Poisson arrivals, one cell an epoch. A cell waits for the epoch after it came (half of one on average),
    for those before it, load / 2 (1 - load) epochs, and then for its slot. Source: Kleinrock, Queueing Systems I, 5.6.
    """
    schedule, draw = CircuitSchedule(12, 3), np.random.default_rng(7)
    pairs = 12 * 11
    epoch = schedule.slots * SLOT
    count = 150_000
    release = np.sort(draw.integers(0, round(count / pairs / load * epoch), count))
    source = draw.integers(0, 12, count)
    target = (source + draw.integers(1, 12, count)) % 12
    world = burst(schedule, source, target, 1, release)
    results = simulated(world, "direct")
    slots = (target - source) % schedule.slots + 1
    waited = results.finish - release - slots * SLOT
    assert waited.mean() / epoch == pytest.approx(0.5 + load / 2 / (1 - load), rel=0.03)


@pytest.mark.parametrize("load", [0.2, 0.4, 0.6])
def test_with_detours_each_hop_waits_as_theory_has_it(load: float) -> None:
    """The two-stage switch of Birkhoff and von Neumann under uniform Poisson arrivals, with back-pressure that is not
    felt. First hop: half an epoch until requests, then the slot of a random node. Second: the slot, and the queue.

    A link has ``a`` cells of its own an epoch, which go first, and b of others: X, what waits for it when an epoch
    begins, becomes X - S + A. S is 1 with probability m = 1 - a where X > 0; A is binomial, as N-2 nodes send to it.
    The mean of X^2 stays what it is, so E[X] = (var A + b - b^2) / 2(m - b), and by Little's law a cell waits
    E[X] / b - 1 epochs beyond its first slot. Source: Chang, Lee, Jou, "Load balanced Birkhoff-von Neumann switches,
    part I", Computer Communications 25, 2002; Kleinrock, Queueing Systems I, 5.6.
    """
    nodes, count, draw = 64, 150_000, np.random.default_rng(7)
    schedule = CircuitSchedule(nodes, 8)
    a = load / 2
    b = a * (nodes - 2) / (nodes - 1)
    epoch = schedule.slots * SLOT
    release = np.sort(draw.integers(0, round(count / nodes / a / (nodes - 1) * epoch), count))
    source = draw.integers(0, nodes, count)
    target = (source + draw.integers(1, nodes, count)) % nodes
    world = burst(schedule, source, target, 1, release)
    (results,) = simulate_cells([world], SlottedSettings("ideal", 16, None, seed=1), Run(threads=1), log=True)
    log, middle = results.log, slice(count // 10, count * 9 // 10)
    assert log is not None
    first = ((log.sent + 1) * SLOT - release)[middle].mean() / epoch
    second = (log.sent_on - log.sent)[middle][log.sent_on[middle] >= 0].mean() / schedule.slots
    slot = (schedule.slots + 1) / 2 / schedule.slots  # epochs until the end of a random one
    waiting = (b * (1 - b / (nodes - 2)) + b - b * b) / 2 / (1 - a - b)
    assert first == pytest.approx(0.5 + slot, rel=0.03)
    assert second == pytest.approx(slot + waiting / b - 1, rel=0.03)


def test_an_empty_network_costs_a_request_an_answer_and_two_hops(
    run_cells: Callable[..., list[SlottedResults]],
) -> None:
    """Epochs: 1 requests, 2 is answered, 3 is sent; sent on in 3 or 4. Ideal: sent at once."""
    schedule = CircuitSchedule(8, 2)
    world = burst(schedule, np.array([0]), np.array([5]), 1, SLOT)
    epoch = schedule.slots
    for protocol, first in (("request_grant", 3), ("ideal", 1), ("direct", 1)):
        (results,) = run_cells([world], SlottedSettings(protocol, 4, seed=1))
        slot, relay_slot = int(results.log.sent[0]), int(results.log.sent_on[0])
        assert slot // epoch == first
        assert relay_slot == -1 or relay_slot // epoch in (first, first + 1)
        assert protocol != "direct" or relay_slot == -1


def test_queues_are_never_longer_than_their_limit(run_cells: Callable[..., list[SlottedResults]]) -> None:
    """All to one: the intermediate nodes hold Q cells for it each, and no more."""
    source = np.arange(1, 12)
    for queue in (2, 4, 9):
        world = burst(CircuitSchedule(12, 4), source, np.zeros(11), 300)
        (results,) = run_cells([world], SlottedSettings("request_grant", queue, None, seed=3))
        logged = [results.log.through, results.log.sent, results.log.sent_on]
        for node in range(1, 12):
            through, sent, sent_on = (column[logged[0] == node] for column in logged)
            came = np.sort(sent + 1)
            left = np.searchsorted(np.sort(sent_on), came - 1, side="right")  # before the next slot begins
            assert (np.arange(1, len(came) + 1) - left).max() <= queue
            assert len(through) > 50


@pytest.mark.parametrize(("protocol", "most"), [("request_grant", 3), ("ideal", 1)])
@pytest.mark.parametrize("credits", [1, 2, 5])
def test_a_server_has_as_many_cells_under_way_to_its_rack_as_it_has_credits(
    run_cells: Callable[..., list[SlottedResults]], protocol: str, most: int, credits: int
) -> None:
    """A cell is requested in the epoch in which it comes to LOCAL and leaves it two later, or earlier by a grant that
    the cell before it left over; then its credit is back.
    """
    world = burst(CircuitSchedule(12, 3), np.array([0]), np.array([7]), 120)
    (results,) = run_cells([world], SlottedSettings(protocol, 4, credits, seed=2))
    assert 120 / credits <= results.epochs <= 120 / credits * most + 5
    leaves = np.bincount(results.log.sent // world.schedule.slots)
    assert leaves.max() <= credits


def test_a_short_flow_does_not_wait_for_what_came_before_to_the_same_server(
    run_cells: Callable[..., list[SlottedResults]],
) -> None:
    """Eleven send to one server, ten of them long before: the cable is full, and its flows take turns."""
    source = np.arange(1, 12)
    world = burst(CircuitSchedule(12, 4), source, np.zeros(11), 300)
    epoch = world.epoch
    release, cells = world.release.copy(), world.cells.copy()
    release[-1], cells[-1] = 300 * epoch, 4
    world = replace(world, pace=epoch // 2, release=release, cells=cells)  # two cells an epoch; nine or more come
    took = {}
    for cable in CABLES:
        (results,) = run_cells([world], SlottedSettings("request_grant", 4, None, cable, seed=2))
        took[cable] = (results.finish[-1] - release[-1]) / epoch
        assert results.finish.max() == pytest.approx(3004 * world.pace, rel=0.01), "the cable is never idle"
    assert took["turns"] < 4 * 10 / 2 + 12, "four rounds of at most ten others and some epochs to get there"
    assert took["arrival"] > 10 * took["turns"]


def test_no_answer_depends_on_threads_or_on_other_worlds(
    random_cells: Callable[..., Cells], run_cells: Callable[..., list[SlottedResults]]
) -> None:
    draw = np.random.default_rng(5)
    worlds = [random_cells(draw) for _ in range(30)]
    model = SlottedSettings(seed=9)
    together, shuffled = run_cells(worlds, model, 4), run_cells(worlds[::-1], model, 4)[::-1]
    for world, *others in zip(worlds, together, shuffled, strict=True):
        (alone,) = run_cells([world], model)
        for other in others:
            for name in ("finish", "fullest", "reorder"):
                assert getattr(other, name).tobytes() == getattr(alone, name).tobytes()
            for name in ("sent", "sent_on", "through"):
                assert getattr(other.log, name).tobytes() == getattr(alone.log, name).tobytes()


def test_another_seed_is_another_course(run_cells: Callable[..., list[SlottedResults]]) -> None:
    nodes = np.arange(16)
    world = burst(CircuitSchedule(16, 4), nodes, (nodes + 1) % 16, 3)
    one, two = (run_cells([world], SlottedSettings(seed=seed))[0].log.through for seed in (1, 2))
    assert (one != two).any()
