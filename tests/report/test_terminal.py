"""The printed table: whole numbers on any terminal, and grammar."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from topoflow.report.base import Report
from topoflow.report.terminal import setting, show


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
    for title in ("fabric", "bandwidth_gbps", "iteration time", "not computing", "cost"):
        assert title in text
    assert ("The terminal is too narrow for power" in text) == (width < 130)


def test_a_single_interface_is_singular(report: Report) -> None:
    (job,) = report.jobs
    slow = tuple(outcome for outcome in job if outcome.row.bandwidth == 1.0)
    assert setting(slow).startswith("toy on 4 servers, strategy by_hand, 1 interface of 8 b/s, ")
