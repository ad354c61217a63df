"""A square of servers whose transceivers send when they have something to send: the network of FOSquare.

    rack i: servers (i, 0) .. (i, S-1) are joined by the intra-rack switch i;
    place j: servers (0, j) .. (R-1, j) are joined by the inter-rack switch j

Server (i, j) has the number i S + j. A switch has no buffers: it accepts one of the packets that are sent to
transceiver t of a server in one slot. Transceiver t sends to transceiver t, as each has a wavelength of its own.

Source: FOSquare (Yan et al., Photonics 2021), 2 and Figure 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from topoflow.fabric.base import Static

MOST_ROOM = 255  # packets; the kernel counts them in a byte
MIN_ROOM = 2  # packets: a place for the server's own, and one that is kept for those of others


@dataclass(frozen=True)
class Square:
    """``racks`` times ``servers_per_rack`` nodes with transceivers to both switches."""

    racks: int
    servers_per_rack: int
    intra: int  # transceivers of a server to the switch of its rack
    inter: int  # and to that of its place
    room: int  # packets that the buffer of a transceiver holds

    @property
    def nodes(self) -> int:
        return self.racks * self.servers_per_rack

    @property
    def slots(self) -> int:
        """Of an epoch."""
        return 1

    def first_kinds(self, source: int, target: int) -> tuple[int, ...]:
        """By which transceivers shortest paths between two nodes begin; 0: to the rack's switch, 1: to the other."""
        (rack, place), (other, there) = divmod(source, self.servers_per_rack), divmod(target, self.servers_per_rack)
        return (0,) if rack == other else (1,) if place == there else (0, 1)

    def next_node(self, node: int, target: int, kind: int) -> int:
        """The node that a packet for ``target`` comes to from ``node`` by a switch of this kind."""
        (rack, place), (other, there) = divmod(node, self.servers_per_rack), divmod(target, self.servers_per_rack)
        return rack * self.servers_per_rack + there if kind == 0 else other * self.servers_per_rack + place

    def member(self, node: int, kind: int) -> int:
        """The place of a node among those that a switch of this kind joins."""
        return node // self.servers_per_rack if kind else node % self.servers_per_rack


@dataclass(frozen=True)
class OnDemand(Static):
    """Switches that are asked for every packet. Links are always there, so that their averages never change."""

    schedule: Square
    slot: float  # s, gap included
    cell: int  # B of payload of a packet
    arrive: tuple[float, float]  # s from the beginning of a slot until a packet has arrived, by kind of transceiver
    buffering: float  # s that a server needs before it sends what it has

    def nodes_of(self, servers: int) -> NDArray[np.int32]:
        """[S] servers are nodes."""
        return np.arange(servers, dtype=np.int32)
