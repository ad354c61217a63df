"""Figures of Sirius, small, next to what the paper states."""

from __future__ import annotations

from typing import Any

import pytest

from topoflow.study.figures.load import load

pytestmark = pytest.mark.usefixtures("without_pixels")


def test_power_of_paths_is_that_of_the_paper(figure: Any) -> None:
    """Sirius 2: 50 W/(Tb/s) for two nodes, 487 for four layers of 64-port switches, which more than 65 K nodes need."""
    rows = figure("sirius_fig2a")["rows"]
    assert [row["paper"] for row in rows][::4] == pytest.approx([50, 487], rel=2e-3)
    assert [row["nodes"] for row in rows] == [2, 64, 2048, 65_536, 2_097_152]
    assert all(row["all_links"] - row["paper"] == pytest.approx(50 * (row["layers"] > 0)) for row in rows)


def test_a_picture_says_how_many_points_it_does_not_show() -> None:
    rows = [
        {"series": "Sirius", "workload.load": at, "completion_p99": time, "goodput": 0.1}
        for at, time in ((0.1, 1e-5), (0.5, None), (1.0, None))
    ]
    times, goodput = load("sirius_fig9").draw(rows)
    assert "2 of 3 points have none, as more than 1 % of the short flows had not ended." in times.caption
    assert "none" not in goodput.caption
    (bars,) = load("sirius_fig11").draw([{**row, "workload.load": 1.0} for row in rows])
    assert "2 of 3" in bars.caption


def test_a_laser_that_draws_no_more_is_a_fixed_one(figure: Any) -> None:
    """By 5, in W/(Tb/s): 2 * 19.53 of rack switches and 4 * 25 of transceivers, of 7 * (19.53 + 50)."""
    one, *_, ten = figure("sirius_fig6a", "servers=128", "experiment.overheads=[1,10]")["summary"]
    assert one["path_ratio"] == pytest.approx((2 * 19.53125 + 4 * 25) / (7 * 69.53125))
    assert ten["path"] - one["path"] == pytest.approx(4 * 9 / 0.4)
    assert ten["bill_ratio"] > one["bill_ratio"]
