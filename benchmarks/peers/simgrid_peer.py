"""SimGrid as a peer: the same world as a file, and a small S4U program (``simgrid``) that runs it.

Needs a C++ compiler, SimGrid and nlohmann's JSON library (Debian: g++, libsimgrid-dev, nlohmann-json3-dev).
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from peers.program import build, missing
from worlds.cases import Case

from topoflow.engine.base import Floats

SOURCES = Path(__file__).parent / "simgrid"
HEADERS = ("simgrid/s4u.hpp", "nlohmann/json.hpp")
PACKAGES = "libsimgrid-dev nlohmann-json3-dev"
# SimGrid takes ends within surf/precision = 1 ns for one, and what is left of a link for nothing below
# maxmin/precision = 1e-5 of it. To compare answers both are set to where only rounding is left, which costs SimGrid 0
# to 15% more time; to compare speed they stay as SimGrid has them.
EXACT = ("--cfg=surf/precision:1e-15", "--cfg=maxmin/precision:1e-12")


@dataclass(frozen=True)
class Run:
    """What the peer printed."""

    seconds: float  # CPU time of its engine
    finish: Floats  # [T] s


@dataclass(frozen=True)
class SimGrid:
    """The built program, and where it keeps its worlds."""

    program: Path

    @staticmethod
    def build(folder: Path) -> SimGrid:
        """Compile into ``folder``. Raises ``RuntimeError`` with what the compiler said."""
        sources = [SOURCES / name for name in ("simgrid_world.cpp", "world.cpp")]
        return SimGrid(build(folder / "simgrid_world", sources, ["simgrid"]))

    @staticmethod
    def missing() -> str | None:
        """Why it cannot be built here, or None."""
        return missing(HEADERS, PACKAGES)

    def write(self, case: Case) -> Path:
        """The case as a world file next to the program."""
        file = self.program.with_name(f"{case.name}.json")
        file.write_text(json.dumps(content(case)))
        return file

    def run(self, file: Path, options: Sequence[str] = ()) -> Run:
        """Run a world file. Raises ``RuntimeError`` with what the program said."""
        done = subprocess.run([self.program, f"world={file}", *options], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{self.program.name} {file.name}: {done.stderr.strip()}")
        seconds, *finish = done.stdout.split()
        return Run(float(seconds), np.array(finish, dtype=np.float64))


def content(case: Case) -> dict[str, list[dict[str, object]]]:
    """What a world file says (docs/world_files.md has the format): task i of the case has the id "i".

    Raises ``ValueError`` for a task that is both a delay and a flow, which a file cannot say in one row.
    """
    world, graph = case.world, case.world.graph
    both = np.flatnonzero((graph.delay > 0) & (graph.path >= 0))
    if both.size:
        raise ValueError(f"{case.name}: a task must be a delay or a flow, got both in task {both[0]}")
    links = [
        {"src": f"n{source}", "dst": f"n{target}", "bandwidth": bandwidth, "latency": latency}
        for source, target, bandwidth, latency in zip(
            case.source.tolist(), case.target.tolist(), world.capacity.tolist(), world.latency.tolist(), strict=True
        )
    ]
    paths = np.split(graph.path_links, graph.path_offsets[1:-1])
    awaited = np.split(graph.after, graph.after_offsets[1:-1])
    tasks = []
    for task in range(graph.tasks):
        row: dict[str, object] = {"id": str(task), "after": [str(earlier) for earlier in awaited[task]]}
        if graph.path[task] >= 0:
            row |= {"type": "transfer", "bytes": graph.bytes[task], "path": paths[graph.path[task]].tolist()}
        else:
            row |= {"type": "compute", "seconds": graph.delay[task]}
        if graph.release[task] > 0:
            row["start"] = graph.release[task]
        tasks.append(row)
    return {"links": links, "tasks": tasks}
