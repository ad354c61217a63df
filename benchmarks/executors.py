"""What it costs to have a Ray cluster simulate: seconds of the CPU, so that other programs do not count.

python benchmarks/executors.py pieces=3 seconds=10

Workers simulate worlds in pieces of about so many seconds. ``work``: in the fidelity alone. ``worker``: of their
processes in addition, between two pieces: receiving worlds, packing and sending answers.
``driver``: of the process that asks: pickling worlds, waiting, unpacking, and keeping answers on disk.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from topoflow.engine.base import Run, Timeline, World
from topoflow.engine.executor.base import Arrays
from topoflow.engine.executor.ray import Ray
from topoflow.engine.fluid import Fluid
from topoflow.engine.simulation import Simulating
from topoflow.study.builder import Builder
from topoflow.study.configure.grid import grid
from topoflow.study.configure.keys import check

JOB = ("workload=dlrm", "servers=32", "fabric=fat_tree", "rings=steps")


@dataclass(frozen=True)
class Timed(Simulating):
    """The same, with the CPU's clock of the worker before and after each piece, as each of its answers."""

    def do(self, worlds: Any, run: Run) -> list[Any]:
        before = time.process_time()
        found = super().do(worlds, run)
        after = time.process_time()
        return [(each, before, after) for each in found]

    def pack(self, world: World, answer: Any) -> Arrays:
        timeline, before, after = answer
        return {**super().pack(world, timeline), "clock": np.array([os.getpid(), before, after])}

    def unpack(self, world: World, arrays: Arrays) -> Any:
        rest = {name: array for name, array in arrays.items() if name != "clock"}
        return super().unpack(world, rest), tuple(arrays["clock"].tolist())


def main(words: list[str]) -> None:
    given = {key: float(value) for key, _, value in (word.partition("=") for word in words)}
    seconds, pieces = given.get("seconds", 10.0), int(given.get("pieces", 3))
    (asked,) = Builder().build(grid(JOB, check))
    world = asked.cases[0].world
    began = time.process_time()
    expected: Timeline = Fluid().simulate([world], Run(threads=1))[0]
    each = time.process_time() - began
    worlds = [
        replace(world, name=f"world {n}", capacity=world.capacity * (1 + n / 1e6))
        for n in range(int(pieces * seconds / each))
    ]
    print(
        f"executors.world.tasks {world.graph.tasks}\nexecutors.world.seconds {each:.3f}\nexecutors.worlds {len(worlds)}"
    )
    with tempfile.TemporaryDirectory() as folder:
        _, remote = Ray(seconds=seconds).placed("cpu", 1, Path(folder))
        remote.workers  # noqa: B018  Ray begins
        wall, began = time.perf_counter(), time.process_time()
        found = dict(remote.map(Timed(Fluid()), worlds, Run(executor=remote)))
        driver, wall = time.process_time() - began, time.perf_counter() - wall
    assert found[0][0].finish.tobytes() == expected.finish.tobytes()
    clocks = sorted({clock for _, clock in found.values()})
    work = sum(after - before for _, before, after in clocks)
    worker = sum(max(0.0, then - now) for (one, _, now), (other, then, _) in pairwise(clocks) if one == other)
    for name, value in (
        ("pieces", len(clocks)),
        ("work", work),
        ("worker", worker),
        ("driver", driver),
        ("wall", wall),
    ):
        print(f"executors.ray.{name} {value:.3f}")
    print(f"executors.ray.overhead {100 * (worker + driver) / work:.2f} %")


if __name__ == "__main__":
    main(sys.argv[1:])
