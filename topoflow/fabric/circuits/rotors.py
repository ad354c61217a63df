"""Matchings that optical switches cycle through, and links that send many cells in a slot: the network of RotorNet.

    rotor switch 0    slot 0: i -> i + 0    slot 1: i -> i + 1   ..  slot P-1: i -> i + P - 1
    rotor switch 1            i -> i + P            i -> i + P + 1 ..         (all modulo N)
    ...

Every node has an uplink to each of U switches. In a slot each switch joins every node to one other; all switches turn
to their next matching at once. After P = ceil(N / U) slots, a cycle, every pair of nodes has been joined once; where U
is no divisor of N some matchings of the last switch are empty, and so is the one that joins nodes to themselves.

Source: RotorNet (Mellette et al., SIGCOMM 2017): rotor switches, each with a fixed part of the N - 1 matchings that
together join all pairs. Ours: that these are shifts by 0 .. N-1 in this order; the paper asks for any disjoint ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from topoflow.fabric.base import Static
from topoflow.fabric.circuits.schedule import EMPTY, MAX_NODES

MOST_CELLS = 255  # of a link in a slot; the kernel counts them in a byte


@dataclass(frozen=True)
class Rotors:
    """The cycle of ``switches`` that join ``nodes``; a link sends ``cells`` in a slot."""

    nodes: int
    switches: int
    cells: int

    def __post_init__(self) -> None:
        for name, most in (("nodes", MAX_NODES), ("switches", self.nodes), ("cells", MOST_CELLS)):
            least, value = 2 if name == "nodes" else 1, getattr(self, name)
            if not least <= value <= most:
                raise ValueError(f"rotors.{name}: must be within {least}..{most}, got {value}")

    @property
    def slots(self) -> int:
        """Of an epoch: protocols of rotors begin anew in each slot."""
        return 1

    @property
    def cycle(self) -> int:
        """P, slots until every pair has been joined."""
        return -(-self.nodes // self.switches)

    @property
    def links(self) -> int:
        """Of a node, one to each switch."""
        return self.switches

    def target(self, node: int, switch: int, slot: int) -> int:
        """The node that a switch joins ``node`` to, EMPTY: none, or the node itself."""
        shift = switch * self.cycle + slot % self.cycle
        return (node + shift) % self.nodes if 0 < shift < self.nodes else EMPTY

    def meeting(self, source: int, target: int) -> tuple[int, int]:
        """The switch that joins two nodes, and in which slot of a cycle."""
        return divmod((target - source) % self.nodes, self.cycle)


@dataclass(frozen=True)
class Rotating(Static):
    """Links that follow rotor switches: averaged over a cycle they never change."""

    schedule: Rotors
    slot: float  # s, the time in which switches turn included
    cell: int  # B
    gap: float  # s at the beginning of a slot, in which switches turn
    servers_per_node: int

    def nodes_of(self, servers: int) -> NDArray[np.int32]:
        """[S] the node of each server."""
        return (np.arange(servers) // self.servers_per_node).astype(np.int32)

    def shares(self) -> NDArray[np.float64]:
        """[N, 2] of the links that a node sends and receives by, the part that works: all, as no failures are known."""
        return np.ones((self.schedule.nodes, 2))
