"""Work that takes long says what it does and how large it is, on stderr that is no terminal, too."""

from __future__ import annotations

import math
import subprocess
import sys
import time
from pathlib import Path

import pytest

from topoflow.cli import main, stages
from topoflow.cli.stages import Terminal

SMALL = ("servers=4", "workload.tables=4", "workload.rows=1000", "fabric=ring,torus")
TRACE = "examples/ddp_4_ranks.jsonl.gz"


def test_a_stage_is_said_after_a_silence_and_later_stages_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(stages, "MAX_SILENCE", 0.0)
    printed = ""
    with Terminal() as terminal:
        terminal.stage("placing")
        terminal.size("6 points")
        while "\n" not in printed:
            printed += capsys.readouterr().err
            time.sleep(0.01)
        terminal.stage("simulating")
        terminal.size("6 worlds")
        printed += capsys.readouterr().err
    assert printed == "placing: 6 points\nsimulating: 6 worlds\n"


def test_short_work_says_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(stages, "MAX_SILENCE", math.inf)
    monkeypatch.setattr(stages.threading.Event, "wait", lambda event, timeout=None: True)  # the work has ended
    with Terminal() as terminal:
        terminal.stage("placing")
        terminal.size("6 points")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        (
            ["compare", *SMALL],
            ["composing: 2 points", "placing: dlrm on 4 servers, ", "simulating: 2 worlds of up to "],
        ),
        (["compare", *SMALL, "out=rows.parquet"], ["composing: 2 points", "worlds: 2 of 2 points"]),
        (["compare", *SMALL[:3], "fabric=ring", "fail.each=fiber"], ["ring failing: "]),
        (["search", *SMALL, "search.proposals=8"], ["composing: 2 points", "ring: up to 4 rounds of 8 proposals"]),
        (
            ["experiment", "topoopt_fig14", "workload.tables=8", "servers=8", "out=f"],
            ["simulating: 4 of 4 points"],
        ),
        (["place", "requests.count=9"], ["placing: 9 requests for 6,144 servers"]),
        (["simulate", "world=examples/two_flows.json"], ["reading: 1 file, ", "two_flows.json: 3 tasks on 3 links"]),
        (["inspect", TRACE], ["reading: 1 file, ", "counting: 4 of 4 ranks, 4 iterations, "]),
        (["capture", "import", TRACE, "--out", "t.jsonl"], ["reading: 1 file, ", "checking: 4 of 4 ranks, "]),
        (["capture", "export", TRACE, "--out", "exported"], ["reading: 1 file, "]),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value[0], str) else "",
)
def test_every_verb_says_how_large_its_work_is(
    arguments: list[str],
    lines: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "examples").symlink_to(Path("examples").absolute())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Terminal, "_announces", True)  # as after MAX_SILENCE
    assert main(arguments) == 0
    printed = capsys.readouterr().err
    for line in lines:
        assert line in printed


def test_the_silence_is_seconds_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    command = [sys.executable, "-c", "from topoflow.cli import stages; print(stages.MAX_SILENCE)"]
    monkeypatch.setenv("TOPOFLOW_MAX_SILENCE", "2.5")
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "2.5\n"
    monkeypatch.setenv("TOPOFLOW_MAX_SILENCE", "long")
    done = subprocess.run(
        [sys.executable, "-m", "topoflow", "compare", "servers=2"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr == "topoflow compare: TOPOFLOW_MAX_SILENCE: must be seconds, got 'long'\n"
