"""Jobs of a cluster: how many of each kind, and where they are."""

from __future__ import annotations

import itertools

import pytest

from topoflow.papers.topoopt.allocation import ALLOCATIONS, allocate, apportion

MIX = [0.4, 0.3, 0.2, 0.1]  # DLRM, BERT, CANDLE, VGG16 (TopoOpt 5.6)


@pytest.mark.parametrize(
    ("jobs", "counts"), [(5, [2, 2, 1, 0]), (10, [4, 3, 2, 1]), (20, [8, 6, 4, 2]), (27, [11, 8, 5, 3])]
)
def test_jobs_are_apportioned_by_largest_remainders(jobs: int, counts: list[int]) -> None:
    # 5 jobs: 2, 1.5, 1, 0.5; of the two halves the first kind's comes first
    assert apportion(jobs, MIX) == counts


@pytest.mark.parametrize("how", ALLOCATIONS)
def test_no_server_has_two_jobs(how: str) -> None:
    allocated = allocate([16] * 27, 432, how=how, seed=1)
    assert sorted(itertools.chain(*allocated)) == list(range(432))
    assert all(list(servers) == sorted(servers) for servers in allocated)
    assert (allocated[0] == tuple(range(16))) == (how == "consecutive")


def test_the_same_seed_gives_the_same_servers() -> None:
    assert allocate([4, 8], 20, how="random", seed=3) == allocate([4, 8], 20, how="random", seed=3)
    assert allocate([4, 8], 20, how="random", seed=3) != allocate([4, 8], 20, how="random", seed=4)


@pytest.mark.parametrize(
    ("size", "how", "message"),
    [
        (16, "random", "jobs: must fit on the 8 servers, got 16"),
        (4, "packed", "allocation: must be one of random, consecutive, got 'packed'"),
    ],
)
def test_what_cannot_be_allocated_is_an_error_with_its_law(size: int, how: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        allocate([size], 8, how=how, seed=0)
