"""A result is kept where nobody named a folder, and settings of Hydra that do nothing are refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import topoflow
from topoflow.cli import main
from topoflow.cli.saved_results import new_folder
from topoflow.search.base import Plan

SMALL = ("servers=4", "workload.tables=4", "workload.rows=1000", "fabric=ring")


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TOPOFLOW_RUNS", str(tmp_path / "runs"))
    return tmp_path / "runs"


def test_a_comparison_is_kept_as_numbers_in_a_folder_that_it_names(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", *SMALL]) == 0
    (folder,) = runs.iterdir()
    assert [path.name for path in folder.iterdir()] == ["result.json"]
    (row,) = json.loads((folder / "result.json").read_text())["rows"]
    printed = capsys.readouterr().out.splitlines()[-1]
    assert printed.startswith(f"Results are saved in {folder}. ")
    (repeated,) = topoflow.compare(*SMALL)
    assert row["iteration_time"] == repeated.iteration_time
    assert len([*runs.iterdir()]) == 1, "Python has the result in its hands"


def test_a_search_is_kept_with_its_plan(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    quick = ("search.proposals=0", "search.rounds=1", "bandwidth_gbps=25,100")
    assert main(["search", *SMALL, *quick]) == 0
    (folder,) = runs.iterdir()
    assert f"Results are saved in {folder}. " in capsys.readouterr().out
    plans = json.loads((folder / "result.json").read_text())["plans"]
    written = [Plan.from_json((folder / plan["search"] / "plan.json").read_text()) for plan in plans]
    assert [plan.iteration_time for plan in written] == [plan["iteration_time"] for plan in plans]


def test_runs_of_the_same_second_have_folders_of_their_own(runs: Path) -> None:
    folders = [new_folder("compare") for _ in range(5)]
    assert len(set(folders)) == 5
    assert all(folder.parent == runs and folder.is_dir() for folder in folders)


def test_an_answer_that_cannot_be_kept_is_given_nevertheless(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs.write_text("a file")
    assert main(["compare", *SMALL]) == 0
    printed = capsys.readouterr().out
    assert "ring takes" in printed
    assert "The result is not kept: " in printed


def test_the_default_sweep_can_be_given(runs: Path) -> None:
    assert main(["compare", *SMALL[:3], "hydra.sweeper.params={fabric: 'ring,torus'}"]) == 0
    (folder,) = runs.iterdir()
    rows = json.loads((folder / "result.json").read_text())["rows"]
    assert [row["fabric"] for row in rows] == ["ring", "torus"]
