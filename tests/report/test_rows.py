"""The numbers of a row, against worlds that are worked out by hand."""

from __future__ import annotations

import re
import tracemalloc
from collections.abc import Callable
from dataclasses import fields, replace
from io import BytesIO

import numpy as np
import pytest
from matplotlib.image import imread

from topoflow.case.base import Result
from topoflow.case.rows import COLUMNS, ResultRow, flows_between
from topoflow.demand import Demand
from topoflow.engine.base import LoweredGraph
from topoflow.engine.lowering.routing import routings
from topoflow.fabric.base import Fabric
from topoflow.report.base import Report
from topoflow.report.draw.heat_map import MAX_BLOCKS, by_block, draw_matrices
from topoflow.report.draw.style import png
from topoflow.study.configure.options import options
from topoflow.traffic.base import Compute, Traffic, Transfer

Make = Callable[..., Result]
Fabrics = dict[str, Callable[[float], Fabric]]


def test_every_column_is_explained() -> None:
    assert [field.name for field in fields(ResultRow)] == list(COLUMNS)


def test_every_routing_and_fidelity_is_explained() -> None:
    for key, names in (("routing", routings()), ("fidelity", options("fidelity"))):
        assert [name for name in names if not re.search(rf"\b{name}[:,]", COLUMNS[key])] == []


def test_compute_time_is_that_of_the_busiest_server(make_outcome: Make, fabrics: Fabrics) -> None:
    # server 0: 2 + 0.5 s, server 1: 1 s
    assert make_outcome(fabrics["ring"](1.0)).row.compute_time == 2.5


def test_a_delay_that_occupies_nobody_is_not_computing(make_outcome: Make, fabrics: Fabrics) -> None:
    outcome = make_outcome(fabrics["star"](1.0), Traffic.from_tasks("delay", 4, (Compute(7.0, None), Compute(1.0, 2))))
    assert (outcome.row.compute_time, outcome.row.network_time) == (1.0, 6.0)


def test_waiting_for_the_host_is_neither_computing_nor_network_time(make_outcome: Make, fabrics: Fabrics) -> None:
    tasks = (Compute(3.0, None), Compute(1.0, 2, (0,)), Transfer(2.0, 0, 2, (1,)))
    outcome = make_outcome(fabrics["star"](4.0), Traffic.from_tasks("stalls", 4, tasks, idle={2: 3.0}))
    assert (outcome.row.compute_time, outcome.row.host_time, outcome.row.network_time) == (1.0, 3.0, 0.5)


def test_the_parts_of_an_iteration_add_up_to_it(report: Report) -> None:
    for row in report.rows:
        assert row.network_time >= 0
        assert row.compute_time + row.host_time + row.network_time == pytest.approx(row.iteration_time, rel=1e-12)


def test_iteration_time_of_a_lone_transfer_is_bytes_over_bandwidth(make_outcome: Make, fabrics: Fabrics) -> None:
    # 6 B at 4 B/s over links without latency
    outcome = make_outcome(fabrics["star"](4.0), Traffic.from_tasks("transfer", 4, (Transfer(6.0, 0, 2),)))
    assert outcome.row.iteration_time == pytest.approx(1.5, rel=1e-12)


def test_bandwidth_tax_counts_every_relay(make_outcome: Make, fabrics: Fabrics) -> None:
    # ring: 6 B from 0 to 2 are relayed by 1. The ring all-reduce of 4 B over 4 servers sends 2 * 3/4 * 4 = 6 B from
    # each to its neighbour, 24 B, never relayed. (2 * 6 + 24) / (6 + 24) = 1.2
    assert make_outcome(fabrics["ring"](1.0)).row.bandwidth_tax == pytest.approx(1.2, rel=1e-12)


def test_bandwidth_tax_is_one_where_only_switches_relay(make_outcome: Make, fabrics: Fabrics) -> None:
    assert make_outcome(fabrics["star"](1.0)).row.bandwidth_tax == 1.0


def test_bandwidth_tax_is_one_without_traffic(make_outcome: Make, fabrics: Fabrics) -> None:
    outcome = make_outcome(fabrics["ring"](1.0), Traffic.from_tasks("alone", 4, (Compute(1.0, 0),)))
    assert outcome.row.bandwidth_tax == 1.0


def test_mean_path_length_is_over_all_ordered_pairs(make_outcome: Make, fabrics: Fabrics) -> None:
    # one-way ring of 4: 1, 2 and 3 links from each server; star: always 2
    assert make_outcome(fabrics["ring"](1.0)).row.path_length_mean == 2.0
    assert sorted(make_outcome(fabrics["ring"](1.0)).path_lengths.tolist()) == [1.0] * 4 + [2.0] * 4 + [3.0] * 4
    assert make_outcome(fabrics["star"](1.0)).row.path_length_mean == 2.0


def test_heat_map_is_end_to_end_whatever_relays(make_outcome: Make, fabrics: Fabrics) -> None:
    expected = np.zeros((4, 4))
    expected[0, 2] = 6.0
    for server in range(4):
        expected[server, (server + 1) % 4] += 6.0  # 2 * 3/4 * 4 B of the ring all-reduce
    for name in ("ring", "star"):
        np.testing.assert_allclose(make_outcome(fabrics[name](1.0)).flow_matrix, expected, rtol=1e-12)


def test_the_traffic_of_100000_servers_takes_memory_by_pairs_that_send() -> None:
    """A table of all pairs would take 80 GB. What is drawn has a row for several neighbours, and every byte once."""
    servers, sends = 100_000, 1000
    source, target = np.random.default_rng(0).permutation(servers)[: 2 * sends].reshape(2, sends).astype(np.int32)
    graph = LoweredGraph(
        delay=np.zeros(sends),
        bytes=np.arange(sends, dtype=float),  # the first sends nothing
        release=np.zeros(sends),
        path=np.arange(sends, dtype=np.int32),
        after_offsets=np.zeros(sends + 1, np.int64),
        after=np.zeros(0, np.int32),
        path_offsets=np.arange(sends + 1),
        path_links=np.arange(sends, dtype=np.int32),
        owner=np.arange(sends, dtype=np.int32),
        owners=sends,
        links=sends,
        ends=np.stack([source, target, np.zeros(sends, np.int32)]),
    )
    tracemalloc.start()
    flows = flows_between(graph, np.arange(servers))
    drawn = by_block(flows)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 50e6
    sent = {(int(a), int(b)): size for a, b, size in zip(source, target, graph.bytes, strict=True) if size}
    assert dict(zip(zip(flows.source.tolist(), flows.target.tolist(), strict=True), flows.bytes, strict=True)) == sent
    assert drawn.shape == (MAX_BLOCKS, MAX_BLOCKS)
    assert drawn.sum() == graph.bytes.sum()
    few = replace(flows, source=flows.source[:0], target=flows.target[:0], bytes=flows.bytes[:0])
    assert not by_block(few).any()


@pytest.mark.parametrize("panels", [1, 3, 4, 6])
def test_every_row_of_a_heat_map_has_a_pixel(panels: int) -> None:
    """A ring of 1,024 servers is a diagonal without gaps."""
    servers = np.arange(1024)
    ring = by_block(Demand(1024, {}, servers, (servers + 1) % 1024, np.ones(1024)))
    figure = draw_matrices([f"{n}" for n in range(panels)], [ring] * panels, "server", [1024] * panels)
    pixels = imread(BytesIO(png(figure)))[::-1, :, :3]  # from below
    coloured = np.ptp(pixels, axis=2) > 0.3
    for axes in figure.axes[:panels]:
        (left, low), (right, high) = np.rint(axes.get_position().get_points() * coloured.T.shape).astype(int)
        inner = coloured[low + 3 : high - 3, left + 3 : right - 3]  # within the frame
        assert inner.any(axis=0).all()
        assert inner.any(axis=1).all()


def test_no_link_is_used_more_than_it_can_be(report: Report) -> None:
    for outcome in report.outcomes:
        assert (outcome.utilization >= 0).all()
        assert (outcome.utilization <= 1 + 1e-9).all()


def test_ranking_is_by_time_then_by_price(make_outcome: Make, fabrics: Fabrics) -> None:
    priced = [(4.0, 30.0), (1.0, 20.0), (1.0, 10.0), (4.0, 40.0)]  # B/s, USD
    outcomes = [make_outcome(fabrics["ring"](bandwidth), cost=cost, cost_usd=str(cost)) for bandwidth, cost in priced]
    assert [outcome.row.cost_usd for outcome in Report(tuple(outcomes), "").ranking] == [30, 40, 10, 20]


def test_representatives_show_every_fabric_first(report: Report) -> None:
    assert {outcome.settings.fabric for outcome in report.representatives(2)} == {"ring", "star"}
    assert report.representatives(4) == report.outcomes


def test_worlds_have_different_names(report: Report) -> None:
    with pytest.raises(ValueError, match="different names"):
        Report((report.outcomes[0], report.outcomes[0]), "")
    with pytest.raises(ValueError, match="at least one world"):
        Report((), "")
