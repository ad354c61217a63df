"""Ideal switch: one switch without contention inside, the reference for networks of the same interfaces."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from topoflow.demand import Demand
from topoflow.fabric.base import Fabric
from topoflow.fabric.fat_tree import FatTreeNumbering
from topoflow.fabric.routing.base import NO_LINK, Index, Links, Routes
from topoflow.fabric.wiring import Cabling, Interfaces, all_pairs, back, cabled, cached_wiring, check_count, forth


@dataclass(frozen=True)
class IdealSwitch(Interfaces):
    """An electrical switch that scales to any number of servers (TopoOpt 5.1).

                 switch
               /   |    \\        each a duplex cable of degree * bandwidth
        server 0   1  ..  n-1

    It cannot be bought; its bill is that of a full-bisection fat-tree of the same bandwidth (TopoOpt 5.2).
    """

    def __post_init__(self) -> None:
        self.check_interfaces("ideal_switch")

    def build(self, servers: int, demand: Demand) -> Fabric:
        check_count("ideal_switch.servers", servers)
        bandwidth = self.degree * self.bandwidth
        fabric = cabled(
            "ideal_switch",
            _wiring(servers),
            bandwidth=bandwidth,
            latency=self.latency,
            degree=self.degree,
            interface_bandwidth=self.bandwidth,
            bill=FatTreeNumbering.smallest(servers).bill(bandwidth),
        )
        return replace(fabric, is_ideal=True)


@cached_wiring
def _wiring(servers: int) -> Cabling:
    return Cabling.of(servers, all_pairs(np.arange(servers), servers), StarRoutes(), ["switch"])


@dataclass(frozen=True)
class StarRoutes(Routes):
    """Routes up the cable of the source and down that of the target."""

    def choices(self, source: Index, target: Index) -> Index:
        return np.ones((len(source), 1), np.int64)

    def links(self, source: Index, target: Index, number: Index) -> Links:
        hops = np.stack([forth(source), back(target)], axis=1)
        hops[source == target] = NO_LINK
        return hops.astype(np.int32)
