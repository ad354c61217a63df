"""Collapse ring collectives: S dependent steps become one node of S times the slowest step; exact for any capacities.

    a ring of n places in S steps, alone: each send waits for the send of the step before on its own place and on the
    place before. No chain through the ring has more than S sends, and for each place there is a chain of S sends on
    that place. So the ring takes S times the slowest send.

The search is for that law, not for rings: a block (consecutive tasks of one traffic task: a first one, those inside, a
last one) in which no chain inside has more than S tasks, and each *cost* (path, bytes and delay) has a chain of S. A
collective's time inside its servers precedes and follows its network's: two tasks in a row that use no network are
never in one block.

Shapes: T tasks, D dependencies, B blocks, R collapsed blocks, C costs, M costs of collapsed blocks.

Source: the sum of at most S numbers is at most S times the largest of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from topoflow import _C
from topoflow.arrays import row_offsets
from topoflow.engine.base import Ints, LoweredGraph, Offsets

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Edges:
    """Dependencies, sorted by the task that waits."""

    waiter: Offsets  # [D]
    awaited: Offsets  # [D] earlier tasks

    def where(self, chosen: Mask) -> Edges:
        return Edges(self.waiter[chosen], self.awaited[chosen])

    def levels(self, tasks: int) -> Ints:
        """[T] one more than the highest level of the awaited, 0 for a task that waits for none."""
        level = np.zeros(tasks, np.int32)
        first = row_offsets(self.waiter, tasks)
        _C.levels({"after_offsets": first, "after": self.awaited.astype(np.int32), "level": level})
        return level


@dataclass(frozen=True)
class Collapsed:
    """Blocks that are one node each; the first task inside represents all inside."""

    representative: Offsets  # [T] of each task: itself, unless it is inside a collapsed block
    first: Offsets  # [R] the tasks that represent their blocks
    steps: Ints  # [R] S
    cost_offsets: Offsets  # [R+1]
    cost: Offsets  # [M] the costs inside

    def rows(self) -> list[Offsets]:
        """The costs inside, block by block."""
        return np.split(self.cost, self.cost_offsets[1:-1]) if len(self.first) else []

    @staticmethod
    def none(tasks: int) -> Collapsed:
        """Every task is a node."""
        nothing = np.zeros(0, np.int64)
        return Collapsed(np.arange(tasks), nothing, nothing.astype(np.int32), np.zeros(1, np.int64), nothing)


def collapse(graph: LoweredGraph, edges: Edges, cost: Offsets) -> Collapsed:
    """Collapse all blocks that can be; ``cost`` [T] numbers the costs."""
    begin = _begin(graph)
    block = np.repeat(np.arange(len(begin) - 1), np.diff(begin))
    within = edges.where(block[edges.waiter] == block[edges.awaited])
    closed = _closed(graph, edges, within, begin, block)

    inside = closed[block]  # [T]
    inside[begin[:-1]] = inside[begin[1:] - 1] = False
    steps = np.where(closed, within.levels(graph.tasks)[begin[1:] - 1] - 1, 0)  # [B]
    alike = within.where(inside[within.waiter] & inside[within.awaited] & (cost[within.waiter] == cost[within.awaited]))
    tasks = np.flatnonzero(inside)
    costs = int(cost.max(initial=0)) + 1
    kinds, kind = np.unique(block[tasks] * costs + cost[tasks], return_inverse=True)
    chain = np.zeros(len(kinds), np.int32)
    np.maximum.at(chain, kind, alike.levels(graph.tasks)[tasks] + 1)
    closed[kinds[chain < steps[kinds // costs]] // costs] = False

    collapsed = np.flatnonzero(closed)
    inside &= closed[block]
    kinds = kinds[closed[kinds // costs]]
    return Collapsed(
        representative=np.where(inside, begin[block] + 1, np.arange(graph.tasks)),
        first=begin[collapsed] + 1,
        steps=steps[collapsed],
        cost_offsets=np.searchsorted(kinds // costs, np.append(collapsed, len(closed))),
        cost=kinds % costs,
    )


def _begin(graph: LoweredGraph) -> Offsets:
    """[B+1] the first task of each block."""
    local = graph.path < 0
    cut = (np.diff(graph.owner) != 0) | (local[:-1] & local[1:])
    return np.concatenate([[0], np.flatnonzero(cut) + 1, [graph.tasks]]) if graph.tasks else np.zeros(1, np.int64)


def _closed(graph: LoweredGraph, edges: Edges, within: Edges, begin: Offsets, block: Offsets) -> Mask:
    """[B] no task outside waits for one inside nor is awaited by one, and there are at least two inside.

    Every task inside is on a chain from the first task of the block to the last.
    """
    first, last = np.zeros(graph.tasks, bool), np.zeros(graph.tasks, bool)
    first[begin[:-1]] = last[begin[1:] - 1] = True
    across = edges.where(block[edges.waiter] != block[edges.awaited])
    waits = np.bincount(within.waiter, minlength=graph.tasks) > 0
    awaited = np.bincount(within.awaited, minlength=graph.tasks) > 0
    open_tasks = (~first & (~waits | (graph.release > 0))) | (~last & ~awaited)
    open_tasks[across.waiter[~first[across.waiter]]] = True
    open_tasks[across.awaited[~last[across.awaited]]] = True
    closed = np.diff(begin) >= 4
    closed[block[open_tasks]] = False
    return closed
