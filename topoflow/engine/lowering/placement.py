"""Placement: Traffic on a Fabric becomes a World. Collectives become sends, sends get paths.

A compute or a transfer is one task. A collective is a join that waits for all it depends on, the sends of its
algorithm, and a join that the next tasks wait for. Ranks are the members of a collective: ``local`` on each server of
the group. What two ranks of one server exchange does not enter the network: it takes bytes / local_bandwidth.

    ring, double_binary_tree, halving_doubling, swing, ..    among all ranks
    hierarchical, hierarchical_tree                          inside each server, between the servers, inside again

``collectives/`` has a module for each.

Shapes: K traffic tasks.
"""

from __future__ import annotations

from itertools import chain

import numpy as np

from topoflow.engine.base import World
from topoflow.engine.lowering.algorithms import check_algorithm
from topoflow.engine.lowering.assembly import Tasks, assemble
from topoflow.engine.lowering.blocks import RINGS, Blocks
from topoflow.engine.lowering.paths import NO_PATH, Paths
from topoflow.fabric.base import Fabric
from topoflow.traffic.base import Collective, Compute, Traffic, Transfer


def place(
    traffic: Traffic,
    fabric: Fabric,
    *,
    name: str,
    all_reduce: str = "ring",
    seed: int = 0,
    routing: str = "ecmp",
    rings: str = "steps",
) -> World:
    """Lower ``traffic`` onto ``fabric``.

    ``all_reduce`` is the algorithm of every all-reduce that does not name its own. Of several equal paths a connection
    takes one, keyed by ``seed``, or all at once, by ``routing`` ("ecmp" or "spray"). ``rings`` are sent in "steps", or
    as "flows", one for each pair of neighbours, whose delay then holds the ``fabric``'s latency of the other steps.
    Raises ``ValueError`` for an algorithm that the operation does not have, for more servers than the fabric's, and for
    two servers without a path.
    """
    check_algorithm("all_reduce", "all_reduce", all_reduce)
    if rings not in RINGS:
        raise ValueError(f"rings: must be one of {', '.join(RINGS)}, got {rings!r}")
    if traffic.servers > fabric.servers:
        most = f"{fabric.servers} of {fabric.name}"
        raise ValueError(f"{traffic.name}.servers: must be at most the {most}, got {traffic.servers}")
    paths = Paths(fabric, seed, routing)
    blocks = Blocks(paths, all_reduce, rings)
    made = {
        index: blocks.of(task, f"task {task.name or index}")
        for index, task in enumerate(traffic.tasks)
        if isinstance(task, Collective)
    }
    tasks, table = _tasks(traffic, paths), paths.arrays()
    graph = assemble(tasks, made, table, links=fabric.links, local_bandwidth=traffic.local_bandwidth)
    return World(name, graph, fabric.bandwidth, fabric.latency, fabric, routing, seed)


def _tasks(traffic: Traffic, paths: Paths) -> Tasks:
    """The tasks of ``traffic``, whose collectives have entered their ``paths``."""
    count = len(traffic.tasks)
    path, bytes, delay = np.full(count, NO_PATH, np.int32), np.zeros(count), np.zeros(count)
    computes = {index: task for index, task in enumerate(traffic.tasks) if isinstance(task, Compute)}
    delay[list(computes)] = [task.seconds for task in computes.values()]
    transfers = {index: task for index, task in enumerate(traffic.tasks) if isinstance(task, Transfer)}
    path[list(transfers)] = paths.transfers(transfers)
    bytes[list(transfers)] = [task.bytes for task in transfers.values()]
    for index, task in enumerate(traffic.tasks):
        if isinstance(task, Collective):
            bytes[index] = task.bytes if task.splits is None else 1.0  # shares of splits are bytes
    awaited = _in_order(traffic)
    return Tasks(
        delay=delay,
        bytes=bytes,
        release=np.array([task.start for task in traffic.tasks], np.float64),
        path=path,
        after_offsets=np.cumsum([0, *(len(earlier) for earlier in awaited)]).astype(np.int64),
        after=np.fromiter(chain.from_iterable(awaited), np.int64),
    )


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
