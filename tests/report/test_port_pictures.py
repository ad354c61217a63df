"""Pictures and sentences of packets say what the ports saw, and only of worlds that have ports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_hex

import topoflow
from topoflow.case.base import Result
from topoflow.demand import Demand
from topoflow.engine.lowering.placement import place
from topoflow.engine.packet import Packet
from topoflow.fabric.base import FabricDesign
from topoflow.fabric.dragonfly import Dragonfly
from topoflow.fabric.leaf_spine import LeafSpine
from topoflow.fabric.ring import Ring
from topoflow.report.answer import answers
from topoflow.report.base import Report
from topoflow.report.draw import ports
from topoflow.report.draw.pictures import PICTURES, Picture
from topoflow.report.draw.style import png
from topoflow.report.draw.ternary import TimeShares, draw_ternary
from topoflow.report.packets import bottleneck, columns, group_completion, groups, kinds, lines
from topoflow.traffic.base import Traffic, Transfer

OF_PORTS = [picture for picture in PICTURES if picture.file.startswith("ports")]
SERVERS, B = 12, 1.25e9
DRAGONFLY = Dragonfly(B, 1, 1e-7, nodes=2, routers=2, groups=3, global_links=1)
INCAST = Traffic.from_tasks("job", SERVERS, [Transfer(100_000.0, source, 11) for source in range(11)])
APART = Traffic.from_tasks("job", SERVERS, [Transfer(64.0, 0, 1), Transfer(64.0, 2, 3)])


def simulated(
    make_outcome: Callable[..., Result],
    name: str,
    design: FabricDesign,
    job: Traffic = INCAST,
    model: Packet = Packet(size=1024),
) -> Result:
    fabric = design.build(SERVERS, Demand(SERVERS))
    result = make_outcome(fabric, job, what=name)
    (timeline,) = model.simulate([place(job, fabric, name=name)])
    return replace(result, timeline=timeline)


@pytest.fixture(scope="module")
def packet_report(make_outcome: Callable[..., Result]) -> Report:
    designs = {"dragonfly": DRAGONFLY, "ring": Ring(B, 2, 1e-7)}
    return Report(tuple(simulated(make_outcome, name, design) for name, design in designs.items()), "")


@pytest.mark.parametrize("picture", OF_PORTS, ids=lambda picture: picture.file)
def test_a_picture_is_large_enough_and_there_where_worlds_have_ports(
    packet_report: Report, picture: Picture[Report], check_picture: Callable[[Path], None], tmp_path: Path
) -> None:
    assert picture.needs(packet_report)
    (tmp_path / "picture.png").write_bytes(png(picture.draw(packet_report)))
    check_picture(tmp_path / "picture.png")
    without = replace(
        packet_report, outcomes=tuple(replace(one, timeline=without_ports(one)) for one in packet_report.outcomes)
    )
    assert not picture.needs(without)


def test_of_many_worlds_the_busiest_of_each_job_are_drawn_and_how_many_is_said(
    packet_report: Report, make_outcome: Callable[..., Result]
) -> None:
    """Eight jobs of which each is idle for longer than the one before, on a slow and on a fast network."""

    def world(number: int, latency: float) -> Result:
        design = replace(DRAGONFLY, latency=latency * 10**number)
        result = simulated(make_outcome, f"{number} {latency}", design, APART)
        settings = replace(result.settings, config={"workload": number})
        return replace(result, case=replace(result.case, settings=settings))

    many = Report(tuple(world(number, latency) for number in range(8) for latency in (1e-8, 9e-8)), "")
    names = [outcome.settings.swept["what"] for outcome, _ in ports._shown(many)]
    assert names == [f"{number} 1e-08" for number in range(ports.MAX_PANELS)]
    for picture in OF_PORTS:
        if picture.needs(many):
            assert picture.draw(many).get_suptitle().endswith(" of 16 worlds, the busiest)")
        if picture.needs(packet_report):
            assert "worlds" not in picture.draw(packet_report).get_suptitle()


def without_ports(one: Result) -> Any:
    return replace(one.timeline, ports=None)


def test_every_link_is_of_one_kind() -> None:
    for design in (DRAGONFLY, Ring(B, 2, 1e-7)):
        fabric = design.build(SERVERS, Demand(SERVERS))
        assert np.array_equal(np.sum(list(kinds(fabric).values()), axis=0), np.ones(fabric.links))
    sizes = {kind: int(mask.sum()) for kind, mask in kinds(DRAGONFLY.build(SERVERS, Demand(SERVERS))).items()}
    assert sizes == {"from servers": 12, "to servers": 12, "inside groups": 6, "between groups": 6}


def test_a_triangle_has_every_port_once(packet_report: Report) -> None:
    for one in packet_report.outcomes:
        assert one.timeline.ports is not None
        points = ports._points(one, one.timeline.ports)
        assert sum(group.number.sum() for group in points.values()) == one.fabric.links


def test_a_kind_of_port_has_one_colour_in_all_triangles_and_is_in_the_legend() -> None:
    one = TimeShares(np.array([0.5]), np.array([0.1]), np.array([1.0]))
    parts = {"a": {"up": one, "down": one}, "b": {"down": one, "around": one}, "c": {}}
    figure = draw_ternary("", parts)
    (legend,) = figure.legends
    names = [text.get_text() for text in legend.get_texts()]
    colours = [to_hex(handle.get_color()) for handle in legend.get_lines()]
    assert names == ["up", "down", "around"]
    assert len(set(colours)) == 3
    for axes, part in zip(figure.axes, parts.values(), strict=True):
        point_colours = [to_hex(points.get_facecolor()[0]) for points in axes.collections]
        assert point_colours == [colours[names.index(kind)] for kind in part]


def test_a_map_has_the_share_of_each_link_between_switches(packet_report: Report) -> None:
    one = packet_report.outcomes[0]
    assert one.timeline.ports is not None
    matrix, nodes, what = ports.use(one, one.timeline.ports)
    assert (nodes, what) == (6, "switch")
    share = 100 * one.timeline.ports.active / one.timeline.makespan
    for link, (source, target) in enumerate(zip(one.fabric.source - SERVERS, one.fabric.target - SERVERS, strict=True)):
        if source >= 0 and target >= 0:
            assert matrix[source, target] == pytest.approx(share[link])
    assert matrix.count() == 12


def test_switches_of_a_map_have_whole_numbers(packet_report: Report) -> None:
    for axes in ports.draw_use(packet_report).axes[:2]:
        for side in (axes.xaxis, axes.yaxis):
            assert all(at == round(at) for at in side.get_ticklocs())


def test_the_answer_names_the_port_that_limits(packet_report: Report, make_outcome: Callable[..., Result]) -> None:
    """All others send to server 11, so the last link to it does, and ports before it wait for room."""
    (text,) = answers(replace(packet_report, outcomes=packet_report.outcomes[:1]))
    last = packet_report.outcomes[0]
    assert f"the port from router 2.1 to {last.fabric.nodes[11]} limits most" in text
    assert "1 of the 12 to servers do so" in text
    assert "Packets wait longest for room from " in text


def test_every_distribution_of_latencies_is_drawn_from_0_to_100_percent(make_outcome: Callable[..., Result]) -> None:
    """Those of one message, too, which are all in one range."""
    one = Traffic.from_tasks("job", SERVERS, [Transfer(64.0, 0, 1)])
    worlds = [simulated(make_outcome, name, DRAGONFLY, job) for name, job in (("many", INCAST), ("one", one))]
    for index, axes in enumerate(ports.draw_latency(Report(tuple(worlds), "")).axes):
        for line, world in zip(axes.get_lines(), worlds, strict=True):
            _, latency = world.timeline.ports.latencies()[index]
            x, y = line.get_data()
            assert (y[0], y[-1]) == (0, 100)
            assert (np.diff(x) >= 0).all()
            assert x[-1] == latency.largest


def test_lost_and_marked_packets_are_counted_where_ports_lose_or_mark(
    packet_report: Report, make_outcome: Callable[..., Result]
) -> None:
    design = LeafSpine(B, 1, 1e-7, servers_per_leaf=4)
    drops = simulated(make_outcome, "drops", design, model=Packet(size=1024, loss="drop", buffer=2048))
    marks = simulated(make_outcome, "marks", design, model=Packet(size=1024, control="dcqcn", ecn_from=2048))
    both = Report((drops, marks), "")
    at = columns(both).index("packets lost")
    assert columns(both)[at + 1] == "packets marked (ECN)"
    for one, line in zip(both.outcomes, lines(both), strict=True):
        lost, marked = one.timeline.ports.lost.sum(), one.timeline.ports.marked.sum()
        assert (lost > 0, marked > 0) == (one is drops, one is marks)
        assert line[at : at + 2] == (f"{lost:,}", f"{marked:,}")
        (text,) = answers(Report((one,), ""))
        assert f" Ports lost {lost:,} packets and marked {marked:,} (ECN)." in text
    for report in (both, packet_report):
        assert {len(line) for line in lines(report)} == {len(columns(report))}
    assert "packets lost" not in columns(packet_report)
    assert not any("lost" in text for text in answers(packet_report))


def test_groups_are_those_of_the_network() -> None:
    def sizes(design: FabricDesign) -> list[int]:
        return np.bincount(groups(design.build(SERVERS, Demand(SERVERS)))).tolist()

    assert sizes(DRAGONFLY) == [4, 4, 4]
    assert sizes(Ring(B, 2, 1e-7)) == [1] * 12
    assert sizes(LeafSpine(B, 2, 1e-7, servers_per_leaf=3, leaves_per_group=2, oversubscription=3)) == [3, 3, 3, 3]


def test_a_group_is_complete_with_its_last_message(make_outcome: Callable[..., Result]) -> None:
    job = Traffic.from_tasks("job", SERVERS, [Transfer(1e5, 0, 1), Transfer(2e5, 2, 11), Transfer(64.0, 3, 11)])
    one = simulated(make_outcome, "three", LeafSpine(B, 1, 1e-7, servers_per_leaf=4), job)
    group_ids, half, last = group_completion(one)
    finish = one.timeline.finish
    assert group_ids.tolist() == [0, 2]
    assert half.tolist() == [finish[0], finish[2]]
    assert last.tolist() == [finish[0], finish[1]]


def test_the_answer_says_where_no_port_limits(make_outcome: Callable[..., Result]) -> None:
    one = simulated(make_outcome, "idle", LeafSpine(B, 1, 1e-3, servers_per_leaf=2), APART)
    (text,) = answers(Report((one,), ""))
    assert "so bandwidth is not what limits" in text


@pytest.mark.parametrize("fabric", ["leaf_spine", "dragonfly"])
def test_twice_the_bandwidth_gains_little_where_the_answer_says_that_it_does_not_limit(fabric: str) -> None:
    not_limiting = {}
    names = ("allpingpong", "allreduce", "bcast", "fft3d", "halo3d", "halo3d26", "random", "reduce", "sweep3d")
    for name in names:
        settings = {
            "workload.name": name,
            "workload.cells": 20,
            "workload.elements": 2000,
            "fabric": fabric,
            "servers": 32,
        }
        once, twice = (
            topoflow.compare(
                {"workload": "motif", "fidelity": "packet", "degree": 1, "bandwidth_gbps": gbps, **settings}
            )
            for gbps in (100, 200)
        )
        ratio = once[0].row.iteration_time / twice[0].row.iteration_time
        not_limiting[name] = "bandwidth is not what limits" in bottleneck(once[0], fabric)
        assert ratio < 1.25 or not not_limiting[name], (name, ratio)
    assert {*not_limiting.values()} == {True, False}


def test_the_answer_says_where_messages_wait_for_each_other(make_outcome: Callable[..., Result]) -> None:
    """Each server sends to the next when the one before has: no port is busy, yet with twice the bandwidth the step is
    half as long."""
    chain = [Transfer(1e5, at, at + 1, (at - 1,) if at else ()) for at in range(SERVERS - 1)]
    job = Traffic.from_tasks("job", SERVERS, chain)
    one, twice = (simulated(make_outcome, "chain", LeafSpine(b, 1, 1e-9, servers_per_leaf=4), job) for b in (B, 2 * B))
    assert twice.timeline.makespan < 0.6 * one.timeline.makespan
    (text,) = answers(Report((one,), ""))
    assert "for more than 9." in text
    assert "messages that wait for each other are sent for 100.0% of it: bandwidth limits." in text
