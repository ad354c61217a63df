"""TopoOpt: servers wired to each other by optical circuits that are set up for the job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from topoflow.demand import Demand, Group
from topoflow.digest import ContentHashed
from topoflow.fabric.base import Channels, Fabric, Item, Path
from topoflow.fabric.routing.base import ListedRoutes, Routes
from topoflow.fabric.routing.k_shortest import KShortestPaths
from topoflow.fabric.routing.shortest import ShortestPaths
from topoflow.fabric.topoopt.coin_change import coin_change
from topoflow.fabric.topoopt.topology_finder import COLLECTIVES, find_topology
from topoflow.fabric.wiring import Interfaces, check_count, direct_bill, of_links, server_names
from topoflow.units import check_among

PORTS = {"patch_panel": 1008, "ocs": 384}  # ports of one optical switch (TopoOpt, Table 1)
ROUTES = {"shortest": ShortestPaths, "k_shortest": KShortestPaths}


@dataclass(frozen=True)
class TopoOpt(Interfaces):
    """The direct-connect fabric of TopoOpt (Wang et al., NSDI 2023) for a given demand.

           optical switch 1     ..     optical switch d
              /   |    \\                 /   |    \\
        server 0  1 .. n-1          server 0  1 .. n-1       the same n servers, d interfaces each

    A circuit is simplex: it uses a transmit port of one server and a receive port of another; a server has ``degree``
    of both. Circuits form rings for the all-reduce groups and matched pairs for other traffic (``topology_finder``);
    hosts forward. Parallel circuits are one link of their summed bandwidth. The channels have the ring orders that
    follow the circuits of an all-reduce group, or those of its double binary trees if ``collective`` asks for trees
    (TopoOpt, appendix A).

    ``duplex``: the ports of panels are duplex (TopoOpt B), so that a ring takes two of them at each server and is
    bidirectional: degree / 2 strides, each in both directions, in place of ``degree`` directed ones. Without
    ``mp_circuits`` model-parallel traffic gets no circuits; hosts forward it over the rings.

    An all-reduce takes a direct circuit; otherwise the coin-change route over the rings of a group of both servers, if
    rings were built; otherwise a route of other traffic. That has up to ``paths`` paths of the whole graph: ``routes``
    "shortest" takes equally short ones, "k_shortest" also longer ones (TopoOpt 4.2: "k-shortest path routing", without
    k).

    ``optics``: patch panels are slow to set up, so each interface has a 1x2 switch and a second, look-ahead panel
    port for the next job (TopoOpt C, G); an OCS ("ocs") needs one port per interface. A server takes one port of each
    of the ``degree`` switches, so that a switch needs a port for every server. ``fibers`` are bought per interface;
    None: one for each panel or OCS port.
    """

    paths: int  # largest number of paths of a pair
    optics: str = "patch_panel"
    ports: int | None = None  # of one optical switch; None: those of the largest of its kind
    routes: str = "shortest"
    collective: str = "ring"  # the algorithm that circuits are built for
    primes_above: int = 1008  # groups of more servers have rings of prime strides only
    fibers: int | None = None  # bought per interface
    duplex: bool = False  # bidirectional rings
    mp_circuits: bool = True  # whether model-parallel traffic gets circuits

    def __post_init__(self) -> None:
        self.check_interfaces("topoopt")
        check_count("topoopt.paths", self.paths)
        check_among("topoopt.routes", self.routes, ROUTES)
        check_among("topoopt.collective", self.collective, COLLECTIVES)
        check_count("topoopt.primes_above", self.primes_above)
        check_among("topoopt.optics", self.optics, PORTS)
        for name in ("ports", "fibers"):
            if getattr(self, name) is not None:
                check_count(f"topoopt.{name}", getattr(self, name))
        for name in ("duplex", "mp_circuits"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"topoopt.{name}: must be true or false, got {getattr(self, name)!r}")
        if self.duplex and self.degree < 2:
            raise ValueError(f"topoopt.degree: must be at least 2 for rings of duplex circuits, got {self.degree}")
        if self.degree > self._ports:
            raise ValueError(f"topoopt.degree: must be at most the {self._switch}, got {self.degree}")

    def build(self, servers: int, demand: Demand) -> Fabric:
        check_count("topoopt.servers", servers)
        if servers > self._ports:
            raise ValueError(f"topoopt.servers: must be at most the {self._switch}, got {servers}")
        served = demand if self.mp_circuits else Demand(demand.servers, demand.all_reduce)
        topology = find_topology(servers, self.degree, served, self.primes_above, self.collective, duplex=self.duplex)
        circuits = dict(sorted(topology.circuits().items()))
        ends = np.array(list(circuits), dtype=np.int32).reshape(-1, 2)
        mp = ROUTES[self.routes](server_names(servers), ends[:, 0], ends[:, 1], self.paths)
        links = {pair: link for link, pair in enumerate(circuits)}
        return Fabric(
            name="topoopt",
            servers=servers,
            nodes=server_names(servers),
            source=ends[:, 0],
            target=ends[:, 1],
            bandwidth=self.bandwidth * np.array(list(circuits.values()), dtype=np.float64),
            latency=of_links(self.latency, len(circuits)),
            route=mp,
            degree=self.degree,
            interface_bandwidth=self.bandwidth,
            bill=self._bill(servers * self.degree),
            channels=Channels(topology.rings(), topology.trees()),
            reduction_route=ReductionRoutes(links, {} if topology.tree_strides else topology.strides, mp),
        )

    @property
    def _ports(self) -> int:
        return PORTS[self.optics] if self.ports is None else self.ports

    @property
    def _switch(self) -> str:
        return f"{self._ports} ports of an optical switch ({self.optics}: topoopt.ports)"

    def _bill(self, interfaces: int) -> tuple[Item, ...]:
        """Return the bill of materials (TopoOpt, Appendix G), with all interfaces, used by the job or not."""
        panel = self.optics == "patch_panel"
        ports = 2 * interfaces if panel else interfaces  # of a panel: active and look-ahead
        fibers = ports if self.fibers is None else self.fibers * interfaces
        direct = direct_bill(interfaces, fibers, self.bandwidth)
        if panel:
            return (*direct, Item("optical_switch_1x2", interfaces), Item("patch_panel_port", ports))
        return (*direct, Item("ocs_port", ports))


class ReductionRoutes(ContentHashed, ListedRoutes):
    """The routes of all-reduces of TopoOpt 4.2, Algorithm 1, lines 19-20."""

    def __init__(
        self,
        circuits: Mapping[tuple[int, int], int],
        strides: Mapping[Group, tuple[int, ...]],
        mp: Routes,
    ) -> None:
        self.circuits = circuits
        self.mp = mp
        self.position = {group: {server: at for at, server in enumerate(group)} for group in strides}
        self.strides = {group: coin_change(len(group), coins) for group, coins in strides.items() if coins}

    def __call__(self, source: int, target: int) -> tuple[Path, ...]:
        if (source, target) in self.circuits:
            return ((self.circuits[source, target],),)
        for group, strides in self.strides.items():
            if source in self.position[group] and target in self.position[group]:
                return (self._pay(group, strides, source, target),)
        return self.mp(source, target)

    def _pay(self, group: Group, strides: tuple[tuple[int, ...], ...], source: int, target: int) -> Path:
        """Return the links of the coin-change route from ``source`` to ``target`` in ``group``."""
        start = self.position[group][source]
        distance = (self.position[group][target] - start) % len(group)
        path = []
        for coin in strides[distance]:
            end = (start + coin) % len(group)
            path.append(self.circuits[group[start], group[end]])
            start = end
        return tuple(path)
