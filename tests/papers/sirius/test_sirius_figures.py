"""Figures of Sirius, small, next to what the paper states."""

from __future__ import annotations

from dataclasses import replace
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


def test_readings_are_measures_of_the_same_flows(figure: Any) -> None:
    """Sirius 7: until the last flow has ended all bytes arrive, so goodputs differ by this time only."""
    result = figure("sirius_sensitivity", "servers=192", "workload.count=200", "workload.load=0.5")
    by_series = {(row["series"], row["measure"]): row for row in result["rows"]}
    assert len(by_series) == 3 * 8
    for series in ("ESN", "Sirius", "Sirius of faster cables"):
        longest, ended, completed = (by_series[series, measure] for measure in ("longest", "ended", "completed"))
        assert completed["unfinished"] == ended["unfinished"] == 0
        assert ended["goodput"] == longest["goodput"]
        assert completed["goodput"] == completed["offered"] < longest["offered"], "bytes of all flows, in a longer time"
    readings = {row["reading"] for row in result["summary"]}
    assert readings == {*load("sirius_sensitivity").readings}


def test_faster_cables_end_flows_earlier(figure: Any) -> None:
    """The uplinks are the same, and a flow of 100 KB takes a third of the time on a cable of 50 Gb/s."""
    series = "series=Sirius,Sirius of faster cables"
    result = figure("sirius_sensitivity", "servers=192", "workload.count=200", "workload.load=0.1", series)
    slow, fast = (row["completion_p99"] for row in result["rows"] if row["measure"] == "completed")
    assert fast < slow / 2


@pytest.mark.parametrize(
    ("pair", "line"),
    [
        (["ESN"], r"experiment\.readings\.a: must be a rival and a network, got \['ESN'\]"),
        (["ESN", "Opera"], r"experiment\.readings\.a: must be of the series .*, got 'Opera'"),
    ],
)
def test_a_reading_is_a_pair_of_series(pair: list[str], line: str) -> None:
    with pytest.raises(ValueError, match=line):
        replace(load("sirius_sensitivity"), readings={"a": pair})


def test_a_path_without_the_cables_of_servers(figure: Any) -> None:
    """Six links of 50 W/(Tb/s), for which seven are counted with them; 2 k USD each, and 195 of a switch."""
    one, three = figure("sirius_fig6a", "servers=128", "experiment.overheads=[1,3]")["summary"]
    assert one["apart_ratio"] == pytest.approx((2 * 19.53125 + 4 * 25) / (7 * 19.53125 + 6 * 50))
    assert three["path_usd"] == pytest.approx(2 * 195.3125 + 4 * 1200 + 2 * 48.828125)
    assert three["apart_usd_ratio"] == pytest.approx(three["path_usd"] / (7 * 195.3125 + 6 * 2000))
    assert three["path_usd_ratio"] == pytest.approx(three["path_usd"] / (7 * 195.3125 + 7 * 2000))
