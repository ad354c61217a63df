"""Ring: servers in a circle."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topoflow.demand import Demand
from topoflow.fabric.base import Channels, Fabric
from topoflow.fabric.channels.hamiltonian import both_directions
from topoflow.fabric.routing.shortest import ShortestPaths
from topoflow.fabric.torus import TorusRoutes, grid_fabric
from topoflow.fabric.wiring import check_count, check_interfaces, direct_bill, server_names


@dataclass(frozen=True)
class Ring:
    """A ring in which every server is cabled to the next, and the last to the first.

        0 ==== 1 ==== 2 ==== .. ==== n-1 ==== (0)

    Half of the ``degree`` interfaces go to each neighbour (all of them, between two servers); an odd interface is not
    used. Parallel cables are one link of their summed bandwidth. With ``degree`` 1 the ring is simplex: the interface
    transmits to the next server and receives from the previous one. Hosts forward in the shorter direction; to the
    opposite server both directions are used. All-reduce over all servers runs in both directions.
    """

    bandwidth: float  # B/s of one interface, each direction
    degree: int  # interfaces per server
    latency: float  # s per link

    def __post_init__(self) -> None:
        check_interfaces("ring", self.bandwidth, self.degree, self.latency)

    def build(self, servers: int, demand: Demand) -> Fabric:
        check_count("ring.servers", servers)
        if self.degree == 1 and servers > 2:
            return self._simplex(servers, demand)
        return grid_fabric("ring", self, TorusRoutes((servers,)), both_directions(tuple(range(servers))), demand)

    def _simplex(self, servers: int, demand: Demand) -> Fabric:
        source = np.arange(servers, dtype=np.int32)
        target = np.roll(source, -1)
        return Fabric(
            name="ring",
            servers=servers,
            nodes=server_names(servers),
            source=source,
            target=target,
            bandwidth=np.full(servers, float(self.bandwidth)),
            latency=np.full(servers, float(self.latency)),
            route=ShortestPaths(server_names(servers), source, target),
            degree=1,
            interface_bandwidth=float(self.bandwidth),
            bill=direct_bill(servers, servers, self.bandwidth),
            channels=Channels(
                {group: (tuple(range(servers)),) for group in demand.all_reduce if len(group) == servers}
            ),
        )
