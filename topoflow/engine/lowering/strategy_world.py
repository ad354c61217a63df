"""Worlds of placement strategies of one workload on one fabric, straight from layers: what a search simulates.

    StrategyWorlds(workload, fabric).world(strategy)   is   place(lower(workload, strategy), fabric, rings="flows")

``traffic.lower`` says what the tasks are, ``engine.lowering.placement`` what they become; here the tasks are arrays
from the beginning (``strategy_tasks.py``), and paths and blocks of groups are kept from strategy to strategy. The one
difference: paths are numbered in the order in which tasks take them, whatever came before.

Shapes: N servers, T tasks of the world, P paths.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from topoflow.engine.base import Graph, Ints, Offsets, World
from topoflow.engine.lowering.algorithms import check_algorithm
from topoflow.engine.lowering.assembly import Tasks, assemble
from topoflow.engine.lowering.blocks import Block, Blocks
from topoflow.engine.lowering.paths import NO_PATH, Paths, PathTable
from topoflow.engine.lowering.strategy_tasks import Iteration, StrategyTasks
from topoflow.fabric.base import Fabric
from topoflow.strategy.base import Strategy
from topoflow.traffic.base import Collective
from topoflow.traffic.buckets import Bucket
from topoflow.workload.base import Workload

UNKNOWN = NO_PATH - 1  # the path of a pair of servers that no strategy has used


class StrategyWorlds:
    """Makes worlds of one ``workload`` on one ``fabric``; the other arguments are those of ``place``.

    Raises ``ValueError`` for a captured workload, and for an algorithm or a routing that there is not.
    """

    def __init__(
        self,
        workload: Workload,
        fabric: Fabric,
        *,
        all_reduce: str = "hierarchical",
        routing: str = "ecmp",
        seed: int = 0,
    ) -> None:
        check_algorithm("all_reduce", "all_reduce", all_reduce)
        self.workload = workload
        self.fabric = fabric
        self.tasks = StrategyTasks(workload, fabric.servers)
        self.paths = Paths(fabric, seed, routing)
        self.blocks = Blocks(self.paths, all_reduce, "flows")
        self.pairs = np.full((fabric.servers, fabric.servers), UNKNOWN, np.int32)  # [N, N] the path of a transfer

    def world(self, strategy: Strategy, *, name: str | None = None) -> World:
        """The world of ``strategy``, by its name unless it has a ``name`` of its own.

        Raises ``ValueError`` for a grid, for a layer that is not placed, for more servers than the fabric's, and for
        two servers without a path.
        """
        if strategy.servers > self.fabric.servers:
            most = f"{self.fabric.servers} of {self.fabric.name}"
            raise ValueError(f"{strategy.name}.servers: must be at most the {most}, got {strategy.servers}")
        iteration = self.tasks.of(strategy)
        blocks = {task: self._block(bucket, task) for task, bucket in iteration.buckets.items()}
        tasks = self._tasks(iteration)
        graph = assemble(
            tasks,
            blocks,
            self.paths.arrays(),
            links=self.fabric.links,
            local_bandwidth=self.workload.gpu.local_bandwidth,
        )
        graph = _compact(graph, self.paths.arrays())
        fabric, paths = self.fabric, self.paths
        name = strategy.name if name is None else name
        return World(name, graph, fabric.bandwidth, fabric.latency, fabric, paths.routing, paths.seed)

    def _block(self, bucket: Bucket, task: int) -> Block:
        local = self.workload.gpus_per_server
        return self.blocks.of(Collective("all_reduce", bucket.bytes, bucket.group, local=local), f"task {task}")

    def _tasks(self, iteration: Iteration) -> Tasks:
        path = np.full(len(iteration.bytes), NO_PATH, np.int32)
        path[iteration.transfers] = self._paths(iteration.source, iteration.target)
        return Tasks(
            delay=iteration.seconds,
            bytes=iteration.bytes,
            release=np.zeros(len(path)),
            path=path,
            after_offsets=iteration.after_offsets,
            after=iteration.after,
        )

    def _paths(self, source: Offsets, target: Offsets) -> Ints:
        """The path of every transfer; those of pairs that had none before are looked up."""
        new = np.flatnonzero(self.pairs[source, target] == UNKNOWN)
        if len(new):
            ends = source[new], target[new]
            self.pairs[ends] = self.paths.connections(*ends, np.zeros_like(ends[0]), "mp")
        found: Ints = self.pairs[source, target]
        return found


def _compact(graph: Graph, table: PathTable) -> Graph:
    """``graph`` with those paths of its ``table`` that tasks take, in the order of the first that do."""
    sends = np.flatnonzero(graph.path != NO_PATH)
    first = np.full(table.paths, graph.tasks)
    first[graph.path[sends[::-1]]] = sends[::-1]  # of several, the last that is written stays
    taken = np.argsort(first, kind="stable")[: np.count_nonzero(first < graph.tasks)].astype(np.int32)
    number = np.full(table.paths + 1, NO_PATH, np.int32)  # the last is that of NO_PATH
    number[taken] = np.arange(len(taken))
    own = table.taken(taken)
    return replace(
        graph,
        path=number[graph.path],
        path_offsets=own.offsets,
        path_links=own.links,
        path_weight=own.path_weight,
        path_limit=own.path_limit,
    )
