"""Several jobs on one cluster: how many of each kind, and on which of its servers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import floor

import numpy as np

from topoflow.traffic.base import Operation, Traffic
from topoflow.traffic.tasks import NONE

# Where a job's servers are, which TopoOpt 5.6 leaves open. "random": anywhere in the cluster, as after many jobs have
# come and gone; "consecutive": one job after the other, from server 0 on.
ALLOCATIONS = ("random", "consecutive")


def apportion(jobs: int, shares: Sequence[float]) -> list[int]:
    """Whole numbers that sum to ``jobs``, as close to ``shares`` of it as can be (largest remainders first).

    ``apportion(27, [0.4, 0.3, 0.2, 0.1]) == [11, 8, 5, 3]``: 10.8, 8.1, 5.4 and 2.7 (TopoOpt 5.6).
    """
    wanted = [jobs * share / sum(shares) for share in shares]
    counts = [floor(each + 1e-9) for each in wanted]
    by_remainder = sorted(range(len(shares)), key=lambda kind: (counts[kind] - wanted[kind], kind))
    for kind in by_remainder[: jobs - sum(counts)]:
        counts[kind] += 1
    return counts


def allocate(sizes: Sequence[int], servers: int, *, how: str, seed: int) -> list[tuple[int, ...]]:
    """Servers for jobs of these ``sizes``, ascending, none for two jobs."""
    if how not in ALLOCATIONS:
        raise ValueError(f"allocation: must be one of {', '.join(ALLOCATIONS)}, got {how!r}")
    if sum(sizes) > servers:
        raise ValueError(f"jobs: must fit on the {servers} servers, got {sum(sizes)}")
    order = np.arange(servers)
    if how == "random":
        np.random.Generator(np.random.Philox(key=seed)).shuffle(order)
    ends = np.cumsum(sizes)
    return [tuple(sorted(order[end - size : end].tolist())) for size, end in zip(sizes, ends.tolist(), strict=True)]


def on_servers(traffic: Traffic, servers: Sequence[int], cluster: int) -> Traffic:
    """``traffic`` in a ``cluster`` of that number of servers: what server s does there is done by ``servers[s]``."""
    if len(servers) != traffic.servers or len(set(servers)) != len(servers):
        raise ValueError(f"{traffic.name}: must be given {traffic.servers} servers, each once, got {list(servers)}")
    for task in traffic.subflows:
        raise ValueError(f"{traffic.where(task)}.subflows: must not be given, paths are those of the cluster")
    moved = np.append(np.array(servers, np.int32), np.int32(NONE))  # the last is that of NONE
    return replace(
        traffic,
        servers=cluster,
        server=moved[traffic.server],
        source=moved[traffic.source],
        target=moved[traffic.target],
        operations=tuple(_on(operation, servers) for operation in traffic.operations),
    )


def _on(operation: Operation, servers: Sequence[int]) -> Operation:
    root = None if operation.root is None else servers[operation.root]
    return replace(operation, group=tuple(servers[member] for member in operation.group), root=root)
