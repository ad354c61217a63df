"""The profiler and the tuner plugin, driven through NCCL's interfaces by programs of our own."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from topoflow.capture.load import load

Build = Callable[[str], Path]
SANITIZERS = ("address", "thread")


def run(program: Path, *arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
    dropped = ("TOPOFLOW_NCCL", "RANK", "WORLD_SIZE", "OMPI", "PMI", "SLURM")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    command = [str(program), *map(str, arguments)]
    return subprocess.run(command, env=inherited | variables, capture_output=True, text=True, timeout=120)


def profile(
    build: Path, folder: Path | None, law: str, version: int = 5, **variables: str
) -> subprocess.CompletedProcess[str]:
    variables |= {} if folder is None else {"TOPOFLOW_NCCL_TRACE": str(folder)}
    return run(build / "tests" / "profiler_test", build / "libnccl-profiler-topoflow.so", version, law, **variables)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("sanitizer", SANITIZERS)
@pytest.mark.parametrize("version", [4, 5])
def test_every_event_is_a_line(nccl_build: Build, tmp_path: Path, sanitizer: str, version: int) -> None:
    ran = profile(nccl_build(sanitizer), tmp_path, "events", version, RANK="3", WORLD_SIZE="8")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout == f"mask {sum(1 << bit for bit in (1, 2, 3, 4, 6))}\n"
    (path,) = tmp_path.iterdir()
    assert path.name == "nccl-rank-3.jsonl"
    events = lines(path)
    assert (events[0]["event"], events[0]["rank"], events[0]["ranks"]) == ("start", 3, 8)
    first, second = (e for e in events if e["event"] == "comm")
    assert (first["hash"], first["ranks"], first["rank"]) == ("abcdef0123456789", 8, 1)
    assert (first["name"], second["name"], second["comm"]) == ('data "parallel"\n', "", 2)
    coll = next(e for e in events if e["event"] == "coll")
    kept = ("sequence", "count", "function", "type", "algorithm", "protocol", "channels")
    assert [coll[name] for name in kept] == [7, 1000, "AllReduce", "ncclFloat32", "RING", "SIMPLE", 2]
    proxies = {e["peer"]: e for e in events if e["event"] == "proxy" and (e["bytes"] or e["peer"] == 5)}
    # Two steps of 500 B; a step that reports after the operation has ended counts for nothing.
    assert (proxies[4]["bytes"], proxies[4]["steps"], proxies[4]["send"]) == (1000, 2, True)
    assert proxies[4]["parent"] == coll["id"]
    assert "parent" not in proxies[5], "the parent of another process's operation is not ours"
    kernel = next(e for e in events if e["event"] == "kernel")
    assert (kernel["parent"], kernel["gpu_start"], kernel["gpu_stop"]) == (coll["id"], 100, 300)
    message = next(e for e in events if e["event"] == "p2p")
    assert (message["function"], message["peer"], message["count"], message["type"]) == (
        "Send",
        3,
        64,
        "ncclFloat8e4m3",
    )
    assert all(e["start"] <= e["stop"] for e in events if "stop" in e)
    assert [e["count"] for e in events if e["event"] == "coll"] == [1000, 2], "what came after the end is not recorded"


@pytest.mark.parametrize("sanitizer", SANITIZERS)
def test_threads_lose_nothing_that_is_not_counted(nccl_build: Build, tmp_path: Path, sanitizer: str) -> None:
    """16 threads of 1,500 collectives, each with its end and an operation; what full buffers drop is counted."""
    ran = profile(nccl_build(sanitizer), tmp_path, "threads")
    assert (ran.returncode, ran.stderr) == (0, "")
    (path,) = tmp_path.iterdir()
    events = lines(path)
    counts = Counter(e["event"] for e in events)
    lost = sum(e["records"] for e in events if e["event"] == "lost")
    assert counts["coll"] + counts["proxy"] + counts["queued"] + lost == 16 * 1500 * 3
    assert all(e["bytes"] == 20 for e in events if e["event"] == "proxy")
    numbers = [e["id"] for e in events if e["event"] in ("coll", "proxy")]
    assert len(set(numbers)) == len(numbers)


def test_a_full_disk_is_said_once_and_the_job_ends_well(nccl_build: Build, tmp_path: Path) -> None:
    ran = profile(nccl_build("address"), tmp_path, "full_disk")
    assert ran.returncode == 0
    assert ran.stderr.count("\n") == 1
    assert "File too large; NCCL's events are not recorded" in ran.stderr


def test_an_exit_without_finalize_keeps_what_was_recorded(nccl_build: Build, tmp_path: Path) -> None:
    assert profile(nccl_build("thread"), tmp_path, "sudden_exit").returncode == 0
    (path,) = tmp_path.iterdir()
    assert [e["event"] for e in lines(path)] == ["start", "comm", "coll", "queued"]


def test_a_folder_that_cannot_take_the_file_is_said_once(nccl_build: Build, tmp_path: Path) -> None:
    """No folder named, a missing one, and one that has this rank's file: that is not overwritten."""
    build = nccl_build("address")
    (tmp_path / "nccl-rank-0.jsonl").write_text("kept")
    for folder, said in (
        (None, "must name a folder"),
        (tmp_path / "missing", "No such file"),
        (tmp_path, "File exists"),
    ):
        ran = profile(build, folder, "events", RANK="0")
        assert (ran.returncode, ran.stdout) == (0, "mask 0\n")
        assert ran.stderr.count("\n") == 1
        assert said in ran.stderr
    assert (tmp_path / "nccl-rank-0.jsonl").read_text() == "kept"


def costs(build: Path, function: int, size: int, can_ring: bool, **variables: str) -> tuple[int, list[list[float]]]:
    ran = run(
        build / "tests" / "tuner_test", build / "libnccl-tuner-topoflow.so", function, size, int(can_ring), **variables
    )
    assert ran.returncode == 0, ran.stderr
    channels, *table = ran.stdout.split()
    return int(channels), [[float(cost) for cost in table[3 * a : 3 * a + 3]] for a in range(7)]


def test_large_all_reduces_take_rings_with_nccls_own_costs(nccl_build: Build) -> None:
    build = nccl_build("address")
    asked = {"TOPOFLOW_NCCL_RINGS": "1,3", "TOPOFLOW_NCCL_WEIGHTS": ".75,.25", "TOPOFLOW_NCCL_THRESHOLD": "1000"}
    nothing = [[10.0 * a + p + 1 for p in range(3)] for a in range(7)]
    ignored = [-1.0] * 3
    ring = [ignored, [11.0, 12.0, 13.0], *[ignored] * 5]
    assert costs(build, 4, 250, True, **asked) == (0, ring)  # the smallest share of 1,000 B
    assert costs(build, 4, 249, True, **asked) == (0, nothing)
    assert costs(build, 0, 10**6, True, **asked) == (0, nothing), "a broadcast"
    assert costs(build, 4, 10**6, True) == (0, nothing), "no rings are asked for"
    without = [nothing[0], ignored, *nothing[2:]]
    assert costs(build, 4, 10**6, False, **asked) == (0, without), "where NCCL has no ring, it chooses"
    more = asked | {"TOPOFLOW_NCCL_PROTOCOL": "Simple", "TOPOFLOW_NCCL_CHANNELS": "3"}
    assert costs(build, 4, 10**6, True, **more) == (3, [ignored, [-1.0, -1.0, 13.0], *[ignored] * 5])
    wrong = asked | {"TOPOFLOW_NCCL_PROTOCOL": "simple", "TOPOFLOW_NCCL_CHANNELS": "0"}
    assert costs(build, 4, 10**6, True, **wrong) == (0, ring)


def test_an_import_reads_what_the_plugin_writes(nccl_build: Build, tmp_path: Path) -> None:
    """Both ranks of the job that examples/traces has."""
    for rank in ("0", "1"):
        assert profile(nccl_build("address"), tmp_path, "example", RANK=rank, WORLD_SIZE="2").returncode == 0
    trace = load([tmp_path])
    assert (trace.world_size, trace.iterations) == (2, 2)
    assert [(event.op, event.bytes) for event in trace.communications(0)] == [("all_reduce", 4000), ("send", 128)] * 2
