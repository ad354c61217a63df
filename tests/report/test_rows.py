"""The numbers of a row, against worlds that are worked out by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

import numpy as np
import pytest

from topoflow.case.base import Result
from topoflow.case.rows import COLUMNS, Row
from topoflow.fabric.base import Fabric
from topoflow.report.base import Report
from topoflow.traffic.base import Compute, Traffic, Transfer

Make = Callable[..., Result]
Fabrics = dict[str, Callable[[float], Fabric]]


def test_every_column_is_explained() -> None:
    assert [field.name for field in fields(Row)] == list(COLUMNS)


def test_compute_time_is_that_of_the_busiest_server(make_outcome: Make, fabrics: Fabrics) -> None:
    # server 0: 2 + 0.5 s, server 1: 1 s
    assert make_outcome(fabrics["ring"](1.0)).row.compute_time == 2.5


def test_a_delay_that_occupies_nobody_is_not_computing(make_outcome: Make, fabrics: Fabrics) -> None:
    outcome = make_outcome(fabrics["star"](1.0), Traffic.from_tasks("delay", 4, (Compute(7.0, None), Compute(1.0, 2))))
    assert (outcome.row.compute_time, outcome.row.network_time) == (1.0, 6.0)


def test_network_time_and_compute_time_add_up_to_the_iteration(report: Report) -> None:
    for row in report.rows:
        assert row.network_time >= 0
        assert row.compute_time + row.network_time == pytest.approx(row.iteration_time, rel=1e-12)


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
