"""A real Ray cluster of several processes: what ends, at whatever moment, loses nothing and does nothing twice."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ray = pytest.importorskip("ray", reason="needs the extra ray")
# A cluster takes some seconds to begin, and each process that joins it; on a busy machine minutes.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(2400)]

# Work whose every beginning leaves a line; that of late numbers waits for a file, so that the first driver cannot end.
# What is defined in a script is sent to workers as it is.
LATE = 40
SCRIPT = """
import os, signal, sys, time
from dataclasses import dataclass
from pathlib import Path
import numpy as np
from topoflow.engine.base import Run
from topoflow.engine.executor.ray import Ray
signal.signal(signal.SIGINT, signal.default_int_handler)  # as in a terminal, wherever the tests run

@dataclass(frozen=True)
class Slow:
    log: str
    late: int
    is_batch = True
    def keys(self, items): return [f"{item:064x}" for item in items]
    def weight(self, item): return 1.0
    def name(self, item): return f"number {item}"
    def note(self, *words):
        with open(self.log, "a") as file:
            file.write(" ".join(map(str, words)) + "\\n")
    def do(self, items, run):
        for item in items:
            self.note("began", item, os.getpid())
            time.sleep(0.3)
            while item >= self.late and not os.path.exists(self.log + ".late"):
                time.sleep(0.1)
        return [np.array([item * item, int(os.environ.get("CUDA_VISIBLE_DEVICES") or -1)]) for item in items]
    def pack(self, item, answer): return {"square": answer}
    def unpack(self, item, arrays): return arrays["square"].tolist()

if __name__ == "__main__":
    address, folder, log, late, count, gpus, device = sys.argv[1:]
    cluster = Ray(address, seconds=0.6, retries=9, gpus=float(gpus) if gpus else None)
    _, remote = cluster.placed(device, None, Path(folder))
    for number, answer in remote.map(Slow(log, int(late)), range(int(count)), Run(executor=remote)):
        print(number, *answer, flush=True)
"""


def until(what: Callable[[], Any], seconds: float = 600) -> Any:
    """What ``what`` returns, once it is true."""
    end = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.05)
    return found


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    """A head that does no work, and two nodes with a processor each; one says that it has a GPU."""
    from ray.cluster_utils import Cluster

    made = Cluster()
    for attempt in range(3):  # Ray gives a node 30 s to begin, which a busy machine may exceed
        try:
            made.add_node(num_cpus=0, include_dashboard=False)
            made.add_node(num_cpus=1, num_gpus=1)
            made.leaving = made.add_node(num_cpus=1)
            break
        except Exception as error:
            made.shutdown()
            made = Cluster()
            if attempt == 2:
                pytest.skip(f"no Ray cluster begins on this machine: {error}")
    yield made
    made.shutdown()


@pytest.fixture
def drive(cluster: Any, tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Begins a process that has the cluster square so many numbers."""
    script, begun = tmp_path / "script.py", []
    script.write_text(SCRIPT)

    def begin(count: int, gpus: str = "", device: str = "cpu") -> subprocess.Popen[str]:
        words = [cluster.address, tmp_path / "kept", tmp_path / "log", LATE, count, gpus, device]
        command = [sys.executable, str(script), *map(str, words)]
        begun.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        return begun[-1]

    yield begin
    for each in begun:
        each.kill()
        each.communicate()


def lines(path: Path, word: str) -> list[list[int]]:
    """The numbers of the lines that begin with ``word``."""
    text = path.read_text() if path.exists() else ""
    return [[int(each) for each in line.split()[1:]] for line in text.splitlines() if line.startswith(word)]


def answers_in(out: str) -> list[list[int]]:
    """Number, square and GPU; Ray prints between them that a node has left."""
    return [[int(each) for each in line.split()] for line in out.splitlines() if re.fullmatch(r"\d+ \d+ -?\d+", line)]


def kept(folder: Path) -> set[int]:
    from topoflow.engine.executor.answers import keys_of, read

    return {int(str(key), 16) for path in folder.glob("*.answers") for key in keys_of(read(path))}


def test_nothing_is_lost_or_done_twice_where_a_worker_a_node_and_the_driver_end(
    cluster: Any, drive: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    log, folder, count = tmp_path / "log", tmp_path / "kept", LATE + 10
    first = drive(count)
    until(lambda: len(kept(folder)) >= 3 or first.poll() is not None)
    os.kill(lines(log, "began")[-1][1], signal.SIGKILL)  # a worker
    before = len(kept(folder))
    until(lambda: len(kept(folder)) >= before + 3 or first.poll() is not None)
    cluster.remove_node(cluster.leaving, allow_graceful=False)
    before = len(kept(folder))
    until(lambda: len(kept(folder)) >= before + 3 or first.poll() is not None)
    assert first.poll() is None, first.communicate()
    first.send_signal(signal.SIGKILL)  # the driver
    first.wait()
    cluster.leaving = cluster.add_node(num_cpus=1)
    there, begun = kept(folder), len(lines(log, "began"))
    assert len(there) <= LATE
    (tmp_path / "log.late").touch()
    second = drive(count)
    out, errors = second.communicate(timeout=1000)
    assert second.returncode == 0, errors
    answers = answers_in(out)
    assert sorted(answer[:2] for answer in answers) == [[number, number**2] for number in range(count)]
    again = Counter(number for number, _ in lines(log, "began")[begun:])
    unfinished = {number for number, _ in lines(log, "began")[:begun]} - there
    assert not set(again) & there
    assert set(again) == set(range(count)) - there
    assert max(again.values()) == 1
    assert len(unfinished) <= 8  # what workers had when the driver was killed


def test_work_that_needs_a_gpu_is_done_by_the_node_that_has_one(
    drive: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    """What Ray schedules by: a node says that it has a GPU, whether or not there is one."""
    without, errors = drive(4).communicate(timeout=1000)
    assert {device for *_, device in answers_in(without)} == {-1}, errors
    shutil.rmtree(tmp_path / "kept")
    (tmp_path / "log").unlink()
    out, errors = drive(6, gpus="1").communicate(timeout=1000)
    assert sorted(answers_in(out)) == [[number, number**2, 0] for number in range(6)], errors
    assert len({process for _, process in lines(tmp_path / "log", "began")}) == 1  # as the node has one processor


@pytest.mark.skipif(Path("/dev/nvidia0").exists(), reason="the machine has a GPU")
def test_a_worker_takes_the_device_that_is_asked_for_and_says_where_it_is_not(
    drive: Callable[..., subprocess.Popen[str]],
) -> None:
    driver = drive(3, device="cuda")  # which needs a GPU of Ray's, by itself
    out, errors = driver.communicate(timeout=1000)
    assert driver.returncode == 1
    assert answers_in(out) == []
    assert re.match(r"ValueError: device: cuda needs .*, got ", errors.splitlines()[-1])


def test_ctrl_c_ends_the_driver_and_its_work(drive: Callable[..., subprocess.Popen[str]], tmp_path: Path) -> None:
    driver = drive(1000)
    until(lambda: kept(tmp_path / "kept"))
    driver.send_signal(signal.SIGINT)
    driver.communicate(timeout=600)
    assert driver.returncode != 0
    worker = lines(tmp_path / "log", "began")[-1][1]
    until(lambda: not is_at_work(worker))
    begun = len(lines(tmp_path / "log", "began"))
    time.sleep(1)
    assert len(lines(tmp_path / "log", "began")) == begun


# Sleeps from Ctrl-C on, and waits that run into their limit: seconds asked for, whatever else the machine does.
ENDING = """
import atexit, os, signal, subprocess, threading, time
waits, sleep, wait = [], time.sleep, subprocess.Popen.wait
atexit.register(lambda: print(*waits))  # the first that is registered is the last that is called
signal.signal(signal.SIGINT, signal.default_int_handler)

def slept(seconds):
    waits.append(seconds)
    sleep(seconds)

def waited(self, timeout=None):
    try:
        return wait(self, timeout)
    except subprocess.TimeoutExpired:
        waits.append(timeout)
        raise

from topoflow.engine.executor.ray import Ray
pool = Ray(cpus=1).pool("cpu", None)
pool.begin(b"", "another version", "work")
time.sleep, subprocess.Popen.wait = slept, waited
os.kill(os.getpid(), signal.SIGINT)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="a second more is waited elsewhere")
def test_at_the_end_nothing_is_waited_for_but_processes_that_end(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", ENDING], capture_output=True, text=True, cwd=tmp_path)
    assert "KeyboardInterrupt" in done.stderr
    assert max(map(float, done.stdout.split()), default=0.0) < 0.2, done.stdout


def is_at_work(process: int) -> bool:
    try:
        return "topoflow" in Path(f"/proc/{process}/cmdline").read_text()
    except OSError:
        return False
