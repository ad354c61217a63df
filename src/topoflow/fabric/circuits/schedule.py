"""The static schedule of Sirius: the node that every uplink of every node sends to in every slot.

    group 0: nodes 0 .. E-1      uplink u of node i leads to a grating whose outputs are the nodes of group u;
    group 1: nodes E .. 2E-1     there is one grating for each pair of groups
    ...                          in slot t the node at place x of its group sends to the nodes at place x + t (mod E)

An epoch has E slots, in which every node is joined once to every other, and once to itself (which carries no data but
sets clocks). E = ceil(N / U), the least number of slots in which U uplinks reach N nodes; a grating needs E ports.
If U does not divide N, the last group is short and the slots of its missing nodes stay empty.

The schedule leaves out failed parts: their slots stay empty, and no cell is sent that they would have to forward. A
failed node takes 1 / N of the slots of each other node, a grating 1 / U^2 of all slots, and a transceiver 1 / U of the
slots of its node.

Shapes: N nodes, W nodes that work, S servers, U uplinks of a node, E slots of an epoch.
Source: Sirius (Ballani et al., SIGCOMM 2020), 4.1, 4.2 and Figure 5; 4.5, "Fault tolerance", for failures. The paper
does not say how 50 % more uplinks are wired; here they make the groups smaller and the epoch shorter.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topoflow.fabric.base import Static
from topoflow.fabric.circuits import failures

EMPTY = -1  # no node
MAX_NODES = 4096  # racks; Source: Sirius, 4.1, a large datacenter


@dataclass(frozen=True)
class Failed:
    """Failed parts of a network of gratings."""

    nodes: tuple[int, ...] = ()
    gratings: tuple[tuple[int, int], ...] = ()  # (group whose nodes send, group whose nodes receive)
    transceivers: tuple[tuple[int, int], ...] = ()  # (node, uplink), in both directions

    def __bool__(self) -> bool:
        return bool(self.nodes or self.gratings or self.transceivers)


@dataclass(frozen=True)
class CircuitSchedule:
    """The cyclic schedule of ``nodes`` with ``uplinks`` each, without ``failed`` parts."""

    nodes: int
    uplinks: int
    failed: Failed = field(default=Failed())

    def __post_init__(self) -> None:
        if not 2 <= self.nodes <= MAX_NODES:
            raise ValueError(f"schedule.nodes: must be within 2..{MAX_NODES}, got {self.nodes}")
        if not 1 <= self.uplinks <= self.nodes:
            raise ValueError(f"schedule.uplinks: must be within 1..{self.nodes}, got {self.uplinks}")
        for name, parts, limits in (
            ("racks", [(node,) for node in self.failed.nodes], (self.nodes,)),
            ("gratings", self.failed.gratings, (self.groups, self.groups)),
            ("transceivers", self.failed.transceivers, (self.nodes, self.uplinks)),
        ):
            failures.check_parts(f"sirius.failed_{name}", parts, limits)

    @property
    def slots(self) -> int:
        """Return E, the slots of an epoch, which is also the nodes of a group and the ports of a grating."""
        return -(-self.nodes // self.uplinks)

    @property
    def groups(self) -> int:
        """Return the number of groups of nodes, which is the number of used uplinks, at most ``uplinks``."""
        return -(-self.nodes // self.slots)

    @property
    def cycle(self) -> int:
        """Return the number of slots until all pairs have been joined: an epoch."""
        return self.slots

    @property
    def links(self) -> int:
        """Return the number of used links of a node."""
        return self.groups

    def target(self, node: int, uplink: int, slot: int) -> int:
        """Return the node that an uplink is joined to; EMPTY: none, or the node itself."""
        other = uplink * self.slots + (node + slot) % self.slots
        exists = uplink < self.groups and other < self.nodes and other != node
        return other if exists and self.joins(node, other) else EMPTY

    def joins(self, source: int, target: int) -> bool:
        """Return whether all parts between two nodes work."""
        failed, (sends, receives) = self.failed, (source // self.slots, target // self.slots)
        return not failed or not (
            source in failed.nodes
            or target in failed.nodes
            or (sends, receives) in failed.gratings
            or (source, receives) in failed.transceivers
            or (target, sends) in failed.transceivers
        )

    def joined(self) -> NDArray[np.bool_]:
        """Return [N, N] whether each node has a slot for each other."""
        is_joined, group = ~np.eye(self.nodes, dtype=bool), np.arange(self.nodes) // self.slots
        nodes = list(self.failed.nodes)
        is_joined[nodes] = is_joined[:, nodes] = False
        for sends, receives in self.failed.gratings:
            is_joined[np.ix_(group == sends, group == receives)] = False
        for node, uplink in self.failed.transceivers:
            is_joined[node, group == uplink] = is_joined[group == uplink, node] = False
        return is_joined

    def slot(self, source: int, target: int) -> int:
        """Return the slot of each epoch in which ``source`` sends to ``target``."""
        return (target - source) % self.slots


@dataclass(frozen=True)
class Scheduled(Static):
    """A control by a fixed schedule; averaged over its cycle, links never change. Servers fill the working nodes."""

    schedule: Any  # with its ``nodes``, those that ``failed``, and which are ``joined``
    slot: float  # s, including the time in which nothing is sent
    cell: int  # B
    servers_per_node: int

    @property
    def _works(self) -> NDArray[np.int64]:
        """Return [W] the nodes that work."""
        works: NDArray[np.int64] = np.setdiff1d(np.arange(self.schedule.nodes), list(self.schedule.failed.nodes))
        return works

    def nodes_of(self, servers: int) -> NDArray[np.int32]:
        """Return [S] the node of each of the first ``servers``."""
        return self._works[np.arange(servers) // self.servers_per_node].astype(np.int32)

    def shares(self) -> NDArray[np.float64]:
        """Return [W, 2] the shares of a cycle's links with which each working node sends to another, and receives."""
        joined = self.schedule.joined()
        counts = np.stack([joined.sum(axis=1), joined.sum(axis=0)], axis=1)[self._works]
        share: NDArray[np.float64] = counts / (len(joined) - 1)
        return share


@dataclass(frozen=True)
class Cyclic(Scheduled):
    """A control by gratings, which have no switches."""

    schedule: CircuitSchedule
