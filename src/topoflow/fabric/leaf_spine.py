"""Leaf-spine: two layers of switches, with a cable from every leaf to every spine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from topoflow.demand import Demand
from topoflow.fabric.base import Fabric
from topoflow.fabric.routing.base import NO_LINK, Index, Links, Routes
from topoflow.fabric.wiring import (
    Interfaces,
    all_pairs,
    back,
    cabled,
    check_count,
    forth,
    of_links,
    switched_bill,
    wire,
)
from topoflow.units import check_not_negative, is_finite


@dataclass(frozen=True)
class LeafSpine(Interfaces):
    """A folded Clos of two layers, with any oversubscription.

        spine     0       1        servers_per_leaf / oversubscription of them, or ``spines``
                 / \\  x  / \\
        leaf    0    1     2  ..   each with one cable to every spine, or a bundle of cables
               /|\\  /|\\   /|\\
        server 0..  4..   8..      servers_per_leaf under each leaf

    The ``degree`` interfaces of a server are bundled to one cable, or spread evenly over the ``leaves_per_group``
    leaves of its group, which have the same servers. A leaf has ``oversubscription`` times as much bandwidth to its
    servers as to the spines. Flows are hashed over the leaves of both groups, and between groups over the spines.
    Servers fill the groups in order; the last group may have fewer.
    """

    servers_per_leaf: int
    oversubscription: float = 1.0
    leaves_per_group: int = 1
    spine_latency: float | None = None  # s per link above a leaf; None: ``latency``
    spines: int | None = None  # None: one for each uplink of a leaf, which is as fast as a server's cable

    def __post_init__(self) -> None:
        self.check_interfaces("leaf_spine")
        check_count("leaf_spine.servers_per_leaf", self.servers_per_leaf)
        check_count("leaf_spine.leaves_per_group", self.leaves_per_group)
        if self.spine_latency is not None:
            check_not_negative("leaf_spine.spine_latency", self.spine_latency)
        if self.degree % self.leaves_per_group:
            rule = f"must be a divisor of the {self.degree} interfaces of a server"
            raise ValueError(f"leaf_spine.leaves_per_group: {rule}, got {self.leaves_per_group}")
        if not (is_finite(self.oversubscription) and self.oversubscription >= 1):
            raise ValueError(f"leaf_spine.oversubscription: must be at least 1, got {self.oversubscription}")
        if self.cables < 1 or abs(self.cables * self.oversubscription - self.servers_per_leaf) > 1e-9:
            raise ValueError(
                "leaf_spine.oversubscription: servers_per_leaf / oversubscription must be a whole number of cables, "
                f"got {self.servers_per_leaf} / {self.oversubscription:g}"
            )
        if self.spines is not None:
            check_count("leaf_spine.spines", self.spines)
            if self.cables % self.spines:
                raise ValueError(
                    f"leaf_spine.spines: must be a divisor of the {self.cables} cables of a leaf, got {self.spines}"
                )

    @property
    def cables(self) -> int:
        """Return the number of cables from a leaf to all spines together."""
        return round(self.servers_per_leaf / self.oversubscription)

    def build(self, servers: int, demand: Demand) -> Fabric:
        check_count("leaf_spine.servers", servers)
        planes, spines = self.leaves_per_group, self.cables if self.spines is None else self.spines
        bundle = self.cables // spines
        plan = LeafSpineRoutes(servers, self.servers_per_leaf, spines, planes)
        below, above = servers * planes, plan.leaves * spines  # cables
        bandwidth = self.degree // planes * self.bandwidth
        ports = plan.leaves * (self.servers_per_leaf + self.cables) + self.cables * plan.leaves
        fabric = cabled(
            "leaf_spine",
            wire(plan),
            bandwidth=bandwidth,
            latency=self.latency,
            degree=self.degree,
            interface_bandwidth=self.bandwidth,
            bill=switched_bill(below, ports, below + above * bundle, bandwidth),
        )
        latency = self.latency if self.spine_latency is None else np.full(np.shape(self.latency), self.spine_latency)
        layers = [
            np.concatenate([of_links(low, 2 * below), of_links(high, 2 * above)], axis=-1)
            for low, high in ((bandwidth, bundle * bandwidth), (self.latency, latency))
        ]
        return fabric.with_speeds(layers[0], layers[1], fabric.interface_bandwidth, fabric.bill)


@dataclass(frozen=True)
class LeafSpineRoutes(Routes):
    """All shortest paths, in closed form.

    The branches are the leaf of the source's group, the spine, and the leaf of the target's group. Cables: of servers,
    one for each leaf; of leaves, one for each spine.
    """

    servers: int
    servers_per_leaf: int
    spines: int
    planes: int = 1  # leaves of a group

    @property
    def leaves(self) -> int:
        return -(-self.servers // self.servers_per_leaf) * self.planes

    def switches(self) -> list[str]:
        """Return the names of leaves and spines."""
        return [f"leaf {leaf}" for leaf in range(self.leaves)] + [f"spine {spine}" for spine in range(self.spines)]

    def cables(self) -> Index:
        """Return [C, 2] the nodes that each cable joins."""
        server, plane = (index.ravel() for index in np.indices((self.servers, self.planes)))
        below = np.stack([server, self.servers + server // self.servers_per_leaf * self.planes + plane], axis=1)
        spine = self.servers + self.leaves + np.arange(self.spines)
        return np.concatenate([below, all_pairs(self.servers + np.arange(self.leaves), spine)])

    def choices(self, source: Index, target: Index) -> Index:
        """Return [F, 3] the alternatives for the source's leaf, the spine, and the target's leaf."""
        away = self._leave(source, target)
        leaf = np.where(source == target, 1, self.planes)
        return np.stack([leaf, np.where(away, self.spines, 1), np.where(away, self.planes, 1)], axis=1)

    def links(self, source: Index, target: Index, number: Index) -> Links:
        away = self._leave(source, target)
        upper_digits, target_plane = np.divmod(number, np.where(away, self.planes, 1))
        source_plane, spine = np.divmod(upper_digits, np.where(away, self.spines, 1))
        target_plane = np.where(away, target_plane, source_plane)
        ends = (source, source_plane), (target, target_plane)
        up, down = (self._to_spine(server, plane, spine) for server, plane in ends)
        first, last = (server * self.planes + plane for server, plane in ends)
        hops = np.stack([forth(first), forth(up), back(down), back(last)], axis=1)
        hops[~away, 1:3] = NO_LINK
        hops[source == target] = NO_LINK
        return hops.astype(np.int32)

    def _to_spine(self, server: Index, plane: Index, spine: Index) -> Index:
        """Return the cable from a leaf of the server's group to a spine."""
        leaf = server // self.servers_per_leaf * self.planes + plane
        return self.servers * self.planes + leaf * self.spines + spine

    def _leave(self, source: Index, target: Index) -> NDArray[np.bool_]:
        """Return [F] whether the servers of a pair are in different groups."""
        leave: NDArray[np.bool_] = source // self.servers_per_leaf != target // self.servers_per_leaf
        return leave
