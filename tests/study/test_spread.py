"""Commands and calls with an executor answer what they answer without, to the last byte."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import topoflow
from topoflow.cli import main

JOB = ("workload.tables=4", "workload.rows=1000", "servers=4")
COMMANDS = {
    "worlds": ("compare", *JOB, "fabric=fat_tree,ring,ocs_reconfig"),
    "failures": ("compare", *JOB, "fabric=ring", "fail.each=fiber"),
    "dataset": ("compare", *JOB, "fabric=ring", "bandwidth_gbps=1,2,5"),
}


@pytest.mark.parametrize("fabrics", [["topoopt"], ["topoopt", "fat_tree"]], ids=["ladders", "searches"])
@pytest.mark.parametrize("workers", [2, 5])
def test_workers_find_the_plans_that_this_process_finds(fabrics: list[str], workers: int) -> None:
    words = (*JOB, "search.proposals=96", "search.ladders=3", "search.chains=2", "search.rounds=1")
    local = topoflow.search(*words, fabric=fabrics)
    with ThreadPoolExecutor(workers) as executor:
        remote = topoflow.search(*words, fabric=fabrics, executor=executor)
        assert executor._work_queue.empty()
        assert executor._threads  # something was submitted
    assert remote.plan.to_json() == local.plan.to_json()


def test_an_executor_can_be_given_from_python() -> None:
    local = topoflow.compare(*JOB, fabric=["ring", "fat_tree"])
    with ThreadPoolExecutor(2) as executor:
        spread = topoflow.compare(*JOB, fabric=["ring", "fat_tree"], executor=executor)
        assert executor._threads
    assert [result.iteration_time for result in spread] == [result.iteration_time for result in local]
    with pytest.raises(ValueError, match="executor: must be a name or an object with submit, got the class ThreadPool"):
        topoflow.compare(*JOB, executor=ThreadPoolExecutor)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name == "dataset" else pytest.mark.slow) for name in COMMANDS]
)
def test_files_are_the_same_with_worker_processes(name: str, tmp_path: Path) -> None:
    suffix = ".parquet" if name == "dataset" else ""
    local, remote = tmp_path / f"here{suffix}", tmp_path / f"there{suffix}"
    assert main([*COMMANDS[name], f"out={local}"]) == 0
    assert main([*COMMANDS[name], f"out={remote}", "executor=processes", "executor.count=2"]) == 0
    files = [path.relative_to(local) for path in local.rglob("*") if path.suffix in (".json", ".parquet", ".csv")]
    assert files
    for file in files:
        assert content(local / file) == content(remote / file), file


def content(path: Path) -> Any:
    """Return what a file holds, without how it was asked for."""
    if path.suffix != ".json":
        return path.read_bytes()
    plain = json.loads(path.read_text())
    plain.pop("command", None)
    for row in plain.get("rows", ()):
        row.get("config", {}).pop("out", None)
    return plain
