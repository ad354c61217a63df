"""What is imported before there is any work: little, so that ``import topoflow`` and ``--help`` answer at once."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {"matplotlib", "pyarrow", "hydra", "omegaconf", "torch", "rich", "numpy", "networkx", "pandas"}


def imported(statement: str) -> set[str]:
    """The packages that a new interpreter has imported after ``statement``."""
    script = f"{statement}\nimport sys\nprint(*{{name.partition('.')[0] for name in sys.modules}}, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    return set(done.stderr.split())


def test_importing_the_package_imports_nothing_heavy() -> None:
    assert not imported("import topoflow; topoflow.__version__") & HEAVY


@pytest.mark.parametrize(
    "verb", ["", "compare", "search", "experiment", "simulate", "capture", "inspect", "apply", "emulate"]
)
def test_help_imports_nothing_heavy(verb: str) -> None:
    arguments = [word for word in (verb, "--help") if word]
    script = f"from topoflow.cli import main\ntry:\n    main({arguments})\nexcept SystemExit:\n    pass"
    assert not imported(script) & HEAVY


def test_a_comparison_that_writes_nothing_draws_nothing() -> None:
    script = "from topoflow.cli import main; main(['compare', 'fabric=ring', 'servers=2', 'workload.tables=2'])"
    assert not imported(script) & {"matplotlib", "pyarrow", "torch"}
