"""Racks of servers below one core: networks of slots as seen by fidelities without slots."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from topoflow.fabric.base import Fabric, Item, Static
from topoflow.fabric.routing.base import NO_LINK, Index, Links, Routes
from topoflow.fabric.wiring import back, cabled, check_count, forth


def count_racks(name: str, servers: int, servers_per_rack: int) -> int:
    """Return the number of racks that the servers fill. Raises ``ValueError`` if a rack stays partially filled."""
    check_count(f"{name}.servers", servers)
    if servers % servers_per_rack:
        raise ValueError(f"{name}.servers_per_rack: must divide the {servers} servers, got {servers_per_rack}")
    return servers // servers_per_rack


def racked(
    name: str,
    *,
    core: str,
    servers: int,
    servers_per_rack: int,
    degree: int,
    bandwidth: float,
    latency: float,
    uplinks: NDArray[np.float64],
    control: Static,
    bill: tuple[Item, ...],
) -> Fabric:
    """Return racks with ``uplinks`` [R, 2] B/s up and down; servers have one cable of ``degree * bandwidth``."""
    racks = len(uplinks)
    server, rack = np.arange(servers), np.arange(racks)
    cables = np.concatenate(
        [
            np.stack([server, servers + server // servers_per_rack], axis=1),
            np.stack([servers + rack, np.full(racks, servers + racks)], axis=1),
        ]
    )
    fabric = cabled(
        name,
        servers=servers,
        switches=[*(f"rack {number}" for number in range(racks)), core],
        cables=cables,
        bandwidth=degree * bandwidth,
        latency=latency,
        degree=degree,
        interface_bandwidth=bandwidth,
        route=RackRoutes(servers, servers_per_rack),
        bill=bill,
    )
    links = fabric.bandwidth.copy()
    links[2 * servers :] = uplinks.ravel()
    return replace(fabric, bandwidth=links, control=control)


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
