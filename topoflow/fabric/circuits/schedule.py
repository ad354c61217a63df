"""Which node every uplink of every node sends to in every slot: the static schedule of Sirius.

    group 0: nodes 0 .. E-1      uplink u of node i leads to a grating whose outputs are the nodes of group u;
    group 1: nodes E .. 2E-1     there is one grating for each pair of groups
    ...                          in slot t the node at place x of its group sends to the nodes at place x + t (mod E)

An epoch has E slots, in which every node is joined once to every other, and once to itself (which carries no data but
sets clocks). E = ceil(N / U), the least number of slots in which U uplinks reach N nodes; a grating needs E ports.
Where U is no divisor of N, the last group is short and the slots of its missing nodes stay empty.

Shapes: N nodes, U uplinks of a node, E slots of an epoch.
Source: Sirius (Ballani et al., SIGCOMM 2020), 4.1, 4.2 and Figure 5. The paper does not say how 50 % more uplinks are
wired; here they make the groups smaller and the epoch shorter.
"""

from __future__ import annotations

from dataclasses import dataclass

from topoflow.fabric.base import Static

EMPTY = -1  # no node
MAX_NODES = 4096  # racks; Source: Sirius, 4.1, a large datacenter


@dataclass(frozen=True)
class Schedule:
    """The cyclic schedule of ``nodes`` with ``uplinks`` each."""

    nodes: int
    uplinks: int

    def __post_init__(self) -> None:
        if not 2 <= self.nodes <= MAX_NODES:
            raise ValueError(f"schedule.nodes: must be within 2..{MAX_NODES}, got {self.nodes}")
        if not 1 <= self.uplinks <= self.nodes:
            raise ValueError(f"schedule.uplinks: must be within 1..{self.nodes}, got {self.uplinks}")

    @property
    def slots(self) -> int:
        """E, of an epoch; also the nodes of a group and the ports of a grating."""
        return -(-self.nodes // self.uplinks)

    @property
    def groups(self) -> int:
        """Groups of nodes: the uplinks that are used. At most ``uplinks``."""
        return -(-self.nodes // self.slots)

    def target(self, node: int, uplink: int, slot: int) -> int:
        """The node that an uplink is joined to, EMPTY: none, or the node itself."""
        other = uplink * self.slots + (node + slot) % self.slots
        return other if uplink < self.groups and other < self.nodes and other != node else EMPTY

    def slot(self, source: int, target: int) -> int:
        """The slot of each epoch in which ``source`` sends to ``target``."""
        return (target - source) % self.slots


@dataclass(frozen=True)
class Cyclic(Static):
    """Links that follow a schedule: the network between racks has no switch, and averaged over an epoch never changes.

    Server s is in rack s // servers_per_node.
    """

    schedule: Schedule
    slot: float  # s, guardband included
    cell: int  # B
    servers_per_node: int
