"""What a network is made of: tiers by their distance from the servers, groups of switches, a lattice.

Shapes: L links, N nodes.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topoflow.fabric.base import Fabric


def tiers(fabric: Fabric) -> NDArray[np.int64]:
    """How far every node is from the servers [N]; switches of one name ("edge 0.1") are as far as their nearest."""
    hops = _hops(fabric)
    words = [_word(name) for name in fabric.nodes]
    nearest: dict[str, int] = {}
    for word, far in zip(words[fabric.servers :], hops[fabric.servers :].tolist(), strict=True):
        nearest[word] = min(far, nearest.get(word, far))
    found = [0 if node < fabric.servers else nearest[word] for node, word in enumerate(words)]
    return np.unique(found, return_inverse=True)[1]  # without gaps


def tier_names(fabric: Fabric) -> list[str]:
    """What the nodes of every tier are called."""
    names: dict[int, dict[str, None]] = {}
    for node, tier in enumerate(tiers(fabric).tolist()):
        names.setdefault(tier, {})["server" if node < fabric.servers else _word(fabric.nodes[node])] = None
    return ["/".join(list(names[tier])[:3]) for tier in sorted(names)]


def lattice(fabric: Fabric) -> tuple[int, ...] | None:
    """The dimensions of that which its servers are, or else its switches; None: it is none, or a line."""
    route: Any = fabric.route
    dims: tuple[int, ...] | None = getattr(route, "dims", None)
    nodes = len(fabric.nodes) - fabric.servers if fabric.has_switches else fabric.servers
    return dims if dims is not None and prod(dims) == nodes and sum(size > 1 for size in dims) > 1 else None


def groups(fabric: Fabric) -> NDArray[np.int64] | None:
    """The group of every switch, from names such as "router 3.1"; None where it has none.

    Groups are joined by links between switches of one tier. In a fat-tree "edge 0.1" and "edge 1.0" are not.
    """
    places = [name.rpartition(" ")[2].rpartition(".")[0] for name in fabric.nodes[fabric.servers :]]
    numbers = {place: number for number, place in enumerate(dict.fromkeys(places))}
    if "" in numbers or not 1 < len(numbers) < len(places) or lattice(fabric) is not None:
        return None
    group, tier = np.array([numbers[place] for place in places]), tiers(fabric)
    ends = np.stack((fabric.source, fabric.target))
    ends = ends[:, (ends >= fabric.servers).all(axis=0)]
    beside = (tier[ends[0]] == tier[ends[1]]) & (group[ends[0] - fabric.servers] != group[ends[1] - fabric.servers])
    return group if beside.any() else None


def _hops(fabric: Fabric) -> NDArray[np.int64]:
    """Links from every node to the nearest server [N]; larger than any distance where there is no path."""
    hops = np.full(len(fabric.nodes), len(fabric.nodes))
    hops[: fabric.servers] = 0
    while True:
        nearer = hops.copy()
        np.minimum.at(nearer, fabric.target, hops[fabric.source] + 1)
        np.minimum.at(nearer, fabric.source, hops[fabric.target] + 1)
        if (nearer == hops).all():
            return hops
        hops = nearer


def _word(name: str) -> str:
    """``edge 0.1`` is an edge."""
    return name.rstrip("0123456789.-_ ") or name
