"""What it costs to have a cluster simulate: seconds of the CPU, so that other programs do not count.

python benchmarks/executors.py executor=ray pieces=12 seconds=10

Workers simulate worlds in pieces of about so many seconds; how long a world takes is measured in a batch, as workers
have them. Towards the end pieces are smaller, so that workers end together.

    work      in the fidelity alone
    worker    of their processes in addition: receiving worlds, packing and sending answers; of Slurm also beginning
    begin     of this, until the first piece of a process is simulated; with Ray, processes wait for work
    driver    of the process that asks, once workers are there: pickling worlds, waiting, unpacking, keeping answers

All is done twice. The first time, libraries are imported, the program is digested, and the system gives workers and the
memory that they share with the process that asks its pages. ``executor=slurm`` are processes of this machine that
submitit begins.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from topoflow.engine.base import Run, Timeline, World
from topoflow.engine.executor.base import Arrays
from topoflow.engine.executor.ray import Ray
from topoflow.engine.executor.slurm import Slurm
from topoflow.engine.fluid import Fluid
from topoflow.engine.simulation import Simulating
from topoflow.study.builder import Builder
from topoflow.study.configure.grid import grid
from topoflow.study.configure.keys import check

JOB = ("workload=dlrm", "servers=32", "fabric=fat_tree", "rings=steps")
Clock = tuple[float, float, float]  # process, and s of its CPU before and after a piece


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


def calibrated(world: World, seconds: float) -> tuple[float, Timeline]:
    """Seconds of the CPU that a world takes in a batch of some seconds, and its timeline."""
    count = 1
    while True:
        began = time.process_time()
        (first, *_) = Fluid().simulate([world] * count, Run(threads=1))
        taken = time.process_time() - began
        if taken > seconds / 4:
            return taken / count, first
        count *= 2


def executor_of(name: str, seconds: float, folder: Path) -> Any:
    cluster = Ray(seconds=seconds) if name == "ray" else Slurm(jobs=2, system="local")
    _, remote = cluster.placed("cpu", 1, folder)
    remote.workers  # noqa: B018  Ray begins
    return remote


def children() -> float:
    """Seconds of the CPU of processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measured(remote: Any, worlds: list[World], expected: Timeline) -> tuple[set[Clock], float, float, float]:
    """Clocks of all pieces; seconds of the CPU of this process and of those that ended; seconds."""
    clocks: set[Clock] = set()
    wall, driver, others = time.perf_counter(), time.process_time(), children()
    for number, (timeline, clock) in remote.map(Timed(Fluid()), worlds, Run(executor=remote)):
        clocks.add(clock)
        assert number or timeline.finish.tobytes() == expected.finish.tobytes()
    driver, wall = time.process_time() - driver, time.perf_counter() - wall
    if isinstance(remote.cluster, Slurm):  # processes count when they have ended
        with suppress(ChildProcessError):
            while True:
                os.wait()
    return clocks, driver, children() - others, wall


def main(words: list[str]) -> None:
    given = dict(word.split("=", 1) for word in words)
    name, seconds, pieces = given.get("executor", "ray"), float(given.get("seconds", 10)), int(given.get("pieces", 12))
    (asked,) = Builder().build(grid(JOB, check))
    world = asked.cases[0].world
    each, expected = calibrated(world, seconds)
    count = int(pieces * seconds / each)
    print(f"executors.world.tasks {world.graph.tasks}\nexecutors.world.seconds {each:.4f}\nexecutors.worlds {count}")
    worlds = [replace(world, name=f"world {n}", capacity=world.capacity * (1 + n / 1e6)) for n in range(count)]
    for when in ("first", "again"):
        with tempfile.TemporaryDirectory() as folder:
            clocks, driver, others, wall = measured(executor_of(name, seconds, Path(folder)), worlds, expected)
        took = sorted(after - before for _, before, after in clocks)
        between = [max(0.0, then - now) for (one, _, now), (other, then, _) in pairwise(sorted(clocks)) if one == other]
        work = sum(took)
        worker = sum(between) if name == "ray" else others - work
        begin = 0.0 if name == "ray" else sum({pid: before for pid, before, _ in sorted(clocks, reverse=True)}.values())
        large = sum(each for each in took if each > 0.8 * seconds)
        for key, value in (
            ("pieces", f"{len(took)}"),
            ("pieces.largest", f"{took[-1]:.2f}"),
            ("pieces.large", f"{100 * large / work:.0f} % of the work in pieces of at least {0.8 * seconds:g} s"),
            ("work", f"{work:.3f}"),
            ("worker", f"{worker:.3f}"),
            ("worker.begin", f"{begin:.3f}"),
            ("driver", f"{driver:.3f}"),
            ("wall", f"{wall:.3f}"),
            ("worker.each_world", f"{1e3 * worker / count:.3f} ms"),
            ("driver.each_world", f"{1e3 * driver / count:.3f} ms"),
            ("overhead.driver", f"{100 * driver / work:.2f} %"),
            ("overhead", f"{100 * (worker + driver) / work:.2f} %"),
        ):
            print(f"executors.{name}.{when}.{key} {value}")


if __name__ == "__main__":
    main(sys.argv[1:])
