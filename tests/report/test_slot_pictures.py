"""Pictures of networks of slots show what the worlds saw, and only worlds that have slots."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from topoflow.case.base import Result
from topoflow.engine.lowering.placement import place
from topoflow.engine.slotted import Slotted
from topoflow.fabric.base import Fabric
from topoflow.fabric.circuits.on_demand import OnDemand
from topoflow.fabric.circuits.rotors import Rotating, Rotors
from topoflow.fabric.circuits.schedule import EMPTY, Cyclic
from topoflow.fabric.circuits.staggered import Staggered
from topoflow.fabric.fosquare import FOSquare
from topoflow.fabric.opera import Opera
from topoflow.fabric.rotornet import RotorNet
from topoflow.fabric.sirius import Sirius
from topoflow.report.base import Report
from topoflow.report.draw import slots
from topoflow.report.draw.pictures import PICTURES, Picture
from topoflow.report.draw.style import png
from topoflow.traffic.base import Traffic, Transfer

OF_SLOTS = [picture for picture in PICTURES if picture.file.startswith("slots_")]
SERVERS = 16
# All to all, with sizes of three powers of ten.
JOB = Traffic.from_tasks(
    "job",
    SERVERS,
    [
        Transfer(float(size), source, (source + shift) % SERVERS)
        for shift in range(1, SERVERS)
        for source in range(SERVERS)
        for size in (900, 40_000, 300_000)
    ],
)


@pytest.fixture(scope="module")
def slot_report(make_outcome: Callable[..., Result]) -> Report:
    """One world of each network of slots, and a Sirius that lost a rack's transceiver and a grating."""
    failed = Sirius(1.25e9, 4, 0.0, failed_gratings=((0, 1),), failed_transceivers=((7, 2),))
    designs = {
        "whole": Sirius(1.25e9, 4, 0.0),
        "failed": failed,
        "square": FOSquare(1.25e9, 5, 0.0),
        "rotors": RotorNet(1.25e9, 4, 0.0),
        "staggered": Opera(1.25e9, 4, 0.0, bulk=100e3),
    }
    return Report(tuple(outcome(make_outcome, name, design) for name, design in designs.items()), "")


def outcome(make_outcome: Callable[..., Result], name: str, design: Sirius | FOSquare | RotorNet) -> Result:
    fabric = design.build(SERVERS, JOB.demand())
    result = make_outcome(fabric, JOB, what=name)
    (timeline,) = Slotted().simulate([place(JOB, fabric, name=name)])
    return replace(result, timeline=timeline)


def of(report: Report, place: int) -> Result:
    return report.outcomes[place]


@pytest.mark.parametrize("picture", OF_SLOTS, ids=lambda picture: picture.file)
def test_a_picture_is_large_enough_and_not_blank(
    slot_report: Report, picture: Picture, check_picture: Callable[[Path], None], tmp_path: Path
) -> None:
    assert picture.needs(slot_report)
    (tmp_path / "picture.png").write_bytes(png(picture.draw(slot_report)))
    check_picture(tmp_path / "picture.png")


@pytest.mark.parametrize("picture", OF_SLOTS, ids=lambda picture: picture.file)
def test_worlds_without_slots_have_none(
    report: Report, picture: Picture, fabrics: dict[str, Callable[[float], Fabric]]
) -> None:
    assert not picture.needs(report)


def test_queues_are_those_that_the_worlds_saw(slot_report: Report) -> None:
    all_, fullest = slots.draw_waiting(slot_report).axes
    for number, line in enumerate(all_.get_lines()):
        counts = of(slot_report, number).timeline.slots
        assert counts is not None
        heights = np.nan_to_num(line.get_ydata())  # nothing is a gap on a logarithmic axis
        np.testing.assert_allclose(heights / max(heights), counts.waiting[:, 0] / counts.waiting[:, 0].max())
    assert len(fullest.get_lines()) == 5


def test_every_size_has_a_curve_that_ends_at_its_slowest_message(slot_report: Report) -> None:
    figure = slots.draw_completion(slot_report)
    for number, axes in enumerate(figure.axes):
        timeline = of(slot_report, number).timeline
        took = (timeline.finish - timeline.start).reshape(-1, 3)
        names = [line.get_label() for line in axes.get_lines()]
        assert names == ["100 B to 1 kB", "10 kB to 100 kB", "100 kB to 1 MB"]
        ends = [line.get_xdata()[-1] for line in axes.get_lines()]
        np.testing.assert_allclose(ends, took.max(axis=0))


def test_a_schedule_has_its_targets_and_leaves_out_what_failed(slot_report: Report) -> None:
    figure = slots.draw_schedule(slot_report)
    assert len(figure.axes) == 4, "a square has no schedule"
    for number, axes in zip((0, 1, 3, 4), figure.axes, strict=True):
        control = of(slot_report, number).fabric.control
        assert isinstance(control, Cyclic | Rotating)
        image, schedule = axes.images[0].get_array(), control.schedule
        pairs = 240 if isinstance(schedule, Rotors) else schedule.joined().sum()
        slots_of_pair = 4 if isinstance(schedule, Staggered) else 1
        assert (~image.mask).sum() == pairs * slots_of_pair
        for (node, column), target in np.ndenumerate(image.filled(EMPTY)):
            assert target == schedule.target(node, column % schedule.links, column // schedule.links)


def test_retransmissions_are_counted_once_by_their_switch(slot_report: Report) -> None:
    (axes,) = slots.draw_refused(slot_report).axes
    counts, control = of(slot_report, 2).timeline.slots, of(slot_report, 2).fabric.control
    assert counts is not None
    assert isinstance(control, OnDemand)
    heights = [bar.get_height() for bar in axes.patches]
    assert sum(heights) == counts.refused.sum() > 0
    assert len(heights) == 2 * control.schedule.racks
