"""Checks of a traffic, column by column; the error names the first task that violates a constraint.

Shapes: K tasks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from topoflow.arrays import Ints, Mask, Offsets, rows_of
from topoflow.operations import COLLECTIVES, ROOTED
from topoflow.traffic.tasks import COLLECTIVE, COMPUTE, NONE, TRANSFER, Compute, Operation, Subflow, Task
from topoflow.units import check_not_negative, check_positive

if TYPE_CHECKING:
    from topoflow.traffic.base import Traffic

PER_TASK = ("seconds", "bytes", "release", "server", "source", "target", "operation")


class Violation(NamedTuple):
    """A task that violates a constraint; the lowest violation is reported."""

    task: int
    rule: int  # number of the constraint, which orders the violations of a task
    message: str


def check(traffic: Traffic) -> None:
    """Raise ``ValueError`` where a constraint of ``Traffic`` is violated."""
    tasks = len(traffic)
    for field in PER_TASK:
        if len(getattr(traffic, field)) != tasks:
            raise ValueError(f"{traffic.name}.{field}: expected [K] = [{tasks}], got [{len(getattr(traffic, field))}]")
    violation = min(_violations(traffic), default=None)
    if violation is not None:
        raise ValueError(f"{traffic.where(violation.task)}{violation.message}")


def check_object(position: int, task: Task, servers: int) -> None:
    """Raise ``ValueError`` for values that a column of numbers cannot hold."""
    where = f"task {task.name or position}"
    amounts = [("start", task.start)]
    amounts += [("seconds", task.seconds)] if isinstance(task, Compute) else [("bytes", task.bytes)]
    for field, value in amounts:
        if not (type(value) in (float, int) and 0 <= value < math.inf):  # a fast check of the common case
            check_not_negative(f"{where}.{field}", value)
    if isinstance(task, Compute) and task.server is not None and not 0 <= task.server < servers:
        raise ValueError(f"{where}{_within(servers, [task.server])}")


def _violations(traffic: Traffic) -> Iterator[Violation]:
    """Yield the first violation of each constraint."""
    count = np.diff(traffic.after_offsets)
    task = np.repeat(np.arange(len(traffic)), count)
    for first in _first_of(task[(traffic.after < 0) | (traffic.after >= task)]):
        dependencies = traffic.after[traffic.after_offsets[first] : traffic.after_offsets[first + 1]].tolist()
        yield Violation(first, 0, f".after: must name earlier tasks, got {dependencies}")
    for rule, (field, values) in enumerate(
        (("start", traffic.release), ("seconds", traffic.seconds), ("bytes", traffic.bytes)), start=1
    ):
        for first in _first(~((values >= 0) & np.isfinite(values))):
            yield Violation(first, rule, f".{field}: must not be negative, got {values[first]}")
    yield from _servers(traffic)
    yield from _resources(traffic)
    yield from _operations(traffic)
    yield from _transfers(traffic)
    yield from _queued(traffic)
    yield from _carried(traffic)


def _servers(traffic: Traffic) -> Iterator[Violation]:
    beyond, source, target = traffic.servers, traffic.source, traffic.target
    free = (traffic.kind != COMPUTE) | (traffic.server == NONE)
    for first in _first(~free & _outside(traffic.server, beyond)):
        yield Violation(first, 4, _within(beyond, [int(traffic.server[first])]))
    for first in _first((traffic.kind == TRANSFER) & (_outside(source, beyond) | _outside(target, beyond))):
        yield Violation(first, 4, _within(beyond, [int(source[first]), int(target[first])]))


def _resources(traffic: Traffic) -> Iterator[Violation]:
    if not traffic.resource.size:
        return
    if len(traffic.resource) != len(traffic):
        yield Violation(0, 5, f".resource: must have {len(traffic)} rows, got {len(traffic.resource)}")
        return
    occupies = traffic.resource != NONE
    for first in _first(occupies & ((traffic.kind != COMPUTE) | (traffic.resource < NONE))):
        yield Violation(first, 5, f".resource: must be a number of a compute, got {int(traffic.resource[first])}")
    if traffic.rounds > 1:
        for first in _first(occupies):
            yield Violation(first, 5, f".resource: must be of no task that runs in {traffic.rounds} rounds")


def _operations(traffic: Traffic) -> Iterator[Violation]:
    """Yield violations of the collectives' operations, each checked once."""
    collectives = np.flatnonzero(traffic.is_collective)
    used, first = np.unique(traffic.operation[collectives], return_index=True)
    for row, task in zip(used.tolist(), collectives[first].tolist(), strict=True):
        if not 0 <= row < len(traffic.operations):
            rule = f"must be a row of the {len(traffic.operations)} operations"
            yield Violation(task, 4, f".operation: {rule}, got {row}")
            continue
        problem = _problem(traffic.operations[row], traffic.servers)
        if problem is not None:
            yield Violation(task, 5, problem)


def _problem(operation: Operation, servers: int) -> str | None:
    """Return an error text for an invalid operation, otherwise None."""
    group, size = operation.group, len(operation.group)
    if group and not 0 <= min(group) <= max(group) < servers:
        return _within(servers, list(group))
    if operation.op not in COLLECTIVES:
        return f".op: must be one of {', '.join(COLLECTIVES)}, got {operation.op!r}"
    if not group or len(set(group)) != size:
        return f".group: must name each server once, got {list(group)}"
    if operation.op in ROOTED and operation.root not in group:
        return f".root: must be in the group, got {operation.root}"
    if operation.calls < 1:
        return f".calls: must be at least 1, got {operation.calls}"
    if operation.splits is not None and [len(row) for row in operation.splits] != [size] * size:
        return f".splits: expected [{size}, {size}], got {[len(row) for row in operation.splits]}"
    return None


def _transfers(traffic: Traffic) -> Iterator[Violation]:
    """Yield violations of transfers with subflows or a limit."""
    for task in sorted({*traffic.subflows, *traffic.limit}):
        limit = traffic.limit.get(task, math.inf)
        problem = _problem_of_subflows(traffic.subflows.get(task, ()))
        if problem is None and not limit > 0:
            problem = f".limit: must be positive, got {limit}"
        if problem is None and limit < math.inf and traffic.source[task] == traffic.target[task]:
            problem = f".limit: must be of a transfer between two servers, got {limit}"
        if problem is not None:
            yield Violation(task, 6, problem)


def _queued(traffic: Traffic) -> Iterator[Violation]:
    """Yield violations of collectives that wait for their communicator."""
    pairs = np.array(sorted(traffic.queued.items()), np.int64).reshape(-1, 2)
    exists = ((pairs >= 0) & (pairs < len(traffic))).all(axis=1)
    begins, place = rows_of(traffic.after_offsets, np.where(exists, pairs[:, 0], 0))
    pair = np.repeat(np.arange(len(pairs)), np.diff(begins))
    is_waited_for = np.bincount(pair, traffic.after[place] == pairs[pair, 1], len(pairs)) > 0
    wrong = ~exists | ~is_waited_for | (traffic.kind[pairs.clip(0, len(traffic) - 1)] != COLLECTIVE).any(axis=1)
    for task, earlier in pairs[wrong][:1].tolist():
        yield Violation(task, 7, f".queued: must be a collective that it waits for, got {earlier}")


def _carried(traffic: Traffic) -> Iterator[Violation]:
    """Yield violations of dependencies on the previous round."""
    task, earlier = (np.zeros(0, np.int64),) * 2 if traffic.carried is None else traffic.carried
    if len(task) != len(earlier):
        yield Violation(0, 8, f".carried: must have as many tasks as they wait for, got {len(task)} and {len(earlier)}")
        return
    for first in _first((task < 0) | (task >= len(traffic)) | (earlier < 0) | (earlier >= len(traffic))):
        rule = f"must be within 0..{len(traffic) - 1}"
        yield Violation(first, 8, f".carried: {rule}, got {int(task[first])} after {int(earlier[first])}")
    if traffic.rounds < 1 or (len(task) and traffic.rounds == 1):
        rule = "must be at least 2" if len(task) else "must be at least 1"
        yield Violation(0, 8, f".rounds: {rule}, got {traffic.rounds}")


def _problem_of_subflows(subflows: Sequence[Subflow]) -> str | None:
    for index, subflow in enumerate(subflows):
        try:
            check_positive(f".subflows[{index}].weight", subflow.weight)
        except ValueError as error:
            return str(error)
    total = math.fsum(subflow.weight for subflow in subflows)
    if subflows and abs(total - 1) > 1e-9:
        return f".subflows: weights must sum to 1, got {total}"
    return None


def _first(wrong: Mask) -> list[int]:
    """Return the first task that is ``wrong`` [K] as a list of at most one."""
    return _first_of(np.flatnonzero(wrong))


def _first_of(tasks: Offsets) -> list[int]:
    first: list[int] = tasks[:1].tolist()
    return first


def _outside(servers: Ints, beyond: int) -> Mask:
    outside: Mask = (servers < 0) | (servers >= beyond)
    return outside


def _within(servers: int, got: list[int]) -> str:
    return f": servers must be within 0..{servers - 1}, got {got}"
