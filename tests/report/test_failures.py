"""What single failures do, in numbers: every fiber counts once, and what cuts a server off is endless."""

from __future__ import annotations

import numpy as np
import pytest

from topoflow.case.failures import COLUMNS, Failures, Slowdowns
from topoflow.report.base import Report
from topoflow.report.draw.cdf import draw_failures


def fibers(*seconds: float, count: tuple[int, ...]) -> Failures:
    names = tuple(f"a to {number}" for number in range(len(seconds)))
    return Failures("fiber", names, np.array(count), Slowdowns(2.0, np.array(seconds)))


def test_a_link_counts_as_often_as_it_has_fibers() -> None:
    row = dict(zip(COLUMNS, fibers(2, 3, count=(1, 3)).cells("network"), strict=True))
    assert (row["single failures"], row["median"], row["worst"]) == ("4", "1.50x", "1.50x")
    assert row["which is"] == "link 1, a to 1"


def test_what_cuts_a_server_off_is_counted_and_no_slowdown() -> None:
    row = dict(zip(COLUMNS, fibers(2, np.inf, 5, count=(4, 3, 2)).cells("network"), strict=True))
    assert (row["cut off"], row["worst"], row["which is"]) == ("3", "2.50x", "link 2, a to 2")
    assert (row["median"], row["95th percentile"]) == ("2.50x", "cut off"), "4 of 9 go on as before, 2 slower, 3 not"


def test_the_curve_of_a_network_ends_at_the_share_of_failures_that_it_survives(report: Report) -> None:
    (axes,) = draw_failures(report).axes
    ends = [line.get_ydata()[-1] for line in axes.lines]
    links = [len(one.names) for _, one in report.failures]
    # of 1 + 2 + .. + n fibers the n of the last link cut a server off
    assert ends == pytest.approx([100 * (1 - 2 / (n + 1)) for n in links])
