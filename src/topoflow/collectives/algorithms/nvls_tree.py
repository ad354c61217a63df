"""NVLS tree: NVSwitches inside each node, a double binary tree between nodes.

Source: NVIDIA/nccl 2.30.7, ``src/device/all_reduce.h`` (``runNvlsTree``), ``src/enqueue.cc`` (``calcCollChunking``).
"""

from __future__ import annotations

from topoflow.collectives.algorithms.nvls import by_nvswitches
from topoflow.collectives.algorithms.tree import between_nodes, edges
from topoflow.collectives.nccl_time import CollectiveRun, CollectiveWork

__all__ = ["OPERATIONS", "edges", "work"]

OPERATIONS = ("all_reduce",)


def work(run: CollectiveRun, rails: bool) -> CollectiveWork:
    """Return the work of trees between nodes with NVLS inside each."""
    return between_nodes(run, *by_nvswitches(run, ((262144, 16), (131072, 4), (65536, 1))))
