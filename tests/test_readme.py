"""Every command of the README is run: here, or by .ci/run when it installs or tests."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
BLOCKS = re.findall(r"^```bash\n(.*?)^```", (ROOT / "README.md").read_text(), flags=re.MULTILINE | re.DOTALL)
INSTALLS = [block for block in BLOCKS if "pip install" in block]
VERBS = ("compare", "search", "experiment", "simulate", "capture", "inspect")


def shell(command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run as a user would: the environment's own topoflow and torchrun first on PATH."""
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "OMP_NUM_THREADS": "1",
    }
    return subprocess.run(
        ["bash", "-ec", command], cwd=cwd, env=environment, capture_output=True, text=True, timeout=280, check=False
    )


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a reader stands: a folder with the examples. The blocks build on each other, in order."""
    folder = tmp_path_factory.mktemp("readme")
    shutil.copytree(ROOT / "examples", folder / "examples")
    return folder


@pytest.mark.parametrize(
    "block", [block for block in BLOCKS if block not in INSTALLS], ids=lambda b: b.split("\n")[0][:60]
)
def test_a_block_of_the_readme_runs(block: str, checkout: Path) -> None:
    done = shell(block, checkout)
    assert done.returncode == 0, f"{block}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"


def test_ci_runs_the_commands_that_install() -> None:
    steps = (ROOT / ".ci" / "run").read_text()
    commands = [line for block in INSTALLS for line in block.splitlines() if line and not line.startswith("#")]
    assert len(commands) >= 2
    for command in commands:
        assert command in steps, f".ci/run does not call: {command}"


@pytest.mark.parametrize("verb", VERBS)
def test_the_example_of_a_help_works(verb: str, checkout: Path) -> None:
    text = shell(f"topoflow {verb} --help", checkout).stdout
    examples = [line.strip() for line in text.splitlines() if line.startswith("  topoflow ")]
    assert examples, f"topoflow {verb} --help shows no example"
    for example in examples:
        done = shell(example, checkout)
        assert done.returncode == 0, f"{example}\n{done.stderr[-2000:]}"
