"""Exit codes are those of the table in docs/install.md, for every verb."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from topoflow.cli import compare, main

WRONG = {  # a wrong call of each verb
    "compare": ["servers=0"],
    "search": ["servers=0"],
    "experiment": ["no_figure", "out=x"],
    "place": ["requests.count=0"],
    "simulate": ["world=no.json"],
    "inspect": ["no.json"],
    "capture": ["import", "no.json", "--out", "x.jsonl"],
    "report": ["no_run"],
    "apply": ["no.json", "--out", "x"],
    "emulate": ["no.json", "--mbps", "40"],
    "serve": ["no_folder"],
    "config": ["no_preset"],
    "node": ["no_node"],
    "nccl": ["--no-such-flag"],
    "calibrate": ["nccl", "no.log"],
    "doctor": ["--no-such-flag"],
}


def code_of(arguments: list[str]) -> int:
    """Return the exit code; argparse ends the process itself."""
    try:
        return main(arguments)
    except SystemExit as exit_:
        return int(exit_.code or 0)


@pytest.mark.parametrize("verb", WRONG)
def test_what_is_wrong_is_one_line_and_exit_code_2(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert code_of([verb, *WRONG[verb]]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines()[-1].startswith(("topoflow: ", f"topoflow {verb}: "))
    assert not any(tmp_path.iterdir())


def test_every_verb_is_here() -> None:
    usage = subprocess.run([sys.executable, "-m", "topoflow", "--help"], capture_output=True, text=True, check=True)
    verbs = {line.split()[0] for line in usage.stdout.splitlines() if line.startswith("    ") and line[4] != " "}
    assert verbs == set(WRONG)


def test_an_answer_is_0_and_an_interruption_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert code_of(["simulate", "world=examples/two_flows.json"]) == 0
    assert code_of(["--version"]) == 0

    def interrupted(arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(compare, "run", interrupted)
    assert code_of(["compare"]) == 130


def test_the_table_is_in_the_documentation() -> None:
    text = Path("docs/install.md").read_text()
    assert all(f"| `{code}` |" in text for code in (0, 2, 130))
