"""NVLS tree: NVSwitches inside each node, a double binary tree between nodes.

Source: NVIDIA/nccl 2.30.7, ``src/device/all_reduce.h`` (``runNvlsTree``), ``src/enqueue.cc`` (``calcCollChunking``).
"""

from __future__ import annotations

from topoflow.collectives.algorithms.tree import between_nodes, edges
from topoflow.collectives.nccl_time import CollectiveRun, CollectiveWork

__all__ = ["OPERATIONS", "edges", "work"]

OPERATIONS = ("all_reduce",)


def work(run: CollectiveRun, rails: bool) -> CollectiveWork:
    """Return the work of trees between nodes with NVLS inside each."""
    at_once = run.choice.channels * run.comm.heads
    chunk = min(chunk_bytes(run.size, at_once) * at_once, run.size)
    return between_nodes(run, run.inside.nvls_cost * (run.size + 2 * chunk), run.inside.nvls_hop, chunk)


def chunk_bytes(size: int, at_once: int) -> int:
    """Return the bytes of a chunk of an NVLS tree (``calcCollChunking`` in ``src/enqueue.cc``)."""
    return next((chunk for chunk, n in ((262144, 16), (131072, 4), (65536, 1)) if size >= n * at_once * chunk), 32768)
