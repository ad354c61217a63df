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

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from topoflow.operations import INSIDE_AFTER, INSIDE_BEFORE, bus_factor
from topoflow.strategy.grid import Group
from topoflow.traffic.base import Collective, Compute, Task

Ends = dict[int, tuple[int, ...]]  # server -> the tasks that its next one waits for


@dataclass
class Tasks:
    """The tasks so far; a task is its position."""

    local_bandwidth: float  # B/s of one GPU to the others of its server
    listed: list[Task] = field(default_factory=list)

    def add(self, task: Task) -> int:
        self.listed.append(task)
        return len(self.listed) - 1

    def collective(
        self, op: str, bytes: float, groups: Sequence[Group], after: Mapping[int, Sequence[int]], name: str
    ) -> Ends:
        """``op`` of ``bytes`` in every group, behind ``after`` of its servers; what ends it on each server."""
        ends: Ends = {}
        for group in groups:
            waits = {server: ascending(after[server]) for server in group.servers}
            if op == "all_to_all":
                ends |= self._all_to_all(bytes, group, waits, name)
            elif len(group.servers) == 1 or group.local == 1 or group.side_by_side == 1:
                ends |= self._one(op, bytes, group, waits, name)
            else:
                ends |= self._phases(op, bytes, group, waits, name)
        return ends

    def _one(self, op: str, bytes: float, group: Group, waits: Ends, name: str) -> Ends:
        inside = len(group.servers) == 1
        algorithm = "hierarchical" if inside or (group.local > 1 and op != "all_reduce") else None
        size = bytes if inside else bytes * group.side_by_side
        task = Collective(op, size, group.servers, together(waits), name, local=group.local, algorithm=algorithm)
        return dict.fromkeys(group.servers, (self.add(task),))

    def _phases(self, op: str, bytes: float, group: Group, waits: Ends, name: str) -> Ends:
        waits = self._inside(INSIDE_BEFORE.get(op), bytes, group, waits, name)
        between = self.add(Collective(op, bytes * group.side_by_side, group.servers, together(waits), name))
        return self._inside(INSIDE_AFTER.get(op), bytes, group, dict.fromkeys(group.servers, (between,)), name)

    def _inside(self, op: str | None, bytes: float, group: Group, waits: Ends, name: str) -> Ends:
        if op is None:
            return waits
        return {
            server: (
                self.add(Collective(op, bytes, (server,), after, name, local=group.local, algorithm="hierarchical")),
            )
            for server, after in waits.items()
        }

    def _all_to_all(self, bytes: float, group: Group, waits: Ends, name: str) -> Ends:
        count, local = len(group.servers), group.local
        ends: Ends = dict.fromkeys(group.servers, ())
        if local > 1:
            seconds = inside_seconds("all_to_all", bytes / count, local, self.local_bandwidth)
            ends = {server: (self.add(Compute(seconds, None, after, name)),) for server, after in waits.items()}
        if count > 1:
            size = bytes * local * group.side_by_side
            between = self.add(Collective("all_to_all", size, group.servers, together(waits), name))
            ends = {server: (*own, between) for server, own in ends.items()}
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
    """Of the task or tasks that ``Tasks.collective`` makes, on any network whose servers send ``bandwidth`` (B/s)."""
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


def ascending(tasks: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(set(tasks)))


def together(waits: Ends) -> tuple[int, ...]:
    """All that any of the servers waits for."""
    return ascending(task for tasks in waits.values() for task in tasks)
