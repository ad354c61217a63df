"""What a search finds, next to all that it can propose: never faster than the optimum, and close to it."""

from __future__ import annotations

import numpy as np
import pytest
from search.oracles.exhaustive import optimum
from search.search_gap import DLRM, LARGE, Case, RandomCase, found_by

from topoflow.search.alternate import search
from topoflow.search.problem import SearchSettings

CLOSE = 0.01  # relative: the merge by which candidates are decided between, search.coarse
CASES = {
    "dlrm.fat_tree": Case((*DLRM, "servers=3", "fabric=fat_tree"), "hierarchical"),
    "dlrm.topoopt": Case((*DLRM, "servers=3", "fabric=topoopt", "degree=2"), "double_binary_tree"),
    "random.1": RandomCase(1),
}
LONGER = {
    "dlrm.expander": Case((*DLRM, "servers=4", "fabric=expander", "degree=2"), "halving_doubling"),
    "random.2": RandomCase(2),
    "random.12": RandomCase(12),
}


@pytest.mark.parametrize("name", [*CASES, *(pytest.param(name, marks=pytest.mark.slow) for name in LONGER)])
def test_a_search_with_the_defaults_is_close_to_the_optimum_and_never_faster(name: str) -> None:
    case = {**CASES, **LONGER}[name]
    best = optimum(case.problem(0), SearchSettings())
    times = found_by(case, seeds=2)
    assert best.placements >= 4**3
    assert (times >= best.seconds * (1 - 1e-9)).all()
    assert (times <= best.seconds * (1 + CLOSE)).all()


@pytest.mark.slow
def test_chains_that_descend_together_find_more_than_chains_apart() -> None:
    """89 layers, nearly all of which have to move, with as many proposals; the mean of three seeds."""
    case = LARGE["candle.fat_tree.16"]
    together, separate = (
        np.mean([search(case.problem(seed), SearchSettings(patience=steps)).plan.iteration_time for seed in range(3)])
        for steps in (20, 0)
    )
    assert together < separate / 1.1
