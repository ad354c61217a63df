"""Racks of servers below one core: networks of slots as seen by fidelities without slots."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from topoflow.fabric.base import Fabric, Item, Static
from topoflow.fabric.circuits.schedule import Scheduled
from topoflow.fabric.routing.base import NO_LINK, Index, Links, Routes
from topoflow.fabric.wiring import Cabling, back, cabled, check_count, forth


class Racked(Protocol):
    """A design of racks with uplinks."""

    @property
    def servers_per_rack(self) -> int: ...
    @property
    def degree(self) -> int: ...
    @property
    def bandwidth(self) -> float: ...
    @property
    def latency(self) -> float: ...
    @property
    def uplink_bandwidth(self) -> float: ...


def count_racks(name: str, servers: int, servers_per_rack: int) -> int:
    """Return the number of racks that the servers fill. Raises ``ValueError`` if a rack stays partially filled."""
    check_count(f"{name}.servers", servers)
    if servers % servers_per_rack:
        raise ValueError(f"{name}.servers_per_rack: must divide the {servers} servers, got {servers_per_rack}")
    return servers // servers_per_rack


def racked(
    name: str,
    design: Racked,
    servers: int,
    *,
    core: str,
    capacity: float,
    control: Scheduled | None,
    ports: int,
    optics: tuple[Item, ...],
) -> Fabric:
    """Return racks that send and receive ``capacity`` B/s, less what ``control`` leaves out; servers have one cable.

    The bill has the ``optics`` of the racks' ``ports``, and rack switches with cables unless servers have the ports.
    ``control`` is None for a single rack, which has nothing to join.
    """
    racks = servers // design.servers_per_rack
    server, rack = np.arange(servers), np.arange(racks)
    cables = np.concatenate(
        [
            np.stack([server, servers + server // design.servers_per_rack], axis=1),
            np.stack([servers + rack, np.full(racks, servers + racks)], axis=1),
        ]
    )
    names = [*(f"rack {number}" for number in range(racks)), core]
    below = design.degree * design.bandwidth
    nics = (Item("nic_port", servers * design.degree, design.bandwidth),)
    switches = (
        Item("nic_port", servers, below),
        Item("switch_port", servers, below),
        Item("switch_port", ports, design.uplink_bandwidth),
        Item("transceiver", 2 * servers, below),
    )
    fabric = cabled(
        name,
        Cabling.of(servers, cables, RackRoutes(servers, design.servers_per_rack), names),
        bandwidth=below,
        latency=design.latency,
        degree=design.degree,
        interface_bandwidth=design.bandwidth,
        bill=(*(nics if design.servers_per_rack == 1 else switches), *optics),
    )
    links = fabric.bandwidth.copy()
    links[2 * servers :] = capacity * (np.ones(2 * racks) if control is None else control.shares().ravel())
    return replace(fabric, bandwidth=links, control=control or Static())


@dataclass(frozen=True)
class RackRoutes(Routes):
    """Routes up to the rack, over the core to another, and down; cables of servers come before those of racks."""

    servers: int
    servers_per_rack: int

    def choices(self, source: Index, target: Index) -> Index:
        return np.ones((len(source), 1), np.int64)

    def links(self, source: Index, target: Index, number: Index) -> Links:
        source_rack, target_rack = source // self.servers_per_rack, target // self.servers_per_rack
        up, down = self.servers + source_rack, self.servers + target_rack
        hops = np.stack([forth(source), forth(up), back(down), back(target)], axis=1)
        hops[source_rack == target_rack, 1:3] = NO_LINK
        hops[source == target] = NO_LINK
        return hops.astype(np.int32)
