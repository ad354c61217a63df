"""A graph that is simulated in steps of time, each over routes of its own.

A step costs what can happen in it: tasks that wait for what cannot end within the step, and flows whose route is
missing a link, are skipped. ``csrc/circuits/piece.h`` says why the rest runs as it would in the whole. Runs on the CPU.

Shapes: T tasks, P paths, H hops, L links, M tasks that were active in a step.
"""

from __future__ import annotations

from concurrent.futures import CancelledError
from dataclasses import dataclass

import numpy as np

from topoflow import _C
from topoflow.arrays import row_offsets
from topoflow.engine.base import SAME, Floats, Ints, LoweredGraph, Offsets

NO_LINK = -1  # in place of a link that does not exist: the path carries nothing


@dataclass(frozen=True)
class RoutesAtTime:
    """The links of a graph's paths at a time."""

    offsets: Offsets  # [P+1]
    links: Ints  # [H] or NO_LINK
    weights: Floats | None  # [H] as ``LoweredGraph.path_weight``
    latency: Floats  # [P] s, of the average byte


@dataclass(frozen=True)
class Sent:
    """The bytes that tasks have sent in a step."""

    task: Ints  # [M] ascending
    bytes: Floats  # [M] B


class Stepwise:
    """``graph``, which begins at ``began`` (s), over routes that are given for each step instead of its own paths.

    All times are of one clock.
    """

    def __init__(self, name: str, graph: LoweredGraph, began: float, *, merge: float, cancel: Ints) -> None:
        self.name, self.graph, self.merge, self.now = name, graph, merge, began
        tasks, paths = graph.tasks, len(graph.path_offsets) - 1
        self.start, self.finish = np.full(tasks, np.inf), np.full(tasks, np.inf)  # [T] s
        self.waited = np.full(tasks, np.inf)  # [T] s, when the delay and latency of a task that has begun have passed
        self.left = graph.bytes.astype(np.float64)  # [T] B
        pending = np.diff(graph.after_offsets).astype(np.int32)
        self._ready = np.zeros(tasks, np.int32)
        roots = np.flatnonzero(pending == 0)
        self._ready_count = len(roots)
        self._ready[: self._ready_count] = roots
        self._moved, self._sent = np.zeros(tasks, np.int32), np.zeros(tasks)
        self._release = graph.release + began
        self._arrays = {
            "delay": graph.delay.astype(np.float64),
            "release": self._release,
            "path": graph.path.astype(np.int32),
            "after_offsets": graph.after_offsets.astype(np.int64),
            "after": graph.after.astype(np.int32),
            "path_limit": np.zeros(0) if graph.path_limit is None else graph.path_limit.astype(np.float64),
            "start": self.start,
            "finish": self.finish,
            "waited": self.waited,
            "left": self.left,
            "ready_at": self._release.copy(),
            "resource": np.zeros(0, np.int32) if graph.resource is None else graph.resource.astype(np.int32),
            "resource_number": np.zeros(0 if graph.resource is None else tasks, np.int32),
            "pending": pending,
            "users": np.bincount(graph.path[graph.path >= 0], minlength=paths).astype(np.int32),
            "live": self._ready,
            "moved": self._moved,
            "sent": self._sent,
            "end": np.zeros(tasks),
            "number": np.full(tasks, -1, np.int32),
            "seen": np.zeros(tasks, np.int32),
            "path_number": np.full(paths, -1, np.int32),
            "cancel": cancel,
        } | _followers(graph)

    @property
    def has_finished(self) -> bool:
        return self._ready_count == 0

    @property
    def ready(self) -> Ints:
        """Tasks that have not finished and wait for no other, ascending."""
        return self._ready[: self._ready_count]

    @property
    def ready_at(self) -> Floats:
        """s, when the delay and latency of each ready task have passed, or its release if that is still to come."""
        waited = self.waited[self.ready]
        return np.where(np.isinf(waited), self._release[self.ready], waited)

    @property
    def flowing(self) -> Ints:
        """Ready tasks whose delay and latency have passed, ascending: those with bytes on the network."""
        return self.ready[self.waited[self.ready] <= self.now * (1 + SAME)]

    def advance(self, routes: RoutesAtTime, capacity: Floats, latency: float, until: float) -> Sent:
        """Simulate until then (s) over ``routes`` and links of ``capacity`` [L] B/s and ``latency`` s each.

        Raises ``ValueError`` where a task waits forever, ``CancelledError`` where ``cancel`` is set meanwhile.
        """
        arrays = self._arrays | {
            "path_offsets": routes.offsets,
            "path_links": routes.links,
            "path_weight": np.zeros(0) if routes.weights is None else routes.weights,
            "wait": routes.latency,
            "capacity": capacity,
            "link_number": np.full(len(capacity) + 1, -1, np.int32),
        }
        status, self._ready_count, moved = _C.advance(arrays, self._ready_count, self.now, until, latency, self.merge)
        self.now = until
        if status == _C.CANCELLED:
            raise CancelledError
        if status == _C.NOT_CONVERGED:
            raise ValueError(f"{self.name}: rates must be found in a bounded number of steps, got more")
        if self._ready_count == 0 and np.isinf(self.finish).any():
            task = self.graph.where(int(np.argmax(np.isinf(self.finish))))
            raise ValueError(f"{self.name}: every task must become ready, got an endless wait for {task}")
        return Sent(self._moved[:moved].copy(), self._sent[:moved].copy())


def _followers(graph: LoweredGraph) -> dict[str, Offsets | Ints]:
    """The dependencies the other way round: offsets [T+1] and the followers of each task."""
    follower = np.repeat(np.arange(graph.tasks, dtype=np.int32), np.diff(graph.after_offsets))
    return {
        "follower_offsets": row_offsets(graph.after, graph.tasks),
        "followers": follower[np.argsort(graph.after, kind="stable")],
    }
