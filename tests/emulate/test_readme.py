"""Run the README's section from a profile to a faster job, command by command."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from topoflow.emulate import sandbox

ROOT = Path(__file__).resolve().parent.parent.parent
HEADING = "## From a profile to a faster job"
REFUSAL = sandbox.why_not()


def seconds(row: str) -> list[float]:
    """Return the times of a table's row in seconds: predicted, measured, least, most."""
    return [float(value) / (1000 if unit == "ms" else 1) for value, unit in re.findall(r"([\d.]+) (ms|s)\b", row)]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(REFUSAL is not None, reason=str(REFUSAL))
def test_the_plan_makes_the_job_faster_as_predicted(tmp_path: Path) -> None:
    """Each command of the section runs; the rings of the plan are faster, and no link is faster than its rate."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    section = (ROOT / "README.md").read_text().partition(HEADING)[2].partition("\n## ")[0]
    commands = [
        line for block in re.findall(r"```bash[^\n]*\n(.*?)```", section, re.DOTALL) for line in block.splitlines()
    ]
    path = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "120"}
    times = []
    for command in commands:
        completed = subprocess.run(
            ["bash", "-ec", command], cwd=tmp_path, env=os.environ | path, capture_output=True, text=True, check=False
        )
        assert completed.returncode == 0, f"{command}\n{completed.stdout[-2000:]}{completed.stderr[-2000:]}"
        times += [
            seconds(line) for line in completed.stdout.splitlines() if "iteration" in line and "emulate" in command
        ]
    (before, measured_before, *_), (after, rings, *_) = times
    assert before == pytest.approx(2 * after, rel=0.01)
    assert rings < measured_before
    assert rings > 0.95 * after, "a link is not faster than its rate"
