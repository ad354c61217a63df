"""Routing by address: a connection has its first and its last link, and routers decide about what is between.

Shapes: F connections.
"""

from __future__ import annotations

import numpy as np

from topoflow.engine.lowering.routing import Connections, Routing, Split, one_path, routing_named
from topoflow.fabric.base import Fabric
from topoflow.fabric.failed import Rerouted
from topoflow.fabric.routing.base import NO_LINK, Links
from topoflow.fabric.routing.next_hops import AddressedRoutes, NextHops


def paths(fabric: Fabric, connections: Connections, seed: int) -> tuple[Links, Split]:
    """Return [F, 2] the links from and to the endpoints, and whose they are: one path each."""
    hops = next_hops(fabric)
    ends = np.stack([hops.up[connections.source], hops.down[connections.target]], axis=1)
    is_sent = (connections.source != connections.target)[:, None]
    return np.where(is_sent, ends, NO_LINK).astype(np.int32), one_path(np.zeros(len(ends), np.int64))


def is_by_address(routing: str) -> bool:
    """Return whether paths of this routing have their first and last link only."""
    return has_ends_only(routing_named(routing))


def has_ends_only(routing: Routing) -> bool:
    """The same of a routing."""
    return getattr(routing, "paths", None) is paths


def next_hops(fabric: Fabric) -> NextHops:
    """Return the tables of a fabric. Raises ``ValueError`` where it has none."""
    route: object = fabric.route
    if isinstance(route, AddressedRoutes):
        return route.next_hops()
    before: object = route.intact.route if isinstance(route, Rerouted) else None
    if isinstance(before, AddressedRoutes):
        requirement = "must have paths that the fabric lists (ecmp, spray, ..) where something has failed"
        raise ValueError(f"routing: {requirement}, as tables by address lead to what is gone, got {fabric.name}")
    requirement = "must have paths that the fabric lists (ecmp, spray, ..), as its routers have no tables by address"
    raise ValueError(f"routing: {requirement}, got {fabric.name}")
