"""Builder of a traffic: each call adds a run of similar tasks as arrays.

Tasks are numbered in the order in which they are added. A dependency may be added at any time after both tasks, also
several times. Tasks that occur often, such as those of every microbatch, are written once in a ``part`` and pasted:
pastes and the dependencies between them (``Followed``) become arrays all at once.

Shapes: n tasks of a run, K tasks, D dependencies, P pastes of a part.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from topoflow.arrays import Floats, Ints, Offsets, distinct, offsets, rows_of
from topoflow.traffic.base import Traffic
from topoflow.traffic.tasks import COLLECTIVE, COMPUTE, NONE, TRANSFER, Label, Operation

Pairs = tuple[Offsets, Offsets]  # tasks, and for each an earlier one that it waits for
NO_PAIRS: Pairs = np.zeros(0, np.int64), np.zeros(0, np.int64)


class PastedTasks(NamedTuple):
    """The tasks ``first + offset``, none where ``offset`` is NONE. Equal pastes share the array ``offset``."""

    first: int
    offset: Offsets


class Part:
    """Tasks that are pasted into others (``Columns.part``)."""

    def __init__(self, number: int, labels: dict[Label, int], operations: dict[Operation, int]) -> None:
        self.number = number  # of the part
        self.tasks = 0  # K
        self._runs: dict[str, list[tuple[int, int, Any]]] = {}  # column -> first, number, values
        self._labels, self._operations = labels, operations
        self._waits: list[Pairs] = []

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

    def fill(self, column: NDArray[Any], name: str, begin: int) -> None:
        """Write the values of the runs into a ``column`` where the tasks begin at ``begin``."""
        for first, end, values in self._runs.get(name, ()):
            column[begin + first : begin + end] = values

    def waited(self) -> Pairs:
        """Return tasks, and for each an earlier one that it waits for, without those of pastes."""
        if not self._waits:
            return NO_PAIRS
        task, earlier = (np.concatenate(side) for side in zip(*self._waits, strict=True))
        exists = earlier != NONE
        return task[exists], earlier[exists]


class Columns(Part):
    """The tasks that were added so far."""

    def __init__(self) -> None:
        super().__init__(NONE, {}, {})
        self._queued: dict[int, int] = {}
        self._parts: list[Part] = []
        self._pasted: list[int] = []  # part, first task and number of each paste, in turn
        self.followed = Followed()
        self.followed_in_queues = Followed()  # those of the same communicators, as in ``queue``; they are in both

    def queue(self, tasks: Offsets, earlier: Offsets) -> None:
        """Let collectives [n] wait for the ``earlier`` ones [n] of their communicators; NONE is none.

        Collectives with phases wait phase by phase.
        """
        self.wait(tasks, earlier)
        pairs = zip(tasks.tolist(), earlier.tolist(), strict=True)
        self._queued |= {task: before for task, before in pairs if before != NONE}

    def part(self) -> Part:
        """Return an empty builder of tasks that are pasted here; it shares the rows of labels and operations."""
        part = Part(len(self._parts), self._labels, self._operations)
        self._parts.append(part)
        return part

    def paste(self, part: Part, number: int = NONE) -> int:
        """Add the tasks of ``part`` and their dependencies, with a ``number`` in their names. Return the first task."""
        first, self.tasks = self.tasks, self.tasks + part.tasks
        self._pasted += (part.number, first, number)
        return first

    def traffic(self, name: str, servers: int, local_bandwidth: float, ranks_per_server: int | None = None) -> Traffic:
        """Return the traffic of all tasks; dependencies of a task are distinct and ascending."""
        after_offsets, after = self._after()
        queued = zip(*(tasks.tolist() for tasks in self.followed_in_queues.pairs()), strict=True)
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
            queued=self._queued | dict(queued),
            numbers=self._numbers(),
        )

    @cached_property
    def _pastes(self) -> tuple[Offsets, Offsets, Offsets]:
        """Return [P] the part, the first task and the number of each paste."""
        part, first, number = np.array(self._pasted, np.int64).reshape(-1, 3).T
        return part, first, number

    @cached_property
    def _rows(self) -> tuple[Offsets, Offsets, Offsets]:
        """Return [P] how many tasks each paste has, these tasks, and [K] the place of each task in those of all parts.

        A task that was not pasted has the place after them.
        """
        part, first, _ = self._pastes
        begin = offsets(part.tasks for part in self._parts)
        begins, row = rows_of(begin, part)
        count = np.diff(begins)
        pasted = np.arange(begins[-1]) + np.repeat(first - begins[:-1], count)
        rows = np.full(self.tasks, begin[-1])
        rows[pasted] = row
        return count, pasted, rows

    def _numbers(self) -> Ints:
        """Return [K] the number of the paste of each task; NONE: it was not pasted."""
        numbers, (count, pasted, _) = np.full(self.tasks, NONE, np.int32), self._rows
        numbers[pasted] = np.repeat(self._pastes[2], count)
        return numbers

    def _column(self, name: str, dtype: type, default: float) -> NDArray[Any]:
        of_parts: NDArray[Any] = np.full(sum(part.tasks for part in self._parts) + 1, default, dtype)
        first = 0
        for part in self._parts:
            part.fill(of_parts, name, first)
            first += part.tasks
        column = of_parts[self._rows[2]]
        self.fill(column, name, 0)
        return column

    def _after(self) -> tuple[Offsets, Offsets]:
        """Return offsets [K+1] and tasks [D] of the dependencies."""
        part, first, _ = self._pastes
        inside = [part.waited() for part in self._parts]
        waits = [self.waited(), _repeated(inside, part, first, first), self.followed.pairs()]
        key = distinct(np.concatenate([task * self.tasks + earlier for task, earlier in waits]))
        task, earlier = np.divmod(key, max(self.tasks, 1))
        return offsets(np.bincount(task, minlength=self.tasks)), earlier


class Followed:
    """Pasted tasks, and the earlier ones that they wait for."""

    def __init__(self) -> None:
        # offsets of the tasks and of the earlier ones, by identity -> these, and their number
        self._patterns: dict[tuple[int, int], tuple[int, Offsets, Offsets]] = {}
        self._added: list[int] = []  # number of the pattern, first task and first earlier one, in turn

    def add(self, tasks: PastedTasks, earlier: PastedTasks) -> None:
        """Add tasks that wait for ``earlier`` ones; each waits for all in its row where these have more axes."""
        key = id(tasks.offset), id(earlier.offset)
        pattern = self._patterns.get(key)
        if pattern is None:
            pattern = self._patterns[key] = len(self._patterns), tasks.offset, earlier.offset
        self._added += (pattern[0], tasks.first, earlier.first)

    def pairs(self) -> Pairs:
        """Return tasks, and for each an earlier one that it waits for."""
        inside = []
        for _, offset, before in self._patterns.values():
            task = np.broadcast_to(offset.reshape(offset.shape + (1,) * (before.ndim - offset.ndim)), before.shape)
            exists = before != NONE
            inside.append((task[exists], before[exists]))
        return _repeated(inside, *np.array(self._added, np.int64).reshape(-1, 3).T)


def _repeated(inside: Sequence[Pairs], number: Offsets, first: Offsets, first_earlier: Offsets) -> Pairs:
    """Return the pairs of each ``number`` in turn: tasks count from ``first``, earlier ones from ``first_earlier``."""
    if not inside:
        return NO_PAIRS
    task, earlier = (np.concatenate(side) for side in zip(*inside, strict=True))
    begins, row = rows_of(offsets(len(tasks) for tasks, _ in inside), number)
    count = np.diff(begins)
    return task[row] + np.repeat(first, count), earlier[row] + np.repeat(first_earlier, count)
