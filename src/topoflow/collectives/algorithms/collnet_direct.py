"""CollNet direct: switches between nodes reduce (SHARP); inside a node each GPU reduces a part and sends it.

Source: NVIDIA/nccl 2.30.7, ``src/device/all_reduce.h`` (``NCCL_ALGO_COLLNET_DIRECT``); Graham et al., "Scalable
Hierarchical Aggregation Protocol (SHArP)", COM-HPC 2016.
"""

from __future__ import annotations

from topoflow.collectives.algorithms import Edge
from topoflow.collectives.nccl_time import STEP_BYTES, CollectiveRun, CollectiveWork
from topoflow.collectives.tuning_tables import HOP

OPERATIONS = ("all_reduce",)


def work(run: CollectiveRun, rails: bool) -> CollectiveWork:
    """Return the work of a reduce-scatter and an all-gather over NVSwitches, and of the switches between them."""
    others = run.comm.used - 1
    latency = 2 * min(others, 1) * inside_hop(run)
    return through_switches(run, 2 * run.size * others / run.comm.used * run.inside.cost[run.place], latency)


def inside_hop(run: CollectiveRun) -> float:
    """Return the time (s) of a step inside a node, by NCCL's ratio to that of a ring."""
    table = HOP[run.comm.inside]
    return run.inside.hop[run.place] * table[run.algorithm][run.place] / table["ring"][run.place]


def through_switches(run: CollectiveRun, within: float, latency: float) -> CollectiveWork:
    """Return the work of switches that reduce: the buffer crosses the ports of a node once in each direction."""
    hop = run.network.hop[run.place] * HOP["NET"][run.algorithm][run.place] / HOP["NET"]["tree"][run.place]
    chunk = min(run.size, STEP_BYTES["Simple"] * run.choice.channels)
    return CollectiveWork(within, latency, run.size, hop + chunk / run.port_rate)


def edges(nodes: int) -> tuple[Edge, ...]:
    """Return one pair for each node, which sends to the switches as much as it gets; these send less to each other."""
    return tuple((node, (node + 1) % nodes, 1.0) for node in range(nodes))
