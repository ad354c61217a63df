"""NVLS: NVSwitches reduce and copy; between nodes switches that reduce (SHARP) add what they send.

Source: NVIDIA/nccl 2.30.7, ``src/device/all_reduce.h`` (``runNvls``), ``src/enqueue.cc`` (``calcCollChunking``).
"""

from __future__ import annotations

from collections.abc import Sequence

from topoflow.collectives.algorithms.collnet_direct import edges, through_switches
from topoflow.collectives.nccl_time import CollectiveRun, CollectiveWork

__all__ = ["OPERATIONS", "edges", "work"]

OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter")


def work(run: CollectiveRun, rails: bool) -> CollectiveWork:
    """Return the work of NVSwitches, whose pipeline is two chunks deep."""
    within, latency, _ = by_nvswitches(run, ((131072, 64), (65536, 8), (32768, 2)))
    return CollectiveWork(within, latency) if run.comm.nodes == 1 else through_switches(run, within, latency)


def by_nvswitches(run: CollectiveRun, chunks: Sequence[tuple[int, int]]) -> tuple[float, float, int]:
    """Return the bytes and the latency (s) of NVSwitches, and the bytes of all chunks that are on the way at once.

    ``chunks`` are sizes (B), each with how many of it there must be in each channel (``calcCollChunking``).
    """
    at_once = run.choice.channels * run.comm.heads
    sizes = (chunk for chunk, number in chunks if run.size >= number * at_once * chunk)
    chunk = min(next(sizes, chunks[-1][0] // 2) * at_once, run.size)
    return run.inside.nvls_cost * (run.size + 2 * chunk), run.inside.nvls_hop, chunk
