"""Journeys: over which links a task's bytes went, when the way changed while they were sent.

Shapes: T tasks, F flows of one piece of time, P paths, H hops, L links.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from topoflow.arrays import offsets
from topoflow.engine.base import Floats, Graph, Ints, Offsets
from topoflow.engine.dynamic.pieces import Moved, Ways

OFTEN = 2**18  # rows: fewer are not put together


@dataclass(frozen=True)
class _Rows:
    """What some tasks sent over some links, a row each."""

    crossing: Offsets  # task and link as one number
    behind: Offsets  # hops from there to the target
    bytes: Floats  # B that crossed the link

    @staticmethod
    def joined(parts: list[_Rows]) -> _Rows:
        """One row per task and link, ascending; the most hops that were behind it."""
        crossing, at = np.unique(np.concatenate([part.crossing for part in parts]), return_inverse=True)
        behind = np.zeros(len(crossing), np.int64)
        np.maximum.at(behind, at, np.concatenate([part.behind for part in parts]))
        sent = np.bincount(at, np.concatenate([part.bytes for part in parts]), len(crossing))
        return _Rows(crossing, behind, sent.astype(np.float64))


class Journey:
    """Grows piece by piece; ``link`` numbers go on to mean the same link. ``path`` [T] are those of the tasks."""

    def __init__(self, path: Ints) -> None:
        self.path = path
        self._rows = [_Rows(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))]
        self._count = 0
        self._most = OFTEN

    def add(self, ways: Ways, moved: Moved) -> None:
        """What was sent over these ways."""
        flows = np.flatnonzero(moved.sent > 0)
        task = moved.task[flows].astype(np.int64)
        path = self.path[task]
        first = ways.offsets[path]
        hops = ways.offsets[path + 1] - first
        last = np.cumsum(hops)
        flow = np.repeat(np.arange(len(flows)), hops)
        behind = last[flow] - 1 - np.arange(len(flow))
        hop = first[flow] + hops[flow] - 1 - behind
        weight = 1.0 if ways.weights is None else ways.weights[hop]
        self._rows.append(_Rows(task[flow] << 32 | ways.links[hop], behind, moved.sent[flows][flow] * weight))
        self._count += len(hop)
        if self._count > self._most:  # the same flows go on over the same links: few rows are left
            self._rows = [_Rows.joined(self._rows)]
            self._count = len(self._rows[0].crossing)
            self._most = 2 * self._count + OFTEN

    def told(self, graph: Graph, links: int) -> Graph:
        """``graph`` on ``links`` links, where each task's path is all that it crossed, with the share of its bytes."""
        rows = _Rows.joined(self._rows)
        task, link = rows.crossing >> 32, rows.crossing & 0xFFFFFFFF
        order = np.lexsort((-rows.behind, task))  # the first hops of a task first, its last hops last
        flows, hops = np.unique(task, return_counts=True)
        path = np.full(graph.tasks, -1, np.int32)
        path[flows] = np.arange(len(flows))
        return replace(
            graph,
            path=path,
            path_offsets=offsets(hops),
            path_links=link[order].astype(np.int32),
            path_weight=np.minimum((rows.bytes / graph.bytes[task])[order], 1.0),  # 1 + 1e-16 is 1
            path_limit=None,
            links=links,
        )
