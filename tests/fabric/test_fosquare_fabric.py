"""FOSquare's wiring, timing and bill, and what a fabric of this kind cannot be."""

from __future__ import annotations

import numpy as np
import pytest

from topoflow.demand import Demand
from topoflow.engine.lowering.placement import place
from topoflow.engine.slotted.cells import cells_of
from topoflow.fabric.base import Fabric
from topoflow.fabric.circuits.on_demand import OnDemand
from topoflow.fabric.fosquare import FOSquare
from topoflow.traffic.base import Traffic, Transfer

PAPER = FOSquare(6.25e9, 5, 0.0, servers_per_rack=24, intra_latency=25e-9, inter_latency=250e-9)


def built(design: FOSquare, servers: int) -> Fabric:
    return design.build(servers, Demand.from_matrix(np.zeros((servers, servers)), {}))


def test_a_slot_is_that_of_the_paper() -> None:
    """5 cells of 1,500 B and 1,000 bits at 50 Gb/s, and a gap of 200 ns; 50 KB hold 6 packets."""
    assert PAPER.slot == pytest.approx((7500 * 8 + 1000) / 50e9 + 200e-9)
    assert PAPER.slot == pytest.approx(1.42e-6)
    control = built(PAPER, 576).control
    assert isinstance(control, OnDemand)
    assert (control.schedule.racks, control.schedule.intra, control.schedule.inter, control.schedule.room) == (
        24,
        4,
        1,
        6,
    )
    # 1.22 us are sent, 2 * 5 m and 2 * 50 m of fiber, 80 ns of switching and 20 ns of label
    assert control.arrive == pytest.approx((1.22e-6 + 50e-9 + 100e-9, 1.22e-6 + 500e-9 + 100e-9))


def test_a_message_fills_packets_and_waits_for_buffering_first() -> None:
    job = Traffic.from_tasks("job", 9, [Transfer(28_000.0, 0, 4), Transfer(4_608.0, 0, 1)])
    world = cells_of(place(job, built(FOSquare(6.25e9, 5, 0.0), 9), name="world"))
    assert world.cells.tolist() == [4, 1]
    assert world.delay.tolist() == [240_000, 240_000]
    assert world.pause == (2, 2)


def test_servers_that_share_neither_rack_nor_place_have_two_paths_over_their_corners() -> None:
    fabric = built(FOSquare(6.25e9, 5, 0.0, servers_per_rack=3), 12)
    for source in range(12):
        for target in range(12):
            corners = {source // 3 * 3 + target % 3, target // 3 * 3 + source % 3} - {source, target}
            over = {int(fabric.target[path[1]]) for path in fabric.route(source, target) if len(path) == 4}
            assert over == (corners if len(corners) == 2 else set())


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"inter": 5}, "fosquare.inter: must leave one of the 5 transceivers for the rack, got 5"),
        ({"inter": 0}, "fosquare.inter: must be positive, got 0"),
        ({"buffer": 14_999}, "fosquare.buffer: must hold 2 to 255 packets of 7500 B, got 14999"),
        ({"cells": 0}, "fosquare.cells: must be positive, got 0"),
        ({"gap": -1.0}, "fosquare.gap: must not be negative, got -1.0"),
    ],
)
def test_wrong_fields_are_one_line(fields: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011  the whole line is compared
        FOSquare(6.25e9, 5, 0.0, **fields)
    assert str(error.value) == message


def test_servers_must_fill_the_racks() -> None:
    with pytest.raises(ValueError, match=r"fosquare.servers_per_rack: must divide the 16 servers, got 3"):
        built(FOSquare(6.25e9, 5, 0.0, servers_per_rack=3), 16)
