"""RotorNet: its timing, what is bought, what a job gets of it, and what it refuses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from topoflow.demand import Demand
from topoflow.engine.lowering.placement import place
from topoflow.engine.simulation import simulate
from topoflow.engine.slotted import Slotted
from topoflow.fabric.base import Fabric, Static
from topoflow.fabric.circuits.rotors import Rotating, Rotors
from topoflow.fabric.rotornet import RotorNet
from topoflow.traffic.base import Collective, Traffic, Transfer

SMALL = RotorNet(1.25e9, 4, 0.0)


def build(design: RotorNet, servers: int) -> Fabric:
    return design.build(servers, Demand.from_matrix(np.zeros((servers, servers)), {}))


def test_a_slot_carries_frames_for_as_long_as_switches_hold() -> None:
    """10 Gb/s for 180 us are 225,000 B, 25 frames; at 1 Tb/s 255 larger ones."""
    control = build(SMALL, 16).control
    assert isinstance(control, Rotating)
    assert (control.schedule, control.cell) == (Rotors(16, 4, 25), 9000)
    fast = replace(SMALL, bandwidth=125e9)
    assert (fast.cells, fast.size) == (255, int(125e9 * 180e-6) // 255)
    assert replace(SMALL, slot=1e-6, gap=0.0).size == 1250, "less than a frame: one cell"


def test_what_is_bought_and_what_one_server_needs() -> None:
    bill = {item.component: item.count for item in build(SMALL, 16).bill}
    assert bill == {"nic_port": 64, "transceiver": 64, "ocs_port": 64, "fiber": 64}
    assert type(build(SMALL, 1).control) is Static
    assert {item.component for item in build(replace(SMALL, servers_per_rack=2), 16).bill} > {"switch_port"}


def test_what_failed_carries_nothing_and_servers_are_on_racks_that_work() -> None:
    """7 working racks of 9 with 3 switches of 2, 3 and 3 matchings; rack 1 lost its transceiver at the last."""
    design = replace(SMALL, servers_per_rack=2, uplinks=3)
    fabric = build(replace(design, failed_racks=(0, 4)), 14)
    control = fabric.control
    assert isinstance(control, Rotating)
    assert control.nodes_of(14).tolist() == [rack for rack in (1, 2, 3, 5, 6, 7, 8) for _ in range(2)]
    rack = build(design, 18).bandwidth[-1]
    assert fabric.bandwidth[28:] == pytest.approx(rack * 6 / 8)
    lost = build(replace(design, failed_transceivers=((1, 2),)), 18).bandwidth[36:].reshape(-1, 2) / rack * 8
    assert lost.round(6).tolist() == [[8, 7], [5, 5], *[[7, 8]] * 3, *[[8, 8]] * 2, *[[8, 7]] * 2]
    switch = build(replace(design, failed_switches=(0,)), 18).bandwidth[36:]
    assert switch == pytest.approx(rack * 6 / 8)


def test_a_job_on_what_is_left_takes_longer_and_all_of_it_comes() -> None:
    everyone = tuple(range(16))
    job = Traffic.from_tasks("job", 16, [Collective("all_to_all", 16e6, everyone)])
    took = []
    for failed in ({}, {"failed_switches": (1,)}, {"failed_racks": (3,), "failed_transceivers": ((5, 1), (6, 2))}):
        placed = place(job, replace(SMALL, **failed).build(16, job.demand()), name="rotornet")
        (timeline,) = simulate([placed], Slotted())
        assert timeline.slots is not None
        assert timeline.slots.received == pytest.approx(timeline.world.graph.bytes.sum())
        took.append(timeline.makespan)
    assert took[0] < min(took[1:])


def test_a_message_takes_a_slot_of_its_link_and_detours_share_a_larger_one() -> None:
    """From 0 to 5 of 8 with 2 switches: they are joined in slot 1. 20 frames fit there; 400 take detours.

    25 frames a slot of four, without detours, would take 64 slots; two links of 25 in every slot 8, and 2 for the rest.
    """
    design = replace(SMALL, bandwidth=1.25e9, degree=2, uplinks=2)
    for frames, slots in ((20, 2), (400, 14)):
        job = Traffic.from_tasks("one", 8, [Transfer(9000.0 * frames, 0, 5)])
        (timeline,) = simulate([place(job, design.build(8, job.demand()), name="rotornet")], Slotted())
        assert timeline.makespan <= slots * 200e-6
        assert timeline.makespan >= 9000 * frames / 2.5e9


def test_a_job_runs_and_waits_for_slots() -> None:
    job = Traffic.from_tasks("job", 16, [Collective("all_reduce", 4e6, tuple(range(16))), Transfer(1e6, 0, 9, (0,))])
    (timeline,) = simulate([place(job, SMALL.build(16, job.demand()), name="rotornet")], Slotted())
    assert timeline.slots is not None
    assert timeline.slots.received == pytest.approx(timeline.world.graph.bytes.sum())


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("gap", 1.0, "rotornet.gap: must be at least 0 and less than the slot of 0.0002 s, got 1 s"),
        ("slot", float("inf"), "rotornet.slot: must be positive, got inf"),
        ("slot", float("nan"), "rotornet.slot: must be positive, got nan"),
        ("uplinks", 0, "rotornet.uplinks: must be positive, got 0"),
        ("cell", 1, "rotornet.cell: must be such that 1 to 255 fill the 225000 B of a slot, got 1"),
        ("failed_racks", (0, 1, 2, 12), "rotornet.failed_racks: must be within 0..11, got 12"),
        ("failed_racks", ("a",), "rotornet.failed_racks: must have whole numbers, got 'a'"),
        ("failed_switches", (4,), "rotornet.failed_switches: must be within 0..3, got 4"),
        ("failed_switches", 3, "rotornet.failed_switches: must be a list, got 3"),
        ("failed_switches", (1, 1), "rotornet.failed_switches: must differ, got [(1,), (1,)]"),
        ("failed_transceivers", ((0,),), "rotornet.failed_transceivers: must have pairs of numbers, got [0]"),
        ("failed_transceivers", ((0, 4),), "rotornet.failed_transceivers: must be within 0..3, got 4"),
        (
            "failed_switches",
            (0, 1, 2, 3),
            "rotornet.failed: must leave every two racks a slot or a detour by one, got none from rack 0 to rack 1",
        ),
        ("cell", 10**6, "rotornet.cell: must be such that 1 to 255 fill the 225000 B of a slot, got 1000000"),
    ],
)
def test_wrong_settings_are_one_line(field: str, value: float, message: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011  the whole line is compared
        build(replace(SMALL, **{field: value}), 8)
    assert str(error.value) == message


def test_servers_that_fill_no_racks_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^rotornet.servers_per_rack: must divide the 15 servers, got 2$"):
        build(replace(SMALL, servers_per_rack=2), 15)
