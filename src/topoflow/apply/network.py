"""The network of a plan as a fabric, and the single path along which hosts forward packets of each server pair.

Shapes: L links.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from topoflow.fabric.base import Channels, Fabric, Path
from topoflow.fabric.routing.base import ListedRoutes
from topoflow.search.base import Plan, Routes

Pair = tuple[int, int]  # source and target servers


@dataclass(frozen=True, eq=False)
class PlannedRoutes(ListedRoutes):
    """Routes of a plan, as links of a fabric."""

    routes: Routes
    link_of: Mapping[Pair, int]

    def __call__(self, source: int, target: int) -> tuple[Path, ...]:
        if source == target:
            return ((),)
        paths = self.routes[source][target]
        return tuple(tuple(self.link_of[hop] for hop in pairwise(path)) for path in paths)


@dataclass(frozen=True, eq=False)
class SinglePaths(ListedRoutes):
    """One path for each pair of servers."""

    paths: Mapping[Pair, Path]

    def __call__(self, source: int, target: int) -> tuple[Path, ...]:
        return (self.paths[source, target] if source != target else (),)


def fabric_of(plan: Plan, bandwidth: float | None = None, latency: float = 0.0) -> Fabric:
    """Return the circuits of ``plan`` as links, with its ring orders and routes; parallel circuits become one link.

    ``bandwidth``: B/s of an interface; None: the plan's. ``latency``: s of a link, which a plan does not contain. A
    link has the summed bandwidth of its circuits. Raises ``ValueError`` for a plan without circuits, whose network has
    packet switches.
    """
    if not plan.circuits:
        raise ValueError(f"plan.circuits: must join servers, got none: {plan.fabric} has switches of its own")
    rate = plan.bandwidth if bandwidth is None else bandwidth
    circuits = Counter((i, j) for switch in plan.circuits for i, j in enumerate(switch) if j is not None)
    pairs = sorted(circuits)
    ends = np.array(pairs, np.int32).reshape(-1, 2)
    link_of = {pair: link for link, pair in enumerate(pairs)}
    return Fabric(
        name=plan.fabric,
        servers=plan.servers,
        nodes=tuple(f"server{server}" for server in range(plan.servers)),
        source=ends[:, 0],
        target=ends[:, 1],
        bandwidth=rate * np.array([circuits[pair] for pair in pairs], np.float64),
        latency=np.full(len(pairs), float(latency)),
        route=PlannedRoutes(plan.routes["mp"], link_of),
        reduction_route=PlannedRoutes(plan.routes["all_reduce"], link_of),
        degree=plan.degree,
        interface_bandwidth=float(rate),
        channels=Channels(rings={ring.group: ring.orders for ring in plan.rings}),
    )


def forwarded(fabric: Fabric) -> Fabric:
    """Return ``fabric`` with one path for each pair, because hosts forward only by the addresses of both ends.

    Neighbours in a ring order use the path of all-reduces. Each other pair uses the path whose busiest link carries the
    fewest pairs so far, the first in case of ties. Raises ``ValueError`` for a pair without a path.
    """
    ring_hops = {
        hop for orders in fabric.channels.rings.values() for order in orders for hop in pairwise((*order, order[0]))
    }
    load = np.zeros(fabric.links, np.int64)
    paths: dict[Pair, Path] = {}
    pairs = [(i, j) for i in range(fabric.servers) for j in range(fabric.servers) if i != j]
    for pair in sorted(pairs, key=lambda pair: pair not in ring_hops):  # pairs of rings have no choice and come first
        offered = (fabric.for_reductions if pair in ring_hops else fabric).route(*pair)
        if not offered:
            raise ValueError(f"{fabric.name}: must have a path from server {pair[0]} to {pair[1]}, got none")
        chosen = min(offered, key=lambda path: (load[list(path)].max(initial=0), len(path)))
        paths[pair] = chosen
        load[list(chosen)] += 1
    return replace(fabric, route=SinglePaths(paths), reduction_route=None)
