"""The network of RotorNet: optical switches that cycle through matchings, and links that send many cells in a slot.

    rotor switch 0    slot 0: i -> i + 0    slot 1: i -> i + 1   ..  slot P-1: i -> i + P - 1
    rotor switch 1            i -> i + P            i -> i + P + 1 ..         (all modulo N)
    ...

Every node has an uplink to each of U switches. In a slot each switch joins every node to one other; all switches turn
to their next matching simultaneously. After P = ceil(N / U) slots, a cycle, every pair of nodes has been joined once.
If U does not divide N, some matchings of the last switch are empty; the one that joins nodes to themselves always is.

The schedule leaves out failed parts: their links carry nothing, and no node accepts cells for another that it is not
joined to. A failed node takes 1 / (N - 1) of the links of each other node. A failed switch takes the share of its
matchings, P / (N - 1), minus one matching if it has the empty one. A failed transceiver takes the same share of the
links of its node.

Source: RotorNet (Mellette et al., SIGCOMM 2017): each rotor switch has a fixed part of the N - 1 matchings that
together join all pairs. The paper allows any disjoint matchings; our choice are shifts by 0 .. N-1 in this order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from topoflow.fabric.circuits import failures
from topoflow.fabric.circuits.schedule import EMPTY, MAX_NODES, Scheduled

MAX_CELLS = 255  # of a link in a slot; the kernel counts them in a byte


@dataclass(frozen=True)
class FailedRotors:
    """Failed parts of a network of rotor switches."""

    nodes: tuple[int, ...] = ()
    switches: tuple[int, ...] = ()
    transceivers: tuple[tuple[int, int], ...] = ()  # (node, switch), in both directions

    def __bool__(self) -> bool:
        return bool(self.nodes or self.switches or self.transceivers)


@dataclass(frozen=True)
class Rotors:
    """The cycle of ``switches`` that join ``nodes``, without ``failed`` parts; a link sends ``cells`` in a slot."""

    network: ClassVar[str] = "rotornet"

    nodes: int
    switches: int
    cells: int
    failed: FailedRotors = field(default=FailedRotors())

    def __post_init__(self) -> None:
        for name, most in (("nodes", MAX_NODES), ("switches", self.nodes), ("cells", MAX_CELLS)):
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
        """Return the number of slots of an epoch: protocols of rotors restart in each slot."""
        return 1

    @property
    def matchings(self) -> int:
        """Return the number of matchings P of a switch."""
        return -(-self.nodes // self.switches)

    @property
    def cycle(self) -> int:
        """Return the number of slots until every pair has been joined."""
        return self.matchings

    @property
    def links(self) -> int:
        """Return the number of links of a node, one to each switch."""
        return self.switches

    @property
    def stored(self) -> int:
        """Return the largest number of cells that a node stores for another, which its links to it carry in a cycle."""
        return self.cells

    def target(self, node: int, switch: int, slot: int) -> int:
        """Return the node that a switch joins ``node`` to; EMPTY: none, or the node itself."""
        shift = switch * self.matchings + slot % self.cycle
        other = (node + shift) % self.nodes
        return other if 0 < shift < self.nodes and self.joins(node, other) else EMPTY

    def joins(self, source: int, target: int) -> bool:
        """Return whether all parts between two nodes work."""
        failed, (switch, _) = self.failed, self.meeting(source, target)
        return not failed or not (
            source in failed.nodes
            or target in failed.nodes
            or switch in failed.switches
            or (source, switch) in failed.transceivers
            or (target, switch) in failed.transceivers
        )

    def joined(self) -> NDArray[np.bool_]:
        """Return [N, N] whether each node has a link to each other in a cycle."""
        is_joined = ~np.eye(self.nodes, dtype=bool)
        nodes = list(self.failed.nodes)
        is_joined[nodes] = is_joined[:, nodes] = False
        joining_switch = self.joining() // self.matchings  # [N, N] the switch that joins them
        is_joined[np.isin(joining_switch, self.failed.switches)] = False
        for node, switch in self.failed.transceivers:
            is_joined[node, joining_switch[node] == switch] = is_joined[joining_switch[:, node] == switch, node] = False
        return is_joined

    def joining(self) -> NDArray[np.int64]:
        """Return [N, N] the number of the matching that joins two nodes: P of the first switch, P of the next, ..."""
        nodes = np.arange(self.nodes)
        return (nodes - nodes[:, None]) % self.nodes

    def meeting(self, source: int, target: int) -> tuple[int, int]:
        """Return the switch that joins two nodes, and the number of its matching."""
        return divmod((target - source) % self.nodes, self.matchings)


@dataclass(frozen=True)
class Rotating(Scheduled):
    """A control by rotor switches."""

    schedule: Rotors
    gap: float  # s in which switches turn, at the beginning of a slot; at its end if they are staggered
    bulk: float = 0.0  # B; smaller messages do not wait for a direct link (staggered switches only)
    flight: float = 0.0  # s of a hop of such messages, from node to node
