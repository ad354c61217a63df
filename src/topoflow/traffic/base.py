"""Traffic: the tasks of one iteration with their dependencies, as columns.

Tasks are compute, transfers, and collectives that are still *mutable*: members and bytes are fixed, the ring order is
not (TopoOpt 4.3). ``Compute``, ``Transfer`` and ``Collective`` are single tasks as objects, to write few tasks
(``Traffic.from_tasks``) and to read some (``Traffic.tasks``).

Shapes: K tasks, D dependencies, O operations, S labels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, repeat

import numpy as np
from numpy.typing import NDArray

from topoflow.arrays import Floats, Ints, Mask, Offsets, offsets
from topoflow.demand import Demand
from topoflow.operations import ring_passes
from topoflow.traffic.laws import check, check_object
from topoflow.traffic.tasks import (
    COLLECTIVE,
    COMPUTE,
    NONE,
    TRANSFER,
    Collective,
    Compute,
    Label,
    Operation,
    Subflow,
    Task,
    Transfer,
    pair_bytes,
)

__all__ = [
    "Collective",
    "Compute",
    "Label",
    "Operation",
    "Subflow",
    "Task",
    "Traffic",
    "Transfer",
    "pair_bytes",
]


ALL = slice(None)


def _none() -> Ints:
    return np.zeros(0, np.int32)


@dataclass(frozen=True, eq=False)
class Traffic:
    """The tasks of one iteration over ``servers`` endpoints, in an order in which they could run one by one.

    Constraints: every ``after`` names earlier tasks (so there is no cycle), every server is within ``servers``, times
    and bytes are not negative. Raises ``ValueError`` for the first task that violates one.

    A ``queued`` collective waits for the previous one on its communicator, which is also in ``after``, because the
    communicator runs one at a time. Collectives with phases (``collectives.hierarchical``) wait phase by phase.

    Where all servers have ``ranks_per_server``, a collective stands for equal groups of ``local`` members each, which
    run side by side on all ranks of its servers.

    A server runs its computes one at a time, in the order of the tasks. Computes with a ``resource`` run one at a time
    on it instead, in the order in which they become ready.

    A job with too many rounds to write each task has the tasks of one round and the number of ``rounds``. From the
    second round on, a task also waits for itself, and for its ``carried`` tasks, of the previous round.
    """

    name: str
    servers: int
    kind: NDArray[np.int8]  # [K] COMPUTE, TRANSFER, COLLECTIVE
    seconds: Floats  # [K] s of a compute
    bytes: Floats  # [K] B of a transfer or a collective
    release: Floats  # [K] s, earliest start
    server: Ints  # [K] server of a compute; NONE: it occupies no server
    source: Ints  # [K] source server of a transfer
    target: Ints  # [K] target server of a transfer
    operation: Ints  # [K] row in ``operations`` of a collective
    after_offsets: Offsets  # [K+1]
    after: Offsets  # [D] tasks
    operations: tuple[Operation, ...] = ()  # [O]
    label: Ints = field(default_factory=_none)  # [K] row in ``labels``; empty if no task has a name
    labels: tuple[Label, ...] = ()  # [S]
    numbers: Ints = field(default_factory=_none)  # [K] number in the name of a task; NONE: none; empty if none has one
    limit: Mapping[int, float] = field(default_factory=dict)  # transfer -> largest rate in B/s; others have no limit
    subflows: Mapping[int, tuple[Subflow, ...]] = field(default_factory=dict)  # transfer -> paths in place of routes
    local_bandwidth: float = math.inf  # B/s between members that share a server
    ranks_per_server: int | None = None  # None: a collective is one group
    resource: Ints = field(default_factory=_none)  # [K] resource of a compute; NONE: none; empty if none has one
    queued: Mapping[int, int] = field(default_factory=dict)  # collective -> the previous one on its communicator
    rounds: int = 1  # how often every task runs
    idle: Mapping[int, float] = field(default_factory=dict)  # server -> s that its GPU waits for its host; others: 0
    carried: tuple[Offsets, Offsets] | None = None  # [C] tasks and those of the previous round that they wait for

    def __post_init__(self) -> None:
        check(self)

    def __repr__(self) -> str:
        counts = [int(np.count_nonzero(self.kind == kind)) for kind in (COMPUTE, TRANSFER, COLLECTIVE)]
        what = "{:,} of compute, {:,} transfers, {:,} collectives".format(*counts)
        return f"<traffic {self.name}: {self.servers} servers, {len(self.kind):,} tasks: {what}>"

    @staticmethod
    def from_tasks(
        name: str,
        servers: int,
        tasks: Sequence[Task],
        local_bandwidth: float = math.inf,
        idle: Mapping[int, float] | None = None,
    ) -> Traffic:
        """Return a traffic from single tasks."""
        for position, task in enumerate(tasks):
            check_object(position, task, servers)
        rows: dict[Operation, int] = {}
        labels: dict[str, int] = {}
        compute = [isinstance(task, Compute) for task in tasks]
        transfers = {index: task for index, task in enumerate(tasks) if isinstance(task, Transfer)}
        ends = [(t.source, t.target) if isinstance(t, Transfer) else (NONE, NONE) for t in tasks]
        return Traffic(
            name=name,
            servers=servers,
            kind=np.array(
                [COMPUTE if c else TRANSFER if i in transfers else COLLECTIVE for i, c in enumerate(compute)], np.int8
            ),
            seconds=np.array([task.seconds if isinstance(task, Compute) else 0.0 for task in tasks], np.float64),
            bytes=np.array([0.0 if isinstance(task, Compute) else task.bytes for task in tasks], np.float64),
            release=np.array([task.start for task in tasks], np.float64),
            server=np.array([_server(task) for task in tasks], np.int32),
            source=np.array([source for source, _ in ends], np.int32),
            target=np.array([target for _, target in ends], np.int32),
            operation=np.array([_row(rows, task) for task in tasks], np.int32),
            after_offsets=offsets(len(task.after) for task in tasks),
            after=np.fromiter(chain.from_iterable(task.after for task in tasks), np.int64),
            operations=tuple(rows),
            label=np.array([labels.setdefault(task.name, len(labels)) for task in tasks], np.int32),
            labels=tuple(Label(name) for name in labels),
            limit={index: task.limit for index, task in transfers.items() if task.limit != math.inf},
            subflows={index: task.subflows for index, task in transfers.items() if task.subflows},
            local_bandwidth=local_bandwidth,
            idle=idle or {},
            resource=_resources(tasks),
        )

    def __len__(self) -> int:
        """Return the number of tasks K."""
        return len(self.kind)

    @cached_property
    def tasks(self) -> tuple[Task, ...]:
        """Return [K] every task as an object, which is slow for a large job; the columns hold the same."""
        return tuple(self._task(index) for index in range(len(self)))

    def _task(self, index: int) -> Task:
        dependencies = slice(self.after_offsets[index], self.after_offsets[index + 1])
        after, name = tuple(self.after[dependencies].tolist()), self.task_name(index)
        start, bytes = float(self.release[index]), float(self.bytes[index])
        if self.kind[index] == COMPUTE:
            server = int(self.server[index])
            resource = int(self.resource[index]) if self.resource.size else NONE
            seconds, occupied = float(self.seconds[index]), None if resource == NONE else resource
            return Compute(seconds, None if server == NONE else server, after, name, start, occupied)
        if self.kind[index] == COLLECTIVE:
            operation: Operation = self.operations[int(self.operation[index])]
            return operation.task(bytes, after, name, start)
        ends = int(self.source[index]), int(self.target[index])
        subflows, limit = self.subflows.get(index, ()), self.limit.get(index, math.inf)
        return Transfer(bytes, *ends, after, name, start, subflows, limit)

    @property
    def is_compute(self) -> Mask:
        """Return [K] whether each task is a compute."""
        return np.equal(self.kind, COMPUTE)

    @property
    def is_transfer(self) -> Mask:
        """Return [K] whether each task is a transfer."""
        return np.equal(self.kind, TRANSFER)

    @property
    def is_collective(self) -> Mask:
        """Return [K] whether each task is a collective."""
        return np.equal(self.kind, COLLECTIVE)

    @property
    def runs_in_listed_order(self) -> Mask:
        """Return [K] whether each task is a compute that follows the one before on its server."""
        on_server: Mask = self.server >= 0
        return on_server & (self.resource < 0) if self.resource.size else on_server

    def bytes_of_share(self, tasks: Offsets) -> Floats:
        """Return [n] the bytes of a share of 1 of the buffers of collectives.

        Uneven splits are given in bytes, so their share of 1 is 1 byte.
        """
        share_bytes: Floats = np.where(self._has_splits[self.operation[tasks]], 1.0, self.bytes[tasks])
        return share_bytes

    @cached_property
    def _has_splits(self) -> Mask:
        return np.array([operation.splits is not None for operation in self.operations], np.bool_)

    @cached_property
    def collectives_that_send(self) -> list[int]:
        """Return the number of collectives of each operation that send bytes."""
        sends = self.is_collective & (self.bytes > 0)
        number: list[int] = np.bincount(self.operation[sends], minlength=len(self.operations)).tolist()
        return number

    def kinds(self) -> list[str]:
        """Return [K] ``compute``, ``transfer`` or the name of the collective."""
        names, number = self.kind_numbers()
        kinds: list[str] = np.array(names, object)[number].tolist()
        return kinds

    def kind_numbers(self) -> tuple[list[str], Offsets]:
        """Return the names of all kinds, and [K] the position of each task's kind among them."""
        names = {"compute": 0, "transfer": 1}
        collectives = [names.setdefault(operation.op, len(names)) for operation in self.operations]
        number: Offsets = np.array([0, 1, *collectives])[
            np.where(self.is_collective, self.operation + 2, self.is_transfer)
        ]
        return list(names), number

    def names(self, tasks: Offsets | slice = ALL) -> list[str]:
        """Return the names of all tasks [K], or of ``tasks`` [n]; a task without a name has ""."""
        columns = self.kind[tasks], self.source[tasks], self.target[tasks], self.server[tasks]
        if not self.labels:
            return [""] * len(columns[0])
        labels = map(self.labels.__getitem__, self.label[tasks].tolist())
        numbers = self.numbers[tasks].tolist() if self.numbers.size else repeat(NONE)
        return list(map(_name, labels, numbers, *(column.tolist() for column in columns)))

    def task_name(self, task: int) -> str:
        """Return the name of a task; "" if it has none."""
        if not self.labels:
            return ""
        (name,) = self.names(np.array([task]))
        return name

    def where(self, task: int) -> str:
        """Return a task's description for an error message."""
        return f"task {self.task_name(task) or task}"

    def demand(self) -> Demand:
        """Return the demand on a network.

        Transfers, and collectives whose ranks cannot be reordered, are bytes by pair. All-reduces are bytes of the
        buffer, summed by group. All-gathers and reduce-scatters run on the same rings, in any order, and count as half
        an all-reduce each.
        """
        collectives = np.flatnonzero(self.is_collective)
        in_pairs = np.array([not ring_passes(operation.op) for operation in self.operations], np.bool_)
        paired = collectives[in_pairs[self.operation[collectives]]] if len(in_pairs) else collectives
        spread = {task: self._pairs(task) for task in paired.tolist()}
        transfers = np.flatnonzero(self.is_transfer)
        order = np.concatenate([transfers, *(np.full(len(pairs[0]), task) for task, pairs in spread.items())])
        rank = np.argsort(order, kind="stable")  # bytes are summed in the order of the tasks
        columns = self.source[transfers], self.target[transfers], self.bytes[transfers]
        source, target, bytes = (
            np.concatenate([column, *(pairs[number] for pairs in spread.values())])[rank]
            for number, column in enumerate(columns)
        )
        return Demand.from_pairs(self.servers, source, target, bytes * self.rounds, self._reduced())

    def _reduced(self) -> dict[tuple[int, ...], float]:
        """Return the bytes of all-reduces by group; all-gathers and reduce-scatters count half."""
        on_rings = [ring_passes(operation.op) > 0 and len(operation.group) > 1 for operation in self.operations]
        reduces = np.array(on_rings, np.bool_)
        collectives = np.flatnonzero(self.is_collective)
        tasks = collectives[reduces[self.operation[collectives]]] if len(reduces) else collectives
        numbers: dict[tuple[int, ...], int] = {}
        group = np.array([numbers.setdefault(operation.group, len(numbers)) for operation in self.operations], np.int64)
        share = np.array([ring_passes(operation.op) / ring_passes("all_reduce") for operation in self.operations])
        row = self.operation[tasks]
        bytes = np.bincount(group[row], share[row] * self.bytes[tasks] * self.rounds, len(numbers)).tolist()
        groups = [*numbers]
        return {groups[number]: bytes[number] for number in dict.fromkeys(group[row].tolist())}

    def _pairs(self, task: int) -> tuple[Offsets, Offsets, Floats]:
        """Return source, target and bytes of every pair of members of a collective."""
        operation = self.operations[self.operation[task]]
        group = np.array(operation.group, np.int64)
        size = len(group)
        return np.repeat(group, size), np.tile(group, size), pair_bytes(operation, float(self.bytes[task])).ravel()


def _name(label: Label, number: int, kind: int, source: int, target: int, server: int) -> str:
    name = label.stem if number == NONE else f"{label.stem}{number}{label.rest}"
    if not label.ends:
        return name
    return f"{name} {source}>{target}" if kind == TRANSFER else f"{name} @{server}"


def _server(task: Task) -> int:
    return task.server if isinstance(task, Compute) and task.server is not None else NONE


def _resources(tasks: Sequence[Task]) -> Ints:
    """Return [K] the resource of each task; empty if none has one."""
    resource = [task.resource if isinstance(task, Compute) and task.resource is not None else NONE for task in tasks]
    return np.array(resource if any(number != NONE for number in resource) else [], np.int32)


def _row(rows: dict[Operation, int], task: Task) -> int:
    """Return the row of a collective's operation, which is added at its first use."""
    return rows.setdefault(Operation.of(task), len(rows)) if isinstance(task, Collective) else NONE
