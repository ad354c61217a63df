"""World: one traffic on one fabric. Worlds: a ragged batch of them. Timeline: when every task ran.

Shapes: W worlds, G graphs, T tasks, D dependencies, P paths, H hops, L links, K traffic tasks. Seconds, bytes,
bytes per second. The first five arrays say everything about a task: it becomes *ready* when all tasks in
``after`` have finished and ``release`` has passed; then it waits ``delay`` plus the latency of its path; then its
``bytes`` share the links of the path until they are gone. A compute task is a delay without bytes, a join is
neither.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Offsets = NDArray[np.int64]


@dataclass(frozen=True)
class Graph:
    """Tasks, dependencies and paths: what worlds that differ only in their links' numbers share.

    Laws: ``after`` names earlier tasks, ``path`` is -1 (no network) or a path, a task with bytes has a path,
    hops are links.
    """

    delay: Floats  # [T] s, fixed
    bytes: Floats  # [T] B
    release: Floats  # [T] s, not before
    path: Ints  # [T] path, -1: none
    after_offsets: Offsets  # [T+1]
    after: Ints  # [D] tasks
    path_offsets: Offsets  # [P+1]
    path_links: Ints  # [H] links
    owner: Ints  # [T] the traffic task that this task is part of
    owners: int  # K
    links: int  # L

    @property
    def tasks(self) -> int:
        return len(self.delay)


@dataclass(frozen=True)
class World:
    """A graph on links with these capacities and latencies."""

    name: str
    graph: Graph
    capacity: Floats  # [L] B/s
    latency: Floats  # [L] s


@dataclass(frozen=True)
class Timeline:
    """When every task of one world ran, and what every link carried."""

    name: str
    start: Floats  # [T] s, when the task was ready
    finish: Floats  # [T] s
    link_bytes: Floats  # [L] B
    task_start: Floats  # [K] s, the same for the traffic's tasks: the first of its parts ...
    task_finish: Floats  # [K] s, ... and the last

    @property
    def makespan(self) -> float:
        """Seconds until the last task finished: the iteration time."""
        return float(self.task_finish.max(initial=0.0))
