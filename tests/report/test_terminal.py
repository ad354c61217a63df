"""The printed table: whole numbers on any terminal, and grammar."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace

import pytest
from rich.console import Console

import topoflow
from topoflow.case.base import Result
from topoflow.fabric.base import Fabric
from topoflow.report.answer import answers
from topoflow.report.base import Report
from topoflow.report.terminal import setting, show
from topoflow.traffic.base import Compute, Traffic, Transfer


def printed(report: Report, width: int) -> str:
    console = Console(file=io.StringIO(), width=width)
    show(report, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [70, 80, 100, 130, 200])
def test_a_narrow_terminal_gets_fewer_columns_and_whole_numbers(report: Report, width: int) -> None:
    text = printed(report, width)
    assert "\N{HORIZONTAL ELLIPSIS}" not in text
    assert max(map(len, text.splitlines())) <= width
    for title in ("fabric", "bandwidth_gbps", "iteration time", "exposed comm.", "cost"):
        assert title in text
    assert ("The terminal is too narrow for mean path" in text) == (width < 130)


@pytest.mark.parametrize("width", [80, 100, 120])
def test_what_decides_is_in_every_table(width: int) -> None:
    """Step time, price, and GPU memory where a strategy does not fit; what explains them is left out first."""
    for batch, titles in ((64, ["vs fastest"]), (2**20, ["GPU memory"])):
        results = topoflow.compare(f"workload.batch_per_gpu={batch}", workload="vgg16", servers=16)
        head = next(line for line in printed(results._report, width).splitlines() if "iteration time" in line)
        assert all(title in head for title in ("fabric", "iteration time", "cost", *titles)), head
        assert "mean path" not in head


def test_a_single_interface_is_singular(report: Report) -> None:
    (job,) = report.jobs
    slow = tuple(outcome for outcome in job if outcome.row.bandwidth == 1.0)
    assert setting(report, slow).startswith("toy on 4 servers, strategy by_hand, 1 interface of 8 b/s, ")


def test_equally_fast_networks_are_called_so_and_the_cheapest_is_named(
    make_outcome: Callable[..., Result], fabrics: dict[str, Callable[[float], Fabric]]
) -> None:
    ring = fabrics["ring"](1.0)
    tied = [make_outcome(ring, cost=cost, copy=name) for name, cost in (("dear", 900.0), ("cheap", 100.0))]
    (text,) = answers(Report((*tied, make_outcome(fabrics["ring"](0.5), cost=50.0, copy="slow")), ""))
    assert "ring, copy=cheap and ring, copy=dear are the fastest, equally so" in text
    assert "the cheapest of these is ring, copy=cheap, for $100" in text
    assert "is the fastest" not in text


def test_an_ideal_network_is_a_bound_and_never_recommended(
    make_outcome: Callable[..., Result], fabrics: dict[str, Callable[[float], Fabric]]
) -> None:
    ideal = replace(fabrics["star"](9.0), name="ideal", is_ideal=True)
    results = make_outcome(ideal, cost=1.0, copy="a"), make_outcome(fabrics["ring"](1.0), cost=5.0, copy="b")
    (text,) = answers(Report(results, ""))
    assert results[0].iteration_time < results[1].iteration_time
    assert "ring, copy=b is the fastest" in text or "ring, copy=b takes" in text
    assert "ideal, copy=a, which cannot be built, takes" in text


def test_what_limits_is_named_where_it_is_not_the_network(
    make_outcome: Callable[..., Result], fabrics: dict[str, Callable[[float], Fabric]]
) -> None:
    traffic = Traffic.from_tasks("j", 4, (Compute(99.5, 0), Transfer(0.5, 0, 1, after=(0,))))
    (text,) = answers(Report((make_outcome(fabrics["star"](1.0), traffic),), ""))
    assert "The network does not limit this job" in text
    (text,) = answers(Report((make_outcome(fabrics["star"](0.01), traffic),), ""))
    assert "does not limit" not in text
