"""Valiant's routing: by way of some server in the middle, so that no pattern of traffic can meet on few links.

A connection gets up to ``MIDDLES`` servers, drawn by a hash of the connection. For each of them it takes one of the
network's paths to it and one from it on, and leaves out what leads in a circle: where switches connect the servers,
only the first switches on the way to and from the middle remain. Its bytes are spread evenly over these paths; packet
by packet, each packet draws one. On a dragonfly that is a random group in the middle, and a random router of it.

Source: Valiant, "A scheme for fast parallel communication", SIAM Journal on Computing 11(2), 1982.
"""

from __future__ import annotations

import numpy as np

from topoflow.engine.lowering.routing import Connections, Index, Split
from topoflow.engine.lowering.routing.ecmp import choose
from topoflow.engine.lowering.routing.spray import split as evenly
from topoflow.fabric.base import Fabric
from topoflow.fabric.routing.base import NO_LINK, Links, as_routes

# As many as ECMP has paths at most (``fabric.routing.shortest.ECMP_PATHS``): a choice of this model.
MIDDLES = 64


def split(choices: Index, connections: Connections, seed: int) -> Split:
    """Evenly over the paths that there are; ``paths`` says which they are."""
    return evenly(choices, connections, seed)


def paths(fabric: Fabric, connections: Connections, seed: int) -> tuple[Links, Split]:
    """Return [S, H] the links of every path that is taken, and whose it is."""
    flows, servers = len(connections.source), fabric.servers
    number = min(MIDDLES, max(servers - 2, 1))
    flow = np.repeat(np.arange(flows), number)
    subflows = Connections(*(field[flow] for field in connections))
    middle = _middles(subflows, np.tile(np.arange(number), flows), servers, number, seed)
    links = np.concatenate(
        [_one_path(fabric, subflows.source, middle, seed), _one_path(fabric, middle, subflows.target, seed)], axis=1
    )
    return _without_circles(fabric, links), Split(flow, np.arange(len(flow)) % number, np.full(len(flow), 1 / number))


def _middles(subflows: Connections, place: Index, servers: int, number: int, seed: int) -> Index:
    """Return [S] servers other than both ends, where there are any; those of a connection lie at equal distances."""
    ends = np.sort(np.stack([subflows.source, subflows.target]), axis=0)
    others = max(servers - 2, 1)
    first = choose(np.full(len(place), others), subflows, seed)
    middle = (first + place * others // number) % others
    middle = middle + (middle >= ends[0])
    middle = middle + (middle >= ends[1])
    return np.where(middle < servers, middle, subflows.target)


def _one_path(fabric: Fabric, source: Index, target: Index, seed: int) -> Links:
    """[S, H] of the network's paths between both, one by a hash."""
    routes = as_routes(fabric.route)
    count = routes.choices(source, target).prod(axis=1)
    if not count.all():
        lost = int(np.argmin(count))
        ends = f"{fabric.nodes[source[lost]]!r} to {fabric.nodes[target[lost]]!r}"
        raise ValueError(f"{fabric.name}.route: must connect all servers, got no path from {ends}")
    return routes.links(source, target, choose(count, Connections(source, target, np.zeros_like(source)), seed))


def _without_circles(fabric: Fabric, links: Links) -> Links:
    """Return rows of links without those that lead back to a node where the path was before."""
    is_hop = links != NO_LINK
    order = np.argsort(~is_hop, axis=1, kind="stable")  # hops first
    links = np.take_along_axis(links, order, axis=1)
    is_hop = np.take_along_axis(is_hop, order, axis=1)
    start = np.where(is_hop, fabric.source[links], NO_LINK)
    end = np.where(is_hop, fabric.target[links], NO_LINK)
    is_kept, until = np.zeros(links.shape, np.bool_), np.zeros(len(links), np.int64)  # hops before it are decided
    for hop in range(links.shape[1]):
        comes_back = (end == start[:, hop : hop + 1]) & is_hop & (np.arange(links.shape[1]) > hop)
        last = links.shape[1] - 1 - np.argmax(comes_back[:, ::-1], axis=1)
        undecided = is_hop[:, hop] & (until <= hop)
        leaves = undecided & ~comes_back.any(axis=1)
        is_kept[leaves, hop] = True
        until = np.where(undecided & ~leaves, last + 1, until)
    return np.where(is_kept, links, NO_LINK).astype(np.int32)
