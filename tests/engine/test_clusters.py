"""Real clusters of Ray, Dask and submitit on this machine: a worker that is killed changes no byte."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from topoflow.engine.executor.dask import Dask
from topoflow.engine.executor.processes import Processes
from topoflow.engine.executor.ray import Ray
from topoflow.engine.executor.slurm import Slurm
from topoflow.engine.observer import Silent
from topoflow.study.configure.build import run_of
from topoflow.study.configure.grid import grid
from topoflow.study.configure.keys import check

# What is defined in a script is sent to workers as it is.
SCRIPT = """
import hashlib, os, signal, sys
from dataclasses import dataclass, replace
from pathlib import Path
from topoflow.engine.base import Run
from topoflow.engine.executor.base import do_all
from topoflow.engine.executor.dask import Dask
from topoflow.engine.executor.processes import Processes
from topoflow.engine.executor.ray import Ray
from topoflow.engine.executor.slurm import Slurm
from topoflow.engine.fluid import Fluid
from topoflow.engine.simulation import Simulating
from topoflow.study.builder import Builder
from topoflow.study.configure.grid import grid
from topoflow.study.configure.keys import check

KINDS = {"processes": Processes(2), "ray": Ray(), "dask": Dask(), "slurm": Slurm(jobs=2, system="local")}

@dataclass(frozen=True)
class Deadly(Simulating):
    killed: str = ""  # a file; the worker that would write it is killed
    is_always: bool = False
    def do(self, worlds, run):
        if self.killed and any(world.name == "world 5" for world in worlds):
            if self.is_always or not os.path.exists(self.killed):
                Path(self.killed).touch()
                os.kill(os.getpid(), signal.SIGKILL)
        return super().do(worlds, run)

if __name__ == "__main__":
    (asked,) = Builder().build(grid(["servers=4", "fabric=ring", "workload.tables=4", "workload.rows=1000"], check))
    world = asked.cases[0].world
    worlds = [replace(world, name=f"world {n}", capacity=world.capacity * (1 + n)) for n in range(12)]
    folder = Path(sys.argv[2])
    workers = KINDS[sys.argv[1]].workers("cpu", 1, folder) if sys.argv[1] in KINDS else None
    work = Deadly(Fluid(), str(folder / "killed") if workers else "", "always" in sys.argv)
    found = dict(do_all(work, worlds, Run(workers=workers)))
    print(hashlib.sha256(b"".join(found[n].finish.tobytes() for n in range(12))).hexdigest())
"""


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    script = folder / "script.py"
    script.write_text(SCRIPT)
    return subprocess.run([sys.executable, str(script), *words], capture_output=True, text=True, cwd=folder)


def digest_of(kind: str, folder: Path) -> str:
    """Return what the script prints last."""
    done = run(folder, kind, str(folder))
    assert done.returncode == 0, done.stderr
    return done.stdout.split()[-1]


@pytest.mark.slow
@pytest.mark.timeout(1200)  # a cluster takes some seconds to begin, on a busy machine minutes
@pytest.mark.parametrize(
    ("kind", "module"), [("processes", "os"), ("ray", "ray"), ("dask", "distributed"), ("slurm", "submitit")]
)
def test_a_worker_that_is_killed_changes_no_byte(kind: str, module: str, tmp_path: Path) -> None:
    pytest.importorskip(module, reason=f"needs the extra {kind}")
    remote = digest_of(kind, tmp_path)
    assert (tmp_path / "killed").exists()
    assert remote == digest_of("local", tmp_path)


@pytest.mark.slow
def test_of_all_worlds_in_flight_the_one_that_kills_its_worker_is_named(tmp_path: Path) -> None:
    """All chunks in flight are lost with a pool of processes; the last try of each is alone."""
    completed = run(tmp_path, "processes", str(tmp_path), "always")
    message = r"ValueError: executor: world 5 has lost its worker 4 times, the last time by BrokenProcessPool: .*"
    assert re.fullmatch(message, completed.stderr.splitlines()[-1]), completed.stderr


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        (Ray, {"address": "ray"}, "executor.address: must be HOST:PORT, auto or null, got 'ray'"),
        (Processes, {"count": 0}, "executor.count: must be positive, got 0"),
        (Slurm, {"jobs": True}, "executor.jobs: must be a whole number, got True"),
        (Slurm, {"minutes": 0}, "executor.minutes: must be positive, got 0"),
        (Slurm, {"memory": -1.0}, "executor.memory: must be positive, got -1.0"),
        (Slurm, {"system": "pbs"}, "executor.system: must be one of slurm, local, got 'pbs'"),
    ],
)
def test_settings_that_cannot_be_are_refused_in_one_line(kind: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        kind(**settings)


@pytest.mark.parametrize(("kind", "module"), [(Ray, "ray"), (Dask, "distributed"), (Slurm, "submitit")])
def test_where_a_package_is_missing_its_extra_is_named(
    kind: Any, module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    workers = kind().workers("cpu", None, tmp_path)
    message = (
        rf"executor: must be local where {module} is not installed \(pip install 'topoflow\[{kind.__name__.lower()}\]'"
    )
    with pytest.raises(ValueError, match=message):
        workers.executor  # noqa: B018


def test_a_cluster_that_does_not_answer_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray", reason="needs the extra ray")
    with pytest.raises(ValueError, match=r"^executor.address: no Ray answers at 127.0.0.1:1: .*refused$"):
        Ray("127.0.0.1:1").workers("cpu", None, None).executor  # noqa: B018
    if find_spec("distributed"):
        with pytest.raises(ValueError, match=r"^executor.address: no Dask answers at head: .*missing port"):
            Dask("head").workers("cpu", None, None).executor  # noqa: B018
    with pytest.raises(ValueError, match=r"^out: must be given with executor=slurm, a folder that all nodes see"):
        Slurm().workers("cpu", None, None)
    pytest.importorskip("submitit", reason="needs the extra slurm")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ValueError, match=r"^executor: this machine does not submit to Slurm: .*srun"):
        Slurm().workers("cpu", None, tmp_path).executor  # noqa: B018


def test_points_that_differ_in_the_executor_are_refused() -> None:
    points = grid(["fabric=ring", "executor=processes", "executor.count=1,2"], check)
    with pytest.raises(ValueError, match=r"executor: must be one for all, got "):
        run_of(points, Silent())
    with pytest.raises(ValueError, match=r"executor: must be one of dask, local, processes, ray.*, got 'spark'"):
        grid(["fabric=ring", "executor=spark"], check)
