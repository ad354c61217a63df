"""Matchings that optical switches cycle through, and links that send many cells in a slot: the network of RotorNet.

    rotor switch 0    slot 0: i -> i + 0    slot 1: i -> i + 1   ..  slot P-1: i -> i + P - 1
    rotor switch 1            i -> i + P            i -> i + P + 1 ..         (all modulo N)
    ...

Every node has an uplink to each of U switches. In a slot each switch joins every node to one other; all switches turn
to their next matching at once. After P = ceil(N / U) slots, a cycle, every pair of nodes has been joined once; where U
is no divisor of N some matchings of the last switch are empty, and so is the one that joins nodes to themselves.

Where a part has failed the schedule leaves it out: the links that it joined carry nothing, and no node accepts cells
for another that it is not joined to. A failure takes the share of the links of a cycle that the part had: of a node one
of the N - 1 of each other one; of a switch that of its matchings in all N - 1, which is P / (N - 1), less one matching
where it has the empty one; of the transceiver of a node at a switch the same of the links of that node.

Source: RotorNet (Mellette et al., SIGCOMM 2017): rotor switches, each with a fixed part of the N - 1 matchings that
together join all pairs. Ours: that these are shifts by 0 .. N-1 in this order; the paper asks for any disjoint ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from topoflow.fabric.base import Static
from topoflow.fabric.circuits import failures
from topoflow.fabric.circuits.schedule import EMPTY, MAX_NODES

MOST_CELLS = 255  # of a link in a slot; the kernel counts them in a byte


@dataclass(frozen=True)
class FailedRotors:
    """Parts of a network of rotor switches that do not work."""

    nodes: tuple[int, ...] = ()
    switches: tuple[int, ...] = ()
    transceivers: tuple[tuple[int, int], ...] = ()  # (node, switch), in both directions

    def __bool__(self) -> bool:
        return bool(self.nodes or self.switches or self.transceivers)


@dataclass(frozen=True)
class Rotors:
    """The cycle of ``switches`` that join ``nodes``, less what has ``failed``; a link sends ``cells`` in a slot."""

    network: ClassVar[str] = "rotornet"

    nodes: int
    switches: int
    cells: int
    failed: FailedRotors = field(default=FailedRotors())

    def __post_init__(self) -> None:
        for name, most in (("nodes", MAX_NODES), ("switches", self.nodes), ("cells", MOST_CELLS)):
            least, value = 2 if name == "nodes" else 1, getattr(self, name)
            if not least <= value <= most:
                raise ValueError(f"rotors.{name}: must be within {least}..{most}, got {value}")
        for what, parts, limits in (
            ("racks", [(node,) for node in self.failed.nodes], (self.nodes,)),
            ("switches", [(switch,) for switch in self.failed.switches], (self.switches,)),
            ("transceivers", self.failed.transceivers, (self.nodes, self.switches)),
        ):
            failures.check_parts(f"{self.network}.failed_{what}", parts, limits)

    @property
    def slots(self) -> int:
        """Of an epoch: protocols of rotors begin anew in each slot."""
        return 1

    @property
    def matchings(self) -> int:
        """P, of a switch."""
        return -(-self.nodes // self.switches)

    @property
    def cycle(self) -> int:
        """Slots until every pair has been joined."""
        return self.matchings

    @property
    def links(self) -> int:
        """Of a node, one to each switch."""
        return self.switches

    @property
    def stored(self) -> int:
        """The most cells that a node stores for another: what its links to it carry in a cycle."""
        return self.cells

    def carries(self, switch: int, slot: int) -> int:
        """Cells of a link of a switch in a slot."""
        return self.cells

    def target(self, node: int, switch: int, slot: int) -> int:
        """The node that a switch joins ``node`` to, EMPTY: none, or the node itself."""
        shift = switch * self.matchings + slot % self.cycle
        other = (node + shift) % self.nodes
        return other if 0 < shift < self.nodes and self.joins(node, other) else EMPTY

    def joins(self, source: int, target: int) -> bool:
        """Whether all parts on the way from a node to another one work."""
        failed, (switch, _) = self.failed, self.meeting(source, target)
        return not failed or not (
            source in failed.nodes
            or target in failed.nodes
            or switch in failed.switches
            or (source, switch) in failed.transceivers
            or (target, switch) in failed.transceivers
        )

    def joined(self) -> NDArray[np.bool_]:
        """[N, N] which nodes each has a link to in a cycle; never itself."""
        found = ~np.eye(self.nodes, dtype=bool)
        nodes = list(self.failed.nodes)
        found[nodes] = found[:, nodes] = False
        by = self.joining() // self.matchings  # [N, N] the switch that joins them
        found[np.isin(by, self.failed.switches)] = False
        for node, switch in self.failed.transceivers:
            found[node, by[node] == switch] = found[by[:, node] == switch, node] = False
        return found

    def joining(self) -> NDArray[np.int64]:
        """[N, N] the number of the matching that joins two nodes: P of the first switch, P of the next, ..."""
        every = np.arange(self.nodes)
        return (every - every[:, None]) % self.nodes

    def meeting(self, source: int, target: int) -> tuple[int, int]:
        """The switch that joins two nodes, and by which of its matchings."""
        return divmod((target - source) % self.nodes, self.matchings)


@dataclass(frozen=True)
class Rotating(Static):
    """Links that follow rotor switches: averaged over a cycle they never change.

    The servers of each node follow those of the one before; a node that failed has none.
    """

    schedule: Rotors
    slot: float  # s, the time in which switches turn included
    cell: int  # B
    gap: float  # s in which switches turn: at the beginning of a slot, of staggered ones at the end
    servers_per_node: int
    bulk: float = 0.0  # B; a message of fewer does not wait for its link, where switches turn one after another
    flight: float = 0.0  # s from a node to the next one, of such messages and after their first hop

    def nodes_of(self, servers: int) -> NDArray[np.int32]:
        """[S] the node of each of the first ``servers``."""
        return failures.nodes_of(servers, self.servers_per_node, self.schedule.nodes, self.schedule.failed.nodes)

    def shares(self) -> NDArray[np.float64]:
        """[W, 2] of the links of a cycle of each node that works, those by which it sends to another, and receives."""
        return failures.shares(self.schedule.joined(), self.schedule.failed.nodes)
