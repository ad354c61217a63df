"""What tests share: the examples of a law, where the real traces are, and how the command line is called."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parent.parent

# A law is tried on the same examples in every run, so that what has passed does not fail where nothing changed;
# pytest --hypothesis-profile=anew draws others. How long an example takes tells of the machine, not of the law.
settings.register_profile("anew", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same", settings.get_profile("anew"), derandomize=True)
settings.load_profile("same")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder with traces of real jobs, which lies beside the project; CI must have it."""
    path = ROOT.parent / "shared" / "data"
    if not path.is_dir():
        if os.environ.get("CI") == "true":
            pytest.fail(f"{path} must exist in CI: the real traces are the tests of the importers")
        pytest.skip(f"needs the traces of real jobs in {path}")
    return path


@pytest.fixture(scope="session")
def topoflow_cli() -> Callable[..., subprocess.CompletedProcess[str]]:
    """``topoflow_cli("inspect", path, "--json")`` runs the installed command in a process of its own."""

    def run(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        command = [str(Path(sys.executable).parent / "topoflow"), *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=240)

    return run
