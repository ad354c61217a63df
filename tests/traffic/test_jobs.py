"""Several jobs on one cluster: how many of each kind, and where they are."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from topoflow.traffic.base import Collective, Compute, Subflow, Traffic, Transfer
from topoflow.traffic.jobs import ALLOCATIONS, allocate, apportion, on_servers

MIX = [0.4, 0.3, 0.2, 0.1]  # DLRM, BERT, CANDLE, VGG16 (TopoOpt 5.6)


@pytest.mark.parametrize(
    ("jobs", "counts"), [(5, [2, 2, 1, 0]), (10, [4, 3, 2, 1]), (20, [8, 6, 4, 2]), (27, [11, 8, 5, 3])]
)
def test_jobs_are_apportioned_by_largest_remainders(jobs: int, counts: list[int]) -> None:
    # 5 jobs: 2, 1.5, 1, 0.5; of the two halves the first kind's comes first
    assert apportion(jobs, MIX) == counts


@pytest.mark.parametrize("how", ALLOCATIONS)
def test_no_server_has_two_jobs(how: str) -> None:
    found = allocate([16] * 27, 432, how=how, seed=1)
    assert sorted(itertools.chain(*found)) == list(range(432))
    assert all(list(servers) == sorted(servers) for servers in found)
    assert (found[0] == tuple(range(16))) == (how == "consecutive")


def test_the_same_seed_gives_the_same_servers() -> None:
    assert allocate([4, 8], 20, how="random", seed=3) == allocate([4, 8], 20, how="random", seed=3)
    assert allocate([4, 8], 20, how="random", seed=3) != allocate([4, 8], 20, how="random", seed=4)


def test_a_job_does_the_same_on_other_servers() -> None:
    splits = ((0.0, 3.0), (4.0, 0.0))
    traffic = Traffic.from_tasks(
        "job",
        3,
        (
            Compute(1.0, 2),
            Compute(1.0, None, (0,)),
            Transfer(10.0, 0, 2, (1,)),
            Collective("broadcast", 5.0, (2, 0), root=2),
            Collective("all_to_all", 0.0, (1, 2), splits=splits),
        ),
        local_bandwidth=7.0,
    )
    moved = on_servers(traffic, (4, 9, 6), 12)
    assert moved.servers == 12
    assert moved.local_bandwidth == 7.0
    assert [task.server for task in moved.tasks if isinstance(task, Compute)] == [6, None]
    assert [(task.source, task.target) for task in moved.tasks if isinstance(task, Transfer)] == [(4, 6)]
    assert [task.group for task in moved.tasks if isinstance(task, Collective)] == [(6, 4), (9, 6)]
    before, after = traffic.demand(), moved.demand()
    assert np.array_equal(after.matrix()[np.ix_((4, 9, 6), (4, 9, 6))], before.matrix())
    assert after.bytes.sum() == before.bytes.sum()
    assert after.all_reduce == before.all_reduce == {}


@pytest.mark.parametrize(
    ("make", "law"),
    [
        (lambda: allocate([16], 8, how="random", seed=0), "jobs: must fit on the 8 servers, got 16"),
        (
            lambda: allocate([4], 8, how="packed", seed=0),
            "allocation: must be one of random, consecutive, got 'packed'",
        ),
        (
            lambda: on_servers(Traffic.from_tasks("job", 2, ()), (1, 1), 4),
            r"job: must be given 2 servers, each once, got \[1, 1\]",
        ),
        (
            lambda: on_servers(
                Traffic.from_tasks("job", 2, (Transfer(1, 0, 1, subflows=(Subflow((0,)),)),)), (0, 1), 4
            ),
            r"subflows: must not be given",
        ),
    ],
)
def test_what_cannot_be_is_an_error_with_its_law(make, law) -> None:
    with pytest.raises(ValueError, match=law):
        make()
