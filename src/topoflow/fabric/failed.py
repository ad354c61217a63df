"""A fabric after fibers or servers have failed, routed over what is left. L links, N nodes.

What a job sends does not change, but its paths do:

- A connection is offered those of its paths that are whole, as ECMP drops a next hop that is gone. With none left it is
  offered the shortest of what is left: in a direct fabric hosts forward, over circuits that were for other traffic
  (TopoOpt 7: "can temporarily use a link dedicated to MP traffic to recover an AllReduce ring").
- A connection whose path is whole keeps it, as with resilient hashing (``engine.lowering.paths``); so the route knows
  the network before the failure.
- An all-reduce ring that lost a hop goes that way round ("recover"), or hands its bytes to the rings of its group that
  are whole ("drop"; a group whose rings are all hit recovers them).
- Servers are numbered anew without those that failed; a ring closes over the gap that they leave.

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

RECOVERIES = ("recover", "drop")  # what is done about a ring that lost a hop


class Disconnected(ValueError):
    """So much has failed that some server cannot be reached any more."""


def without(
    fabric: Fabric,
    *,
    links: Collection[int] = (),
    fibers: Collection[int] = (),
    servers: Collection[int] = (),
    rings: str = "recover",
) -> Fabric:
    """``fabric`` less whole ``links``, less one fiber of each link in ``fibers``, less ``servers`` and all their links.

    A fiber carries the bandwidth of one interface, so a link of several parallel circuits keeps the others.
    Raises ``ValueError`` for what the fabric does not have, ``Disconnected`` where a server cannot be reached any more.
    """
    if not fabric.is_static:
        raise ValueError(f"{fabric.name}: must keep its circuits to lose one, got a network that reconfigures")
    _check(fabric, "links", links, fabric.links)
    _check(fabric, "fibers", fibers, fabric.links)
    _check(fabric, "servers", servers, fabric.servers)
    if rings not in RECOVERIES:
        raise ValueError(f"rings: must be one of {', '.join(RECOVERIES)}, got {rings!r}")
    bandwidth = fabric.bandwidth.copy()
    bandwidth[list(links)] = 0.0
    np.subtract.at(bandwidth, np.array(list(fibers), np.int64), fabric.interface_bandwidth)
    gone = np.isin(fabric.source, list(servers)) | np.isin(fabric.target, list(servers))
    left = np.flatnonzero((bandwidth > fabric.interface_bandwidth * 1e-9) & ~gone)
    nodes = [node for node in range(len(fabric.nodes)) if node not in servers]
    number = np.full(len(fabric.nodes), -1, np.int32)
    number[nodes] = np.arange(len(nodes))
    source, target = number[fabric.source[left]], number[fabric.target[left]]
    names = tuple(fabric.nodes[node] for node in nodes)
    forwards = not (isinstance(fabric.route, ShortestPaths) and fabric.route.endpoints)
    endpoints = 0 if forwards else fabric.servers - len(set(servers))
    shortest = ShortestPaths(names, source, target, endpoints=endpoints)
    _check_reach(fabric, shortest, [server for server in range(fabric.servers) if server not in servers])
    found = replace(
        fabric,
        servers=fabric.servers - len(set(servers)),
        nodes=names,
        source=source,
        target=target,
        bandwidth=bandwidth[left],
        latency=fabric.latency[left],
        route=_route(fabric, nodes, left, shortest),
        channels=Channels(_orders(fabric.channels.rings, number), _orders(fabric.channels.trees, number)),
    )
    if rings == "recover":
        return found
    return replace(found, channels=Channels(_whole(found, fabric, number), found.channels.trees))


def _route(fabric: Fabric, nodes: list[int], left: NDArray[np.int64], shortest: ShortestPaths) -> Route:
    """As before, where all that was there still is."""
    if len(left) == fabric.links and len(nodes) == len(fabric.nodes):
        return fabric.route
    number = np.full(fabric.links, NO_LINK, np.int32)
    number[left] = np.arange(len(left))
    return Rerouted(fabric, np.array(nodes, np.int64), number, shortest)


@dataclass(frozen=True, eq=False)
class Rerouted(ListedRoutes):
    """A ``Fabric.route``: the paths of ``intact`` that are whole, else the shortest that there are."""

    intact: Fabric  # the network before the failure
    nodes: NDArray[np.int64]  # the number that every node had there
    number: Links  # [L] of every link there, here; NO_LINK: it is gone
    shortest: ShortestPaths

    def is_minimal(self, kind: str) -> bool:
        # A shortest path that is left is still a shortest one.
        return as_routes(self.intact.route).is_minimal(kind)

    def __call__(self, source: int, target: int, kind: str) -> tuple[Path, ...]:
        before = self.intact.route(int(self.nodes[source]), int(self.nodes[target]), kind)
        paths = [tuple(self.number[list(path)].tolist()) for path in before]
        return tuple(path for path in paths if NO_LINK not in path) or self.shortest(source, target, kind)


def _orders(orders: Mapping[Group, Orders], number: NDArray[np.int32]) -> dict[Group, Orders]:
    """Of every group, its members that are left, by their new numbers, in the same orders."""

    def among(order: Group) -> Group:
        return tuple(int(number[server]) for server in order if number[server] >= 0)

    found: dict[Group, Orders] = {}
    for group, of_group in orders.items():
        if len(among(group)) > 1:
            found.setdefault(among(group), tuple(among(order) for order in of_group))
    return found


def _whole(fabric: Fabric, before: Fabric, number: NDArray[np.int32]) -> dict[Group, Orders]:
    """The rings of every group that lost no hop; where all did, all of them.

    A hop is lost that is not direct, unless the ring had it and it was not direct ``before``.
    """
    indirect = {
        (int(number[source]), int(number[target]))
        for orders in before.channels.rings.values()
        for source, target in set(chain.from_iterable(map(_hops, orders))) - _joined(before)
    }
    fine = _joined(fabric) | indirect

    def is_whole(order: Group) -> bool:
        return fine.issuperset(_hops(order))

    return {group: tuple(filter(is_whole, orders)) or orders for group, orders in fabric.channels.rings.items()}


def _hops(order: Group) -> Iterator[tuple[int, int]]:
    return pairwise((*order, *order[:1]))


def _joined(fabric: Fabric) -> set[tuple[int, int]]:
    """Nodes from which a link leads to another."""
    return set(zip(fabric.source.tolist(), fabric.target.tolist(), strict=True))


def _check(fabric: Fabric, field: str, chosen: Collection[int], count: int) -> None:
    for each in chosen:
        if not 0 <= each < count:
            raise ValueError(f"{field}: must be within 0..{count - 1} of {fabric.name}, got {each}")
    if field == "servers" and len(set(chosen)) >= count:
        raise ValueError(f"servers: must leave one of the {count} of {fabric.name}, got {len(set(chosen))}")


def _check_reach(fabric: Fabric, paths: ShortestPaths, servers: list[int]) -> None:
    """Whoever reaches the next server, and so all round, reaches every other."""
    for place, server in enumerate(servers):
        after = (place + 1) % len(servers)
        if len(servers) > 1 and paths.hops(place, after) < 0:
            ends = f"{fabric.nodes[server]!r} to {fabric.nodes[servers[after]]!r}"
            raise Disconnected(f"{fabric.name}: must stay connected, got no path from {ends}")
