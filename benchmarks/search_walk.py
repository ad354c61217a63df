"""How many proposals for a DLRM on 128 servers a search screens per second, on one core.

    python benchmarks/search_walk.py
    python benchmarks/search_walk.py chains=16 steps=250

Prints ``path.metric value`` lines. The walk is that of ``topoflow search`` with its defaults, from the hybrid strategy:
every step proposes another placement for each chain and estimates it by ``Contention``; time is wall time of all that
is done for a step. On a machine
that others use, CPU time and the fastest 20 steps are nearer to what a core does. ``estimate`` is one proposal of each
chain, moving one table, to the estimate alone; its peer is the twin in plain Python.
"""

from __future__ import annotations

import time

import numpy as np
from measure import say
from placements import SERVERS, Job, on_each

from topoflow.engine.screen.contention import Contention
from topoflow.engine.screen.contention_reference import makespan
from topoflow.search.memory import budget
from topoflow.search.moves import moves
from topoflow.search.placements import choices
from topoflow.search.problem import Settings
from topoflow.search.tempering import Tempering, shares

SETTINGS = {"chains": Settings.chains, "steps": 250}
WINDOW = 20  # steps


def measure(name: str, job: Job, chains: int, steps: int) -> None:
    placed = choices(SERVERS, job.strategy.placement.values())
    hybrid = placed.placement(job.workload, job.strategy)
    models = (job.workload, job.fabric, placed.holders)
    started = time.perf_counter()
    model = Contention(*models, threads=1)
    path = f"search_walk.{name}"
    say(f"{path}.choices", placed.count)
    say(f"{path}.build_seconds", time.perf_counter() - started)
    started = time.perf_counter()
    twin = makespan(job.workload, job.fabric, job.strategy)
    say(f"{path}.twin.evaluations_per_second", 1 / (time.perf_counter() - started))
    say(f"{path}.difference_to_twin", abs(float(model.makespans(hybrid[None])[0]) / twin - 1))
    wall = estimates(model, hybrid, chains, steps)
    say(f"{path}.estimate.evaluations_per_second", chains / float(np.mean(wall)))
    say(f"{path}.estimate.fastest_step.evaluations_per_second", chains / float(np.min(wall)))
    tempering = Tempering(
        model, budget(job.workload, placed), moves(job.workload, placed), shares(Settings.acceptance, chains), 7, 0
    )
    begin = tempering.begin(np.tile(hybrid, (chains, 1)), Settings.decide + 1)
    clock, cpu, accepted = [time.perf_counter()], time.process_time(), 0
    for walk in tempering.walk(begin, steps):
        clock.append(time.perf_counter())
        accepted += walk.accepted
    say(f"{path}.proposals_per_cpu_second", chains * steps / (time.process_time() - cpu))
    say(f"{path}.proposals_per_second", chains * steps / (clock[-1] - clock[0]))
    window = min(WINDOW, steps)
    fastest = float(np.min(np.subtract(clock[window:], clock[:-window])))
    say(f"{path}.fastest_{window}_steps.proposals_per_second", chains * window / fastest)
    say(f"{path}.accepted", accepted / (chains * steps))


def estimates(model: Contention, placement: np.ndarray, chains: int, steps: int) -> list[float]:
    """The wall time of each step."""
    states, random = model.chains(np.tile(placement, (chains, 1))), np.random.default_rng(1)
    tables, wall = np.flatnonzero(placement < SERVERS), []  # choices are ascending by degree: on one server each
    for _ in range(steps):
        layer, choice = random.choice(tables, chains), random.integers(0, SERVERS, chains)
        target = states.placement
        target[np.arange(chains), layer] = choice
        started = time.perf_counter()
        states.propose(target)
        wall.append(time.perf_counter() - started)
    return wall


if __name__ == "__main__":
    on_each(measure, SETTINGS)
