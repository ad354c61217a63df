"""A run that was killed: its page says what is missing, loses nothing that was there, and the command continues it."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from html import unescape
from pathlib import Path

import pytest

from topoflow import progress
from topoflow.browse.run import run_at
from topoflow.cli import main

pytestmark = pytest.mark.usefixtures("without_pixels")

SMALL = ("servers=4", "workload.tables=2", "workload.rows=1000")
COMPARE = ("compare", "fabric=ring,torus", *SMALL)
SEARCH = ("search", "fabric=topoopt", "search.proposals=400", "search.rounds=2", *SMALL)
SEARCHES = ("search", "fabric=topoopt,ring", "search.proposals=200", "search.rounds=1", *SMALL)
FIGURE = ("experiment", "topoopt_fig14", "servers=4", "workload.tables=4")
CASES = {  # name: what is run, when it is killed, and what its page has to say
    "compare_begins": (COMPARE, "begin", 1, "kept nothing"),
    "compare_simulated": (COMPARE, "simulating", 1, "kept nothing"),
    "compare_draws": (COMPARE, "rows", 1, "2 worlds are below"),
    "compare_moves": (COMPARE, "move", 3, "2 worlds are below"),
    "search_begins": (SEARCH, "begin", 1, "kept nothing"),
    "search_walks": (SEARCH, "stretch", 2, "the best that was found so far is below"),
    "search_later": (SEARCH, "save", 1, "the best that was found so far is below"),
    "searches": (SEARCHES, "save", 4, "searches that began are done"),
    "figure": (FIGURE, "point", 2, "rows of the figure's points are below"),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of each case, its run killed."""
    root = tmp_path_factory.mktemp("killed")
    jobs = [[[*words, f"out={root / name}"], moment, number] for name, (words, moment, number, _) in CASES.items()]
    program = Path(__file__).with_name("killed.py")
    completed = subprocess.run([sys.executable, str(program), json.dumps(jobs)], capture_output=True, text=True)
    assert completed.returncode == 0, completed.stderr
    return root


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", CASES)
def test_a_run_that_was_killed_is_shown(name: str, folders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words, _, _, expected = CASES[name]
    folder = folders / name
    before = contents(folder)
    run = run_at(folder, name)
    assert run is not None
    assert (run.state, run.verb) == ("cut off", words[0])
    assert shlex.split(run.again.partition(" && ")[2]) == ["topoflow", *words, f"out={folder}"]
    assert main(["report", str(folder)]) == 0
    printed = capsys.readouterr().out
    assert "was cut off" in printed
    assert expected in printed
    after = contents(folder)
    page = after.pop("report.html").decode()
    assert after == before, "a page replaces nothing"
    for line in printed.splitlines()[:2]:
        assert line in unescape(page)
    (folder / "report.html").unlink()


@pytest.mark.parametrize("name", ["search_walks", "searches", "figure"])
def test_a_run_that_was_killed_is_continued(name: str, folders: Path, tmp_path: Path) -> None:
    """Nothing is lost and nothing is twice: it finds what it would have found."""
    words, folder = CASES[name][0], folders / name
    assert main(["report", str(folder)]) == 0
    partial = (folder / "report.html").read_bytes()
    assert main([*words, f"out={folder}"]) == 0
    assert main([*words, f"out={tmp_path / name}"]) == 0
    assert not (folder / progress.NAME).exists()
    continued, complete = contents(folder), contents(tmp_path / name)
    assert continued.keys() >= complete.keys()
    assert continued["report.html"] != partial, "the report of the run replaces that of what was left"
    compared = [file for file in complete if file.endswith(("plan.json", "rows.csv"))]
    assert compared
    for file in compared:
        assert continued[file] == complete[file]
    run = run_at(folder, name)
    assert run is not None
    assert run.state == "finished"


def test_a_page_of_what_was_left_never_replaces_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main([*COMPARE, f"out={out}"]) == 0
    log = progress.ProgressLog.begin(out, verb="compare", command="topoflow compare")  # a second run, killed
    log._file.close()
    report = (out / "report.html").read_bytes()
    assert main(["report", str(out)]) == 0
    assert "of an earlier run, which was finished" in capsys.readouterr().out
    assert (out / "report.html").read_bytes() == report


def test_a_result_that_was_kept_without_pictures_has_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TOPOFLOW_RUNS", str(tmp_path))
    assert main([*COMPARE]) == 0
    (folder,) = tmp_path.iterdir()
    assert main(["report", str(folder)]) == 0
    assert "This run is finished" in capsys.readouterr().out
    assert "torus" in (folder / "report.html").read_text()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: None, "no such folder"),
        (lambda path: path.write_text(""), "a file"),
        (lambda path: path.mkdir(), "which has none"),
    ],
)
def test_what_is_no_run_is_one_line(
    make: Callable[[Path], object], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make(tmp_path / "x")
    assert main(["report", str(tmp_path / "x")]) == 2
    error = capsys.readouterr().err
    assert error.startswith("topoflow report: folder: must ")
    assert error.endswith(f"{message}\n")
    assert error.count("\n") == 1
