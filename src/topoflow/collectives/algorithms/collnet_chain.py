"""CollNet chain: switches between nodes reduce (SHARP); inside a node a chain leads to the GPU that sends.

Source: NVIDIA/nccl 2.30.7, ``src/device/all_reduce.h`` (``NCCL_ALGO_COLLNET_CHAIN``).
"""

from __future__ import annotations

from topoflow.collectives.algorithms.collnet_direct import edges, inside_hop, through_switches
from topoflow.collectives.nccl_time import CollectiveRun, CollectiveWork

__all__ = ["OPERATIONS", "edges", "work"]

OPERATIONS = ("all_reduce",)


def work(run: CollectiveRun, rails: bool) -> CollectiveWork:
    """Return the work of a chain of GPUs, there and back, and of the switches."""
    others = run.comm.used - 1
    within = 2 * run.size * run.inside.cost[run.place] * min(others, 1)
    return through_switches(run, within, 2 * others * inside_hop(run))
