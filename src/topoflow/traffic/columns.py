"""Builder of a traffic: each call adds a run of similar tasks as arrays.

Tasks are numbered in the order in which they are added. A dependency may be added at any time after both tasks, also
several times. Tasks that occur often, such as those of every microbatch, are written once in a ``part`` and pasted:
pastes and the dependencies between them (``follow``) become arrays all at once.

Shapes: n tasks of a run, K tasks, D dependencies, P pastes of a part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from topoflow.arrays import Floats, Ints, Offsets, distinct, offsets
from topoflow.traffic.base import Traffic
from topoflow.traffic.tasks import COLLECTIVE, COMPUTE, NONE, TRANSFER, Label, Operation


class PastedTasks(NamedTuple):
    """The tasks ``first + offset``, none where ``offset`` is NONE. Equal pastes share the array ``offset``."""

    first: int
    offset: Offsets

    @property
    def numbers(self) -> Offsets:
        """Return the numbers of the tasks."""
        return np.where(self.offset == NONE, NONE, self.first + self.offset)


class Columns:
    """The tasks that were added so far."""

    def __init__(self) -> None:
        self.tasks = 0  # K
        self._runs: dict[str, list[tuple[int, int, Any]]] = {}  # column -> first, number, values
        self._labels: dict[Label, int] = {}
        self._operations: dict[Operation, int] = {}
        self._waits: list[tuple[Offsets, Offsets]] = []
        self._queued: dict[int, int] = {}
        self._pasted: dict[Columns, tuple[list[int], list[list[int]]]] = {}  # part -> first task and labels of pastes
        # offsets of the tasks and of the earlier ones, by identity -> these, and their first tasks in turn
        self._followed: dict[tuple[int, int], tuple[Offsets, Offsets, list[int]]] = {}

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

    def part(self) -> Columns:
        """Return an empty builder of tasks that are pasted here; it shares the rows of operations."""
        part = Columns()
        part._operations = self._operations
        return part

    def paste(self, part: Columns, labels: Sequence[Label]) -> int:
        """Add the tasks of ``part`` and their dependencies, with other ``labels``. Return the first task."""
        first, self.tasks = self.tasks, self.tasks + part.tasks
        firsts, numbers = self._pasted.setdefault(part, ([], []))
        firsts.append(first)
        numbers.append([self._labels.setdefault(label, len(self._labels)) for label in labels])
        return first

    def follow(self, tasks: PastedTasks, earlier: PastedTasks) -> None:
        """Let ``tasks`` wait for ``earlier`` ones; each waits for all in its row where these have more axes."""
        key = id(tasks.offset), id(earlier.offset)
        self._followed.setdefault(key, (tasks.offset, earlier.offset, []))[2].extend((tasks.first, earlier.first))

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
        for part, (firsts, labels) in self._pasted.items():
            if name in part._runs:
                values = part._column(name, dtype, default)
                column[_shifted(firsts, np.arange(part.tasks))] = (
                    np.array(labels)[:, values] if name == "label" else values
                )
        return column

    def _after(self) -> tuple[Offsets, Offsets]:
        """Return offsets [K+1] and tasks [D] of the dependencies."""
        waits = [*self._pairs()]
        if not waits:
            return np.zeros(self.tasks + 1, np.int64), np.zeros(0, np.int64)
        key = distinct(np.concatenate([task * self.tasks + earlier for task, earlier in waits]))
        task, earlier = np.divmod(key, max(self.tasks, 1))
        return offsets(np.bincount(task, minlength=self.tasks)), earlier

    def _pairs(self) -> Iterator[tuple[Offsets, Offsets]]:
        """Yield tasks, and for each an earlier one that it waits for."""
        if self._waits:
            task, earlier = (np.concatenate(side) for side in zip(*self._waits, strict=True))
            exists = earlier != NONE
            yield task[exists], earlier[exists]
        for part, (firsts, _) in self._pasted.items():
            for task, earlier in part._pairs():
                yield _shifted(firsts, task).ravel(), _shifted(firsts, earlier).ravel()
        for offset, before, firsts in self._followed.values():
            task = np.broadcast_to(offset.reshape(offset.shape + (1,) * (before.ndim - offset.ndim)), before.shape)
            exists = before != NONE
            yield _shifted(firsts[::2], task[exists]).ravel(), _shifted(firsts[1::2], before[exists]).ravel()


def _shifted(firsts: Sequence[int], offset: Offsets) -> Offsets:
    """Return [P, n] the tasks at ``offset`` [n] from each of ``firsts`` [P]."""
    return np.array(firsts, np.int64)[:, None] + offset
