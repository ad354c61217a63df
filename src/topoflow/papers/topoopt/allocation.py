"""The numbers of jobs of each kind in a cluster, and the servers of each job."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor

import numpy as np

# The servers of a job, which TopoOpt 5.6 leaves open. "random": anywhere in the cluster, as after the departure of many
# jobs; "consecutive": one job after the other, from server 0 on.
ALLOCATIONS = ("random", "consecutive")


def apportion(jobs: int, shares: Sequence[float]) -> list[int]:
    """Split ``jobs`` into whole numbers in proportion to ``shares``, largest remainders first.

    ``apportion(27, [0.4, 0.3, 0.2, 0.1]) == [11, 8, 5, 3]``: 10.8, 8.1, 5.4 and 2.7 (TopoOpt 5.6).
    """
    exact = [jobs * share / sum(shares) for share in shares]
    counts = [floor(count + 1e-9) for count in exact]
    by_remainder = sorted(range(len(shares)), key=lambda kind: (counts[kind] - exact[kind], kind))
    for kind in by_remainder[: jobs - sum(counts)]:
        counts[kind] += 1
    return counts


def allocate(sizes: Sequence[int], servers: int, *, how: str, seed: int) -> list[tuple[int, ...]]:
    """Return ascending servers for jobs of these ``sizes``; no server has two jobs. Raises ``ValueError``."""
    if how not in ALLOCATIONS:
        raise ValueError(f"allocation: must be one of {', '.join(ALLOCATIONS)}, got {how!r}")
    if sum(sizes) > servers:
        raise ValueError(f"jobs: must fit on the {servers} servers, got {sum(sizes)}")
    order = np.arange(servers)
    if how == "random":
        np.random.Generator(np.random.Philox(key=seed)).shuffle(order)
    ends = np.cumsum(sizes)
    return [tuple(sorted(order[end - size : end].tolist())) for size, end in zip(sizes, ends.tolist(), strict=True)]
