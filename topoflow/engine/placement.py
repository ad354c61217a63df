"""Placement: Traffic on a Fabric becomes a World. Collectives become sends, sends get paths.

A compute or a transfer is one task. A collective is a join that waits for all it depends on, the sends of its
algorithm, and a join that the next tasks wait for. Ranks are the members of a collective: ``local`` on each server of
the group. What two ranks of one server exchange does not enter the network: it takes bytes / local_bandwidth.

    ring, double_binary_tree, halving_doubling, chain, direct    among all ranks
    hierarchical    inside each server a ring reduce-scatter among its l ranks, (l-1)/l S / local_bandwidth; then l
                    rings between the servers, one per local rank with S/l each, which are one ring with S as they
                    use the same links; then an all-gather inside, as long again

Shapes: T tasks of the world, F sends of a collective, K traffic tasks.
"""

from __future__ import annotations

import numpy as np

from topoflow.engine import collectives
from topoflow.engine.base import Floats, Graph, Offsets, World
from topoflow.engine.blocks import Block, Blocks
from topoflow.engine.paths import Paths
from topoflow.fabric.base import Fabric
from topoflow.traffic.base import Compute, Task, Traffic, Transfer


def place(
    traffic: Traffic,
    fabric: Fabric,
    *,
    name: str,
    all_reduce: str = "ring",
    seed: int = 0,
    routing: str = "ecmp",
) -> World:
    """Lower ``traffic`` onto ``fabric``.

    ``all_reduce`` is the algorithm of every all-reduce that does not name its own. Of several equal paths a connection
    takes one, keyed by ``seed``, or all at once, by ``routing`` ("ecmp" or "spray"). Raises ``ValueError`` for an
    algorithm that the operation does not have, for more servers than the fabric's, and for two servers without a path.
    """
    collectives.check_algorithm("all_reduce", "all_reduce", all_reduce)
    if traffic.servers > fabric.servers:
        most = f"{fabric.servers} of {fabric.name}"
        raise ValueError(f"{traffic.name}.servers: must be at most the {most}, got {traffic.servers}")
    paths = Paths(fabric, seed, routing)
    blocks = Blocks(paths, all_reduce)
    parts = [blocks.of(task, f"task {task.name or index}") for index, task in enumerate(traffic.tasks)]
    return World(name, _graph(traffic, parts, paths), fabric.bandwidth, fabric.latency)


def _graph(traffic: Traffic, blocks: list[Block], paths: Paths) -> Graph:
    """One block behind the other."""
    begin = np.concatenate([[0], np.cumsum([block.tasks for block in blocks], dtype=np.int64)])
    bytes, delay, release = np.zeros(begin[-1]), np.zeros(begin[-1]), np.zeros(begin[-1])
    counts = np.zeros(begin[-1], np.int64)
    after: list[Offsets] = []
    for index, (task, block, awaited) in enumerate(zip(traffic.tasks, blocks, _in_order(traffic), strict=True)):
        own = slice(begin[index], begin[index + 1])
        bytes[own], delay[own] = _sizes(task, block, traffic.local_bandwidth)
        release[own.start] = task.start
        counts[own] = block.after_count
        counts[own.start] = len(awaited)
        after += [begin[np.array(awaited, np.int64) + 1] - 1, block.after + own.start]
    path_offsets, path_links = paths.csr()
    return Graph(
        delay=delay,
        bytes=bytes,
        release=release,
        path=np.concatenate([np.zeros(0, np.int32), *(block.path for block in blocks)]),
        after_offsets=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        after=np.concatenate([np.zeros(0, np.int64), *after]).astype(np.int32),
        path_offsets=path_offsets,
        path_links=path_links,
        owner=np.repeat(np.arange(len(blocks), dtype=np.int32), np.diff(begin)),
        owners=len(blocks),
        links=paths.fabric.links,
        path_weight=paths.weights(),
        path_limit=paths.limits(),
    )


def _sizes(task: Task, block: Block, local_bandwidth: float) -> tuple[Floats, Floats]:
    """[T'] bytes on the network, and seconds of compute or inside a server."""
    if isinstance(task, Compute):
        return block.share, np.full(1, task.seconds)
    unit = task.bytes if isinstance(task, Transfer) or task.splits is None else 1.0  # shares of splits are bytes
    return block.share * unit, block.local_share * unit / local_bandwidth


def _in_order(traffic: Traffic) -> list[tuple[int, ...]]:
    """[K] what each task waits for: its ``after``, and a compute also for the one before on its server."""
    last: dict[int, int] = {}
    awaited = []
    for index, task in enumerate(traffic.tasks):
        before: tuple[int, ...] = ()
        if isinstance(task, Compute) and task.server is not None:
            before = (last[task.server],) if task.server in last and last[task.server] not in task.after else ()
            last[task.server] = index
        awaited.append((*task.after, *before))
    return awaited
