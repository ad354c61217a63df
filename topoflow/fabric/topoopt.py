"""TopoOpt: servers wired to each other by optical circuits that are set up for the job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from topoflow.fabric.base import Demand, Fabric, Item, Path
from topoflow.fabric.coin_change import coin_change
from topoflow.fabric.routing import ShortestPaths
from topoflow.fabric.topology_finder import Group, find_topology
from topoflow.fabric.wiring import check_count, check_interfaces, direct_bill, server_names

OPTICS = ("patch_panel", "ocs")


@dataclass(frozen=True)
class TopoOpt:
    """The direct-connect fabric of TopoOpt (Wang et al., NSDI 2023) for a given demand.

           optical switch 1     ..     optical switch d
              /   |    \\                 /   |    \\
        server 0  1 .. n-1          server 0  1 .. n-1       the same n servers, d interfaces each

    A circuit is simplex: it takes a transmit port at one server and a receive port at another; a server has
    ``degree`` of both. Circuits form rings for the all-reduce groups and matched pairs for the rest
    (``topology_finder``); hosts forward. Parallel circuits are one link of their summed bandwidth. ``rings`` of the
    fabric are the orders in which an all-reduce group finds its circuits.

    Routes: "all_reduce" takes a direct circuit, else the coin-change route over the rings of the group that both
    servers are in; "mp" is hashed over up to ``paths`` of the shortest paths of the whole graph (the
    paper says k-shortest, not which k). Longer paths than the shortest are not used, as every hop
    more is bandwidth tax (TopoOpt 5.4).

    ``optics``: patch panels are slow to set up, so each interface has a 1x2 switch and a second, look-ahead panel
    port for the next job (TopoOpt C, G); an OCS ("ocs") needs one port per interface.
    """

    bandwidth: float  # B/s of one interface, each direction
    degree: int  # interfaces per server
    latency: float  # s per circuit
    paths: int  # at most so many shortest paths for a pair
    optics: str = "patch_panel"

    def __post_init__(self) -> None:
        check_interfaces("topoopt", self.bandwidth, self.degree, self.latency)
        check_count("topoopt.paths", self.paths)
        if self.optics not in OPTICS:
            raise ValueError(f"topoopt.optics: must be one of {', '.join(OPTICS)}, got {self.optics!r}")

    def build(self, servers: int, demand: Demand) -> Fabric:
        check_count("topoopt.servers", servers)
        topology = find_topology(servers, self.degree, demand)
        circuits = dict(sorted(topology.circuits().items()))
        ends = np.array(list(circuits), dtype=np.int32).reshape(-1, 2)
        shortest = ShortestPaths(server_names(servers), ends[:, 0], ends[:, 1], self.paths)
        links = {pair: link for link, pair in enumerate(circuits)}
        return Fabric(
            name="topoopt",
            servers=servers,
            nodes=server_names(servers),
            source=ends[:, 0],
            target=ends[:, 1],
            bandwidth=self.bandwidth * np.array(list(circuits.values()), dtype=np.float64),
            latency=np.full(len(circuits), float(self.latency)),
            route=Routes(links, topology.strides, shortest),
            degree=self.degree,
            interface_bandwidth=float(self.bandwidth),
            bill=self._bill(servers * self.degree),
            rings=topology.rings(),
        )

    def _bill(self, ports: int) -> tuple[Item, ...]:
        """TopoOpt, Appendix G. All interfaces are bought, whatever this job does with them."""
        if self.optics == "ocs":
            return (*direct_bill(ports, ports, self.bandwidth), Item("ocs_port", ports))
        panel = 2 * ports  # active and look-ahead
        return (
            *direct_bill(ports, panel, self.bandwidth),
            Item("optical_switch_1x2", ports),
            Item("patch_panel_port", panel),
        )


class Routes:
    """TopoOpt 4.2, Algorithm 1, lines 19-20."""

    def __init__(
        self,
        links: Mapping[tuple[int, int], int],
        strides: Mapping[Group, tuple[int, ...]],
        shortest: ShortestPaths,
    ) -> None:
        self.links = links
        self.shortest = shortest
        self.position = {group: {server: at for at, server in enumerate(group)} for group in strides}
        self.ways = {group: coin_change(len(group), coins) for group, coins in strides.items() if coins}

    def __call__(self, source: int, target: int, kind: str) -> tuple[Path, ...]:
        if kind == "all_reduce":
            if (source, target) in self.links:
                return ((self.links[source, target],),)
            for group, ways in self.ways.items():
                if source in self.position[group] and target in self.position[group]:
                    return (self._pay(group, ways, source, target),)
        return self.shortest(source, target, kind)

    def _pay(self, group: Group, ways: tuple[tuple[int, ...], ...], source: int, target: int) -> Path:
        """The links of the coin-change route from ``source`` to ``target`` in ``group``."""
        start = self.position[group][source]
        distance = (self.position[group][target] - start) % len(group)
        path = []
        for coin in ways[distance]:
            end = (start + coin) % len(group)
            path.append(self.links[group[start], group[end]])
            start = end
        return tuple(path)
