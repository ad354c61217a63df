"""A graph that runs piece by piece, over ways that may be others in each.

A piece costs what can move in it: tasks that wait for what cannot end by then, and flows that no link carries, are not
looked at. ``csrc/circuits/piece.h`` says why the rest runs as it would in the whole. Runs on the CPU.

Shapes: T tasks, P paths, H hops, L links, M tasks that move.
"""

from __future__ import annotations

from concurrent.futures import CancelledError
from dataclasses import dataclass

import numpy as np

from topoflow import _C
from topoflow.arrays import row_offsets
from topoflow.engine.base import SAME, Floats, Graph, Ints, Offsets
from topoflow.engine.checks import check_graph

DARK = -1  # a link that carries nothing


@dataclass(frozen=True)
class Ways:
    """Where the paths of a graph lead at a time."""

    offsets: Offsets  # [P+1]
    links: Ints  # [H] or DARK
    weights: Floats | None  # [H] as ``Graph.path_weight``
    wait: Floats  # [P] s, the latency of the average byte


@dataclass(frozen=True)
class Moved:
    """What a piece has sent."""

    task: Ints  # [M] ascending
    sent: Floats  # [M] B


class Pieces:
    """``graph``, which begins at ``began`` (s); its own paths do not count. Times are those of one clock for all.

    Raises ``ValueError`` where an array breaks a law of ``Graph``.
    """

    def __init__(self, name: str, graph: Graph, began: float, *, merge: float, cancel: Ints) -> None:
        check_graph(name, graph)
        self.name, self.merge, self.now = name, merge, began
        tasks, paths = graph.tasks, len(graph.path_offsets) - 1
        self.start, self.finish = np.full(tasks, np.inf), np.full(tasks, np.inf)  # [T] s
        self.waited = np.full(tasks, np.inf)  # [T] s, when a task that has begun has waited
        self.left = graph.bytes.astype(np.float64)  # [T] B
        pending = np.diff(graph.after_offsets).astype(np.int32)
        self._live = np.zeros(tasks, np.int32)
        roots = np.flatnonzero(pending == 0)
        self._lives = len(roots)
        self._live[: self._lives] = roots
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
            "pending": pending,
            "users": np.bincount(graph.path[graph.path >= 0], minlength=paths).astype(np.int32),
            "live": self._live,
            "moved": self._moved,
            "sent": self._sent,
            "end": np.zeros(tasks),
            "number": np.full(tasks, -1, np.int32),
            "seen": np.zeros(tasks, np.int32),
            "path_number": np.full(paths, -1, np.int32),
            "cancel": cancel,
        } | _followers(graph)

    @property
    def is_over(self) -> bool:
        return self._lives == 0

    @property
    def live(self) -> Ints:
        """Tasks that are not over and wait for no other, ascending."""
        return self._live[: self._lives]

    @property
    def ready(self) -> Floats:
        """s, when each of those has waited, or is released."""
        waited = self.waited[self.live]
        return np.where(np.isinf(waited), self._release[self.live], waited)

    @property
    def flowing(self) -> Ints:
        """Tasks that have waited and are not over, ascending: their bytes are on their way, or nothing is."""
        return self.live[self.waited[self.live] <= self.now * (1 + SAME)]

    def go_on(self, ways: Ways, capacity: Floats, latency: float, until: float) -> Moved:
        """Run until then over these ``ways`` and links of ``capacity`` [L] B/s and ``latency`` s each.

        Raises ``ValueError`` where a task waits for ever, ``CancelledError`` where ``cancel`` is set meanwhile.
        """
        arrays = self._arrays | {
            "path_offsets": ways.offsets,
            "path_links": ways.links,
            "path_weight": np.zeros(0) if ways.weights is None else ways.weights,
            "wait": ways.wait,
            "capacity": capacity,
            "link_number": np.full(len(capacity) + 1, -1, np.int32),
        }
        status, self._lives, moved = _C.advance(arrays, self._lives, self.now, until, latency, self.merge)
        self.now = until
        if status == _C.CANCELLED:
            raise CancelledError
        if status == _C.NOT_CONVERGED:
            raise ValueError(f"{self.name}: rates must be found in a bounded number of steps, got more")
        if self._lives == 0 and np.isinf(self.finish).any():
            task = int(np.argmax(np.isinf(self.finish)))
            raise ValueError(f"{self.name}: every task must become ready, got an endless wait for task {task}")
        return Moved(self._moved[:moved].copy(), self._sent[:moved].copy())


def _followers(graph: Graph) -> dict[str, Offsets | Ints]:
    """The dependencies the other way round: offsets [T+1] and the followers of each task."""
    follower = np.repeat(np.arange(graph.tasks, dtype=np.int32), np.diff(graph.after_offsets))
    return {
        "follower_offsets": row_offsets(graph.after, graph.tasks),
        "followers": follower[np.argsort(graph.after, kind="stable")],
    }
