"""Sirius: the paper's network, its timing, and what it refuses."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from topoflow.demand import Demand
from topoflow.fabric.base import Fabric, Static
from topoflow.fabric.circuits.schedule import Cyclic
from topoflow.fabric.sirius import Sirius

# 128 racks of 24 servers, 8 uplinks of 50 Gb/s and half as many more. Source: Sirius, 7
PAPER = Sirius(8 * 50e9 / 8 / 24, 1, 0.0, servers_per_rack=24, uplinks=8)
SMALL = Sirius(1e9, 2, 0.0)


def build(design: Sirius, servers: int) -> Fabric:
    return design.build(servers, Demand.from_matrix(np.zeros((servers, servers)), {}))


def control(fabric: Fabric) -> Cyclic:
    assert isinstance(fabric.control, Cyclic)
    return fabric.control


def test_the_papers_network() -> None:
    """12 transceivers of 50 Gb/s, cells of 562 B in 90 ns; at 1x and 2x gratings of 16 and 8 ports."""
    fabric = build(PAPER, 3072)
    assert PAPER.uplink_bandwidth == pytest.approx(50e9 / 8)
    assert (PAPER.transceivers, control(fabric).cell, control(fabric).schedule.nodes) == (12, 562, 128)
    assert [replace(PAPER, overprovision=factor).schedule(3072).slots for factor in (1.0, 1.5, 2.0)] == [16, 11, 8]
    rack = fabric.bandwidth[2 * 3072 :]
    assert rack == pytest.approx(12 * 50e9 / 8 * 0.9 / 2)


def test_faster_servers_leave_the_uplinks_as_they_are() -> None:
    faster = replace(PAPER, bandwidth=50e9 / 8, rack_bandwidth=50e9)
    assert (faster.uplink_bandwidth, faster.cell) == (50e9 / 8, PAPER.cell)
    with pytest.raises(ValueError, match=r"sirius\.rack_bandwidth: must be .*, got -1"):
        replace(PAPER, rack_bandwidth=-1)


def test_what_is_bought() -> None:
    """Source: Sirius 4.1 and 5: rack switches, tunable transceivers at their uplinks, a grating port at both ends."""
    bill = Counter({(item.component, round(item.bandwidth)): item.count for item in build(PAPER, 3072).bill})
    server, uplink = round(PAPER.bandwidth), round(50e9 / 8)
    assert bill == {
        ("nic_port", server): 3072,
        ("switch_port", server): 3072,
        ("switch_port", uplink): 128 * 12,
        ("transceiver", server): 2 * 3072,
        ("tunable_transceiver", uplink): 128 * 12,
        ("grating_port", uplink): 2 * 128 * 12,
        ("fiber", uplink): 2 * 128 * 12,
    }
    alone = {item.component for item in build(SMALL, 8).bill}
    assert alone == {"nic_port", "tunable_transceiver", "grating_port", "fiber"}, "no switch where servers have uplinks"


def test_what_failed_carries_nothing_and_servers_are_on_racks_that_work() -> None:
    """9 working racks of 12 in groups of 2: each lost what it had with the three others."""
    intact, design = replace(SMALL, servers_per_rack=2), replace(SMALL, servers_per_rack=2, failed_racks=(0, 4, 7))
    fabric = build(design, 18)
    assert control(fabric).nodes_of(18).tolist() == [rack for rack in (1, 2, 3, 5, 6, 8, 9, 10, 11) for _ in range(2)]
    rack = build(intact, 24).bandwidth[-1]
    assert fabric.bandwidth[36:] == pytest.approx(rack * 8 / 11)
    omitted = build(replace(design, omit_failed=True, uplinks=3, overprovision=1), 18)
    alone = build(replace(intact, uplinks=3, overprovision=1), 18)
    assert control(omitted).schedule == control(alone).schedule, "what the failed ones had is regained"
    assert (omitted.bandwidth == alone.bandwidth).all()
    lost = build(replace(intact, failed_transceivers=((1, 0),), failed_gratings=((2, 3),)), 24)
    share = lost.bandwidth[48:].reshape(-1, 2) / rack * 11
    assert share[:, 0].round(6).tolist() == [10, 10, 11, 11, 9, 9, *[11] * 6]
    assert share[:, 1].round(6).tolist() == [10, 10, 11, 11, 11, 11, 9, 9, *[11] * 4]


def test_one_rack_needs_no_schedule() -> None:
    assert type(build(replace(SMALL, servers_per_rack=4), 4).control) is Static


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("uplinks", 6, "sirius.uplinks: must divide the 8 racks, got 6"),
        ("servers_per_rack", 3, "sirius.servers_per_rack: must divide the 8 servers, got 3"),
        ("grating_ports", 1, "sirius.grating_ports: must be at least the 2 slots of an epoch, got 1"),
        ("slot", 9e-9, "sirius.slot: must be longer than the guardband of 1e-08 s, got 9e-09"),
        ("guardband", -1.0, "sirius.guardband: must be finite and not negative, got -1.0"),
        ("overprovision", 0.5, "sirius.overprovision: must be at least 1, got 0.5"),
        ("overprovision", 1.3, "sirius.overprovision: must make a whole number of transceivers of 4 uplinks, got 1.3"),
        ("slot", 10.1e-9, "sirius.slot: must have room for a byte after the guardband, got 1.01e-08 s"),
        ("omit_failed", "no", "sirius.omit_failed: must be true or false, got 'no'"),
        ("uplinks", 2.5, "sirius.uplinks: must be a whole number, got 2.5"),
        ("failed_racks", (0, 1, 2, 12), "sirius.failed_racks: must be within 0..11, got 12"),
        ("failed_gratings", ((0, 4),), "sirius.failed_gratings: must be within 0..3, got 4"),
        ("failed_gratings", ((0,),), "sirius.failed_gratings: must have pairs of numbers, got [0]"),
        ("failed_racks", 3, "sirius.failed_racks: must be a list, got 3"),
        ("failed_racks", ("a",), "sirius.failed_racks: must have whole numbers, got 'a'"),
        ("failed_transceivers", (3,), "sirius.failed_transceivers: must be a list, got 3"),
        ("failed_transceivers", ((1, 1), (1, 1)), "sirius.failed_transceivers: must differ, got [(1, 1), (1, 1)]"),
        (
            "failed_gratings",
            tuple((0, group) for group in range(4)),
            "sirius.failed: must leave every two racks a slot or a detour by one, got none from rack 0 to rack 1",
        ),
    ],
)
def test_what_cannot_be_is_one_line(field: str, value: object, message: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011  the whole line is compared
        build(replace(SMALL, **{field: value}), 8)
    assert str(error.value) == message
