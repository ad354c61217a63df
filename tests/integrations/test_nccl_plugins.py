"""The profiler and the tuner plugin, driven through NCCL's interfaces by programs of our own."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from topoflow.capture.load import load

Build = Callable[[str], Path]
SANITIZERS = ("address", "thread")
VERSIONS = (1, 2, 3, 4, 5, 6)  # of NCCL's profiler interface
CALLS, KERNELS, COPY_ENGINES = (1 << 1 | 1 << 2 | 1 << 3 | 1 << 4), 1 << 6, 1 << 12  # its events


def run(program: Path, *arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
    dropped = ("TOPOFLOW_NCCL", "RANK", "WORLD_SIZE", "OMPI", "PMI", "SLURM")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    command = [str(program), *map(str, arguments)]
    return subprocess.run(command, env=inherited | variables, capture_output=True, text=True, timeout=120)


def profile(
    build: Path, folder: Path | None, check: str, version: int = 6, **variables: str
) -> subprocess.CompletedProcess[str]:
    variables |= {} if folder is None else {"TOPOFLOW_NCCL_TRACE": str(folder)}
    return run(build / "tests" / "profiler_test", build / "libnccl-profiler-topoflow.so", version, check, **variables)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("sanitizer", SANITIZERS)
@pytest.mark.parametrize("version", VERSIONS)
def test_every_event_is_a_line_in_every_version_of_the_interface(
    nccl_build: Build, tmp_path: Path, sanitizer: str, version: int
) -> None:
    ran = profile(nccl_build(sanitizer), tmp_path, "events", version, RANK="3", WORLD_SIZE="8")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout == f"mask {CALLS | (version >= 3) * KERNELS | (version >= 6) * COPY_ENGINES}\n"
    (path,) = tmp_path.iterdir()
    assert path.name == "nccl-rank-3.jsonl"
    events = lines(path)
    assert (events[0]["event"], events[0]["rank"], events[0]["ranks"]) == ("start", 3, 8)
    first, second = (e for e in events if e["event"] == "comm")
    assert (first["hash"], first["rank"]) == ("abcdef0123456789", 1)
    assert first.get("ranks") == (8 if version >= 4 else None), "older versions do not say how many"
    assert (first["name"], second["name"], second["comm"]) == ('data "parallel"\n', "", 2)
    coll = next(e for e in events if e["event"] == "coll")
    fields = ("sequence", "count", "function", "type", "algorithm", "protocol", "channels")
    assert [coll[name] for name in fields] == [7, 1000, "AllReduce", "ncclFloat32", "RING", "SIMPLE", 2]
    proxies = {e["peer"]: e for e in events if e["event"] == "proxy" and (e["bytes"] or e["peer"] == 5)}
    # Two steps of 500 B; a step that reports after the operation has ended counts for nothing.
    assert (proxies[4]["bytes"], proxies[4]["steps"], proxies[4]["send"]) == (1000, 2, True)
    assert proxies[4]["parent"] == coll["id"]
    assert "parent" not in proxies[5], "the parent of another process's operation is not ours"
    kernels = [(e["parent"], e["gpu_start"], e["gpu_stop"]) for e in events if e["event"] == "kernel"]
    assert kernels == {1: [], 2: [], 3: [(coll["id"], 0, 0)]}.get(version, [(coll["id"], 100, 300)])
    message = next(e for e in events if e["event"] == "p2p")
    assert [message[name] for name in ("function", "peer", "count", "type")] == ["Send", 3, 64, "ncclBfloat16"]
    assert all(e["start"] <= e["stop"] for e in events if "stop" in e)
    calls = [(e["function"], e["count"], e["algorithm"]) for e in events if e["event"] == "coll"]
    copied = [("AllGather", 500, "CE")] if version >= 6 else []
    assert calls == [("AllReduce", 1000, "RING"), *copied, ("AllReduce", 2, "RING")], "nothing after the end"


@pytest.mark.parametrize("sanitizer", SANITIZERS)
@pytest.mark.parametrize("version", [3, 6])  # with bytes by operation, and by step
def test_threads_lose_nothing_that_is_not_counted(
    nccl_build: Build, tmp_path: Path, sanitizer: str, version: int
) -> None:
    """16 threads of 1,500 collectives, each with its end and an operation; what full buffers drop is counted."""
    ran = profile(nccl_build(sanitizer), tmp_path, "threads", version)
    assert (ran.returncode, ran.stderr) == (0, "")
    (path,) = tmp_path.iterdir()
    events = lines(path)
    counts = Counter(e["event"] for e in events)
    lost = sum(e["records"] for e in events if e["event"] == "lost")
    assert counts["coll"] + counts["proxy"] + counts["queued"] + lost == 16 * 1500 * 3
    assert counts["comm"] == counts["comm_end"] == 1
    assert all(e["bytes"] == 20 for e in events if e["event"] == "proxy")
    numbers = [e["id"] for e in events if e["event"] in ("coll", "proxy")]
    assert len(set(numbers)) == len(numbers)


def test_operations_without_a_slot_are_counted_as_lost(nccl_build: Build, tmp_path: Path) -> None:
    """10,000 at once, of which 8,192 have one; the buffer of a thread holds 4,096 records."""
    assert profile(nccl_build("address"), tmp_path, "slots").returncode == 0
    (path,) = tmp_path.iterdir()
    events = lines(path)
    lost = sum(e["records"] for e in events if e["event"] == "lost")
    assert lost >= 10_000 - 8192
    assert sum(e["event"] in ("comm", "proxy", "comm_end") for e in events) + lost == 10_002


def test_a_limit_of_the_size_of_files_is_said_once_and_the_job_ends_well(nccl_build: Build, tmp_path: Path) -> None:
    """`ulimit -f` without a handler of SIGXFSZ, which would end the process."""
    ran = profile(nccl_build("address"), tmp_path, "file_limit")
    assert ran.returncode == 0
    assert ran.stderr.count("\n") == 1
    assert "File too large; NCCL's events are not recorded" in ran.stderr


def test_a_write_that_does_not_return_is_said_once_and_the_job_ends_well(nccl_build: Build, tmp_path: Path) -> None:
    ran = profile(nccl_build("address"), tmp_path, "hanging_write")
    assert (ran.returncode, ran.stdout) == (0, "mask 0\n"), "the next communicator is not recorded"
    assert ran.stderr.count("\n") == 1
    assert "a write has not returned for 5 s; NCCL's events are not recorded" in ran.stderr


def test_a_file_that_takes_nothing_is_said_once_and_the_job_ends_well(nccl_build: Build, tmp_path: Path) -> None:
    ran = profile(nccl_build("address"), tmp_path, "empty_write")
    assert (ran.returncode, ran.stderr.count("\n")) == (0, 1)
    assert "the file takes nothing; NCCL's events are not recorded" in ran.stderr


def test_a_fork_has_a_file_of_its_own(nccl_build: Build, tmp_path: Path) -> None:
    assert profile(nccl_build("address"), tmp_path, "forked").returncode == 0
    names = sorted([e["name"] for e in lines(path) if e["event"] == "comm"] for path in tmp_path.iterdir())
    assert names == [["child"], ["parent", "parent"]]
    assert profile(nccl_build("address"), tmp_path, "forked", RANK="0").stderr.count("File exists") == 1


def test_a_signal_that_the_job_blocks_is_not_taken_by_the_writing_thread(nccl_build: Build, tmp_path: Path) -> None:
    ran = profile(nccl_build("address"), tmp_path, "blocked_signal")
    assert (ran.returncode, ran.stdout) == (0, "pending 1\n")


def test_a_job_without_a_rank_has_a_file_of_its_host_and_process(nccl_build: Build, tmp_path: Path) -> None:
    for rank in ({}, {"RANK": ""}):
        assert profile(nccl_build("address"), tmp_path, "events", **rank).returncode == 0
    assert len(list(tmp_path.glob("nccl-*-*.jsonl"))) == 2
    assert not list(tmp_path.glob("nccl-rank-*"))


def test_an_exit_without_finalize_keeps_what_was_recorded(nccl_build: Build, tmp_path: Path) -> None:
    assert profile(nccl_build("thread"), tmp_path, "sudden_exit").returncode == 0
    (path,) = tmp_path.iterdir()
    assert [e["event"] for e in lines(path)] == ["start", "comm", "coll", "queued"]


def test_a_folder_that_cannot_take_the_file_is_said_once(nccl_build: Build, tmp_path: Path) -> None:
    """No folder named, a missing one, a name too long, and one that has this rank's file: that is not overwritten."""
    build = nccl_build("address")
    (tmp_path / "nccl-rank-0.jsonl").write_text("kept")
    for folder, message in (
        (None, "must name a folder"),
        (tmp_path / "missing", "No such file"),
        (Path("/" + "x/" * 2040), "File name too long"),
        (tmp_path, "File exists"),
    ):
        ran = profile(build, folder, "events", RANK="0")
        assert (ran.returncode, ran.stdout) == (0, "mask 0\n")
        assert ran.stderr.count("\n") == 1
        assert message in ran.stderr
    assert (tmp_path / "nccl-rank-0.jsonl").read_text() == "kept"


def costs(
    build: Path,
    function: int,
    size: int,
    can_ring: bool,
    differ: bool = False,
    program: str = "tuner_test",
    **variables: str,
) -> tuple[int, list[list[float]]]:
    plugin = build / "libnccl-tuner-topoflow.so"
    ran = run(build / "tests" / program, plugin, function, size, int(can_ring), int(differ), **variables)
    assert ran.returncode == 0, ran.stderr
    channels, *table = ran.stdout.split()
    return int(channels), [[float(cost) for cost in table[3 * a : 3 * a + 3]] for a in range(7)]


def test_large_all_reduces_take_rings_with_nccls_own_costs(nccl_build: Build) -> None:
    build = nccl_build("address")
    variables = {"TOPOFLOW_NCCL_RINGS": "1,3", "TOPOFLOW_NCCL_WEIGHTS": ".75,.25", "TOPOFLOW_NCCL_THRESHOLD": "1000"}
    nothing = [[10.0 * a + p + 1 for p in range(3)] for a in range(7)]
    ignored = [-1.0] * 3
    ring = [ignored, [11.0, 12.0, 13.0], *[ignored] * 5]
    assert costs(build, 4, 250, True, **variables) == (0, ring)  # the smallest share of 1,000 B
    assert costs(build, 4, 249, True, **variables) == (0, nothing)
    assert costs(build, 0, 10**6, True, **variables) == (0, nothing), "a broadcast"
    assert costs(build, 4, 10**6, True) == (0, nothing), "no rings are asked for"
    without = [nothing[0], ignored, *nothing[2:]]
    assert costs(build, 4, 10**6, False, **variables) == (0, without), "where NCCL has no ring, it chooses"
    assert costs(build, 4, 10**6, True, differ=True, **variables) == (0, nothing), "ranks have different settings"
    assert costs(build, 4, 10**6, True, program="tuner_test_alone", **variables) == (0, nothing), "nothing is spread"
    more = variables | {"TOPOFLOW_NCCL_PROTOCOL": "Simple", "TOPOFLOW_NCCL_CHANNELS": "3"}
    assert costs(build, 4, 10**6, True, **more) == (3, [ignored, [-1.0, -1.0, 13.0], *[ignored] * 5])
    wrong = variables | {"TOPOFLOW_NCCL_PROTOCOL": "simple", "TOPOFLOW_NCCL_CHANNELS": "0"}
    assert costs(build, 4, 10**6, True, **wrong) == (0, ring)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_import_reads_what_the_plugin_writes(nccl_build: Build, tmp_path: Path, version: int) -> None:
    """Both ranks of the job that examples/traces has."""
    for rank in ("0", "1"):
        assert profile(nccl_build("address"), tmp_path, "example", version, RANK=rank, WORLD_SIZE="2").returncode == 0
    trace = load([tmp_path])
    assert (trace.world_size, trace.iterations) == (2, 2)
    assert [(event.op, event.bytes) for event in trace.communications(0)] == [("all_reduce", 4000), ("send", 128)] * 2


def test_what_a_killed_job_recorded_is_read_up_to_its_last_common_iteration(nccl_build: Build, tmp_path: Path) -> None:
    build = nccl_build("")
    command = [build / "tests" / "profiler_test", build / "libnccl-profiler-topoflow.so", "6", "endless"]
    job = {"TOPOFLOW_NCCL_TRACE": str(tmp_path), "WORLD_SIZE": "2"}
    ranks = [subprocess.Popen(command, env=os.environ | job | {"RANK": rank}) for rank in ("0", "1")]
    for rank, enough in ((0, 100_000), (1, 300_000)):  # B: rank 0 is killed first
        while not (path := tmp_path / f"nccl-rank-{rank}.jsonl").exists() or path.stat().st_size < enough:
            time.sleep(0.01)
        ranks[rank].kill()
        ranks[rank].wait()
    sent = [sum(e["event"] == "p2p" for e in whole_lines(tmp_path / f"nccl-rank-{rank}.jsonl")) for rank in (0, 1)]
    trace = load([tmp_path])
    assert sent[0] != sent[1]
    assert trace.iterations == min(sent)
    assert [len(list(trace.communications(rank))) for rank in (0, 1)] == [2 * trace.iterations] * 2


def whole_lines(path: Path) -> list[dict[str, Any]]:
    """The lines of a file that may end within one."""
    return [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
