"""Ring: every rank sends to the next; between nodes on each rail.

Source: NVIDIA/nccl 2.30.7, ``src/device/all_reduce.h`` (``runRing``).
"""

from __future__ import annotations

from topoflow.collectives.algorithms import Edge
from topoflow.collectives.nccl_time import RING_STEPS, STEP_BYTES, CollectiveRun, CollectiveWork
from topoflow.operations import ring_passes

OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter")


def work(run: CollectiveRun, rails: bool) -> CollectiveWork:
    """Return the work of a ring; a step is hidden while a port is busy with the chunk before it."""
    comm, inside, protocol = run.comm, run.inside, run.choice.protocol
    hop, cost = inside.hop[run.place], inside.cost[run.place]
    twice = ring_passes(run.op)
    steps = twice * (comm.nodes - 1)
    chunk = min(run.size / comm.ranks, STEP_BYTES[protocol] * RING_STEPS[protocol] * run.choice.channels)
    busy = chunk / run.port_rate if steps else 0.0
    latency = (twice * (comm.ranks - 1) - steps) * max(hop + min(chunk * cost / run.link_rate - busy, 0.0), 0.0)
    copied = inside.copy_all_reduce if run.op == "all_reduce" else inside.copy
    between = steps * max(run.message(chunk) - busy / 2, 0.0)
    return CollectiveWork(run.sent * cost + run.own * copied, latency, run.sent, between)


def edges(nodes: int) -> tuple[Edge, ...]:
    """Return the pairs of neighbours."""
    return tuple((node, (node + 1) % nodes, 1.0) for node in range(nodes))
