"""Opera: its timing, what is bought, which messages wait, and what it refuses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from topoflow.demand import Demand
from topoflow.engine.lowering.placement import place
from topoflow.engine.simulation import simulate
from topoflow.engine.slotted import Slotted
from topoflow.engine.slotted.cells import cells_of
from topoflow.fabric.base import Fabric, Static
from topoflow.fabric.circuits.rotors import Rotating
from topoflow.fabric.circuits.staggered import Staggered
from topoflow.fabric.opera import Opera
from topoflow.fabric.rotornet import RotorNet
from topoflow.traffic.base import Collective, Traffic, Transfer

SMALL = Opera(1.25e9, 4, 0.0)


def build(design: RotorNet, servers: int) -> Fabric:
    return design.build(servers, Demand.from_matrix(np.zeros((servers, servers)), {}))


def test_a_slot_carries_frames_and_fewer_where_a_switch_turns() -> None:
    """10 Gb/s for 100 us are 125,000 B, 13 frames; 11 of them in 90 us. At 1 Tb/s 63 larger ones, 4 slots of them."""
    control = build(SMALL, 16).control
    assert isinstance(control, Rotating)
    assert (control.schedule, control.cell) == (Staggered(16, 4, 13, turning=11), 9000)
    fast = replace(SMALL, bandwidth=125e9)
    assert (fast.cells, fast.size) == (63, int(125e9 * 100e-6) // 63)


def test_what_is_bought_is_that_of_rotornet() -> None:
    assert build(SMALL, 16).bill == build(RotorNet(1.25e9, 4, 0.0), 16).bill
    assert type(build(SMALL, 1).control) is Static


def test_other_fidelities_have_half_of_the_time_in_which_uplinks_send() -> None:
    """A switch turns in one of four slots, for a tenth of it."""
    assert build(SMALL, 16).bandwidth[32:] == pytest.approx(4 * 1.25e9 * 39 / 40 / 2)


def test_small_messages_do_not_wait_and_take_the_latency_of_each_hop() -> None:
    design = replace(SMALL, latency=10e-6)
    job = Traffic.from_tasks("job", 16, [Transfer(14e6, 0, 1), Transfer(15e6, 1, 2), Transfer(0.0, 3, 4)])
    world = cells_of(place(job, design.build(16, job.demand()), name="opera"))
    assert world.low_latency is not None
    assert world.low_latency.tolist() == [True, False, False][: world.tasks]
    assert world.arrive == (100_000_000 // 13,) * 2
    assert world.pause[0] == 4, "a cell of 7.7 us, and 20 us of fiber"
    assert cells_of(place(job, RotorNet(1.25e9, 4, 10e-6).build(16, job.demand()), name="r")).pause == (1, 1)


def test_a_small_message_takes_a_slot_and_a_large_one_its_links() -> None:
    """20,000 B leave at the beginning of the next slot. 400 frames have 13 of a link in a slot if they are bulk."""
    job = Traffic.from_tasks("one", 16, [Transfer(20_000.0, 0, 5)])
    (small,) = simulate([place(job, SMALL.build(16, job.demand()), name="opera")], Slotted())
    (large,) = simulate([place(job, replace(SMALL, bulk=0.0).build(16, job.demand()), name="opera")], Slotted())
    assert 100e-6 < small.makespan < 200e-6 < large.makespan


def test_a_job_on_what_is_left_takes_longer_and_all_of_it_comes() -> None:
    everyone = tuple(range(20))
    job = Traffic.from_tasks("job", 20, [Collective("all_to_all", 20e6, everyone), Transfer(40e6, 0, 9, (0,))])
    for bulk in (0.0, 15e6):
        took = []
        design = replace(SMALL, bulk=bulk)
        for failed in ({}, {"failed_switches": (1,)}, {"failed_racks": (3, 4, 5, 6), "failed_transceivers": ((0, 1),)}):
            placed = place(job, replace(design, **failed).build(20, job.demand()), name="opera")
            (timeline,) = simulate([placed], Slotted())
            assert timeline.slots is not None
            assert timeline.slots.received == pytest.approx(timeline.world.graph.bytes.sum())
            took.append(timeline.makespan)
        assert took[0] < min(took[1:])


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("gap", 1.0, "opera.gap: must be at least 0 and less than the slot of 0.0001 s, got 1 s"),
        ("slot", float("nan"), "opera.slot: must be positive, got nan"),
        ("uplinks", 0, "opera.uplinks: must be positive, got 0"),
        ("uplinks", 3, "opera.uplinks: must be at most 255 and divide the 16 racks, got 3"),
        ("cell", 1, "opera.cell: must be such that 1 to 63 fill the 125000 B of a slot, got 1"),
        ("bulk", -1.0, "opera.bulk: must not be negative, got -1.0"),
        ("seed", 1.5, "opera.seed: must be a whole number within 0..18446744073709551615, got 1.5"),
        ("failed_racks", (0,), "opera.uplinks: must be at most 255 and divide the 17 racks, got 4"),
        ("failed_switches", (4,), "opera.failed_switches: must be within 0..3, got 4"),
        ("failed_transceivers", ((0,),), "opera.failed_transceivers: must have pairs of numbers, got [0]"),
        (
            "failed_switches",
            (0, 1, 2, 3),
            "opera.failed: must leave every two racks a path that fits in a slot, got none from rack 0 to rack 1",
        ),
    ],
)
def test_wrong_settings_are_one_line(field: str, value: float, message: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011  the whole line is compared
        build(replace(SMALL, **{field: value}), 16)
    assert str(error.value) == message


def test_racks_that_only_a_path_too_long_for_a_slot_joins_are_refused() -> None:
    """100 us of fiber a hop: no second hop in a slot. With the switch that joined them racks have lost all."""
    failed = replace(SMALL, failed_switches=(2,))
    assert isinstance(build(failed, 16).control, Rotating)
    with pytest.raises(ValueError, match=r"^opera.failed: must leave every two racks a path that fits in a slot, got "):
        build(replace(failed, latency=50e-6), 16)
