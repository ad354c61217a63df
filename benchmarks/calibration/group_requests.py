"""Correlations of requests for groups of machines in a public trace of a cloud, for ``requests=motion``.

    git clone https://github.com/huaweicloud/trace_generation_rnn
    python benchmarks/calibration/group_requests.py traces=trace_generation_rnn/resources/traces

The traces are those of AzurePublicDatasetV1 (2017), as Bergsma et al. (SOSP 2021) part it: a line for each 5 minutes
has the machines of its users, and how long they live, as the index of an interval. As in MOTION 4.A, a group are the
machines of one user that are alike and start and end together, 48 at least.

Prints for each trace the number of groups, Spearman's correlation of the lifetimes of a group and the next one, that
of lifetimes and sizes, and their means over all groups.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # benchmarks
from measure import say

TRACES = {"dev": ("v1.dev.txt", "v1.dev.c2100000.txt"), "test": ("v1.test.txt", "v1.test.c2591400.txt")}
MIN_MACHINES = 48  # machines
USERS = "|"  # between the machines of two users


def groups(machines: Path, lifetimes: Path) -> Iterator[tuple[int, int]]:
    """Yield the size of each group, and the interval of its lifetime, in the order of arrival."""
    with machines.open() as first, lifetimes.open() as second:
        for types, lives in zip(first, second, strict=True):
            time, types = types.split(maxsplit=1)
            at, lives = lives.split(maxsplit=1)
            if time != at:
                raise ValueError(f"{lifetimes}: must have the times of {machines.name}, got {at} for {time}")
            for user in zip_users(types, lives):
                for (_, lifetime), size in Counter(user).items():
                    if size >= MIN_MACHINES:
                        yield size, int(lifetime[1:])


def zip_users(types: str, lives: str) -> Iterator[list[tuple[str, str]]]:
    """Yield the types and lifetimes of the machines of each user of a line."""
    for kinds, ends in zip(types.split(USERS), lives.split(USERS), strict=True):
        user = list(zip(kinds.strip(", \n").split(","), ends.strip(", \n").split(","), strict=True))
        if user != [("", "")]:
            yield user


def rank_correlation(first: NDArray[np.int64], second: NDArray[np.int64]) -> float:
    """Return Spearman's correlation; equal numbers have the mean of their ranks."""
    return float(np.corrcoef(_ranks(first), _ranks(second))[0, 1])


def _ranks(numbers: NDArray[np.int64]) -> NDArray[np.float64]:
    _, inverse, counts = np.unique(numbers, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    ranks: NDArray[np.float64] = (ends - (counts - 1) / 2)[inverse]
    return ranks


def main(traces: Path) -> None:
    counts, repeated, size = [], [], []
    for name, (machines, lifetimes) in TRACES.items():
        sizes, lives = np.array(list(groups(traces / machines, traces / lifetimes))).T
        counts.append(len(sizes))
        repeated.append(rank_correlation(lives[1:], lives[:-1]))
        size.append(rank_correlation(lives, sizes))
        for metric, value in (
            ("groups", counts[-1]),
            ("repeated_lifetime", repeated[-1]),
            ("lifetime_to_size", size[-1]),
        ):
            say(f"group_requests.{name}.{metric}", value)
    say("group_requests.groups", sum(counts))
    say("group_requests.repeated_lifetime", float(np.average(repeated, weights=counts)))
    say("group_requests.lifetime_to_size", float(np.average(size, weights=counts)))


if __name__ == "__main__":
    if len(sys.argv) != 2 or not sys.argv[1].startswith("traces="):
        sys.exit(__doc__)
    main(Path(sys.argv[1].removeprefix("traces=")))
