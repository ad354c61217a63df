"""Figures of MOTION, small, next to what the paper states."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from topoflow.cli import main
from topoflow.study.figures.base import where
from topoflow.study.figures.load import load

pytestmark = pytest.mark.usefixtures("without_pixels")


def test_the_parts_of_motion_are_those_that_it_states_and_its_optics_draw_what_their_table_says(figure: Any) -> None:
    """Maniotis et al., section 3: 272 and 160 switches, 409.6 and 1,638.4 Tb/s; Table 1: 2 pJ for each bit."""
    experiment: Any = load("motion_bill")
    result = figure("motion_bill")
    rows = {row["series"]: row for row in result["rows"]}
    baseline, motion = rows["baseline"], rows["MOTION"]
    assert set(experiment.paper) >= {"switches", "end_points", "bisection", "modules"}
    for quantity, (first, second) in experiment.paper.items():
        assert (baseline[quantity], motion[quantity]) == pytest.approx((first, second), rel=1e-12), quantity
    assert 1 - motion["switches"] / baseline["switches"] == pytest.approx(0.41, abs=0.005)
    assert motion["optics_per_switch_w"] == pytest.approx(51.2e12 * 2e-12)
    ends = 2 * (12288 + 4096)  # of all cables; those of switches and of servers
    assert motion["optics_w"] == pytest.approx(ends * 400e9 * 2e-12)
    assert baseline["optics_w"] == pytest.approx(2 * 4096 * 100e9 * 20e-12)
    assert (baseline["copper"], baseline["optical"], motion["copper"]) == (12288, 4096, 0)
    other = figure("motion_bill", "series=MOTION", "servers=960")["rows"]
    assert other[0]["groups"] == 10
    assert other[0]["optics_w"] == pytest.approx((2 * 1920 + 2 * 20 * 32) * 400e9 * 2e-12)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"optics": {}}, "experiment.optics.baseline: must have servers and switches, got "),
        ({"optics": {"leaf": {}}}, "experiment.optics: must be of the series baseline, MOTION, .* got 'leaf'"),
        ({"paper": {"watts": [1.0]}}, "experiment.paper: must be of switches, .*, got watts"),
        ({"channels": 0}, "experiment.channels: must be positive, got 0"),
    ],
)
def test_what_makes_no_bill_is_said_in_a_line(change: dict[str, Any], message: str) -> None:
    experiment: Any = load("motion_bill")
    with pytest.raises(ValueError, match=f"^{message}"):
        replace(experiment, **change)


def test_an_exchange_crosses_the_spine_as_motion_counts_it(figure: Any) -> None:
    """M3 = N^2 - N S of N^2 messages (MOTION 4.B, Figure 4)."""
    for row in figure("motion_fig4", "servers=96,288")["rows"]:
        size = 48 if row["series"] == "baseline" else 96
        assert row["crossing"] == pytest.approx(1 - size / row["servers"], rel=1e-12)
        assert row["messages"] == row["servers"] * (row["servers"] - 1)


def test_an_exchange_within_one_group_goes_at_the_rate_of_its_links(figure: Any) -> None:
    """96 servers of MOTION: 95 messages of 32 KiB at 100 Gb/s, and no others meet them; then 4 times as fast."""
    rows = figure("motion_fig6", "servers=96", "experiment.sizes=[32768]")["rows"]
    baseline, slow, fast = (row["completion"] for row in rows)
    alone = 95 * 32768 / 12.5e9
    latencies = 3 * 100e-9 + 2 * 50e-9  # two NICs, a switch, two links
    assert slow == pytest.approx(alone + latencies, rel=1e-3)
    assert fast == pytest.approx(alone / 4 + latencies, rel=1e-3)
    assert baseline > 1.5 * slow  # 48 * 48 messages over 16 cables of each leaf take 1.5 times as long, at least


def test_an_application_is_as_much_faster_as_its_communication_is_of_it(figure: Any) -> None:
    small = ("servers=96", "experiment.sizes=[256,4096]")
    summary = figure("motion_fig7", *small)["summary"]
    alone = {(row["series"], row["bytes"]): row["application"] for row in figure("motion_fig6", *small)["summary"]}
    assert {row["ratio"] for row in summary} == {0.3, 0.5}
    for row in summary:
        assert row["application"] == pytest.approx(1 - row["ratio"] * (1 - alone[row["series"], row["bytes"]]))


def test_a_speedup_is_the_slower_time_over_the_faster(figure: Any) -> None:
    result = figure("motion_fig5", "servers=96", "experiment.sizes=[256,4096]")
    both = where(result["summary"], speedup="MOTION-400 over baseline")[0]
    times = {(row["series"], row["bytes"]): row["completion"] for row in result["rows"]}
    expected = [times["baseline", size] / times["MOTION-400", size] for size in (256, 4096)]
    assert (both["least"], both["greatest"]) == (min(expected), max(expected))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["motion_fig6", "series=MOTION-100"], "series: must have baseline, which the others are compared with"),
        (["motion_fig7", "experiment.ratios=[0]"], "experiment.ratios: must be within 0 < ratio <= 1, got 0"),
        (["motion_fig7", "experiment.base=x"], "experiment.base: must be of the series baseline, MOTION-100"),
        (["motion_fig5", "experiment.sizes=[]"], "experiment.sizes: must have an entry, got none"),
        (["motion_fig5", "servers=96,100"], "workload.group: must divide the 100 servers, got 48"),
    ],
)
def test_what_makes_no_figure_of_an_exchange_is_said_in_a_line(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = () if any("servers" in argument for argument in arguments) else ("servers=96",)
    assert main(["experiment", *arguments, *small, f"out={tmp_path}"]) == 2
    assert message in capsys.readouterr().err
