"""Builder of a traffic: each call adds a run of similar tasks as arrays.

Tasks are numbered in the order in which they are added. A dependency may be added at any time after both tasks, also
several times. Shapes: n tasks of a run, K tasks, D dependencies.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from topoflow.arrays import Floats, Ints, Offsets, distinct, offsets
from topoflow.traffic.base import Traffic
from topoflow.traffic.tasks import COLLECTIVE, COMPUTE, NONE, TRANSFER, Label, Operation


class Columns:
    """The tasks that were added so far."""

    def __init__(self) -> None:
        self.tasks = 0  # K
        self._runs: dict[str, list[tuple[int, int, Any]]] = {}  # column -> first, number, values
        self._labels: dict[Label, int] = {}
        self._operations: dict[Operation, int] = {}
        self._waits: list[tuple[Offsets, Offsets]] = []
        self._queued: dict[int, int] = {}

    def compute(self, label: Label, server: Ints | Offsets, seconds: float | Floats) -> Offsets:
        """Add ``seconds`` on each ``server`` [n]; NONE is a delay that occupies no server. Return the tasks [n]."""
        return self.run(label, len(server), kind=COMPUTE, server=server, seconds=seconds)

    def transfer(self, label: Label, source: Offsets, target: Offsets, bytes: float | Floats) -> Offsets:
        """Add ``bytes`` from each ``source`` [n] to its ``target`` [n]. Return the tasks [n]."""
        return self.run(label, len(source), kind=TRANSFER, source=source, target=target, bytes=bytes)

    def collective(self, label: Label, operation: Ints | Offsets, bytes: float | Floats) -> Offsets:
        """Add collectives of ``bytes``, whose ``operation`` [n] are rows (``row``). Return the tasks [n]."""
        return self.run(label, len(operation), kind=COLLECTIVE, operation=operation, bytes=bytes)

    def run(self, label: Label, number: int, **columns: ArrayLike) -> Offsets:
        """Add ``number`` tasks of several kinds by columns of ``Traffic`` [n]. Return the tasks [n].

        A missing column has the value of a delay of 0 s.
        """
        first, self.tasks = self.tasks, self.tasks + number
        columns["label"] = self._labels.setdefault(label, len(self._labels))
        for name, values in columns.items():
            self._runs.setdefault(name, []).append((first, first + number, values))
        return np.arange(first, self.tasks)

    def row(self, operation: Operation) -> int:
        """Return the row of ``operation``, which is added at its first use."""
        return self._operations.setdefault(operation, len(self._operations))

    def wait(self, tasks: Offsets, earlier: Offsets) -> None:
        """Let each of ``tasks`` wait for the corresponding one of ``earlier``; NONE is none. Shapes broadcast."""
        if tasks.shape != earlier.shape:
            tasks, earlier = tasks + 0 * earlier, earlier + 0 * tasks  # np.broadcast_arrays is ten times as slow
        self._waits.append((tasks.ravel(), earlier.ravel()))

    def queue(self, tasks: Offsets, earlier: Offsets) -> None:
        """Let collectives [n] wait for the ``earlier`` ones [n] of their communicators; NONE is none.

        Collectives with phases wait phase by phase.
        """
        self.wait(tasks, earlier)
        pairs = zip(tasks.tolist(), earlier.tolist(), strict=True)
        self._queued |= {task: before for task, before in pairs if before != NONE}

    def traffic(self, name: str, servers: int, local_bandwidth: float, ranks_per_server: int | None = None) -> Traffic:
        """Return the traffic of all tasks; dependencies of a task are distinct and ascending."""
        after_offsets, after = self._after()
        return Traffic(
            name=name,
            servers=servers,
            kind=self._column("kind", np.int8, COMPUTE),
            seconds=self._column("seconds", np.float64, 0.0),
            bytes=self._column("bytes", np.float64, 0.0),
            release=np.zeros(self.tasks),
            server=self._column("server", np.int32, NONE),
            source=self._column("source", np.int32, NONE),
            target=self._column("target", np.int32, NONE),
            operation=self._column("operation", np.int32, NONE),
            after_offsets=after_offsets,
            after=after,
            operations=tuple(self._operations),
            label=self._column("label", np.int32, 0),
            labels=tuple(self._labels),
            local_bandwidth=local_bandwidth,
            ranks_per_server=ranks_per_server,
            queued=self._queued,
        )

    def _column(self, name: str, dtype: type, default: float) -> NDArray[Any]:
        column: NDArray[Any] = np.full(self.tasks, default, dtype)
        for first, end, values in self._runs.get(name, ()):
            column[first:end] = values
        return column

    def _after(self) -> tuple[Offsets, Offsets]:
        """Return offsets [K+1] and tasks [D] of the dependencies."""
        if not self._waits:
            return np.zeros(self.tasks + 1, np.int64), np.zeros(0, np.int64)
        task, earlier = (np.concatenate(side) for side in zip(*self._waits, strict=True))
        exists = earlier != NONE
        key = distinct(task[exists] * self.tasks + earlier[exists])
        task, earlier = np.divmod(key, max(self.tasks, 1))
        return offsets(np.bincount(task, minlength=self.tasks)), earlier
