"""``topoflow experiment``: what it refuses before it writes anything, where it goes on, and what its table says."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from topoflow.cli import main
from topoflow.cli.experiment import show
from topoflow.study.configure.options import experiments
from topoflow.study.figures.load import load

SMALL = ("experiment", "topoopt_fig14", "workload.tables=8", "servers=8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["topoopt_fig14", "servers=1"], "servers: must be at least 2, as figures show what servers send each other"),
        (["topoopt_fig13", "servers=8,1", "workload.tables=8"], "servers: must be at least 2, as figures"),
        (["topoopt_fig14", "search.proposals=4"], "search.proposals: must be left out, as topoopt_fig14 searches no"),
        (["motion_fig6", "workload.bytes=256"], "workload.bytes: must be left out, as the figure has experiment"),
        (["motion_fig5", "++workload.bytes=256,512"], "workload.bytes: must be left out, as the figure has experiment"),
        (
            ["topoopt_fig13", "workload.batch_per_gpu=64,0"],
            "dlrm.batch_per_gpu: must be a whole number of at least 1, got 0",
        ),
    ],
)
def test_what_one_point_cannot_be_is_known_before_any_is_stored(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(["experiment", *arguments, f"out={out}"]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"topoflow experiment: {message}")
    assert error.count("\n") == 1
    assert not out.exists()


def test_a_figure_says_from_which_point_it_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SMALL, f"out={tmp_path}"]) == 0
    assert "Continuing" not in capsys.readouterr().out
    checkpoint = tmp_path / "checkpoint.jsonl"
    *earlier, last = checkpoint.read_text().splitlines(keepends=True)
    checkpoint.write_text("".join([*earlier, last[:20]]))  # stopped while it was writing
    assert main([*SMALL, f"out={tmp_path}"]) == 0
    assert f"Continuing from {len(earlier)} of {len(earlier) + 1} points in {checkpoint}." in capsys.readouterr().out
    assert checkpoint.read_text() == "".join([*earlier, last])


def test_an_error_leaves_the_points_that_are_done_and_no_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*arguments: object) -> None:
        raise ValueError("figure: cannot be drawn")

    with monkeypatch.context() as patched:
        patched.setattr("topoflow.papers.topoopt.path_length.PathLength.draw", fail)
        assert main([*SMALL, f"out={tmp_path}"]) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint.jsonl", "progress.jsonl"]
    points = len((tmp_path / "checkpoint.jsonl").read_text().splitlines())
    assert main([*SMALL, f"out={tmp_path}"]) == 0
    assert f"Continuing from {points} of {points} points" in capsys.readouterr().out


@pytest.mark.parametrize("name", list(experiments()))
def test_a_heading_is_words_and_not_a_key(name: str) -> None:
    for key, heading in load(name).headings.items():
        assert heading.text != key
        assert "_" not in heading.text


@pytest.mark.parametrize("width", [34, 80])
def test_titles_have_more_lines_where_a_terminal_is_narrow_and_rows_have_one(width: int) -> None:
    saved = {"series": "12.5 GB/s", "saving": "narrow", "of_budget": 0.018}
    console = Console(file=io.StringIO(), width=width)
    show(load("dragonfly_savings"), [saved], console)
    assert isinstance(console.file, io.StringIO)
    *_, row, _ = [line.split() for line in console.file.getvalue().splitlines()]
    assert row == ["12.5", "GB/s", "narrow", "1.8", "%"]


def test_a_table_of_a_figure_has_units(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ("workload.tables=8", "servers=8", "workload.batch_per_gpu=32")
    assert main(["experiment", "topoopt_fig13", *sizes, f"out={tmp_path}"]) == 0
    printed, page = capsys.readouterr().out, (tmp_path / "report.html").read_text()
    for row in json.loads((tmp_path / "result.json").read_text())["summary"]:
        for text in (printed, page):
            assert f"{row['bandwidth_tax_mp']:.2f}x" in text
            words = text.partition("<summary>All")[0]  # the rows after it have the names of rows.csv
            assert "bandwidth_tax" not in words.replace("bandwidth_tax.png", "")
