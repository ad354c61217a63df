"""A job under capture ends as it ends alone, whatever fails: the same status, the same output, no wait for others.

Ranks are real processes that communicate over gloo. Each job runs twice with the same fault, alone and captured.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle, product
from pathlib import Path

import pytest

from tests.examples import FACTOR
from topoflow.capture.load import load

pytest.importorskip("torch")
pytestmark = pytest.mark.slow  # processes that import torch

JOBS = Path(__file__).resolve().parent / "jobs"
ENDS = ("well", "exit3", "os._exit4", "late")
OTHER_ENDS = ("os._exit0", "message", "raises", "killed")  # which differ from these without a fault at most
FAULTS = ("none", "removed", "filled", "limited", "read-only", "full", "no folder", "bug")
Outcome = list[tuple[int, list[str]]]  # status and output of each rank


@pytest.fixture(scope="module")
def launcher() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, str(JOBS / "launcher.py")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.stdin.close()


def run(launcher: subprocess.Popen[str], folder: Path, ending: str, fault: str, out: Path, captured: bool) -> Outcome:
    """Run the job in ``folder``; return what its ranks did."""
    script = [str(JOBS / "ends.py"), ending, fault, str(out)]
    job = {"folder": str(folder), "out": str(out) if captured else "", "script": script}
    launcher.stdin.write(json.dumps(job) + "\n")
    launcher.stdin.flush()
    statuses = json.loads(launcher.stdout.readline())
    return [(status, (folder / f"{rank}.out").read_text().splitlines()) for rank, status in enumerate(statuses)]


def mounted(*arguments: object) -> None:
    """Mount, or skip the test."""
    done = subprocess.run(["mount", *map(str, arguments)], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"needs the right to mount a small disk: {done.stderr.strip()}")


@contextmanager
def place(folder: Path, fault: str) -> Iterator[Path]:
    """Yield the folder to record in, on a disk that is full, read-only, or will be filled."""
    if fault not in ("filled", "full", "read-only"):
        (folder / "file").touch()
        yield folder / ("file" if fault == "no folder" else "records") / "out"
        return
    disk = folder / "disk"
    disk.mkdir()
    mounted("-t", "tmpfs", "-o", "size=64k", "tmpfs", disk)
    try:
        if fault == "full":
            with pytest.raises(OSError, match="space"):
                (disk / "filling").write_bytes(bytes(2**20))
        if fault == "read-only":
            mounted("-o", "remount,ro", disk)
        yield disk / "out"
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


CASES = [*product(ENDS, FAULTS), *product(OTHER_ENDS, ["none"])]
EACH_ONCE = [*zip(cycle(ENDS), FAULTS[1:], strict=False), *product(ENDS + OTHER_ENDS, ["none"])]


@pytest.mark.parametrize(("ending", "fault"), CASES if FACTOR > 1 else EACH_ONCE)
def test_a_captured_job_ends_as_it_ends_alone(
    ending: str, fault: str, launcher: subprocess.Popen[str], tmp_path: Path
) -> None:
    alone, captured = tmp_path / "alone", tmp_path / "captured"
    alone.mkdir()
    captured.mkdir()
    expected = run(launcher, alone, ending, "limited" if fault == "limited" else "none", alone / "out", False)
    with place(captured, fault) as out:
        assert run(launcher, captured, ending, fault, out, True) == expected
        for rank in range(2):
            errors = (captured / f"{rank}.err").read_text()
            messages = [line for line in errors.splitlines() if line.startswith("topoflow.capture: ")]
            dead = ending == "killed" and rank == 1
            if fault == "none":
                assert len(messages) == (rank == 0 and ending in ("well", "os._exit0", "killed"))
            elif not (dead and fault in ("removed", "filled", "limited")):
                assert len(messages) == 1, errors
        if fault == "none":
            trace = load([out])
            assert (trace.iterations, sorted(trace.ranks)) == (6, [0, 1])
            assert any("cut off or failed" in note for note in trace.notes) == (ending not in ("well", "os._exit0"))


def test_a_job_that_is_restarted_is_recorded_anew(tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command += ["--max-restarts", "1", "--monitor-interval", "0.1", "-m", "topoflow.capture", "run", "--out", str(out)]
    done = subprocess.run(
        [*command, str(JOBS / "ends.py"), "restart", "none", str(out)], capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
    names = sorted(path.name for path in out.iterdir())
    assert names == ["rank0.jsonl", "rank0.restart1.jsonl", "rank1.jsonl", "rank1.restart1.jsonl"]
    trace = load([out])
    assert (trace.iterations, sorted(trace.ranks)) == (6, [0, 1])
