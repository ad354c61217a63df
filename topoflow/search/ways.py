"""Ways: what connections of a fabric share, for the estimate of contention.

Shapes: n servers, L links (and one that carries nothing), H hops.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from topoflow.engine.paths import Paths
from topoflow.fabric.base import Fabric
from topoflow.search.problem import Problem

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Ways:
    """The path of every pair of servers (source * n + target), as ``place`` takes them."""

    links: Integers  # [H, n * n] padded with L
    weight: Floats  # [H, n * n] share of the bytes
    latency: Floats  # [n * n] s


def ways(fabric: Fabric, problem: Problem, kind: str) -> Ways:
    """The connections of every ordered pair of servers for a ``kind`` of traffic."""
    n = problem.servers
    paths = Paths(fabric, problem.seed, problem.routing)
    source, target = np.divmod(np.arange(n * n), n)
    number = paths.connections(source, target, np.zeros(n * n, np.int64), kind).astype(np.int64)
    offsets, links = paths.csr()
    weights = paths.weights()
    hops = int(np.diff(offsets).max(initial=1))
    table = np.full((len(paths.table) + 1, hops), fabric.links, np.int64)  # the last row: no path, to oneself
    share = np.zeros((len(paths.table) + 1, hops))
    row = np.repeat(np.arange(len(paths.table)), np.diff(offsets))
    column = np.arange(len(links)) - offsets[row]
    table[row, column] = links
    share[row, column] = 1.0 if weights is None else weights
    return Ways(
        np.ascontiguousarray(table[number].T),
        np.ascontiguousarray(share[number].T),
        np.append(paths.latency(), 0.0)[number],
    )


@dataclass(frozen=True)
class Ring:
    """An all-reduce of one group: 2 (k - 1) latencies, then its bytes inside the servers and over its fullest link."""

    latency: float  # s
    slowness: float  # s/B
    busy: Floats  # [L + 1] s/B that every link is busy


def ring(fabric: Fabric, problem: Problem, group: tuple[int, ...]) -> Ring:
    """An all-reduce of ``group``."""
    workload, k = problem.workload, len(group)
    members = workload.gpus_per_server
    inside = 2 * (members - 1) / members / workload.gpu.local_bandwidth
    if k == 1:
        return Ring(0.0, inside, np.zeros(fabric.links + 1))
    paths = Paths(fabric, problem.seed, problem.routing)
    orders = fabric.rings.get(group, (group,))
    busy, latency = np.zeros(fabric.links + 1), 0.0
    share = 2 * (k - 1) / k / len(orders)
    for channel, order in enumerate(orders):
        for ends in zip(order, (*order[1:], order[0]), strict=True):
            for subflow in paths.subflows(*ends, channel, "all_reduce"):
                links = list(subflow.links)
                busy[links] += share * subflow.weight / fabric.bandwidth[links]
                latency = max(latency, float(fabric.latency[links].sum()))
    return Ring(2 * (k - 1) * latency, inside + float(busy.max()), busy)
