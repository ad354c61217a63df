"""How many proposals for a DLRM on 128 servers a search screens per second.

    python benchmarks/search/search_walk.py                                    on one core
    python benchmarks/search/search_walk.py ladders=8 threads=4
    python benchmarks/search/search_walk.py device=cuda ladders=1024

Prints ``path.metric value`` lines. The walk is that of ``topoflow search`` with its defaults, from the hybrid strategy:
every step proposes another placement for each chain and estimates it by ``Contention``; time is wall time of all that
is done for a step. Chains descend together first; ``tempered`` is the walk without a descent, where each has a state of
its own. On a machine that others use, CPU time and the fastest stretch (of some steps) are nearer to what a core does.
``estimate`` is placements from scratch, where each table is on one server.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # benchmarks
from measure import say, settings
from worlds.placements import FABRICS, SERVERS, Job, job

from topoflow.engine.device import DeviceMemory
from topoflow.engine.screen.contention import Contention
from topoflow.search.memory import budget
from topoflow.search.moves import moves
from topoflow.search.placements import choices
from topoflow.search.problem import SearchSettings
from topoflow.search.tempering import Tempering, shares

SETTINGS = {"chains": SearchSettings.chains, "ladders": 1, "steps": 250, "threads": 1}
ESTIMATES = 200


def measure(name: str, job: Job, device: DeviceMemory, chains: int, ladders: int, steps: int, threads: int) -> None:
    placed = choices(SERVERS, job.strategy.placement.values())
    hybrid = placed.placement(job.workload, job.strategy)
    started = time.perf_counter()
    model = Contention(job.workload, job.fabric, placed.holders, threads=threads, device=device)
    path = f"search_walk.{name}"
    say(f"{path}.choices", placed.count)
    say(f"{path}.build_seconds", time.perf_counter() - started)
    say(f"{path}.estimate.evaluations_per_second", estimates(model, hybrid, ESTIMATES * ladders))
    for kind, patience in (("descent", SearchSettings.patience), ("tempered", 0)):
        tempering = Tempering(
            model,
            budget(job.workload, placed),
            moves(job.workload, placed),
            shares(SearchSettings.acceptance, chains),
            7,
            0,
            patience,
        )
        walk(f"{path}.{kind}", tempering, np.tile(hybrid, (ladders, chains, 1)), steps)


def walk(path: str, tempering: Tempering, placement: np.ndarray, steps: int) -> None:
    """Speed of the walk, where it led, and how many were accepted."""
    ladders, chains, _ = placement.shape
    reached = tempering.begin(placement, SearchSettings().kept_states)
    clock, cpu, accepted, ends = [time.perf_counter()], time.process_time(), 0, [0]
    for stretch in tempering.walk(reached, steps):
        clock.append(time.perf_counter())
        accepted += int(stretch.accepted.sum())
        reached = stretch.walk
        ends.append(reached.step)
    proposals = ladders * chains * steps
    say(f"{path}.proposals_per_cpu_second", proposals / (time.process_time() - cpu))
    say(f"{path}.proposals_per_second", proposals / (clock[-1] - clock[0]))
    fastest = float(np.max(np.diff(ends)[1:] / np.diff(clock)[1:])) if len(ends) > 2 else np.nan
    say(f"{path}.fastest_stretch.proposals_per_second", ladders * chains * fastest)
    say(f"{path}.accepted", accepted / proposals)
    say(f"{path}.best_seconds", float(reached.best.min()))


def estimates(model: Contention, placement: np.ndarray, count: int) -> float:
    """Evaluations per second, of placements in which one table is elsewhere."""
    random, rows = np.random.default_rng(1), np.tile(placement, (count, 1))
    tables = np.flatnonzero(placement < SERVERS)  # choices are ascending by degree: on one server each
    rows[np.arange(count), random.choice(tables, count)] = random.integers(0, SERVERS, count)
    model.makespans(rows[:1])
    started = time.perf_counter()
    model.makespans(rows)
    return count / (time.perf_counter() - started)


def main(arguments: list[str]) -> None:
    named = [argument for argument in arguments if argument.startswith("device=")]
    chosen = settings([argument for argument in arguments if argument not in named], SETTINGS)
    device = DeviceMemory.named(named[-1].partition("=")[2] if named else "cpu")
    for fabric, degree in FABRICS.items():
        measure(fabric, job(fabric, degree), device, **chosen)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except ValueError as error:
        sys.exit(str(error))
