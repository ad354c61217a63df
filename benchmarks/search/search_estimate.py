"""How well the estimate that chains walk by orders strategies: its rank correlation with ``fluid``.

    python benchmarks/search/search_estimate.py
    python benchmarks/search/search_estimate.py servers=16 strategies=60

Prints ``path.metric value`` lines for each workload of layers, network and all-reduce: ``rank`` is Spearman's
correlation over random strategies, ``ratio`` the median of estimate / time. Strategies are the hybrid one after 0 to 32
moves as a search proposes them, whatever they cost.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # benchmarks
sys.path.append(str(Path(__file__).resolve().parents[2]))  # for tests.twins
from measure import say, settings

from tests.twins.tempering import draw, propose
from topoflow.engine.base import Run
from topoflow.engine.fluid import Fluid
from topoflow.search.judge import Judge, Wiring
from topoflow.search.moves import moves
from topoflow.search.placements import Choices, choices
from topoflow.search.problem import Problem
from topoflow.search.screen import screen
from topoflow.study.configure.build import build
from topoflow.study.configure.grid import grid
from topoflow.study.configure.keys import check

SETTINGS = {"servers": 8, "strategies": 40}
SMALL = {  # so that a strategy is simulated in some milliseconds
    "dlrm": ("workload.tables=16", "workload.rows=100000"),
    "candle": tuple(
        f"workload.{key}" for key in ("feature_layers=4", "dense_layers=4", "dense_size=4096", "feature_size=4096")
    ),
    "bert": ("workload.layers=6",),
    "ncf": (),
}
FABRICS = ("topoopt", "fat_tree")
ALL_REDUCES = ("hierarchical", "ring", "double_binary_tree", "hierarchical_tree", "halving_doubling", "swing")
MAX_MOVES = 32  # moves from the hybrid strategy


def measure(workload: str, fabric: str, all_reduce: str, servers: int, strategies: int) -> None:
    keys = [f"workload={workload}", f"fabric={fabric}", f"servers={servers}", "strategy=hybrid", *SMALL[workload]]
    (point,) = grid(keys, check)
    job = build(point, "workload").build()
    problem = Problem(job, build(point, "strategy").place(job, servers), build(point, "fabric"), all_reduce=all_reduce)
    layer_choices = choices(servers, problem.start.placement.values())
    judge, wiring = Judge(problem, Fluid(0.01), Run()), Wiring(problem.start, 1.0)
    built, states = judge.fabric(wiring), random_states(problem, layer_choices, strategies)
    candidates = [(layer_choices.strategy(job, state, problem.start), wiring, built) for state in states]
    times = np.array([judge.judge([candidate])[0].iteration_time for candidate in candidates])
    estimates = screen(problem, built, layer_choices).makespans(states)
    path = f"search_estimate.{workload}.{fabric}.{all_reduce}"
    say(f"{path}.rank", float(np.corrcoef(ranks(times), ranks(estimates))[0, 1]))
    say(f"{path}.ratio", float(np.median(estimates / times)))


def random_states(problem: Problem, layer_choices: Choices, count: int) -> NDArray[np.int32]:
    """[count, Y]"""
    proposed, move_counts = (
        moves(problem.workload, layer_choices),
        np.random.default_rng(0).integers(0, MAX_MOVES + 1, count),
    )
    states = np.tile(layer_choices.placement(problem.workload, problem.start), (count, 1))
    for step in range(MAX_MOVES):
        for number, random_numbers in enumerate(draw(0, 0, 0, step, count)):
            if step < move_counts[number]:
                states[number] = propose(proposed, states[number], random_numbers).target
    return states


def ranks(values: NDArray[np.float64]) -> NDArray[np.int64]:
    return np.argsort(np.argsort(values))


if __name__ == "__main__":
    try:
        chosen = settings(sys.argv[1:], SETTINGS)
    except ValueError as error:
        sys.exit(str(error))
    for workload in SMALL:
        for fabric in FABRICS:
            for all_reduce in ALL_REDUCES:
                measure(workload, fabric, all_reduce, **chosen)
