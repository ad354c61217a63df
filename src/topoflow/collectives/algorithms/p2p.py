"""All-to-all: sends and receives between all ranks; with PXN, a GPU collects what its node sends on its rail.

Source: NVIDIA/nccl 2.30.7, ``src/enqueue.cc`` (``scheduleP2pTasksToPlan``), ``src/graph/paths.cc`` (PXN).
"""

from __future__ import annotations

from topoflow.collectives.algorithms import Edge
from topoflow.collectives.nccl_time import CollectiveRun, CollectiveWork

OPERATIONS = ("all_to_all",)


def work(run: CollectiveRun, rails: bool) -> CollectiveWork:
    """Return the work of all messages; with ``rails``, those to another rail cross NVLink first."""
    comm, inside = run.comm, run.inside
    within = run.size * (comm.used - 1) / comm.ranks
    to_nodes = run.sent - within
    within += to_nodes * (comm.used - 1) / comm.used * rails
    if run.choice.protocol == "LL":
        within += run.size / comm.ranks * inside.p2p_cost[run.place]
    else:
        within = within * inside.p2p_cost[run.place] + run.copied_bytes * inside.p2p_copy
    latency = inside.p2p_hop[run.place] + (comm.used - 1) * inside.p2p_peer
    between = run.message(run.size) + (comm.ranks - comm.used) * run.network.peer + inside.hop[run.place] * rails
    return CollectiveWork(within, latency, to_nodes * comm.used, between)


def edges(nodes: int) -> tuple[Edge, ...]:
    """Return every ordered pair of nodes."""
    return tuple((node, (node + step) % nodes, 1 / (nodes - 1)) for node in range(nodes) for step in range(1, nodes))
