"""PAT: parallel aggregated trees between nodes with one GPU each, for all-gather and reduce-scatter.

Source: Jeaugey, "PAT: a new algorithm for all-gather and reduce-scatter operations at scale", 2025; NCCL 2.23.
"""

from __future__ import annotations

from topoflow.collectives.algorithms import Edge
from topoflow.collectives.nccl_time import STEP_BYTES, CollectiveRun, CollectiveWork

OPERATIONS = ("all_gather", "reduce_scatter")


def work(run: CollectiveRun, rails: bool) -> CollectiveWork:
    """Return the work of trees as deep as the logarithm of the nodes."""
    chunk = min(run.size / run.comm.ranks, STEP_BYTES["Simple"] * run.choice.channels)
    depth = (run.comm.nodes - 1).bit_length()
    return CollectiveWork(0.0, 0.0, run.sent, depth * (run.message(run.size) + chunk / run.port_rate))


def edges(nodes: int) -> tuple[Edge, ...]:
    """Return the pairs at distances 1, 2, 4, ..; the shares are those of the bytes that a node sends so far."""
    distances = [step & -step for step in range(1, nodes)]
    return tuple(
        (node, (node + distance) % nodes, distances.count(distance) / (nodes - 1))
        for node in range(nodes)
        for distance in dict.fromkeys(distances)
    )
