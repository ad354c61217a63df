"""Journeys: over which links a task's bytes went, when the way changed while they were sent.

Shapes: T tasks, F flows of one piece of time, P paths, H hops, L links.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from topoflow.engine.base import Floats, Graph, Offsets


@dataclass
class Journey:
    """Grows piece by piece; ``link`` numbers go on to mean the same link."""

    task: list[Offsets] = field(default_factory=list)  # [H] of each piece
    link: list[Offsets] = field(default_factory=list)
    behind: list[Offsets] = field(default_factory=list)  # hops from there to the target
    bytes: list[Floats] = field(default_factory=list)  # B that crossed the link

    def add(self, graph: Graph, task: Offsets, sent: Floats) -> None:
        """Tasks of ``graph``, which are ``task`` [T] of the journey, have ``sent`` [T] bytes over their paths there."""
        flows = np.flatnonzero((sent > 0) & (graph.path >= 0))
        first = graph.path_offsets[graph.path[flows]]
        hops = graph.path_offsets[graph.path[flows] + 1] - first
        last = np.cumsum(hops)
        flow = np.repeat(np.arange(len(flows)), hops)
        behind = last[flow] - 1 - np.arange(len(flow))
        hop = first[flow] + hops[flow] - 1 - behind
        weight = 1.0 if graph.path_weight is None else graph.path_weight[hop]
        self.task.append(task[flows][flow])
        self.link.append(graph.path_links[hop].astype(np.int64))
        self.behind.append(behind)
        self.bytes.append(sent[flows][flow] * weight)

    def told(self, graph: Graph, links: int) -> Graph:
        """``graph`` on ``links`` links, where each task's path is all that it crossed, with the share of its bytes."""
        none = np.zeros(0, np.int64)
        crossed = np.concatenate([none, *self.task]) * links + np.concatenate([none, *self.link])
        crossing, at = np.unique(crossed, return_inverse=True)
        task, link = np.divmod(crossing, max(links, 1))
        sent = np.bincount(at, weights=np.concatenate([np.zeros(0), *self.bytes]), minlength=len(crossing))
        share = sent / graph.bytes[task]
        behind = np.zeros(len(crossing), np.int64)
        np.maximum.at(behind, at, np.concatenate([none, *self.behind]))
        order = np.lexsort((-behind, task))  # the first hops of a task first, its last hops last
        flows, hops = np.unique(task, return_counts=True)
        path = np.full(graph.tasks, -1, np.int32)
        path[flows] = np.arange(len(flows))
        return replace(
            graph,
            path=path,
            path_offsets=np.concatenate([[0], np.cumsum(hops)]).astype(np.int64),
            path_links=link[order].astype(np.int32),
            path_weight=np.minimum(share[order], 1.0),  # 1 + 1e-16 is 1
            path_limit=None,
            links=links,
        )
