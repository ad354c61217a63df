"""Two layers of switches: every leaf has a cable to every spine."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from topoflow.demand import Demand
from topoflow.fabric.base import Fabric
from topoflow.fabric.routing.base import NO_LINK, Index, Links, Routes
from topoflow.fabric.wiring import all_pairs, back, cabled, check_count, check_interfaces, forth, switched_bill


@dataclass(frozen=True)
class LeafSpine:
    """A folded Clos of two layers, with any oversubscription.

        spine     0       1        servers_per_leaf / oversubscription of them
                 / \\  x  / \\
        leaf    0    1     2  ..   each cabled once to every spine
               /|\\  /|\\   /|\\
        server 0..  4..   8..      servers_per_leaf under each leaf

    Every cable carries degree * bandwidth, so a leaf has ``oversubscription`` times as much bandwidth to
    its servers as to the spines. Flows between leaves are hashed over the spines. Servers fill the leaves in
    order; the last leaf may have fewer.
    """

    bandwidth: float  # B/s of one interface, each direction
    degree: int  # interfaces per server, bundled to one link
    latency: float  # s per link
    servers_per_leaf: int
    oversubscription: float = 1.0

    def __post_init__(self) -> None:
        check_interfaces("leaf_spine", self.bandwidth, self.degree, self.latency)
        check_count("leaf_spine.servers_per_leaf", self.servers_per_leaf)
        if not (isfinite(self.oversubscription) and self.oversubscription >= 1):
            raise ValueError(f"leaf_spine.oversubscription: must be at least 1, got {self.oversubscription}")
        if self.spines < 1 or abs(self.spines * self.oversubscription - self.servers_per_leaf) > 1e-9:
            raise ValueError(
                "leaf_spine.oversubscription: servers_per_leaf / oversubscription must be a whole number of spines, "
                f"got {self.servers_per_leaf} / {self.oversubscription:g}"
            )

    @property
    def spines(self) -> int:
        return round(self.servers_per_leaf / self.oversubscription)

    def build(self, servers: int, demand: Demand) -> Fabric:
        check_count("leaf_spine.servers", servers)
        leaves = -(-servers // self.servers_per_leaf)
        server = np.arange(servers)
        below = np.stack([server, servers + server // self.servers_per_leaf], axis=1)
        above = all_pairs(servers + np.arange(leaves), servers + leaves + np.arange(self.spines))
        bandwidth = self.degree * self.bandwidth
        ports = leaves * (self.servers_per_leaf + self.spines) + self.spines * leaves
        return cabled(
            "leaf_spine",
            servers=servers,
            switches=[f"leaf {leaf}" for leaf in range(leaves)] + [f"spine {spine}" for spine in range(self.spines)],
            cables=np.concatenate([below, above]),
            bandwidth=bandwidth,
            latency=self.latency,
            degree=self.degree,
            interface_bandwidth=self.bandwidth,
            route=LeafSpineRoutes(servers, self.servers_per_leaf, self.spines),
            bill=switched_bill(servers, ports, len(below) + len(above), bandwidth),
        )


@dataclass(frozen=True)
class LeafSpineRoutes(Routes):
    """All shortest paths, in closed form; every class of traffic takes the same. The branch is the spine."""

    servers: int
    servers_per_leaf: int
    spines: int

    def choices(self, source: Index, target: Index, kind: str) -> Index:
        return np.where(self._leave(source, target), self.spines, 1)[:, None]

    def links(self, source: Index, target: Index, number: Index, kind: str) -> Links:
        up, down = (self.servers + end // self.servers_per_leaf * self.spines + number for end in (source, target))
        hops = np.stack([forth(source), forth(up), back(down), back(target)], axis=1)
        hops[~self._leave(source, target), 1:3] = NO_LINK
        hops[source == target] = NO_LINK
        return hops.astype(np.int32)

    def _leave(self, source: Index, target: Index) -> NDArray[np.bool_]:
        """[F] whether a pair is under two leaves."""
        leave: NDArray[np.bool_] = source // self.servers_per_leaf != target // self.servers_per_leaf
        return leave
