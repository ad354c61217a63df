"""The slotted fidelity on worlds of the package: units, refusals, and what a job gets of a network of slots."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from topoflow.engine.base import Run, World
from topoflow.engine.bound import Bound
from topoflow.engine.lowering.placement import place
from topoflow.engine.simulation import simulate
from topoflow.engine.slotted import Slotted
from topoflow.engine.slotted.settings import PROTOCOLS
from topoflow.engine.timelines import link_bytes
from topoflow.fabric.failed import without
from topoflow.fabric.fat_tree import FatTree
from topoflow.fabric.fosquare import FOSquare
from topoflow.fabric.sirius import Sirius
from topoflow.traffic.base import Collective, Compute, Traffic, Transfer

DESIGN = Sirius(1.25e9, 4, 0.0, servers_per_rack=2)
JOB = Traffic.from_tasks(
    "job",
    16,
    [
        Compute(2e-6, 0),
        Transfer(50_000.0, 0, 2, (0,)),
        Transfer(30_000.0, 1, 0),
        Transfer(20_001.0, 5, 9, (1,)),
        Collective("all_reduce", 400_000.0, tuple(range(16)), (2, 3)),
        Collective("all_to_all", 90_000.0, tuple(range(0, 16, 2)), (4,)),
        Compute(1e-6, 2, (5,)),
    ],
)


def world(job: Traffic = JOB, design: Sirius = DESIGN, rings: str = "steps") -> World:
    return place(job, design.build(job.servers, job.demand()), name="sirius", rings=rings)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_tasks_wait_for_each_other_and_nothing_is_faster_than_the_bound(protocol: str) -> None:
    model = Slotted(protocol)
    (timeline,) = simulate([world()], model)
    graph = timeline.world.graph
    waiter = np.repeat(np.arange(graph.tasks), np.diff(graph.after_offsets))
    assert (timeline.start[waiter] >= timeline.finish[graph.after] - 1e-15).all()
    assert (timeline.finish - timeline.start >= graph.delay - 1e-12).all()
    np.testing.assert_allclose(timeline.link_bytes, link_bytes(graph), rtol=1e-12)
    wide = replace(world(), capacity=world().capacity * 2)  # racks may use all of their uplinks, where no cell detours
    assert Bound().simulate([wide])[0].makespan <= timeline.makespan * (1 + 1e-9)
    assert timeline.slots is not None
    assert timeline.slots.received == pytest.approx(graph.bytes.sum())


def test_a_job_runs_on_what_failures_leave_and_takes_longer() -> None:
    intact, lost = (
        simulate([world(design=design)], Slotted())[0]
        for design in (
            replace(DESIGN, uplinks=2),
            replace(DESIGN, uplinks=2, failed_racks=(0, 5), failed_gratings=((0, 1),), failed_transceivers=((1, 0),)),
        )
    )
    assert lost.world.graph.tasks == intact.world.graph.tasks
    assert intact.makespan < lost.makespan < np.inf


def test_credits_are_of_the_cable_to_a_rack_and_servers_with_uplinks_of_their_own_have_none() -> None:
    for servers_per_rack, alike in ((1, True), (2, False)):
        placed = world(design=replace(DESIGN, servers_per_rack=servers_per_rack))
        few, any_ = (simulate([placed], Slotted(credits=credits))[0].finish for credits in (1, None))
        assert (few.tobytes() == any_.tobytes()) == alike


def test_a_cable_of_a_server_is_never_faster_than_it_is() -> None:
    """3 MB at 5 GB/s, and the cells that are on their way when the last leaves the server."""
    job = Traffic.from_tasks("one", 16, [Transfer(3e6, 0, 8)])
    (timeline,) = simulate([world(job)], Slotted("ideal"))
    assert 3e6 / 5e9 <= timeline.makespan <= 3e6 / 5e9 * 1.02


def test_what_stays_in_a_rack_does_not_cross_gratings() -> None:
    job = Traffic.from_tasks("near", 16, [Transfer(1e5, 0, 1)])
    (timeline,) = simulate([world(job)], Slotted())
    assert timeline.slots is not None
    assert timeline.slots.hops == 0


def test_batches_answer_as_worlds_do_alone_and_in_any_number_of_threads() -> None:
    worlds = [replace(world(), seed=seed, name=f"seed {seed}") for seed in range(5)]
    together = Slotted().simulate(worlds, Run(threads=3))
    for single, timeline in zip(worlds, together, strict=True):
        assert Slotted().simulate([single], Run(threads=1))[0].finish.tobytes() == timeline.finish.tobytes()
    assert len({timeline.makespan for timeline in together}) > 1


def test_latency_is_waited_once() -> None:
    near, far = (simulate([world(design=replace(DESIGN, latency=latency))], Slotted())[0] for latency in (0.0, 1e-6))
    assert far.makespan > near.makespan + 4e-6


def test_packets_that_a_server_stores_for_long_are_no_lack_of_progress() -> None:
    """The one that sends, and the one that forwards."""
    design = FOSquare(6.25e9, 5, 0.0, buffering=5e-3)
    job = Traffic.from_tasks("stored", 4, [Transfer(6000.0, 0, 3)])
    (timeline,) = simulate([place(job, design.build(4, job.demand()), name="fosquare")], Slotted())
    assert 10e-3 < timeline.makespan < 10.1e-3


def test_what_it_cannot_say_is_refused_in_a_line() -> None:
    model = Slotted()
    other = place(JOB, FatTree(1e9, 4, 0.0).build(16, JOB.demand()), name="other")
    message = "fabric: must have slots with fidelity=slotted, as two racks of sirius, fosquare, rotornet or opera have"
    assert model.refuses(other) == f"{message}, got fat_tree with servers=16"
    message = "slotted.loss: must be none with fabric=sirius, as racks that follow a schedule promise room"
    assert Slotted(loss="drop").refuses(world()) == message
    graph = replace(world().graph, ends=None)
    assert str(model.refuses(replace(world(), graph=graph))).startswith("rings: must be steps with fidelity=slotted")
    fabric = DESIGN.build(16, JOB.demand())
    failed = place(JOB, without(fabric, fibers=[0]), name="failed")
    assert str(model.refuses(failed)).startswith("fail: must leave the links of sirius whole")


def test_more_cells_than_have_numbers_are_refused_in_a_line() -> None:
    large = [Transfer(DESIGN.cell * (2.0**31 - 1), source, source + 8) for source in range(8)] * 2
    job = Traffic.from_tasks("large", 16, large)
    with pytest.raises(ValueError, match=r"^sirius.bytes: must be at most 17179869184 cells in all, got 34359738352$"):
        Slotted().simulate([world(job)])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"queue": 1}, "slotted.queue: must be a whole number within 2..16, got 1"),
        ({"queue": 17}, "slotted.queue: must be a whole number within 2..16, got 17"),
        ({"protocol": "aloha"}, "slotted.protocol: must be one of request_grant, ideal, direct, got 'aloha'"),
        ({"credits": 0}, "slotted.credits: must be a whole number within 1..2147483647, got 0"),
        ({"loss": "trim"}, "slotted.loss: must be one of none, drop, got 'trim'"),
        ({"cable": "fair"}, "slotted.cable: must be one of turns, arrival, got 'fair'"),
        ({"seed": -1}, "slotted.seed: must be a whole number within 0..4294967295, got -1"),
    ],
)
def test_wrong_settings_are_one_line(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011  the whole line is compared
        Slotted(**settings)
    assert str(error.value) == message
