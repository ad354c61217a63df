"""Which sets of servers may hold a layer, and what fits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from topoflow.search.memory import budget
from topoflow.search.placements import choices
from topoflow.search.problem import Problem, SearchSettings
from topoflow.search.space import space

Make = Callable[..., Problem]


@pytest.mark.parametrize("servers", [1, 2, 4, 12, 16, 128])
def test_choices_are_few_share_equally_and_cover_every_server_alike(servers: int) -> None:
    sets = choices(servers)
    assert len(set(sets.holders)) == sets.count <= 2 * sum(d for d in range(1, servers + 1) if servers % d == 0)
    covered = Counter((len(holders), server) for holders in sets.holders for server in holders)
    for holders in sets.holders:
        assert servers % len(holders) == 0
        assert list(holders) == sorted(set(holders))
    assert tuple(range(servers)) in sets.number
    assert all((server,) in sets.number for server in range(servers))
    for degree in {len(holders) for holders in sets.holders}:
        assert len({covered[degree, server] for server in range(servers)}) == 1


def test_a_start_that_is_not_regular_is_a_choice_too(problem: Make) -> None:
    instance = problem("servers=4", "strategy.placement={E0: [0, 3]}")
    sets = choices(4, instance.start.placement.values())
    state = sets.placement(instance.workload, instance.start)
    assert sets.strategy(instance.workload, state, instance.start).placement == instance.start.placement


def test_memory_of_states_is_that_of_their_strategies(problem: Make) -> None:
    instance = problem("servers=4")
    sets = choices(4)
    random = np.random.default_rng(0)
    placement = random.integers(sets.count, size=(160, len(instance.workload.layers)), dtype=np.int32)
    used = budget(instance.workload, sets).used(placement)
    for row, bytes_ in zip(placement, used, strict=True):
        exact = sets.strategy(instance.workload, row, instance.start).bytes_per_gpu(instance.workload)
        assert np.all(bytes_ >= exact - 1e-3)
        assert np.all(bytes_ <= exact + len(row))  # each layer is rounded up to a whole byte


def _with_memory(problem: Problem, memory: float) -> Problem:
    gpu = replace(problem.workload.gpu, memory=memory, memory_share=1.0)
    return replace(problem, workload=replace(problem.workload, gpu=gpu))


def test_a_start_that_fits_is_kept_and_another_becomes_one_that_fits(problem: Make) -> None:
    instance = problem("servers=4", "strategy=data_parallel")
    assert space(instance, SearchSettings()).start() is instance.start
    needed = instance.start.bytes_per_gpu(instance.workload).max()
    tight = _with_memory(instance, 0.8 * needed)
    start = space(tight, SearchSettings()).start()
    assert start.placement != instance.start.placement
    assert start.bytes_per_gpu(tight.workload).max() <= 0.8 * needed


@pytest.mark.parametrize(
    ("share", "message"),
    [
        (0.01, r"^gpu\.memory: must hold layer 'top1', which needs at least"),
        (0.29, r"must hold the job, which"),
    ],
)
def test_where_nothing_fits_one_line_names_what_need_and_memory(problem: Make, share: float, message: str) -> None:
    instance = problem("servers=2", "strategy=data_parallel", "workload.dense_layers=3", "workload.feature_layers=8")
    needed = instance.start.bytes_per_gpu(instance.workload).max()
    with pytest.raises(ValueError, match=message) as error:
        space(_with_memory(instance, share * needed), SearchSettings()).start()
    assert "\n" not in str(error.value)
