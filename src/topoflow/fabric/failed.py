"""A fabric after failures of fibers or servers, with new routes. Shapes: L links, N nodes.

A failure does not change the traffic of a job, only its paths:

- A connection chooses among its intact paths, as ECMP drops a failed next hop. If none is intact it chooses among the
  remaining shortest paths: in a direct fabric hosts forward, over circuits that were for other traffic (TopoOpt 7:
  "can temporarily use a link dedicated to MP traffic to recover an AllReduce ring").
- A connection with an intact path keeps it, as with resilient hashing (``engine.lowering.paths``); for this, the route
  knows the network before the failure.
- An all-reduce ring that lost a hop takes a detour ("recover"), or its bytes move to the intact rings of its group
  ("drop"; a group without an intact ring recovers all).
- Servers are renumbered without the failed ones; a ring closes over the gap of a failed server.

Source: TopoOpt (Wang et al., NSDI 2023), 7, "Handling failures".
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, pairwise

import numpy as np
from numpy.typing import NDArray

from topoflow.demand import Group
from topoflow.fabric.base import Channels, Fabric, Orders, Path, Route
from topoflow.fabric.routing.base import NO_LINK, Links, ListedRoutes, as_routes
from topoflow.fabric.routing.shortest import ShortestPaths
from topoflow.units import check_among

RECOVERIES = ("recover", "drop")  # reactions to a ring that lost a hop


class Disconnected(ValueError):
    """An error: some server cannot be reached any more after the failures."""


def without(
    fabric: Fabric,
    *,
    links: Collection[int] = (),
    fibers: Collection[int] = (),
    servers: Collection[int] = (),
    rings: str = "recover",
) -> Fabric:
    """Return ``fabric`` without ``links``, one fiber of each link in ``fibers``, and ``servers`` with their links.

    A fiber carries the bandwidth of one interface, so a link of several parallel circuits keeps the others. Raises
    ``ValueError`` for parts that the fabric does not have, ``Disconnected`` where a server cannot be reached any more.
    """
    if not fabric.is_static:
        raise ValueError(f"{fabric.name}: must keep its circuits to lose one, got a network that reconfigures")
    _check(fabric, "links", links, fabric.links)
    _check(fabric, "fibers", fibers, fabric.links)
    _check(fabric, "servers", servers, fabric.servers)
    check_among("rings", rings, RECOVERIES)
    bandwidth = fabric.bandwidth.copy()
    bandwidth[list(links)] = 0.0
    np.subtract.at(bandwidth, np.array(list(fibers), np.int64), fabric.interface_bandwidth)
    is_gone = np.isin(fabric.source, list(servers)) | np.isin(fabric.target, list(servers))
    remaining = np.flatnonzero((bandwidth > fabric.interface_bandwidth * 1e-9) & ~is_gone)
    nodes = [node for node in range(len(fabric.nodes)) if node not in servers]
    number = np.full(len(fabric.nodes), -1, np.int32)
    number[nodes] = np.arange(len(nodes))
    source, target = number[fabric.source[remaining]], number[fabric.target[remaining]]
    names = tuple(fabric.nodes[node] for node in nodes)
    forwards = not (isinstance(fabric.route, ShortestPaths) and fabric.route.endpoints)
    endpoints = 0 if forwards else fabric.servers - len(set(servers))
    shortest = ShortestPaths(names, source, target, endpoints=endpoints)
    _check_reach(fabric, shortest, [server for server in range(fabric.servers) if server not in servers])
    degraded = replace(
        fabric,
        servers=fabric.servers - len(set(servers)),
        nodes=names,
        source=source,
        target=target,
        bandwidth=bandwidth[remaining],
        latency=fabric.latency[remaining],
        route=_route(fabric, nodes, remaining, shortest),
        channels=Channels(_orders(fabric.channels.rings, number), _orders(fabric.channels.trees, number)),
        reduction_route=fabric.reduction_route and _route(fabric.for_reductions, nodes, remaining, shortest),
    )
    if rings == "recover":
        return degraded
    return replace(degraded, channels=Channels(_intact(degraded, fabric, number), degraded.channels.trees))


def _route(fabric: Fabric, nodes: list[int], remaining: NDArray[np.int64], shortest: ShortestPaths) -> Route:
    """Return the routes after the failure: the original ones if nothing failed."""
    if len(remaining) == fabric.links and len(nodes) == len(fabric.nodes):
        return fabric.route
    number = np.full(fabric.links, NO_LINK, np.int32)
    number[remaining] = np.arange(len(remaining))
    return Rerouted(fabric, np.array(nodes, np.int64), number, shortest)


@dataclass(frozen=True, eq=False)
class Rerouted(ListedRoutes):
    """A ``Fabric.route`` that offers the intact paths of the original network, or else the remaining shortest ones."""

    intact: Fabric  # the network before the failure
    nodes: NDArray[np.int64]  # [N] the original number of every node
    number: Links  # [L] the new number of every original link; NO_LINK: it failed
    shortest: ShortestPaths

    def has_equal_lengths(self) -> bool:
        # An intact shortest path remains a shortest one.
        return as_routes(self.intact.route).has_equal_lengths()

    def __call__(self, source: int, target: int) -> tuple[Path, ...]:
        before = self.intact.route(int(self.nodes[source]), int(self.nodes[target]))
        paths = [tuple(self.number[list(path)].tolist()) for path in before]
        return tuple(path for path in paths if NO_LINK not in path) or self.shortest(source, target)


def _orders(orders: Mapping[Group, Orders], number: NDArray[np.int32]) -> dict[Group, Orders]:
    """Return the orders of every group's remaining members, by their new numbers."""

    def among(order: Group) -> Group:
        return tuple(int(number[server]) for server in order if number[server] >= 0)

    remaining: dict[Group, Orders] = {}
    for group, of_group in orders.items():
        if len(among(group)) > 1:
            remaining.setdefault(among(group), tuple(among(order) for order in of_group))
    return remaining


def _intact(fabric: Fabric, before: Fabric, number: NDArray[np.int32]) -> dict[Group, Orders]:
    """Return the rings of every group that lost no hop, or all rings if all did.

    A ring has lost a hop if the hop is not direct now but was direct ``before``, or did not exist.
    """
    indirect = {
        (int(number[source]), int(number[target]))
        for orders in before.channels.rings.values()
        for source, target in set(chain.from_iterable(map(_hops, orders))) - _joined(before)
    }
    intact = _joined(fabric) | indirect

    def is_intact(order: Group) -> bool:
        return intact.issuperset(_hops(order))

    return {group: tuple(filter(is_intact, orders)) or orders for group, orders in fabric.channels.rings.items()}


def _hops(order: Group) -> Iterator[tuple[int, int]]:
    return pairwise((*order, *order[:1]))


def _joined(fabric: Fabric) -> set[tuple[int, int]]:
    """Return the pairs of nodes that a link joins."""
    return set(zip(fabric.source.tolist(), fabric.target.tolist(), strict=True))


def _check(fabric: Fabric, field: str, chosen: Collection[int], count: int) -> None:
    for number in chosen:
        if not 0 <= number < count:
            raise ValueError(f"{field}: must be within 0..{count - 1} of {fabric.name}, got {number}")
    if field == "servers" and len(set(chosen)) >= count:
        raise ValueError(f"servers: must leave one of the {count} of {fabric.name}, got {len(set(chosen))}")


def _check_reach(fabric: Fabric, paths: ShortestPaths, servers: list[int]) -> None:
    """Raise ``Disconnected`` unless every server reaches the next one, and so, around the circle, every other."""
    for place, server in enumerate(servers):
        next_place = (place + 1) % len(servers)
        if len(servers) > 1 and paths.hops(place, next_place) < 0:
            ends = f"{fabric.nodes[server]!r} to {fabric.nodes[servers[next_place]]!r}"
            raise Disconnected(f"{fabric.name}: must stay connected, got no path from {ends}")
