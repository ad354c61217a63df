"""What workers of an executor compute is what this process computes, to the last byte."""

from __future__ import annotations

import json
from collections.abc import Hashable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import topoflow
from topoflow.cli import main
from topoflow.engine.executor import ray
from topoflow.engine.executor.worker import Ended, Event, events, version

JOB = ("workload.tables=4", "workload.rows=1000", "servers=4")
COMMANDS = {
    "worlds": ("compare", *JOB, "fabric=fat_tree,ring,ocs_reconfig"),
    "failures": ("compare", *JOB, "fabric=ring", "fail.each=fiber"),
}


@dataclass
class Workers:
    """A pool in this process, whose first worker ends; what they are sent goes through bytes, as in a cluster."""

    busy: dict[int, tuple[bytes, str]] = field(default_factory=dict)
    begun: int = 0

    def workers(self) -> int:
        return 2

    def begin(self, payload: bytes, expected: str, name: str) -> Hashable:
        self.begun += 1
        self.busy[self.begun] = payload, expected
        return self.begun

    def wait(self, seconds: float) -> list[tuple[Hashable, Event]]:
        handle = max(self.busy)  # the last that has begun ends first
        payload, expected = self.busy.pop(handle)
        if self.begun == 1:
            return [(handle, Ended("it was killed"))]
        return [(handle, event) for event in events(payload, expected)]

    def cancel(self) -> None:
        self.busy.clear()


@pytest.fixture
def pools(monkeypatch: pytest.MonkeyPatch) -> list[Workers]:
    """All pools that are made in place of Ray's."""
    made: list[Workers] = []

    def pool(self: ray.Ray, device: str, folder: Path | None) -> Workers:
        made.append(Workers())
        return made[-1]

    monkeypatch.setattr(ray.Ray, "pool", pool)
    return made


@pytest.mark.parametrize("fabrics", [["topoopt"], ["topoopt", "fat_tree"]], ids=["ladders", "searches"])
def test_workers_find_the_plans_that_this_process_finds(fabrics: list[str], pools: list[Workers]) -> None:
    words = (*JOB, "search.proposals=96", "search.ladders=3", "search.chains=2", "search.rounds=1")
    here = topoflow.search(*words, fabric=fabrics)
    assert not pools
    there = topoflow.search(*words, fabric=fabrics, executor="ray")
    assert sum(each.begun for each in pools) > 1
    assert there.plan.to_json() == here.plan.to_json()


@pytest.mark.parametrize("name", COMMANDS)
def test_answers_of_workers_are_those_of_this_process(name: str, tmp_path: Path, pools: list[Workers]) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    assert main([*COMMANDS[name], f"out={here}"]) == 0
    assert main([*COMMANDS[name], f"out={there}", "executor=ray"]) == 0
    assert sum(each.begun for each in pools) > 1
    files = [path.relative_to(here) for path in here.rglob("*") if path.suffix in (".json", ".parquet", ".csv")]
    assert files
    for file in files:
        assert content(here / file) == content(there / file), file


def content(path: Path) -> Any:
    """Without what says how it was asked for."""
    if path.name != "result.json":
        return path.read_bytes()
    plain = json.loads(path.read_text())
    plain.pop("command")
    for row in plain["rows"]:
        row.get("config", {}).pop("out", None)
    return plain


def test_a_cluster_of_another_version_is_refused_with_both_versions() -> None:
    """What Ray 2.60 says to a cluster of 2.48: the versions of the cluster, then those of the process."""
    text = (
        "Version mismatch: The cluster was started with:\n    Ray: 2.48.0\n    Python: 3.11.7\n"
        "This process on node 192.0.2.2 was started with:\n    Ray: 2.60.0\n    Python: 3.11.7\n"
    )
    law = (
        "executor.address: must be a cluster with Ray 2.60.0 on Python 3.11.7, as here, got Ray 2.48.0 on Python 3.11.7"
    )
    assert str(ray._refused("head:6379", RuntimeError(text))) == law
    assert version().startswith("topoflow ")
