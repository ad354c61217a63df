"""Traffic: tasks with dependencies. Compute, transfers, and collectives that are still *mutable*:
who takes part and how much is fixed, the ring order is not (TopoOpt 4.3)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from topoflow.demand import Demand
from topoflow.units import check_not_negative, check_positive

COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce", "gather", "scatter")


@dataclass(frozen=True)
class Compute:
    """``seconds`` of a server's compute, which is one resource: its tasks run one at a time, in listed order.

    ``server=None`` occupies nobody: a plain delay.
    """

    seconds: float
    server: int | None
    after: tuple[int, ...] = ()
    name: str = ""
    start: float = 0.0  # s, not before


@dataclass(frozen=True)
class Subflow:
    """The share ``weight`` of a transfer's bytes, over ``links`` of one fabric."""

    links: tuple[int, ...]
    weight: float = 1.0


@dataclass(frozen=True)
class Transfer:
    """``bytes`` from ``source`` to ``target``, at most ``limit`` (B/s) of them at a time.

    ``subflows`` override the fabric's routes; their weights are positive and sum to 1, up to 1e-9.
    """

    bytes: float
    source: int
    target: int
    after: tuple[int, ...] = ()
    name: str = ""
    start: float = 0.0
    subflows: tuple[Subflow, ...] = ()
    limit: float = math.inf


@dataclass(frozen=True)
class Collective:
    """``op`` among ``group``, of ``bytes``.

    Bytes are the full buffer S of one member, as nccl-tests counts it: the reduced buffer of an all-reduce,
    the gathered output of an all-gather, the full input of a reduce-scatter, what one member hands to the whole
    group in an all-to-all (S/n to each), the buffer of a broadcast or reduce, the root's buffer of a gather
    or scatter. ``splits[i][j]`` (bytes from member i to member j) replaces S for an uneven all-to-all.
    ``root`` is a server, for rooted collectives. ``local`` members of the group share each server
    (``local_bandwidth`` B/s between them): a hierarchical collective does its inside part there.
    """

    op: str
    bytes: float
    group: tuple[int, ...]
    after: tuple[int, ...] = ()
    name: str = ""
    start: float = 0.0
    root: int | None = None
    splits: tuple[tuple[float, ...], ...] | None = None
    local: int = 1
    algorithm: str | None = None  # None: the simulation's default for this op


Task = Compute | Transfer | Collective


@dataclass(frozen=True)
class Traffic:
    """The tasks of one iteration over ``servers`` endpoints.

    Laws: every ``after`` names earlier tasks (so there is no cycle), every server is within ``servers``, times
    and bytes are not negative.
    """

    name: str
    servers: int
    tasks: tuple[Task, ...]
    local_bandwidth: float = float("inf")  # B/s between members that share a server

    def __post_init__(self) -> None:
        for position, task in enumerate(self.tasks):
            if task.after and not 0 <= min(task.after) <= max(task.after) < position:
                where = _where(position, task)
                raise ValueError(f"{where}.after: must name earlier tasks, got {list(task.after)}")
            _check_amount(position, task, "start", task.start)
            if isinstance(task, Compute):
                _check_amount(position, task, "seconds", task.seconds)
                members: tuple[int, ...] = () if task.server is None else (task.server,)
            else:
                _check_amount(position, task, "bytes", task.bytes)
                members = (task.source, task.target) if isinstance(task, Transfer) else task.group
            if members and not 0 <= min(members) <= max(members) < self.servers:
                where = _where(position, task)
                raise ValueError(f"{where}: servers must be within 0..{self.servers - 1}, got {list(members)}")
            if isinstance(task, Collective):
                _check_collective(position, task)
            elif isinstance(task, Transfer):
                _check_transfer(position, task)

    def demand(self) -> Demand:
        """What a network is asked for: transfers and all collectives but all-reduce as bytes between pairs of servers.

        Of all-reduces the bytes of the buffer, summed over those of a group.
        """
        source: list[int] = []
        target: list[int] = []
        bytes: list[float] = []
        groups: dict[tuple[int, ...], float] = {}
        for task in self.tasks:
            if isinstance(task, Transfer):
                source.append(task.source)
                target.append(task.target)
                bytes.append(task.bytes)
            elif isinstance(task, Collective) and task.op == "all_reduce":
                if len(task.group) > 1:
                    groups[task.group] = groups.get(task.group, 0.0) + task.bytes
            elif isinstance(task, Collective):
                source += np.repeat(task.group, len(task.group)).tolist()
                target += task.group * len(task.group)
                bytes += pair_bytes(task).ravel().tolist()
        return Demand.from_pairs(self.servers, source, target, bytes, groups)


def _where(position: int, task: Task) -> str:
    return f"task {task.name or position}"


def _check_amount(position: int, task: Task, field: str, value: float) -> None:
    """Not negative; what is plainly so, as of most tasks, is not looked at twice."""
    if not (type(value) in (float, int) and 0 <= value < math.inf):
        check_not_negative(f"{_where(position, task)}.{field}", value)


def _check_transfer(position: int, task: Transfer) -> None:
    if task.limit == math.inf and not task.subflows:
        return
    where = _where(position, task)
    for index, subflow in enumerate(task.subflows):
        check_positive(f"{where}.subflows[{index}].weight", subflow.weight)
    total = math.fsum(subflow.weight for subflow in task.subflows)
    if task.subflows and abs(total - 1) > 1e-9:
        raise ValueError(f"{where}.subflows: weights must sum to 1, got {total}")
    if not task.limit > 0:
        raise ValueError(f"{where}.limit: must be positive, got {task.limit}")
    if task.limit < math.inf and task.source == task.target:
        raise ValueError(f"{where}.limit: must be of a transfer between two servers, got {task.limit}")


def _check_collective(position: int, task: Collective) -> None:
    where, size = _where(position, task), len(task.group)
    if task.op not in COLLECTIVES:
        raise ValueError(f"{where}.op: must be one of {', '.join(COLLECTIVES)}, got {task.op!r}")
    if not task.group or len(set(task.group)) != size:
        raise ValueError(f"{where}.group: must name each server once, got {list(task.group)}")
    if task.op in ("broadcast", "reduce", "gather", "scatter") and task.root not in task.group:
        raise ValueError(f"{where}.root: must be in the group, got {task.root}")
    if task.splits is not None and [len(row) for row in task.splits] != [size] * size:
        raise ValueError(f"{where}.splits: expected [{size}, {size}], got {[len(row) for row in task.splits]}")


def pair_bytes(task: Collective) -> NDArray[np.float64]:
    """Bytes [n, n] from server i to server j of the group that ``task`` asks for, if every pair talked directly.

    all_to_all: ``local`` S/n to each, as each of the ``local`` members of a server hands S/n to those of the other (or
    ``splits``). all_gather and reduce_scatter: S/n from each to each. broadcast and reduce: S between the root and
    each. scatter and gather: S/n between the root and each.
    """
    size = len(task.group)
    if task.splits is not None:
        return np.asarray(task.splits, dtype=np.float64)
    matrix = np.zeros((size, size))
    if task.op == "all_to_all":
        matrix[:] = task.local * task.bytes / size
    elif task.op in ("all_gather", "reduce_scatter"):
        matrix[:] = task.bytes / size
    elif task.op in ("broadcast", "scatter"):
        matrix[task.group.index(task.root), :] = task.bytes / (size if task.op == "scatter" else 1)
    elif task.op in ("reduce", "gather"):
        matrix[:, task.group.index(task.root)] = task.bytes / (size if task.op == "gather" else 1)
    np.fill_diagonal(matrix, 0.0)
    return matrix
