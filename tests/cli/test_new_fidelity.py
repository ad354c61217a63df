"""The promise of a fidelity: ``engine/NAME/`` and ``configs/fidelity/NAME.yaml``, and every verb has it."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SMALL = ("servers=4", "workload.tables=4", "workload.rows=1000", "workload.batch_per_gpu=64")

# One task after the other, each alone: no fidelity is slower.
SERIAL = """
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from topoflow.engine.base import Run, Timeline, World
from topoflow.engine.timelines import link_bytes, timeline

from topoflow import _C


@dataclass(frozen=True)
class Serial:
    slowdown: float = 1.0

    name: ClassVar[str] = "serial"
    lower_bound_of: ClassVar[str] = ""

    def __post_init__(self) -> None:
        if self.slowdown < 1:
            raise ValueError(f"serial.slowdown: must be at least 1, got {self.slowdown}")

    def refuses(self, world: World) -> str | None:
        return f"fabric: must keep its circuits, got {world.fabric.name}" if world.changes_circuits else None

    def keeps_bound(self, world: World) -> bool:
        return True

    def simulate(self, worlds: Sequence[World], run: Run = Run()) -> list[Timeline]:
        return [self._one(world) for world in worlds]

    def _one(self, world: World) -> Timeline:
        graph, seconds = world.graph, world.graph.delay.copy()
        for task in np.flatnonzero(graph.path >= 0):
            path = graph.path[task]
            links = graph.path_links[graph.path_offsets[path] : graph.path_offsets[path + 1]]
            if len(links):
                seconds[task] += world.latency[links].sum() + graph.bytes[task] / world.capacity[links].min()
        finish = np.cumsum(seconds) * self.slowdown
        return timeline(world, finish - seconds * self.slowdown, finish, link_bytes(graph))
"""
CONFIG = "_target_: topoflow.engine.serial.Serial\nslowdown: 1\n"
DRIVER = """
import json, sys
from topoflow.cli import main, stages
stages.MAX_SILENCE = 1e9  # no line that depends on the time
for command in json.loads(sys.argv[1]):
    print("rc", main(command), file=sys.stderr)
"""


@pytest.fixture(scope="module")
def house(copied_package: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package with two files more."""
    folder = tmp_path_factory.mktemp("house")
    copied_package(folder)
    (folder / "topoflow" / "engine" / "serial").mkdir()
    (folder / "topoflow" / "engine" / "serial" / "__init__.py").write_text(SERIAL)
    (folder / "topoflow" / "configs" / "fidelity" / "serial.yaml").write_text(CONFIG)
    return folder


def run(house: Path, *commands: tuple[str, ...]) -> list[str]:
    """What the commands print on stderr, one process for all."""
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, json.dumps(commands)],
        env={**os.environ, "PYTHONPATH": str(house)},
        cwd=house,
        capture_output=True,
        text=True,
        timeout=280,
    )
    return done.stderr.splitlines()


def rows(out: Path, key: str) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = json.loads((out / "result.json").read_text())[key]
    return records


def test_a_comparison_has_it_with_its_settings_and_for_failures(house: Path, tmp_path: Path) -> None:
    swept = ("fidelity=serial,fluid,bound", "serial.slowdown=1,2", "fabric=fat_tree")
    lines = run(
        house,
        ("compare", *swept, f"out={tmp_path / 'swept'}", *SMALL),
        ("compare", "fidelity=serial", "fabric=topoopt", "fail.each=fiber", f"out={tmp_path / 'each'}", *SMALL),
        ("compare", "fidelity=serial", "fabric=topoopt", "fail.links=[1]", f"out={tmp_path / 'links'}", *SMALL),
        ("compare", "fidelity=serial", "fabric=sip_ml", *SMALL),
        ("compare", "fidelity=bound", "serial.slowdown=0", "fabric=fat_tree", *SMALL),
        ("compare", "fidelity=serial", "serial.slowdwn=2", "fabric=fat_tree", *SMALL),
    )
    assert [line for line in lines if line.startswith("rc")] == ["rc 0", "rc 0", "rc 0", "rc 2", "rc 2", "rc 2"]
    assert [line for line in lines if not line.startswith("rc")] == [
        "topoflow compare: fabric: must keep its circuits, got sip_ml",
        "topoflow compare: serial.slowdown: must be at least 1, got 0",
        "topoflow compare: serial.slowdwn: no such key; did you mean serial.slowdown?",
    ]
    (once, twice, *fluid_and_bound) = [row["iteration_time"] for row in rows(tmp_path / "swept", "rows")]
    assert twice == pytest.approx(2 * once)
    fluid, fluid_again, bound, also = fluid_and_bound
    assert (fluid, bound) == (fluid_again, also)
    assert bound <= fluid < once
    for kind in ("each", "links"):
        (result,) = rows(tmp_path / kind, "rows")
        assert result["fidelity"] == "serial"
        assert result["iteration_time"] > fluid
    failed = [failure["iteration_time"] for failure in rows(tmp_path / "each", "failures")]
    assert failed == pytest.approx([result["iteration_time"]] * len(failed), rel=0.2)
    assert len(set(failed)) > 1


def test_a_search_a_figure_a_cluster_and_a_world_of_a_file_have_it(house: Path, tmp_path: Path) -> None:
    settings = ("fidelity=serial", "serial.slowdown=2")
    searched = ("search", *SMALL, "search.proposals=16", "search.rounds=1", "search.chains=4")
    figure = ("experiment", "topoopt_fig12", "servers=4", "workload.tables=4", "workload.batch_per_gpu=64", "degree=2")
    figure = (*figure, "seed=0", "series=TopoOpt")
    shared = ("experiment", "topoopt_fig16", "servers=32", "seed=0", "experiment.jobs=[1]", "degree=4")
    shared = (*shared, "series=Ideal Switch", "experiment.starts=0")
    # of several jobs the second would wait for all iterations of the first
    world = {
        "links": [{"src": "a", "dst": "b", "bandwidth": 100}],
        "tasks": [{"id": size, "type": "transfer", "path": [0], "bytes": size} for size in (100, 300)],
    }
    (tmp_path / "world.json").write_text(json.dumps(world))
    lines = run(
        house,
        (*searched, *settings, f"out={tmp_path / 'search'}"),
        (*figure, *settings, f"out={tmp_path / 'figure'}"),
        (*figure, "fluid.merge=0", f"out={tmp_path / 'fluid'}"),
        (*shared, *settings, f"out={tmp_path / 'shared'}"),
        ("simulate", f"world={tmp_path / 'world.json'}", *settings, f"out={tmp_path / 'world'}"),
    )
    assert lines == ["rc 0"] * 5
    plan = json.loads((tmp_path / "search" / "plan.json").read_text())
    assert plan["fidelity"] == "serial"
    assert plan["iteration_time"] > plan["bound"]
    (serial,), (fluid,) = (rows(tmp_path / name, "rows") for name in ("figure", "fluid"))
    assert serial["iteration_time"] > fluid["iteration_time"]
    assert all(row["p99"] >= row["mean"] > 0 for row in rows(tmp_path / "shared", "rows") if row["kind"] == "all")
    with (tmp_path / "world" / "flows.csv").open(newline="") as file:  # 100 B, then 300 B at 100 B/s, twice as slow
        assert [float(row["finish"]) for row in csv.DictReader(file)] == [2.0, 8.0]
