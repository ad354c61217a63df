"""FOSquare: racks of servers, joined by fast optical switches without buffers within racks and between them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isfinite

import numpy as np

from topoflow.demand import Demand
from topoflow.fabric.base import Fabric, Item
from topoflow.fabric.circuits.on_demand import MIN_ROOM, MOST_ROOM, OnDemand, Square
from topoflow.fabric.routing.base import NO_LINK, Index, Links, Routes
from topoflow.fabric.torus import most_square
from topoflow.fabric.wiring import back, cabled, check_count, check_interfaces, forth
from topoflow.units import check_not_negative


@dataclass(frozen=True)
class FOSquare:
    """A square of servers whose rows and columns are switches (Yan et al., Photonics 2021, 2).

        inter-rack switch      0     1     2
                              /|\\   /|\\   /|\\      one for each place in a rack
        rack 0, its switch --  0     1     2
        rack 1, its switch --  3     4     5       a server has `inter` transceivers up and the others sideways
        rack 2, its switch --  6     7     8

    A packet of ``cells`` cells is sent in a slot: preamble, payload, and a gap in which the switch is set. A packet
    that loses at an output is refused and sent again (``slotted`` has the protocol). Two servers that share neither
    rack nor place are joined by two shortest paths, over a server that forwards.

    For fidelities other than ``slotted`` links carry all that transceivers send, and switches have buffers.
    """

    bandwidth: float  # B/s of one transceiver, each direction
    degree: int  # transceivers of a server
    latency: float  # s of fiber per link; those of racks and between racks may have their own
    servers_per_rack: int | None = None  # None: as many as there are racks, or about
    inter: int = 1  # transceivers of a server to other racks
    cell: int = 1500  # B
    cells: int = 5  # of a packet
    preamble: int = 1000  # bits
    gap: float = 200e-9  # s
    label: float = 20e-9  # s, of a switch
    switching: float = 80e-9  # s, of a switch
    buffering: float = 240e-9  # s, of a server
    buffer: int = 50_000  # B of a transceiver
    intra_latency: float | None = None  # s of fiber per link within a rack; None: ``latency``
    inter_latency: float | None = None

    def __post_init__(self) -> None:
        check_interfaces("fosquare", self.bandwidth, self.degree, self.latency)
        for field in ("inter", "cell", "cells", "preamble", "buffer"):
            check_count(f"fosquare.{field}", getattr(self, field))
        if self.servers_per_rack is not None:
            check_count("fosquare.servers_per_rack", self.servers_per_rack)
        for field in ("gap", "label", "switching", "buffering", "intra_latency", "inter_latency"):
            value = getattr(self, field)
            if value is not None:
                check_not_negative(f"fosquare.{field}", value)
        if not self.inter < self.degree:
            rule = f"must leave one of the {self.degree} transceivers for the rack"
            raise ValueError(f"fosquare.inter: {rule}, got {self.inter}")
        if not (isfinite(self.slot) and MIN_ROOM <= self.room <= MOST_ROOM):
            rule = f"must hold {MIN_ROOM} to {MOST_ROOM} packets of {self.packet} B"
            raise ValueError(f"fosquare.buffer: {rule}, got {self.buffer}")

    @property
    def packet(self) -> int:
        """B of payload."""
        return self.cell * self.cells

    @property
    def room(self) -> int:
        """Packets that the buffer of a transceiver holds."""
        return self.buffer // self.packet

    @property
    def sending(self) -> float:
        """s of preamble and payload."""
        return (self.preamble / 8 + self.packet) / self.bandwidth

    @property
    def slot(self) -> float:
        """s"""
        return self.sending + self.gap

    def square(self, servers: int) -> Square:
        """How these servers are arranged. Raises ``ValueError`` where they make no rectangle."""
        check_count("fosquare.servers", servers)
        size = self.servers_per_rack
        racks, size = most_square(servers) if size is None else (servers // size, size)
        if racks * size != servers:
            raise ValueError(f"fosquare.servers_per_rack: must divide the {servers} servers, got {size}")
        return Square(racks, size, self.degree - self.inter, self.inter, self.room)

    def build(self, servers: int, demand: Demand) -> Fabric:
        square = self.square(servers)
        server = np.arange(servers)
        rack, place = server // square.servers_per_rack, server % square.servers_per_rack
        near, far = servers + rack, servers + square.racks + place
        cables = np.stack([server, near, server, far], axis=1).reshape(-1, 2)
        names = [f"intra-rack switch {each}" for each in range(square.racks)]
        names += [f"inter-rack switch {each}" for each in range(square.servers_per_rack)]
        fabric = cabled(
            "fosquare",
            servers=servers,
            switches=names,
            cables=cables,
            bandwidth=self.bandwidth,
            latency=self.latency,
            degree=self.degree,
            interface_bandwidth=self.bandwidth,
            route=SquareRoutes(square.servers_per_rack),
            bill=self._bill(servers),
        )
        latency = np.array(
            [self.latency if each is None else each for each in (self.intra_latency, self.inter_latency)]
        )
        return replace(
            fabric,
            bandwidth=np.tile(np.repeat([square.intra, square.inter], 2) * self.bandwidth, servers),
            latency=np.tile(np.repeat(latency, 2), servers),
            control=self._control(square, latency),
        )

    def _control(self, square: Square, latency: np.ndarray) -> OnDemand:
        switch = self.label + self.switching
        intra, inter = (float(self.sending + 2 * fiber + switch) for fiber in latency)
        return OnDemand(square, self.slot, self.packet, (intra, inter), self.buffering)

    def _bill(self, servers: int) -> tuple[Item, ...]:
        """A port of a switch has a gate for each of its wavelengths; cables carry all of a server's to a switch."""
        transceivers = servers * self.degree
        return (
            Item("nic_port", transceivers, self.bandwidth),
            Item("transceiver", transceivers, self.bandwidth),
            Item("fast_optical_port", transceivers, self.bandwidth),
            Item("fiber", 2 * servers, self.bandwidth),
        )


@dataclass(frozen=True)
class SquareRoutes(Routes):
    """One switch where two servers share rack or place, else two; the first path crosses the rack's switch first.

    Server s has cable 2s to the switch of its rack, and 2s + 1 to that of its place.
    """

    servers_per_rack: int

    def choices(self, source: Index, target: Index, kind: str) -> Index:
        (rack, place), (other, there) = (divmod(each, self.servers_per_rack) for each in (source, target))
        return np.where((rack != other) & (place != there), 2, 1).reshape(-1, 1)

    def links(self, source: Index, target: Index, number: Index, kind: str) -> Links:
        (rack, place), (other, there) = (divmod(each, self.servers_per_rack) for each in (source, target))
        first = np.where((rack == other) | (place == there), place == there, number)  # 1: the switch of the place
        corner = np.where(first == 0, rack, other) * self.servers_per_rack + np.where(first == 0, there, place)
        hops = np.full((len(source), 4), NO_LINK, np.int64)
        hops[:, 0], hops[:, 1] = forth(2 * source + first), back(2 * corner + first)
        hops[:, 2], hops[:, 3] = forth(2 * corner + 1 - first), back(2 * target + 1 - first)
        hops[corner == target, 2:] = NO_LINK
        hops[source == target] = NO_LINK
        return hops.astype(np.int32)
