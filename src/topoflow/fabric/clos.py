"""Clos: leaves, spines and cores of equal switches, with ports at leaves by node or by rail."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from topoflow.demand import Demand
from topoflow.fabric.base import Fabric
from topoflow.fabric.routing.base import NO_LINK, Index, Links, Routes
from topoflow.fabric.wiring import (
    Cabling,
    Interfaces,
    back,
    cabled,
    cached_wiring,
    check_cables,
    check_count,
    forth,
    switched_bill,
)


@dataclass(frozen=True)
class Clos(Interfaces):
    """A folded Clos network of the ports of nodes, in two layers or, with several pods, in three.

        core              0    1  ..            only between pods; core group s is cabled to spine s of each pod
                         /|    |
        spine     0.0  0.1    1.0  1.1          as many in a pod as a leaf has uplinks, each cabled to each leaf
                   | x  |      | x  |
        leaf      0.0  0.1    1.0  1.1          ``leaf_ports`` ports of nodes below each
                  rail 0  1   rail 0  1

    With ``rails`` a leaf has the ports of one rail, of ``leaf_ports`` consecutive nodes; without, the ports of nodes
    one after the other. ``separate`` rails share no switch: ports of different rails have no path. ``planes`` are equal
    copies of the network among which the bandwidth of each port is divided; a connection takes one of them. A flow is
    hashed over all paths. Sources: NVIDIA, DGX SuperPOD reference architecture (rails); Wang et al., "Rail-only", HOTI
    2024 (separate rails); Gangidi et al., "RDMA over Ethernet for distributed AI training at Meta scale", SIGCOMM 2024
    (pods below an oversubscribed layer).
    """

    leaf_ports: int = 32  # half of the ports of a switch
    rails: bool = False
    separate: bool = False
    planes: int = 1
    oversubscription: float = 1.0  # of leaves: bandwidth to nodes over bandwidth to spines
    pod_leaves: int | None = None  # None: all leaves in one pod, or leaf_ports where a spine has no room for all
    pod_oversubscription: float = 1.0  # of spines: bandwidth to leaves over bandwidth to cores
    name: str = "clos"

    def __post_init__(self) -> None:
        self.check_interfaces(self.name)
        for name in ("leaf_ports", "planes"):
            check_count(f"{self.name}.{name}", getattr(self, name))
        if self.pod_leaves is not None:
            check_count(f"{self.name}.pod_leaves", self.pod_leaves)
        for name in ("oversubscription", "pod_oversubscription"):
            if not getattr(self, name) >= 1:
                raise ValueError(f"{self.name}.{name}: must be at least 1, got {getattr(self, name)}")
        if self.separate and not self.rails:
            raise ValueError(f"{self.name}.separate: must be false without rails, got true")

    def build(self, servers: int, demand: Demand) -> Fabric:
        """Return the network of servers with one port each."""
        return self.build_ports(servers, 1)

    def build_ports(self, nodes: int, ports: int) -> Fabric:
        """Return the network of ``ports`` rails of each of the ``nodes``; endpoint n * ``ports`` + r is rail r of n."""
        wiring, switch_ports = _wiring(replace(self, bandwidth=1.0, latency=0.0), nodes, ports)
        bandwidth = self.degree * self.bandwidth / self.planes
        return cabled(
            self.name,
            wiring,
            bandwidth=bandwidth,
            latency=self.latency,
            degree=self.degree,
            interface_bandwidth=self.bandwidth,
            bill=switched_bill(self.planes * nodes * ports, switch_ports, wiring.cables, bandwidth),
        )


@cached_wiring
def _wiring(clos: Clos, nodes: int, ports: int) -> tuple[Cabling, int]:
    """Return the wiring of networks that differ in speed alone, and the number of ports of their switches."""
    check_count(f"{clos.name}.servers", nodes)
    endpoints = nodes * ports
    below = min(clos.leaf_ports, nodes if clos.rails else endpoints)  # ports at a leaf
    endpoint = np.arange(endpoints)
    node, rail = np.divmod(endpoint, ports)
    unit = -(-nodes // below) if clos.rails else 1  # leaves of a rail
    leaf = rail * unit + node // below if clos.separate else node // below * ports + rail
    if not clos.rails:
        leaf = endpoint // below
    leaves = int(leaf.max()) + 1
    network = unit if clos.separate else leaves  # leaves that share spines
    pod = clos.pod_leaves or (network if network <= 2 * clos.leaf_ports else clos.leaf_ports)
    up = max(1, round(below / clos.oversubscription)) if network > 1 else 0
    cores = max(1, round(pod / clos.pod_oversubscription)) if network > pod else 0  # of each spine
    tree = ClosRoutes(leaf, network, min(pod, network), up, cores)
    check_cables(clos.name, clos.planes * (leaves * up + tree.spines * cores))
    attached, above, top = tree.cables(endpoints, leaves)
    switches = leaves + tree.spines + tree.cores_in_all
    names = [f"leaf {leaf}" for leaf in range(leaves)] + [f"spine {spine}" for spine in range(tree.spines)]
    names += [f"core {core}" for core in range(tree.cores_in_all)]
    cables = np.concatenate([attached, above, top])
    copies = [np.where(cables < endpoints, cables, cables + plane * switches) for plane in range(clos.planes)]
    if clos.planes > 1:
        names = [f"{name} of plane {plane}" for plane in range(clos.planes) for name in names]
    route = replace(tree, planes=clos.planes, plane_cables=len(cables))
    wiring = Cabling.of(endpoints, np.concatenate(copies), route, names)
    return wiring, clos.planes * (2 * len(cables) - len(attached))


@dataclass(frozen=True)
class ClosRoutes(Routes):
    """All shortest paths, in closed form: branches are the plane, the spine, and the core.

    Cables of a plane: of endpoints, one each; of leaves, one to each spine of their pod; of spines, one to each core of
    their group.
    """

    leaf: Index  # [E] the leaf of each endpoint
    network: int  # leaves that share spines; the others have no path to them
    pod: int  # leaves of a pod
    uplinks: int  # of a leaf, also the spines of a pod
    cores: int  # of a group; 0: one pod
    planes: int = 1
    plane_cables: int = 0

    @property
    def networks(self) -> int:
        return -(-(int(self.leaf.max()) + 1) // self.network)

    @property
    def pods(self) -> int:
        """Return the number of pods of a network."""
        return -(-self.network // self.pod)

    @property
    def spines(self) -> int:
        return self.networks * self.pods * self.uplinks

    @property
    def cores_in_all(self) -> int:
        return self.networks * self.uplinks * self.cores

    def cables(self, endpoints: int, leaves: int) -> tuple[Index, Index, Index]:
        """Return the cables [C, 2] of endpoints, of leaves to spines, and of spines to cores."""
        first_spine, first_core = endpoints + leaves, endpoints + leaves + self.spines
        below = np.stack([np.arange(endpoints), endpoints + self.leaf], axis=1)
        leaf, up = (index.ravel() for index in np.indices((leaves, self.uplinks)))
        above = np.stack([endpoints + leaf, first_spine + self._pod_of(leaf) * self.uplinks + up], axis=1)
        spine, core = (index.ravel() for index in np.indices((self.spines, self.cores)))
        group = spine // (self.pods * self.uplinks) * self.uplinks + spine % max(self.uplinks, 1)
        return below, above, np.stack([first_spine + spine, first_core + group * self.cores + core], axis=1)

    def choices(self, source: Index, target: Index) -> Index:
        """Return [F, 3] the planes, the spines, and the cores to choose from; no spine between separate rails."""
        leaf, far = self.leaf[source], self.leaf[target]
        joined = leaf // self.network == far // self.network
        up = np.where(leaf == far, 1, np.where(joined, self.uplinks, 0))
        core = np.where(self._pod_of(leaf) == self._pod_of(far), 1, self.cores)
        plane = np.where(source == target, 1, self.planes)
        return np.stack([plane, up, np.where(joined, core, 1)], axis=1)

    def links(self, source: Index, target: Index, number: Index) -> Links:
        _, ups, cores = self.choices(source, target).T
        plane, rest = np.divmod(number, np.maximum(ups * cores, 1))
        up, core = np.divmod(rest, cores)
        leaf, far = self.leaf[source], self.leaf[target]
        spines, tops = len(self.leaf), len(self.leaf) + (int(self.leaf.max()) + 1) * self.uplinks
        spine, far_spine = (self._pod_of(of) * self.uplinks + up for of in (leaf, far))
        base = plane * self.plane_cables
        hops = [
            forth(base + source),
            forth(base + spines + leaf * self.uplinks + up),
            forth(base + tops + spine * self.cores + core),
            back(base + tops + far_spine * self.cores + core),
            back(base + spines + far * self.uplinks + up),
            back(base + target),
        ]
        missing = [source == target, leaf == far, self._pod_of(leaf) == self._pod_of(far)]
        return np.where(np.stack([*missing, *missing[::-1]], 1), NO_LINK, np.stack(hops, 1)).astype(np.int32)

    def _pod_of(self, leaf: Index) -> Index:
        network, number = np.divmod(leaf, self.network)
        pod: Index = network * self.pods + number // self.pod
        return pod
