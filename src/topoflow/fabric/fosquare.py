"""FOSquare: racks of servers, joined by fast bufferless optical switches within racks and between them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from topoflow.demand import Demand
from topoflow.fabric.base import Fabric, Item
from topoflow.fabric.circuits.on_demand import MAX_ROOM, MIN_ROOM, OnDemand, Square
from topoflow.fabric.routing.base import NO_LINK, Index, Links, Routes
from topoflow.fabric.torus import most_square
from topoflow.fabric.wiring import Cabling, back, cabled, check_count, check_interfaces, forth
from topoflow.units import check_not_negative, is_finite


@dataclass(frozen=True)
class FOSquare:
    """A square of servers whose rows and columns are joined by switches (Yan et al., Photonics 2021, 2).

        inter-rack switch      0     1     2
                              /|\\   /|\\   /|\\      one for each place in a rack
        rack 0, its switch --  0     1     2
        rack 1, its switch --  3     4     5       a server has `inter` transceivers up and the others sideways
        rack 2, its switch --  6     7     8

    A packet of ``cells`` cells is sent in a slot: preamble, payload, and a gap in which the switch is set. A packet
    that loses the contention for an output is refused and sent again (``slotted`` has the protocol). Two servers that
    share neither rack nor place are joined by two shortest paths, each over a server that forwards.

    In other fidelities than ``slotted``, links carry all that transceivers send, and switches have buffers.
    """

    bandwidth: float  # B/s of one transceiver, each direction
    degree: int  # transceivers of a server
    latency: float  # s of fiber per link; default of ``intra_latency`` and ``inter_latency``
    servers_per_rack: int | None = None  # None: about as many as there are racks
    inter: int = 1  # transceivers of a server to other racks
    cell: int = 1500  # B
    cells: int = 5  # of a packet
    preamble: int = 1000  # bits
    gap: float = 200e-9  # s
    label: float = 20e-9  # s of label processing in a switch
    switching: float = 80e-9  # s to set a switch
    buffering: float = 240e-9  # s of buffering in a server
    buffer: int = 50_000  # B per transceiver
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
        if not (is_finite(self.slot) and MIN_ROOM <= self.room <= MAX_ROOM):
            rule = f"must hold {MIN_ROOM} to {MAX_ROOM} packets of {self.packet} B"
            raise ValueError(f"fosquare.buffer: {rule}, got {self.buffer}")

    @property
    def packet(self) -> int:
        """Return the payload of a packet (B)."""
        return self.cell * self.cells

    @property
    def room(self) -> int:
        """Return how many packets the buffer of a transceiver holds."""
        return self.buffer // self.packet

    @property
    def sending(self) -> float:
        """Return the time (s) of preamble and payload."""
        return (self.preamble / 8 + self.packet) / self.bandwidth

    @property
    def slot(self) -> float:
        """Return the duration of a slot (s)."""
        return self.sending + self.gap

    def square(self, servers: int) -> Square:
        """Return the arrangement of the servers. Raises ``ValueError`` where they make no rectangle."""
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
        names = [f"intra-rack switch {number}" for number in range(square.racks)]
        names += [f"inter-rack switch {number}" for number in range(square.servers_per_rack)]
        fabric = cabled(
            "fosquare",
            Cabling.of(servers, cables, SquareRoutes(square.servers_per_rack), names),
            bandwidth=self.bandwidth,
            latency=self.latency,
            degree=self.degree,
            interface_bandwidth=self.bandwidth,
            bill=self._bill(servers),
        )
        latency = np.array(
            [self.latency if fiber is None else fiber for fiber in (self.intra_latency, self.inter_latency)]
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
        """Return the bill of materials.

        A switch port has a gate for each of its wavelengths; one cable joins all transceivers of a server to a switch.
        """
        transceivers = servers * self.degree
        return (
            Item("nic_port", transceivers, self.bandwidth),
            Item("transceiver", transceivers, self.bandwidth),
            Item("fast_optical_port", transceivers, self.bandwidth),
            Item("fiber", 2 * servers, self.bandwidth),
        )


@dataclass(frozen=True)
class SquareRoutes(Routes):
    """Routes over one switch between servers that share rack or place, otherwise over two, the rack's first.

    Server s has cable 2s to the switch of its rack, and 2s + 1 to that of its place.
    """

    servers_per_rack: int

    def choices(self, source: Index, target: Index) -> Index:
        rack, place = divmod(source, self.servers_per_rack)
        target_rack, target_place = divmod(target, self.servers_per_rack)
        return np.where((rack != target_rack) & (place != target_place), 2, 1).reshape(-1, 1)

    def links(self, source: Index, target: Index, number: Index) -> Links:
        size = self.servers_per_rack
        (rack, place), (target_rack, target_place) = divmod(source, size), divmod(target, size)
        same_place = place == target_place
        first = np.where((rack == target_rack) | same_place, same_place, number)  # 1: the switch of the place
        corner = np.where(first == 0, rack, target_rack) * size + np.where(first == 0, target_place, place)
        hops = np.full((len(source), 4), NO_LINK, np.int64)
        hops[:, 0], hops[:, 1] = forth(2 * source + first), back(2 * corner + first)
        hops[:, 2], hops[:, 3] = forth(2 * corner + 1 - first), back(2 * target + 1 - first)
        hops[corner == target, 2:] = NO_LINK
        hops[source == target] = NO_LINK
        return hops.astype(np.int32)
