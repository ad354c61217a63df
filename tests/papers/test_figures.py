"""Every figure, small: it runs, and it goes on where it was stopped; what is wrong is said in one line."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.papers.small import SMALL
from topoflow.cli import main
from topoflow.study.configure.options import experiments
from topoflow.study.figures.base import ratios
from topoflow.study.figures.load import load, split
from topoflow.study.figures.points import PointFile

pytestmark = pytest.mark.usefixtures("without_pixels")


def test_every_figure_is_tried_here() -> None:
    assert sorted(SMALL) == list(experiments())


@pytest.mark.slow
@pytest.mark.parametrize("name", list(experiments()))
def test_a_figure_is_made_and_goes_on_where_it_was_stopped(name: str, tmp_path: Path) -> None:
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    assert main(["experiment", name, *SMALL[name], f"out={whole}"]) == 0
    result = json.loads((whole / "result.json").read_text())
    assert result["rows"]
    assert result["summary"]
    assert not {"{servers}", "128 servers", "432 servers"} & set(re.findall(r"\S+ servers|{servers}", result["title"]))
    assert {row["series"] for row in result["rows"]} == set(load(name).series)
    assert list(whole.glob("*.png"))
    page = re.sub(r"<script>.*?</script>", "", (whole / "report.html").read_text(), flags=re.DOTALL)
    assert "http" not in page.replace("http-equiv", ""), "a page loads nothing"
    with (whole / "rows.csv").open(newline="") as file:
        assert len(list(csv.DictReader(file))) == len(result["rows"])

    stored = (whole / "checkpoint.jsonl").read_bytes()
    resumed.mkdir()
    (resumed / "checkpoint.jsonl").write_bytes(stored[: 2 * len(stored) // 3])  # stopped in the middle of a line
    assert main(["experiment", name, *SMALL[name], f"out={resumed}"]) == 0
    assert (resumed / "checkpoint.jsonl").read_bytes() == stored
    assert (resumed / "rows.csv").read_bytes() == (whole / "rows.csv").read_bytes()


def test_a_stored_point_is_not_computed_again(tmp_path: Path) -> None:
    arguments = ["experiment", "topoopt_fig13", *SMALL["topoopt_fig13"], f"out={tmp_path}"]
    assert main(arguments) == 0
    path = tmp_path / "checkpoint.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    path.unlink()
    points = PointFile(path)
    for line in lines:
        points.add(line["id"], line["point"], [{**row, "bandwidth_tax": 7.5} for row in line["rows"]])
    assert main(arguments) == 0
    taxes = [row["bandwidth_tax"] for row in json.loads((tmp_path / "result.json").read_text())["rows"]]
    assert all(tax == 7.5 for tax in taxes)  # what was on disk, though it is wrong


def test_a_line_is_compared_where_both_have_a_value() -> None:
    assert ratios({40: 6.0, 10: 8.0, 25: 9.0}, {25: 3.0, 10: 2.0, 100: 1.0}) == {
        "ratio_mean": (8 / 2 + 9 / 3) / 2,
        "ratio_first": 8 / 2,
        "ratio_last": 9 / 3,
    }
    assert ratios({10: 1.0}, {25: 1.0}) == {}


@pytest.mark.parametrize("name", list(experiments()))
def test_every_series_of_a_figure_can_be_chosen_by_its_name(name: str, tmp_path: Path) -> None:
    experiment = load(name)
    for series in experiment.series:
        assert split([f"out={tmp_path}", f"series={series}"], experiment) == (tmp_path, [series], [])
    assert split([f"out={tmp_path}", f"series={series},{series}"], experiment)[1] == [series]
    both = list(experiment.series)[-2:]
    assert split([f"out={tmp_path}", f"series={','.join(both)}"], experiment)[1] == both


def test_a_series_with_a_comma_in_its_name_is_refused() -> None:
    experiment = load("topoopt_fig14")
    with pytest.raises(ValueError, match=r"experiment\.series: must have names without a comma, .*, got 'a, b'"):
        replace(experiment, series={"a, b": {"degree": 2}})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["topoopt_fig11"], "out: must be given"),
        (
            ["motion_fig8", "out=X"],
            "experiment: must be a figure, as motion_fig7, motion_fig6, motion_fig5, motion_fig4, ",
        ),
        (
            ["figure", "out=X"],
            "experiment: must be a figure, of dragonfly_*, fosquare_*, motion_*, sirius_*, topoopt_* (",
        ),
        (["topoopt_fig11", "series=Torus", "out=X"], "series: must be of TopoOpt, Ideal Switch, "),
        (["topoopt_fig11", "fabric=ring", "out=X"], "fabric: differs between the series of the figure"),
        (
            ["topoopt_fig11", "fidelity=none", "out=X"],
            "fidelity: must be one of bound, fitting, fluid, packet, slotted, got",
        ),
        (["topoopt_fig11", "fail.servers=[0]", "out=X"], "fail.servers: must be left out, as figures are of whole"),
        (
            ["topoopt_fig11", "experiment.similar_cost=ours", "out=X"],
            "experiment.similar_cost: must be one of authors, prices, got 'ours'",
        ),
        (["topoopt_fig11", "servrs=8", "out=X"], "servrs: no such key; did you mean servers?"),
        (["topoopt_fig11", "servrs=8"], "servrs: no such key; did you mean servers?"),
        (
            ["topoopt_fig11", "foo=1", "out=X"],
            "out, bound, fitting, fluid, packet, slotted, executor, mlflow, tensorboard, wandb, series, search, "
            "experiment\n",
        ),
        (["topoopt_fig11", "servers=0", "out=X"], "servers: must be a whole number of at least 1, got 0"),
        (["topoopt_fig11", "search.proposals=-1", "out=X"], "search.proposals: must be a whole number of at least 0"),
        (
            ["topoopt_fig11", "search.proposal=1", "out=X"],
            "search.proposal: no such key; did you mean search.proposals?",
        ),
        (
            ["topoopt_fig14", "experiment.title='On {machines}'", "out=X"],
            "experiment.title: must have keys of the points in braces, got {machines}",
        ),
        (
            ["topoopt_fig17", "series=TopoOpt", "out=X"],
            "series: must include one with values of fabric.pause, the x axis, got TopoOpt",
        ),
        (["topoopt_fig12", "degree=0", "servers=8", "seed=0", "out=X"], "degree: must be a whole number of at least 1"),
        (
            ["topoopt_fig1", "servers=8", "series=Hybrid", "out=X"],
            "hybrid.placement.E2: must be servers within 0..7, got 8",
        ),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["experiment", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "X").exists()
