"""Collectives of groups that are side by side: what the GPUs of the same servers ask for at the same time is one task.

M groups of l members on each of n servers, buffer S of one member:

    inside a server (n = 1)    no bytes on the network; the groups take the time of one, as each has its own GPUs
    l = 1                      one collective of M S bytes among the servers
    M = 1                      one collective of S bytes, of l local members
    otherwise                  the part inside each server (reduce-scatter, all-gather), around one of M S bytes
    all-to-all                 M l S / n bytes from each server to each other; meanwhile (l-1) / (n l) S inside

Source of the middle: a hierarchical collective has l rings between the servers, one per local rank with S/l each, which
use the same links (TopoOpt 5.1; NCCL's rings).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from topoflow.arrays import Offsets
from topoflow.operations import INSIDE_AFTER, INSIDE_BEFORE, bus_factor
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

    @cached_property
    def in_servers(self) -> Groups:
        """The part inside each server of one of the groups, as G m groups."""
        return Groups(self.servers.reshape(-1, 1), self.local, 1)


class Exchange:
    """Writes collectives of ``Groups`` to ``tasks``; ``local_bandwidth`` is that of one GPU to others of its server."""

    def __init__(self, tasks: Columns, servers: int, local_bandwidth: float) -> None:
        self.tasks, self.servers, self.local_bandwidth = tasks, servers, local_bandwidth
        self._known: dict[tuple[str, Groups, int, str | None], Offsets] = {}

    def none(self, width: int = 1) -> Ends:
        """Nothing to wait for."""
        return np.full((self.servers, width), NONE, np.int64)

    def collective(self, op: str, bytes: float, groups: Groups, after: Ends, label: Label) -> Ends:
        """``op`` of ``bytes`` in every group, after the tasks of its servers; what ends it on each server [N, 2]."""
        if op == "all_to_all":
            return self._all_to_all(bytes, groups, after, label)
        if groups.servers.shape[1] == 1 or groups.local == 1 or groups.side_by_side == 1:
            return self._one(op, bytes, groups, after, label)
        return self._phases(op, bytes, groups, after, label)

    def _one(self, op: str, bytes: float, groups: Groups, after: Ends, label: Label) -> Ends:
        inside = groups.servers.shape[1] == 1
        algorithm = "hierarchical" if inside or (groups.local > 1 and op != "all_reduce") else None
        size = bytes if inside else bytes * groups.side_by_side
        own = self.tasks.collective(label, self._rows(op, groups, groups.local, algorithm), size)
        self.tasks.wait(own[:, None, None], after[groups.servers])
        return self._ends(groups, own[:, None])

    def _phases(self, op: str, bytes: float, groups: Groups, after: Ends, label: Label) -> Ends:
        """Inside each server, between them, and inside again, as far as ``op`` has these parts; group by group."""
        parts = [
            self._inside(INSIDE_BEFORE, op, groups.in_servers),
            self._rows(op, groups, 1, None),
            self._inside(INSIDE_AFTER, op, groups.in_servers),
        ]
        rows = np.concatenate([part.reshape(len(groups.servers), -1) for part in parts], axis=1)
        size = np.full(rows.shape, bytes)
        between = parts[0].size // len(groups.servers)
        size[:, between] *= groups.side_by_side
        own = self.tasks.collective(label, rows.ravel(), size.ravel()).reshape(rows.shape)
        if between:
            self.tasks.wait(own[:, :between, None], after[groups.servers])
            self.tasks.wait(own[:, between, None], own[:, :between])
        else:
            self.tasks.wait(own[:, between, None, None], after[groups.servers])
        self.tasks.wait(own[:, between + 1 :], own[:, between, None])
        return self._ends(groups, own[:, between + 1 :] if parts[2].size else own[:, between, None])

    def _inside(self, phases: dict[str, str], op: str, alone: Groups) -> Offsets:
        """The operations inside each server, none where ``op`` has no such part."""
        if op not in phases:
            return np.zeros(0, np.int64)
        return self._rows(phases[op], alone, alone.local, "hierarchical")

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
            rows[:, inside] = self._rows("all_to_all", groups, 1, None)
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

    def _rows(self, op: str, groups: Groups, local: int, algorithm: str | None) -> Offsets:
        """[G] the operations of the groups."""
        key = op, groups, local, algorithm
        if key not in self._known:
            operations = (Operation(op, tuple(each), local, algorithm=algorithm) for each in groups.servers.tolist())
            self._known[key] = np.array([self.tasks.row(operation) for operation in operations], np.int64)
        return self._known[key]

    def _ends(self, groups: Groups, tasks: Offsets) -> Ends:
        """Of ``tasks`` [G, 1 or m], those that end the collective."""
        ends = self.none(2)
        ends[groups.servers, 0] = tasks
        return ends


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
