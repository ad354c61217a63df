"""The network of FOSquare: a square of servers whose transceivers send packets on demand.

    rack i: servers (i, 0) .. (i, S-1) are joined by the intra-rack switch i;
    place j: servers (0, j) .. (R-1, j) are joined by the inter-rack switch j

Server (i, j) has the number i S + j. A switch has no buffers: it accepts one of the packets that are sent to
transceiver t of a server in one slot. Transceiver t sends to transceiver t, as each has its own wavelength.

Source: FOSquare (Yan et al., Photonics 2021), 2 and Figure 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from topoflow.fabric.base import Static

MAX_ROOM = 255  # packets; the kernel counts them in a byte
MIN_ROOM = 2  # packets: one of the server itself, and one reserved for forwarded packets


@dataclass(frozen=True)
class Square:
    """A square of ``racks`` times ``servers_per_rack`` nodes with transceivers to both switches."""

    racks: int
    servers_per_rack: int
    intra: int  # transceivers of a server to the switch of its rack
    inter: int  # transceivers of a server to the switch of its place
    room: int  # packets that the buffer of a transceiver holds

    @property
    def nodes(self) -> int:
        return self.racks * self.servers_per_rack

    @property
    def slots(self) -> int:
        """Return the number of slots of an epoch."""
        return 1

    def member(self, node: int, kind: int) -> int:
        """Return the position of a node among those that a switch of this kind joins."""
        return node // self.servers_per_rack if kind else node % self.servers_per_rack


@dataclass(frozen=True)
class OnDemand(Static):
    """A control by requests: a switch decides about every packet. The links never change."""

    schedule: Square
    slot: float  # s, including the gap
    cell: int  # B of payload of a packet
    arrive: tuple[float, float]  # s from the beginning of a slot until a packet has arrived, by kind of transceiver
    buffering: float  # s from the arrival of a packet at a server until it can be sent

    def nodes_of(self, servers: int) -> NDArray[np.int32]:
        """Return [S] the node of each server, which is the server itself."""
        return np.arange(servers, dtype=np.int32)
