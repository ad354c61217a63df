"""Links that the bytes of each task crossed, where routes change while they are sent.

Shapes: T tasks, F flows of one step of time, P paths, H hops, L links.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from topoflow.arrays import offsets
from topoflow.engine.base import Floats, Ints, LoweredGraph, Offsets
from topoflow.engine.dynamic.stepwise import RoutesAtTime, Sent

COMPACT_ABOVE = 2**18  # rows; merge duplicates only beyond this


@dataclass(frozen=True)
class _Rows:
    """Bytes that tasks sent over links, a row for each task and link."""

    crossing: Offsets  # task and link as one number
    remaining: Offsets  # hops from there to the target
    bytes: Floats  # B that crossed the link

    @staticmethod
    def joined(parts: list[_Rows]) -> _Rows:
        """One row per task and link, ascending, with the most hops that remained after it."""
        crossing, at = np.unique(np.concatenate([part.crossing for part in parts]), return_inverse=True)
        remaining = np.zeros(len(crossing), np.int64)
        np.maximum.at(remaining, at, np.concatenate([part.remaining for part in parts]))
        sent = np.bincount(at, np.concatenate([part.bytes for part in parts]), len(crossing))
        return _Rows(crossing, remaining, sent.astype(np.float64))


class CrossedLinks:
    """Grows step by step; a number means the same link in all steps. ``path`` [T] are those of the tasks."""

    def __init__(self, path: Ints) -> None:
        self.path = path
        self._rows = [_Rows(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))]
        self._count = 0
        self._most = COMPACT_ABOVE

    def add(self, routes: RoutesAtTime, sent: Sent) -> None:
        """Count what was sent over these routes."""
        flows = np.flatnonzero(sent.bytes > 0)
        task = sent.task[flows].astype(np.int64)
        path = self.path[task]
        first = routes.offsets[path]
        hops = routes.offsets[path + 1] - first
        last = np.cumsum(hops)
        flow = np.repeat(np.arange(len(flows)), hops)
        remaining = last[flow] - 1 - np.arange(len(flow))
        hop = first[flow] + hops[flow] - 1 - remaining
        weight = 1.0 if routes.weights is None else routes.weights[hop]
        self._rows.append(_Rows(task[flow] << 32 | routes.links[hop], remaining, sent.bytes[flows][flow] * weight))
        self._count += len(hop)
        if self._count > self._most:  # flows continue over the same links: few rows are left
            self._rows = [_Rows.joined(self._rows)]
            self._count = len(self._rows[0].crossing)
            self._most = 2 * self._count + COMPACT_ABOVE

    def as_static_graph(self, graph: LoweredGraph, links: int) -> LoweredGraph:
        """``graph`` on ``links`` links: the path of a task is the links that it crossed, with shares of its bytes."""
        rows = _Rows.joined(self._rows)
        task, link = rows.crossing >> 32, rows.crossing & 0xFFFFFFFF
        order = np.lexsort((-rows.remaining, task))  # the first hops of a task first, its last hops last
        flows = np.flatnonzero(graph.bytes > 0)  # one inside a server has a path without links
        path = np.full(graph.tasks, -1, np.int32)
        path[flows] = np.arange(len(flows))
        hops = np.bincount(task, minlength=graph.tasks)[flows]
        return replace(
            graph,
            path=path,
            path_offsets=offsets(hops),
            path_links=link[order].astype(np.int32),
            path_weight=np.minimum((rows.bytes / graph.bytes[task])[order], 1.0),  # 1 + 1e-16 is 1
            path_limit=None,
            links=links,
        )
