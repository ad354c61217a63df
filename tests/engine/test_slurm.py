"""Jobs of submitit: processes of this machine everywhere, and of a real Slurm where there is one."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from topoflow.engine.base import Run
from topoflow.engine.executor.answers import keys_of, read
from topoflow.engine.executor.remote import Remote
from topoflow.engine.executor.slurm import Slurm, SlurmPool, _bytes_of, _event_of, _next
from topoflow.engine.executor.worker import Ended, Failed, Note

# Work whose every beginning leaves a line; that of late numbers waits for a file, so that the first driver cannot end.
# What is defined in a script is sent to workers as it is.
SCRIPT = """
import os, sys, time
from dataclasses import dataclass
from pathlib import Path
import numpy as np
from topoflow.engine.base import Run
from topoflow.engine.executor.slurm import Slurm

@dataclass(frozen=True)
class Slow:
    log: str
    is_batch = True
    def keys(self, items): return [f"{item:064x}" for item in items]
    def weight(self, item): return 1.0
    def name(self, item): return f"number {item}"
    def do(self, items, run):
        for item in items:
            with open(self.log, "a") as file:
                file.write(f"{item} {os.getpid()}\\n")
            time.sleep(0.5)
            while item >= 4 and not os.path.exists(self.log + ".late"):
                time.sleep(0.1)
        return [np.array([item * item]) for item in items]
    def pack(self, item, answer): return {"square": answer}
    def unpack(self, item, arrays): return arrays["square"].tolist()

if __name__ == "__main__":
    system, folder, log, count = sys.argv[1:]
    device, remote = Slurm(jobs=2, retries=9, system=system).placed("cpu", None, Path(folder))
    for number, answer in remote.map(Slow(log), range(int(count)), Run(executor=remote)):
        print(number, *answer, flush=True)
"""


def test_what_is_wrong_with_a_piece_of_work_is_read_as_it_was_written() -> None:
    for event in (Failed("a", True), Ended("b")):
        assert _event_of(_bytes_of(event)) == event


@pytest.mark.parametrize(
    ("settings", "law"),
    [
        ({"jobs": 0}, "executor.jobs: must be a whole number of at least 1, got 0"),
        ({"memory": -1.0}, "executor.memory: must be positive, got -1.0"),
        ({"system": "pbs"}, "executor.system: must be one of slurm, local, got 'pbs'"),
    ],
)
def test_settings_of_slurm_that_cannot_be_are_refused_in_one_line(settings: dict[str, Any], law: str) -> None:
    with pytest.raises(ValueError, match=law):
        Slurm(**settings)


def test_a_folder_must_be_given_and_submitit_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="out: must be given with executor=slurm, a folder that all nodes see"):
        Slurm().placed("cpu", None, None)
    monkeypatch.setitem(sys.modules, "submitit", None)
    with pytest.raises(ValueError, match=r"executor: must be local where submitit .*topoflow\[slurm\].*, got "):
        Slurm().pool("cpu", tmp_path)


def test_without_slurm_on_the_machine_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("submitit", reason="needs the extra slurm")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ValueError, match=r"executor: must be on a machine that submits to Slurm, got .*srun"):
        Slurm().pool("cpu", tmp_path)


def test_a_note_is_an_event_once(tmp_path: Path) -> None:
    """Else the process that asks never sleeps while a job works."""
    pool = SlurmPool(None, tmp_path, 1, has_queue=False, limit=60.0, _checked=time.monotonic())
    pool.busy["own"] = None
    assert pool.wait(0.0) == []
    note = tmp_path / "own.note"
    for number, done in enumerate((0.25, 0.5)):
        note.write_text(json.dumps([done, {"best": done}]))
        os.utime(note, ns=(number, number))  # the clock of a file may be coarse
        assert pool.wait(0.0) == [("own", Note(done, {"best": done}))]
        assert pool.wait(0.0) == []
    note.write_text("[0.75, {")  # which is still being written
    assert pool.wait(0.0) == []


@dataclass(frozen=True)
class Cubes:
    """Cubes of numbers, each of which leaves a line in a file when it is computed."""

    log: Path
    is_batch = True

    def keys(self, items: Sequence[int]) -> list[str | None]:
        return [f"{item:064x}" for item in items]

    def weight(self, item: int) -> float:
        return 1.0

    def name(self, item: int) -> str:
        return f"number {item}"

    def do(self, items: Sequence[int], run: Run) -> list[np.ndarray]:
        with self.log.open("a") as file:
            file.writelines(f"{item}\n" for item in items)
        return [np.full(9000, item**3) for item in items]

    def pack(self, item: int, answer: np.ndarray) -> dict[str, np.ndarray]:
        return {"cube": answer}

    def unpack(self, item: int, arrays: Any) -> int:
        return int(arrays["cube"][-1])


@dataclass(frozen=True)
class Threads(Slurm):
    """Jobs that are threads of this process."""

    begun: list[threading.Thread] = field(default_factory=list)

    def _executor(self, device: str, folder: Path) -> Any:
        return self

    def submit(self, function: Any, *asked: Any) -> Any:
        self.begun.append(threading.Thread(target=function, args=asked, daemon=True))
        self.begun[-1].start()
        return SimpleNamespace(job_id="here", done=lambda: False)


def cubes(
    tmp_path: Path, cluster: Threads, count: int, keeps: bool = True, after_each: Callable[[], None] = lambda: None
) -> None:
    """Have numbers cubed by 2 jobs, and check that each is once, and that nothing is left of the jobs. ``after_each``
    answer no piece is given out until it returns."""
    log, folder = tmp_path / "log", tmp_path / "kept"
    remote = Remote(cluster, folder=folder, keeps=keeps)
    answers = {}
    for number, answer in remote.map(Cubes(log), range(count), Run()):
        answers[number] = answer
        after_each()
    assert answers == {number: number**3 for number in range(count)}
    assert sorted(map(int, log.read_text().split())) == [*range(count)]
    for thread in cluster.begun:
        thread.join(10)
        assert not thread.is_alive()
    assert [*(folder / "slurm").iterdir()] == []
    kept = [str(key) for path in folder.glob("*.answers") for key in keys_of(read(path))]
    assert sorted(kept) == [f"{number:064x}" for number in range(count) if keeps]


@pytest.mark.parametrize("keeps", [True, False])
def test_a_job_that_has_answered_does_the_next_piece(keeps: bool, tmp_path: Path) -> None:
    cluster = Threads(jobs=2, system="local")
    cubes(tmp_path, cluster, 40, keeps)
    assert len(cluster.begun) == 2


def test_a_job_without_time_for_another_piece_does_one(tmp_path: Path) -> None:
    cluster = Threads(jobs=2, minutes=2, system="local")  # submitit ends it after half a minute
    cubes(tmp_path, cluster, 9)
    assert len(cluster.begun) == 3  # of 1, 1 and 7 numbers


def test_a_job_that_leaves_while_it_is_given_a_piece_does_it_or_another_job_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("topoflow.engine.executor.slurm.POLL_INTERVAL", 1e-3)
    monkeypatch.setattr("topoflow.engine.executor.remote.POLL_INTERVAL", 1e-3)
    monkeypatch.setattr("topoflow.engine.executor.slurm.PATIENCE", 2e-3)
    cluster = Threads(jobs=2, system="local")

    def one_has_left() -> None:
        end = time.monotonic() + 60
        while all(thread.is_alive() for thread in cluster.begun):
            assert time.monotonic() < end, "a job that is given nothing waits for longer than its patience"
            time.sleep(1e-3)

    cubes(tmp_path, cluster, 300, after_each=one_has_left)
    assert len(cluster.begun) > 2


def test_a_job_that_is_not_wanted_any_more_waits_for_no_piece(tmp_path: Path) -> None:
    (tmp_path / "own.open").touch()
    assert _next(tmp_path / "own", patience=1e9) is None


def system_of(name: str) -> str:
    pytest.importorskip("submitit", reason="needs the extra slurm")
    if name == "slurm" and (shutil.which("sinfo") is None or subprocess.run(["sinfo"], capture_output=True).returncode):
        pytest.skip("needs a Slurm whose controller answers")
    return name


@pytest.mark.slow
@pytest.mark.timeout(2400)  # of a busy machine: each job is a process that imports topoflow
@pytest.mark.parametrize("name", ["local", "slurm"])
def test_nothing_is_lost_or_done_twice_where_a_job_and_the_driver_end(name: str, tmp_path: Path) -> None:
    script, log, folder, count = tmp_path / "script.py", tmp_path / "log", tmp_path / "kept", 8
    script.write_text(SCRIPT)
    command = [sys.executable, str(script), *map(str, (system_of(name), folder, log, count))]

    def begun() -> list[tuple[int, int]]:
        lines = log.read_text().splitlines() if log.exists() else []
        return [(int(line.split()[0]), int(line.split()[1])) for line in lines]

    def kept() -> set[int]:
        return {int(str(key), 16) for path in folder.glob("*.answers") for key in keys_of(read(path))}

    def until(what: Any) -> None:
        end = time.monotonic() + 600
        while not what():
            assert time.monotonic() < end, "it takes too long"
            time.sleep(0.05)

    said = tmp_path / "stderr"  # no pipe: jobs have it, too, and end later
    with said.open("w") as stderr:
        first = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=stderr)
    until(lambda: begun() or first.poll() is not None)
    assert first.poll() is None, said.read_text()
    os.kill(begun()[0][1], signal.SIGKILL)  # the process of a job
    until(lambda: kept() or first.poll() is not None)
    first.kill()  # the driver
    first.wait()
    there, before = kept(), len(begun())
    (tmp_path / "log.late").touch()
    second = subprocess.run(command, capture_output=True, text=True, timeout=1000)
    assert second.returncode == 0, second.stderr
    answers = [[int(each) for each in line.split()] for line in second.stdout.splitlines()]
    assert sorted(answers) == [[number, number**2] for number in range(count)]
    again = Counter(number for number, _ in begun()[before:])
    assert not set(again) & there
    assert set(again) >= set(range(count)) - there
