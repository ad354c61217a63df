"""Ring: servers in a circle."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topoflow.demand import Demand, Group
from topoflow.fabric.base import Channels, Fabric
from topoflow.fabric.channels.hamiltonian import both_directions
from topoflow.fabric.routing.shortest import ShortestPaths
from topoflow.fabric.torus import TorusRoutes, grid_fabric
from topoflow.fabric.wiring import Interfaces, cached_wiring, check_count, direct_bill, of_links, server_names


@dataclass(frozen=True)
class Ring(Interfaces):
    """A ring in which every server is cabled to the next, and the last to the first.

        0 ==== 1 ==== 2 ==== .. ==== n-1 ==== (0)

    Half of the ``degree`` interfaces go to each neighbour (all of them, between two servers); an odd interface is not
    used. Parallel cables are one link of their summed bandwidth. With ``degree`` 1 the ring is simplex: the interface
    transmits to the next server and receives from the previous one. Hosts forward in the shorter direction; to the
    opposite server both directions are used. All-reduce over all servers runs in both directions.
    """

    def __post_init__(self) -> None:
        self.check_interfaces("ring")

    def build(self, servers: int, demand: Demand) -> Fabric:
        check_count("ring.servers", servers)
        if self.degree == 1 and servers > 2:
            return self._simplex(servers, demand)
        return grid_fabric("ring", self, TorusRoutes((servers,)), both_directions(tuple(range(servers))), demand)

    def _simplex(self, servers: int, demand: Demand) -> Fabric:
        ring = _one_way(servers, tuple(group for group in demand.all_reduce if len(group) == servers))
        bandwidth, latency = (of_links(speed, servers) for speed in (self.bandwidth, self.latency))
        return ring.with_speeds(bandwidth, latency, self.bandwidth, direct_bill(servers, servers, self.bandwidth))


@cached_wiring
def _one_way(servers: int, groups: tuple[Group, ...]) -> Fabric:
    """Return the ring of cables from each server to the next, of any speed, on which ``groups`` reduce in its order."""
    source = np.arange(servers, dtype=np.int32)
    target, names = np.roll(source, -1), server_names(servers)
    return Fabric(
        name="ring",
        servers=servers,
        nodes=names,
        source=source,
        target=target,
        bandwidth=np.ones(servers),
        latency=np.zeros(servers),
        route=ShortestPaths(names, source, target),
        degree=1,
        interface_bandwidth=1.0,
        channels=Channels({group: (tuple(range(servers)),) for group in groups}),
    )
