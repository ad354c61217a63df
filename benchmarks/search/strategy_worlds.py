"""How many placement strategies of a DLRM on 128 servers are lowered, placed and simulated per second.

    python benchmarks/search/strategy_worlds.py
    python benchmarks/search/strategy_worlds.py strategies=64 batch=8

Prints ``path.metric value`` lines. Every strategy is another one: each moves one layer of the one before, from the
hybrid strategy on (``walk``), or has every layer somewhere else (``random``); sets of servers are the 255 aligned runs
of 1, 2, 4 .. 128. ``fluid.merge`` is 0.01. Worlds are made and simulated in batches

    in_turn       a batch is made, then two threads simulate it
    side_by_side  the next batch is made while two threads simulate one

``first_seconds`` is the world of the hybrid strategy, for which most paths are looked up; the others come after it.
``cpu_seconds`` are those of all threads per strategy; on a machine that others use too, they and ``fastest_batch``, the
rate while the fastest batch ran, say more than the mean.
The peer is the long way: lowering, placing and simulating one strategy after the other.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # benchmarks
from measure import say
from worlds.placements import SERVERS, Job, choices, on_each

from topoflow.engine.base import Run, World
from topoflow.engine.fluid import Fluid
from topoflow.engine.lowering.placement import Lowering, Placer, place
from topoflow.strategy.base import Strategy
from topoflow.strategy.placement import Placement
from topoflow.traffic.lower import Lowerer, lower

SETTINGS = {"strategies": 64, "batch": 8}
MERGE = 0.01
THREADS = 2
LONG_WAY = 4  # strategies of the peer


def measure(name: str, job: Job, strategies: int, batch: int) -> None:
    path = f"strategy_worlds.{name}"
    worlds = Worlds(job)
    begin = time.perf_counter()
    say(f"{path}.tasks", worlds.world(job.strategy).graph.tasks)
    say(f"{path}.first_seconds", time.perf_counter() - begin)
    kinds = {"walk": walk(job, strategies), "random": random(job, strategies)}
    for kind, candidates in kinds.items():
        begin = time.perf_counter()
        expected = [by_tasks(job, strategy) for strategy in candidates[:LONG_WAY]]
        long_way = (time.perf_counter() - begin) / len(expected)
        cut = [candidates[first : first + batch] for first in range(0, strategies, batch)]
        for mode, run in (("in_turn", in_turn), ("side_by_side", side_by_side)):
            wall, cpu = time.perf_counter(), time.process_time()
            all_times, stamps = [], []
            for times in run(worlds, cut):
                all_times += times
                stamps.append(time.perf_counter())
            fastest = min(np.diff([wall, *stamps]))
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            say(f"{path}.{kind}.{mode}.strategies_per_second", strategies / wall)
            say(f"{path}.{kind}.{mode}.fastest_batch.strategies_per_second", batch / fastest)
            say(f"{path}.{kind}.{mode}.cpu_seconds", cpu / strategies)
        cpu = time.process_time()
        traffics = [worlds.lowerer.lower(strategy) for strategy in candidates]
        lowered = time.process_time()
        built = [worlds.placer.place(traffic, traffic.name) for traffic in traffics]
        say(f"{path}.{kind}.lowering.cpu_seconds", (lowered - cpu) / strategies)
        say(f"{path}.{kind}.placing.cpu_seconds", (time.process_time() - lowered) / strategies)
        say(f"{path}.{kind}.mean_tasks", float(np.mean([world.graph.tasks for world in built])))
        say(f"{path}.{kind}.long_way.strategies_per_second", 1 / long_way)
        say(
            f"{path}.{kind}.difference_to_long_way",
            float(np.max(np.abs(np.divide(all_times[:LONG_WAY], expected) - 1))),
        )


class Worlds:
    """What a search keeps between strategies."""

    def __init__(self, job: Job) -> None:
        self.lowerer = Lowerer(job.workload)
        self.placer = Placer(job.fabric, Lowering("hierarchical", rings="flows"))

    def world(self, strategy: Strategy) -> World:
        return self.placer.place(self.lowerer.lower(strategy), strategy.name)


def walk(job: Job, count: int) -> list[Strategy]:
    """Each moves one layer of the one before."""
    draw, sets, layers = np.random.default_rng(0), choices(), list(job.strategy.placement)
    placement, strategies = dict(job.strategy.placement), []
    for step in range(count):
        placement = placement | {layers[draw.integers(len(layers))]: sets[draw.integers(len(sets))]}
        strategies.append(Placement(f"step {step}", SERVERS, placement))
    return strategies


def random(job: Job, count: int) -> list[Strategy]:
    """Every layer on servers of its own."""
    draw, sets = np.random.default_rng(1), choices()
    return [
        Placement(
            f"random {number}", SERVERS, {layer: sets[draw.integers(len(sets))] for layer in job.strategy.placement}
        )
        for number in range(count)
    ]


def in_turn(worlds: Worlds, cut: list[list[Strategy]]) -> Iterator[list[float]]:
    for batch in cut:
        yield makespans([worlds.world(strategy) for strategy in batch])


def side_by_side(worlds: Worlds, cut: list[list[Strategy]]) -> Iterator[list[float]]:
    with ThreadPoolExecutor(max_workers=1) as pool:
        running = None
        for batch in cut:
            built = [worlds.world(strategy) for strategy in batch]
            if running is not None:
                yield running.result()
            running = pool.submit(makespans, built)
        if running is not None:
            yield running.result()


def makespans(worlds: list[World]) -> list[float]:
    return [timeline.makespan for timeline in Fluid(MERGE).simulate(worlds, Run(threads=THREADS))]


def by_tasks(job: Job, strategy: Strategy) -> float:
    traffic = lower(job.workload, strategy)
    world = place(traffic, job.fabric, name=strategy.name, all_reduce="hierarchical", rings="flows")
    return makespans([world])[0]


if __name__ == "__main__":
    on_each(measure, SETTINGS)
