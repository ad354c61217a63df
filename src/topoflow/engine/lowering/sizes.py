"""Sizes: how many sends a job is, before it is placed; where ``rings`` or ``Fluid.merge`` is ``auto``, this decides.

The number is of the job alone, so that it is simulated in the same way on all networks that are compared: a group has
one ring, and an algorithm its ``most_sends``. A fabric with R rings for a group makes R times as many sends of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from topoflow.collectives.algorithm import NCCL, Algorithm, algorithms, name_for
from topoflow.traffic.base import Operation, Traffic

# Sends in rings that are simulated step by step, at most. Each takes some 2 us and 200 B in ``fluid``: a job of this
# many takes 2 s and 0.2 GB, or four times that where the fabric has four rings. A DLRM on 128 servers is 0.6 million
# sends, on 1,024 servers 40 million. As flows, an iteration differs by -4.9 to +5.2 %, by Valiant's routing by up to
# +18 % (benchmarks/results/rings_as_flows.txt).
MAX_STEPS = 2**20


def ring_sends(traffic: Traffic, all_reduce: str) -> int:
    """Return the number of sends that could be one flow per pair of neighbors; ``all_reduce`` is the default."""
    return _sends(traffic, all_reduce, lambda algorithm: algorithm.streams is not None)


def concurrent_sends(traffic: Traffic, all_reduce: str) -> int:
    """Return the number of transfers, and of sends of collectives in which no send waits for another."""
    transfers = int(np.count_nonzero(traffic.is_transfer))
    sends = transfers + _sends(traffic, all_reduce, lambda algorithm: algorithm.at_once)
    for operation, number in _collectives(traffic):
        if name_for(operation.op, operation.algorithm, all_reduce) == NCCL:
            sends += number * 2 * len(operation.group)  # inside nodes and between them
    return sends


def _sends(traffic: Traffic, all_reduce: str, counts: Callable[[Algorithm], bool]) -> int:
    total = 0
    for operation, number in _collectives(traffic):
        algorithm = algorithms().get(name_for(operation.op, operation.algorithm, all_reduce))
        if algorithm is not None and counts(algorithm):  # an unknown one is refused later
            servers, local = len(operation.group), operation.local
            phased = algorithm.phased(operation.op, servers, local, traffic.ranks_per_server)
            total += number * algorithm.most_sends(servers * (1 if phased else local))
    return total


def _collectives(traffic: Traffic) -> Iterator[tuple[Operation, int]]:
    """Yield each operation, and the number of its collectives that send bytes."""
    return zip(traffic.operations, traffic.collectives_that_send, strict=True)
