"""Collectives of groups that are side by side: what the GPUs of the same servers ask for at the same time is one task.

M groups of l members on each of n servers, buffer S of one member:

    all-to-all    M l S / n bytes from each server to each other; meanwhile (l-1) / (n l) S inside
    others        one collective of M S bytes, of l local members and M side by side (``traffic.tasks.Collective``)

What is inside a server takes the time of one group, as each has its own GPUs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from topoflow.arrays import Offsets
from topoflow.operations import bus_factor
from topoflow.strategy.grid import Group
from topoflow.traffic.columns import Columns
from topoflow.traffic.tasks import COLLECTIVE, COMPUTE, NONE, Label, Operation

# [N, w] for each server the tasks that its next one waits for; NONE: fewer than w.
Ends = Offsets


@dataclass(frozen=True, eq=False)
class Groups:
    """G groups that are alike: ``local`` members on each of their m servers, and ``side_by_side`` groups there.

    No server is in two of them.
    """

    servers: Offsets  # [G, m]
    local: int
    side_by_side: int

    @staticmethod
    def of(groups: Sequence[Group]) -> Groups:
        """All groups of a grid along the same axes, which are alike by its laws."""
        ((local, side_by_side),) = {(group.local, group.side_by_side) for group in groups}
        return Groups(np.array([group.servers for group in groups], np.int64), local, side_by_side)


class Exchange:
    """Writes collectives of ``Groups`` to ``tasks``; ``local_bandwidth`` is that of one GPU to others of its server."""

    def __init__(self, tasks: Columns, servers: int, local_bandwidth: float) -> None:
        self.tasks, self.servers, self.local_bandwidth = tasks, servers, local_bandwidth
        self._known: dict[tuple[str, Groups], Offsets] = {}
        self._latest: dict[Groups, Offsets] = {}  # [G] of those that are queued

    def none(self, width: int = 1) -> Ends:
        """Nothing to wait for."""
        return np.full((self.servers, width), NONE, np.int64)

    def collective(self, op: str, bytes: float, groups: Groups, after: Ends, label: Label) -> Ends:
        """``op`` of ``bytes`` in every group, after the tasks of its servers; what ends it on each server [N, 2]."""
        if op == "all_to_all":
            return self._all_to_all(bytes, groups, after, label)
        ends = self.none(2)
        ends[groups.servers, 0] = self._one(op, bytes, groups, after, label)[:, None]
        return ends

    def queued(self, op: str, bytes: float, groups: Groups, after: Ends, label: Label) -> Offsets:
        """The same as the next one of the groups' communicators; the task [N] of each server that is in a group."""
        tasks = self._one(op, bytes, groups, after, label)
        self.tasks.queue(tasks, self._latest.get(groups, np.full(len(tasks), NONE)))
        self._latest[groups] = tasks
        own = np.full(self.servers, NONE, np.int64)
        own[groups.servers] = tasks[:, None]
        return own

    def _one(self, op: str, bytes: float, groups: Groups, after: Ends, label: Label) -> Offsets:
        """The tasks [G]."""
        own = self.tasks.collective(label, self._rows(op, groups), bytes * groups.side_by_side)
        self.tasks.wait(own[:, None, None], after[groups.servers])
        return own

    def _all_to_all(self, bytes: float, groups: Groups, after: Ends, label: Label) -> Ends:
        """A delay inside each server and at the same time one task between them, group by group."""
        (number, count), local = groups.servers.shape, groups.local
        inside, between = count if local > 1 else 0, int(count > 1)
        shape = number, inside + between
        kind, rows = np.full(shape, COLLECTIVE), np.full(shape, NONE)
        size, seconds = np.zeros(shape), np.zeros(shape)
        kind[:, :inside] = COMPUTE
        seconds[:, :inside] = inside_seconds("all_to_all", bytes / count, local, self.local_bandwidth)
        if between:
            rows[:, inside] = self._rows("all_to_all", groups)
            size[:, inside] = bytes * local * groups.side_by_side
        columns = {"kind": kind, "operation": rows, "bytes": size, "seconds": seconds}
        own = self.tasks.run(label, kind.size, **{name: each.ravel() for name, each in columns.items()}).reshape(shape)
        ends = self.none(2)
        if inside:
            self.tasks.wait(own[:, :inside, None], after[groups.servers])
            ends[groups.servers, 0] = own[:, :inside]
        if between:
            self.tasks.wait(own[:, inside, None, None], after[groups.servers])
            ends[groups.servers, 1] = own[:, inside, None]
        return ends

    def _rows(self, op: str, groups: Groups) -> Offsets:
        """[G] the operations of the groups."""
        key = op, groups
        if key not in self._known:
            alike = Operation(op, (), groups.local, side_by_side=groups.side_by_side)
            if op == "all_to_all":  # between servers only
                alike = Operation(op, ())
            elif groups.servers.shape[1] == 1 or (groups.local > 1 and op != "all_reduce"):
                alike = replace(alike, algorithm="hierarchical")
            operations = (replace(alike, group=tuple(each)) for each in groups.servers.tolist())
            self._known[key] = np.array([self.tasks.row(operation) for operation in operations], np.int64)
        return self._known[key]


def inside_seconds(op: str, bytes: float, members: int, local_bandwidth: float) -> float:
    """Of a collective among ``members`` GPUs of one server; all but an all-reduce send each byte once."""
    return bus_factor(op, members) * bytes / local_bandwidth


def outside_seconds(op: str, bytes: float, group: Group, bandwidth: float) -> float:
    """In which a server sends its part for all groups side by side, at ``bandwidth`` (B/s) and whatever the order."""
    count = len(group.servers)
    members = group.side_by_side * (group.local if op == "all_to_all" else 1)
    return bus_factor(op, count) * members * bytes / bandwidth


def least_seconds_of(op: str, bytes: float, group: Group, local_bandwidth: float, bandwidth: float) -> float:
    """Of what ``Exchange.collective`` writes, on any network whose servers send ``bandwidth`` (B/s)."""
    outside, inside = (
        outside_seconds(op, bytes, group, bandwidth),
        inside_seconds(op, bytes, group.local, local_bandwidth),
    )
    if len(group.servers) == 1:
        return inside
    if op == "all_to_all":
        return max(outside, inside / len(group.servers))
    if op == "all_reduce" and group.side_by_side == 1:
        return outside  # whether its inside is a phase of its own is up to the simulation's algorithm
    return inside + outside


def least_seconds_queued(bytes: float, group: Group, local_bandwidth: float, bandwidth: float) -> float:
    """The same of all-reduces of ``bytes`` in all that are queued: each phase is in order, different ones overlap."""
    alone = least_seconds_of("all_reduce", bytes, group, local_bandwidth, bandwidth)
    outside = outside_seconds("all_reduce", bytes, group, bandwidth)
    return alone if len(group.servers) == 1 else max(outside, (alone - outside) / 2)
