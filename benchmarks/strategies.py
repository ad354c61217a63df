"""How many placement strategies of a DLRM on 128 servers ``StrategyBound`` evaluates per second.

    python benchmarks/strategies.py
    python benchmarks/strategies.py chains=64 steps=200

Prints ``path.metric value`` lines. A step proposes one layer and one set of holders for each chain and accepts what is
not slower; evaluations are proposals, time is wall time of steps with all that Python does. Sets of holders are the 255
aligned runs of 1, 2, 4 .. 128 servers. Chains begin at the hybrid strategy, or each at a random one, and from there
accept nothing: the layers then lie on some 80 sets of servers, which is the most work. On a machine that others use
too, CPU time and the fastest step are nearer to what its cores do. The peer is the long way: lowering, placing and
bounding the tasks of one strategy.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from measure import say
from placements import Job, choices, on_each

from topoflow.engine.bound import Bound
from topoflow.engine.lowering.placement import place
from topoflow.engine.screen.strategy_bound import StrategyBound
from topoflow.traffic.lower import lower

SETTINGS = {"chains": 32, "steps": 200}


def measure(name: str, job: Job, chains: int, steps: int) -> None:
    sets = choices()
    hybrid = [sets.index(job.strategy.placement[layer.name]) for layer in job.workload.layers]
    random = np.random.default_rng(0).integers(0, len(sets), (chains, len(hybrid)))
    path = f"strategies.{name}"
    begin = time.perf_counter()
    makespan = by_tasks(job)
    long_way = time.perf_counter() - begin
    begin = time.perf_counter()
    bounds = {threads: StrategyBound(job.workload, job.fabric, sets, threads=threads) for threads in (1, 2)}
    say(f"{path}.choices", len(sets))
    say(f"{path}.build_seconds", (time.perf_counter() - begin) / 2)
    say(f"{path}.difference_to_tasks", abs(float(bounds[1].makespans([hybrid])[0]) / makespan - 1))
    say(f"{path}.tasks.evaluations_per_second", 1 / long_way)
    for start, placement in {"hybrid": np.tile(hybrid, (chains, 1)), "random": random}.items():
        for threads, cores in ((1, "one_core"), (2, "two_cores")):
            wall, cpu = walk(bounds[threads], placement, steps, accepts=start == "hybrid")
            say(f"{path}.{start}.{cores}.evaluations_per_second", chains / float(np.mean(wall)))
            say(f"{path}.{start}.{cores}.evaluations_per_cpu_second", chains * steps / cpu)
            say(f"{path}.{start}.{cores}.fastest_step.evaluations_per_second", chains / float(np.min(wall)))


def walk(bounds: StrategyBound, placement: Any, steps: int, *, accepts: bool) -> tuple[list[float], float]:
    """The wall time of each step, and the CPU time of all."""
    chains, random = bounds.chains(placement), np.random.default_rng(1)
    count, layers = placement.shape
    wall, cpu = [], time.process_time()
    for _ in range(steps):
        begin = time.perf_counter()
        layer, choice = random.integers(0, layers, count), random.integers(0, bounds.strategies.choices, count)
        target = chains.placement
        target[np.arange(count), layer] = choice
        proposed = chains.propose(target)
        if accepts:
            chains.accept(proposed <= chains.makespan)
        wall.append(time.perf_counter() - begin)
    return wall, time.process_time() - cpu


def by_tasks(job: Job) -> float:
    traffic = lower(job.workload, job.strategy)
    world = place(traffic, job.fabric, name="hybrid", all_reduce="hierarchical", rings="flows")
    return Bound().simulate([world])[0].makespan


if __name__ == "__main__":
    on_each(measure, SETTINGS)
