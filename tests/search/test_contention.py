"""The estimate that chains walk by orders strategies as ``fluid`` does."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from topoflow.engine.base import Run
from topoflow.engine.fluid import Fluid
from topoflow.engine.screen.contention import Contention
from topoflow.search.judge import Judge, Wiring
from topoflow.search.placements import Choices, choices
from topoflow.search.problem import Problem
from topoflow.search.screen import screen

Make = Callable[..., Problem]


def states_near(problem: Problem, sets: Choices, count: int) -> NDArray[np.int32]:
    """The start, and states with 1 to 7 layers elsewhere."""
    random = np.random.default_rng(1)
    start = sets.placement(problem.workload, problem.start)
    states = np.tile(start, (count, 1))
    for row in states[1:]:
        moved = random.integers(len(start), size=random.integers(1, 8))
        row[moved] = random.integers(sets.count, size=len(moved))
    return states


def rank(values: NDArray[np.float64]) -> NDArray[np.int64]:
    return np.argsort(np.argsort(values))


@pytest.mark.parametrize(
    ("job", "fabric"),
    [
        (("servers=8", "workload.tables=8"), "topoopt"),
        (("servers=8", "workload.tables=8"), "fat_tree"),
        (("servers=8", "workload.tables=8"), "ideal_switch"),
        (("servers=8", "workload=ncf"), "topoopt"),
        (("servers=8", "workload=bert"), "expander"),
        (("servers=8", "workload.tables=8", "all_reduce=double_binary_tree"), "topoopt"),
        (("servers=8", "workload.tables=8", "all_reduce=hierarchical_tree"), "topoopt"),
        (("servers=8", "workload.tables=8", "all_reduce=halving_doubling"), "topoopt"),
        (("servers=8", "workload=ncf", "all_reduce=swing"), "fat_tree"),
    ],
)
def test_strategies_are_ordered_as_by_fluid(problem: Make, job: tuple[str, ...], fabric: str) -> None:
    named = dict(key.split("=") for key in job)
    instance = problem(*job, f"fabric={fabric}", all_reduce=named.get("all_reduce", "hierarchical"))
    sets = choices(8, instance.start.placement.values())
    judge, wiring = Judge(instance, Fluid(), Run()), Wiring(instance.start, 1.0)
    built = judge.fabric(wiring)
    states = states_near(instance, sets, 40)
    strategies = [sets.strategy(instance.workload, state, instance.start) for state in states]
    times = np.array(
        [plan.iteration_time for plan in judge.judge([(strategy, wiring, built) for strategy in strategies])]
    )
    estimates = screen(instance, built, sets).makespans(states)
    assert np.corrcoef(rank(times), rank(estimates))[0, 1] > 0.9  # Spearman
    assert np.median(np.abs(estimates / times - 1)) < 0.1


def test_a_job_that_sends_nothing_takes_its_compute(problem: Make) -> None:
    """One server: nothing to wait for, so the estimate is exact."""
    instance = problem("servers=1")
    sets = choices(1)
    judge, wiring = Judge(instance, Fluid(), Run()), Wiring(instance.start, 1.0)
    built = judge.fabric(wiring)
    (only,) = judge.judge([(instance.start, wiring, built)])
    states = sets.placement(instance.workload, instance.start)[None]
    assert Contention(instance.workload, built, sets.holders).makespans(states)[0] == pytest.approx(
        only.iteration_time, rel=1e-9
    )
