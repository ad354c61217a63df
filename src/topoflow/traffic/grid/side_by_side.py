"""Collectives of groups side by side: concurrent collectives of GPUs on the same servers are one task.

For M groups of l members on each of n servers, and a buffer S of one member:

    all-to-all    M l S / n bytes from each server to each other; concurrently (l-1) / (n l) S inside each server
    others        one collective of M S bytes, of l local members (``traffic.tasks.Collective``)

The part inside a server takes the time of one group, since each group has its own GPUs.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from topoflow.arrays import Offsets
from topoflow.operations import bus_factor
from topoflow.strategy.grid import RankGroup
from topoflow.traffic.columns import Part
from topoflow.traffic.tasks import COLLECTIVE, COMPUTE, NONE, Label, Operation

# [N, w] for each server the w tasks that its next task waits for; NONE pads fewer.
Ends = Offsets


@dataclass(frozen=True, eq=False)
class EqualGroups:
    """G similar groups on disjoint servers: each has ``local`` members on each of its m servers.

    On the servers of a group there are ``side_by_side`` such groups.
    """

    servers: Offsets  # [G, m]
    local: int
    side_by_side: int
    stride: int = 1  # GPUs from a member to the next on a server

    @cached_property
    def number(self) -> Offsets:
        """Return [G] the numbers of the groups."""
        return np.arange(len(self.servers))

    @cached_property
    def places(self) -> Offsets:
        """Return [G, m] the servers, counted from the first of all groups."""
        places: Offsets = self.servers - self.servers.min()
        return places

    @cached_property
    def number_at(self) -> Offsets:
        """Return the number of the group of each place."""
        number_at = np.full(self.servers.size, NONE, np.int64)
        number_at[self.places] = self.number[:, None]
        return number_at

    @staticmethod
    def of(groups: Sequence[RankGroup]) -> EqualGroups:
        """Return all groups of a grid along the same axes, which have equal shapes."""
        (shape,) = {(group.local, group.side_by_side, group.stride) for group in groups}
        return EqualGroups(np.array([group.servers for group in groups], np.int64), *shape)


class CollectiveWriter:
    """A writer of collectives of ``EqualGroups``; ``local_bandwidth`` is that of a GPU to others of its server."""

    def __init__(self, tasks: Part, servers: int, local_bandwidth: float) -> None:
        self.tasks, self.servers, self.local_bandwidth = tasks, servers, local_bandwidth
        self._known: dict[tuple[str, EqualGroups, int], Offsets] = {}

    def into(self, part: Part) -> CollectiveWriter:
        """Return a writer into a part of the tasks."""
        writer = copy(self)
        writer.tasks = part
        return writer

    def none(self, width: int = 1) -> Ends:
        """Return no tasks to wait for."""
        return np.full((self.servers, width), NONE, np.int64)

    def collective(self, op: str, bytes: float, groups: EqualGroups, after: Ends, label: Label, calls: int = 1) -> Ends:
        """Add ``calls`` of ``op``, of ``bytes`` in all, in every group after the tasks of its servers.

        Return the tasks [N, 2] that end it on each server.
        """
        if op == "all_to_all":
            return self._all_to_all(bytes, groups, after, label, calls)
        ends = self.none(2)
        ends[groups.servers, 0] = self._tasks(op, bytes, groups, after, label, calls)[:, None]
        return ends

    def _tasks(self, op: str, bytes: float, groups: EqualGroups, after: Ends, label: Label, calls: int) -> Offsets:
        """Add a collective in every group; return the tasks [G]."""
        tasks = self.tasks.collective(label, self.rows(op, groups, calls), bytes * groups.side_by_side)
        self.tasks.wait(tasks[:, None, None], after[groups.servers])
        return tasks

    def _all_to_all(self, bytes: float, groups: EqualGroups, after: Ends, label: Label, calls: int) -> Ends:
        """Add a delay inside each server and, concurrently, one task between the servers of each group."""
        (number, count), local = groups.servers.shape, groups.local
        inside, between = count if local > 1 else 0, int(count > 1)
        shape = number, inside + between
        kind, rows = np.full(shape, COLLECTIVE), np.full(shape, NONE)
        size, seconds = np.zeros(shape), np.zeros(shape)
        kind[:, :inside] = COMPUTE
        seconds[:, :inside] = inside_seconds("all_to_all", bytes / count, local, self.local_bandwidth)
        if between:
            rows[:, inside] = self.rows("all_to_all", groups, calls)
            size[:, inside] = bytes * local * groups.side_by_side
        columns = {"kind": kind, "operation": rows, "bytes": size, "seconds": seconds}
        flat = {name: values.ravel() for name, values in columns.items()}
        tasks = self.tasks.run(label, kind.size, **flat).reshape(shape)
        ends = self.none(2)
        if inside:
            self.tasks.wait(tasks[:, :inside, None], after[groups.servers])
            ends[groups.servers, 0] = tasks[:, :inside]
        if between:
            self.tasks.wait(tasks[:, inside, None, None], after[groups.servers])
            ends[groups.servers, 1] = tasks[:, inside, None]
        return ends

    def rows(self, op: str, groups: EqualGroups, calls: int = 1) -> Offsets:
        """Return [G] the rows of the groups' operations."""
        key = op, groups, calls
        if key not in self._known:
            whole = op != "all_to_all"  # of which only the part between servers is a collective
            members = (groups.local, groups.stride) if whole else (1, 1)
            operations = (Operation(op, tuple(group), *members, calls=calls) for group in groups.servers.tolist())
            self._known[key] = np.array([self.tasks.row(operation) for operation in operations], np.int64)
        return self._known[key]


def inside_seconds(op: str, bytes: float, members: int, local_bandwidth: float) -> float:
    """Return the time (s) of a collective among ``members`` GPUs of one server."""
    return bus_factor(op, members) * bytes / local_bandwidth


def outside_seconds(op: str, bytes: float, group: RankGroup, bandwidth: float) -> float:
    """Return the time (s) in which a server sends its part of all groups side by side at ``bandwidth`` (B/s)."""
    count = len(group.servers)
    members = group.side_by_side * (group.local if op == "all_to_all" else 1)
    return bus_factor(op, count) * members * bytes / bandwidth


def least_seconds_of(op: str, bytes: float, group: RankGroup, local_bandwidth: float, bandwidth: float) -> float:
    """Return a lower bound of the time (s) of ``Exchange.collective`` if servers send at ``bandwidth`` (B/s)."""
    outside, inside = (
        outside_seconds(op, bytes, group, bandwidth),
        inside_seconds(op, bytes, group.local, local_bandwidth),
    )
    if len(group.servers) == 1:
        return inside
    if op == "all_to_all":
        return max(outside, inside / len(group.servers))
    if op == "all_reduce" and group.side_by_side == 1:
        return outside  # the simulation's algorithm decides whether the part inside is a separate phase
    return inside + outside


def least_seconds_queued(bytes: float, group: RankGroup, local_bandwidth: float, bandwidth: float) -> float:
    """Return the same lower bound for queued all-reduces of ``bytes`` in all.

    Each phase runs in order; different phases overlap.
    """
    alone = least_seconds_of("all_reduce", bytes, group, local_bandwidth, bandwidth)
    outside = outside_seconds("all_reduce", bytes, group, bandwidth)
    return alone if len(group.servers) == 1 else max(outside, (alone - outside) / 2)
