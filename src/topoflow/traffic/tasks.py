"""Single tasks as objects; ``base`` has them as columns."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np

from topoflow.arrays import Floats

COMPUTE, TRANSFER, COLLECTIVE = range(3)  # kinds of tasks
NONE = -1  # no server, no operation


@dataclass(frozen=True)
class Compute:
    """A computation of ``seconds``. A server runs its computations one at a time, in listed order.

    ``server`` None is a delay that occupies no server. Computations with a ``resource``, such as a stream of a GPU, run
    one at a time on it, in the order in which they become ready instead; of equal ones the first listed runs first.
    """

    seconds: float
    server: int | None
    after: tuple[int, ...] = ()
    name: str = ""
    start: float = 0.0  # s, earliest start
    resource: int | None = None


@dataclass(frozen=True)
class Subflow:
    """The share ``weight`` of a transfer's bytes that goes over ``links``, a path of the fabric."""

    links: tuple[int, ...]
    weight: float = 1.0


@dataclass(frozen=True)
class Transfer:
    """A transfer of ``bytes`` from ``source`` to ``target`` at a rate of at most ``limit`` (B/s).

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
    """A collective ``op`` of ``bytes`` among ``group``.

    Bytes are the full buffer S of one member, as in nccl-tests: the reduced buffer of an all-reduce, the gathered
    output of an all-gather, the full input of a reduce-scatter, the input of one member of an all-to-all (S/n to each),
    the buffer of a broadcast or reduce, the root's buffer of a gather or scatter. ``splits[i][j]`` (bytes from member i
    to member j) replaces S for an uneven all-to-all. ``root`` is a server, for rooted collectives. ``local`` members of
    the group share each server (``local_bandwidth`` B/s between them), where a hierarchical collective has its inner
    phases. They are ``stride`` GPUs apart, which counts where a server stands for several nodes. Of groups that run
    side by side on the same servers, ``bytes`` sums one member of each. ``calls`` of NCCL, one after the other, have
    equal parts of the bytes.
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
    stride: int = 1
    algorithm: str | None = None  # None: the simulation's default for this op
    calls: int = 1


Task = Compute | Transfer | Collective


@dataclass(frozen=True)
class Operation:
    """A collective without its bytes (see ``Collective``); many tasks share an operation."""

    op: str
    group: tuple[int, ...]
    local: int = 1
    stride: int = 1
    root: int | None = None
    splits: tuple[tuple[float, ...], ...] | None = None
    algorithm: str | None = None
    calls: int = 1

    @staticmethod
    def of(task: Collective) -> Operation:
        """Return the operation of ``task``."""
        return Operation(**{field.name: getattr(task, field.name) for field in fields(Operation)})

    def task(self, bytes: float, after: tuple[int, ...] = (), name: str = "", start: float = 0.0) -> Collective:
        """Return a collective of ``bytes`` with this operation."""
        return Collective(bytes=bytes, after=after, name=name, start=start, **vars(self))


def spans_nodes(task: Operation | Collective, per_node: int) -> bool:
    """Return whether the members on a server are on several of its nodes of ``per_node`` GPUs each."""
    return (task.local - 1) * task.stride + 1 > per_node


class Label(NamedTuple):
    """The name of tasks. With ``ends``, the servers follow: ``forward top0 @3``, ``activations top0 1>3``.

    A task with a number, such as its microbatch, has this after the ``stem``, and then the ``rest``.
    """

    stem: str
    ends: bool = False
    rest: str = ""


def pair_bytes(operation: Operation, bytes: float) -> Floats:
    """Return the bytes [n, n] that server i of the group sends to server j if every pair communicates directly.

    all_to_all: ``local`` S/n to each server, since each of its ``local`` members gets S/n (or ``splits``). broadcast
    and reduce: S between the root and each. scatter and gather: S/n between the root and each. Operations on rings have
    no demand between pairs (``Traffic.demand``).
    """
    size = len(operation.group)
    if operation.splits is not None:
        return np.asarray(operation.splits, dtype=np.float64)
    matrix = np.zeros((size, size))
    if operation.op == "all_to_all":
        matrix[:] = operation.local * bytes / size
    elif operation.op in ("broadcast", "scatter"):
        matrix[operation.group.index(operation.root), :] = bytes / (size if operation.op == "scatter" else 1)
    else:
        assert operation.op in ("reduce", "gather"), operation.op
        matrix[:, operation.group.index(operation.root)] = bytes / (size if operation.op == "gather" else 1)
    np.fill_diagonal(matrix, 0.0)
    return matrix
