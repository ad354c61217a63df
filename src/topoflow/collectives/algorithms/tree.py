"""Tree: a double binary tree of nodes, with a chain inside each.

Source: NVIDIA/nccl 2.30.7, ``src/graph/trees.cc``, ``src/device/all_reduce.h`` (``runTreeUpDown``).
"""

from __future__ import annotations

from topoflow.collectives.algorithms import Edge
from topoflow.collectives.nccl_time import STEP_BYTES, CollectiveRun, CollectiveWork
from topoflow.collectives.trees import tree_edges
from topoflow.collectives.tuning_tables import HOP

OPERATIONS = ("all_reduce",)


def work(run: CollectiveRun, rails: bool) -> CollectiveWork:
    """Return the work of two trees, up to the roots and down again, with a chain inside each node."""
    comm, protocol = run.comm, run.choice.protocol
    step = STEP_BYTES[protocol]
    if protocol == "LL128":
        steps = 1 + (comm.nodes - 1).bit_length() + 0.1 * comm.used
        step = ll128_tree_chunk(run.size // run.choice.channels, steps, comm.used)
    whole = min(run.size, step * run.choice.channels)
    chunk = whole * (2 - whole / run.size)  # a port serves both trees, unless all is one chunk
    hop = run.inside.hop[run.place] * HOP["NVL"]["tree"][run.place] / HOP["NVL"]["ring"][run.place]
    return between_nodes(run, 2 * run.size * run.inside.cost[run.place], 2 * (comm.used - 1) * hop, chunk)


def between_nodes(run: CollectiveRun, within: float, latency: float, chunk: float) -> CollectiveWork:
    """Return the work of a tree: the buffer crosses a port once between two nodes, and twice between more."""
    if run.comm.nodes == 1:
        return CollectiveWork(within, latency)
    hops = 2 * (run.comm.nodes - 1).bit_length()
    crossing = (1.0 if run.comm.nodes == 2 else 2.0) * run.size
    return CollectiveWork(within, latency, crossing, hops * (run.message(run.size) + chunk / run.port_rate))


def edges(nodes: int) -> tuple[Edge, ...]:
    """Return both directions of every edge; each carries half of the buffer, of which a node sends two at most."""
    share = 0.5 if nodes == 2 else 0.25
    pairs = tree_edges(tuple(range(nodes)), 1)
    return tuple((a, b, share) for child, parent in pairs for a, b in ((child, parent), (parent, child)))


def ll128_tree_chunk(size: int, steps: float, used: int) -> int:
    """Return the bytes of a chunk of a tree with LL128 (``calcCollChunking``); ``size`` is that of a channel."""
    chunk = STEP_BYTES["LL128"]
    for pieces, least in ((64, 131072), (16, 32768)):
        while size // chunk < steps * pieces / used and chunk > least:
            chunk //= 2
    return chunk
