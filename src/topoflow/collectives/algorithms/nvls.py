"""NVLS: NVSwitches reduce and copy; between nodes switches that reduce (SHARP) add what they send.

Source: NVIDIA/nccl 2.30.7, ``src/device/all_reduce.h`` (``runNvls``), ``src/enqueue.cc`` (``calcCollChunking``).
"""

from __future__ import annotations

from topoflow.collectives.algorithms.collnet_direct import edges, through_switches
from topoflow.collectives.nccl_time import CollectiveRun, CollectiveWork

__all__ = ["OPERATIONS", "edges", "work"]

OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter")


def work(run: CollectiveRun, rails: bool) -> CollectiveWork:
    """Return the work of NVSwitches, whose pipeline is two chunks deep."""
    at_once = run.choice.channels * run.comm.heads
    chunk = min(chunk_bytes(run.size, at_once) * at_once, run.size)
    within, latency = run.inside.nvls_cost * (run.size + 2 * chunk), run.inside.nvls_hop
    return CollectiveWork(within, latency) if run.comm.nodes == 1 else through_switches(run, within, latency)


def chunk_bytes(size: int, at_once: int) -> int:
    """Return the bytes of a chunk of NVLS (``calcCollChunking`` in ``src/enqueue.cc``)."""
    return next((chunk for chunk, n in ((131072, 64), (65536, 8), (32768, 2)) if size >= n * at_once * chunk), 16384)
