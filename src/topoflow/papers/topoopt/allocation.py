"""Jobs of a cluster: how many there are of each kind, and which servers each gets."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor

import numpy as np

# The servers of a job, which TopoOpt 5.6 leaves open. "random": anywhere in the cluster, as after many jobs have
# come and gone; "consecutive": one job after the other, from server 0 on.
ALLOCATIONS = ("random", "consecutive")


def apportion(jobs: int, shares: Sequence[float]) -> list[int]:
    """Split ``jobs`` into whole numbers as close to ``shares`` as can be (largest remainders first).

    ``apportion(27, [0.4, 0.3, 0.2, 0.1]) == [11, 8, 5, 3]``: 10.8, 8.1, 5.4 and 2.7 (TopoOpt 5.6).
    """
    wanted = [jobs * share / sum(shares) for share in shares]
    counts = [floor(each + 1e-9) for each in wanted]
    by_remainder = sorted(range(len(shares)), key=lambda kind: (counts[kind] - wanted[kind], kind))
    for kind in by_remainder[: jobs - sum(counts)]:
        counts[kind] += 1
    return counts


def allocate(sizes: Sequence[int], servers: int, *, how: str, seed: int) -> list[tuple[int, ...]]:
    """Return ascending servers for jobs of these ``sizes``; no server belongs to two jobs."""
    if how not in ALLOCATIONS:
        raise ValueError(f"allocation: must be one of {', '.join(ALLOCATIONS)}, got {how!r}")
    if sum(sizes) > servers:
        raise ValueError(f"jobs: must fit on the {servers} servers, got {sum(sizes)}")
    order = np.arange(servers)
    if how == "random":
        np.random.Generator(np.random.Philox(key=seed)).shuffle(order)
    ends = np.cumsum(sizes)
    return [tuple(sorted(order[end - size : end].tolist())) for size, end in zip(sizes, ends.tolist(), strict=True)]
