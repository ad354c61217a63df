"""What is imported before there is any work: little, so that ``import topoflow`` and ``--help`` answer at once."""

from __future__ import annotations

import subprocess
import sys

import pytest

OUTPUT = {"matplotlib", "bokeh", "pyarrow", "duckdb", "pandas", "torch", "networkx"}  # nothing simulates with these
HEAVY = OUTPUT | {"hydra", "omegaconf", "rich", "numpy", "rustworkx", "orjson"}


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


def test_a_comparison_of_presets_and_numbers_draws_nothing_and_needs_no_hydra() -> None:
    script = (
        "from topoflow.cli import main\n"
        "main(['compare', 'fabric=ring,torus', 'servers=2', 'workload.tables=2', 'bandwidth_gbps=0.5', 'strides=null'])"
    )
    assert not imported(script) & (OUTPUT | {"hydra", "omegaconf"})


def test_an_inspection_that_writes_nothing_draws_nothing() -> None:
    script = "from topoflow.cli import main\nmain(['inspect', 'examples/ddp_4_ranks.jsonl.gz'])"
    assert not imported(script) & (OUTPUT | {"hydra", "omegaconf"})


@pytest.mark.parametrize("function", ["compare", "search", "simulate", "load"])
def test_a_function_that_writes_nothing_draws_nothing(function: str) -> None:
    assert not imported(f"import topoflow; topoflow.{function}") & (OUTPUT | {"rich", "hydra", "omegaconf"})


def test_the_module_is_the_command() -> None:
    def output(*program: str) -> tuple[int, str, str]:
        done = subprocess.run([*program, "simulate", "examples/no_such.json"], capture_output=True, text=True)
        return done.returncode, done.stdout, done.stderr

    module = output(sys.executable, "-m", "topoflow")
    assert module == output(sys.executable, "-c", "import sys; from topoflow.cli import main; sys.exit(main())")
    assert module[0] == 2
