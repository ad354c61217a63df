"""Structure of a network: tiers by their distance from the servers, groups of switches, a lattice.

Shapes: L links, N nodes.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topoflow.fabric.base import Fabric


def tiers(fabric: Fabric) -> NDArray[np.int64]:
    """Return the distance of every node from the servers [N].

    Switches with the same kind of name ("edge 0.1") are in the tier of the nearest of them.
    """
    hops = _hops(fabric)
    words = [_word(name) for name in fabric.nodes]
    nearest: dict[str, int] = {}
    for word, far in zip(words[fabric.servers :], hops[fabric.servers :].tolist(), strict=True):
        nearest[word] = min(far, nearest.get(word, far))
    distances = [0 if node < fabric.servers else nearest[word] for node, word in enumerate(words)]
    return np.unique(distances, return_inverse=True)[1]  # without gaps


def tier_names(fabric: Fabric) -> list[str]:
    """Return the name of the nodes of every tier."""
    names: dict[int, dict[str, None]] = {}
    for node, tier in enumerate(tiers(fabric).tolist()):
        names.setdefault(tier, {})[fabric.endpoint if node < fabric.servers else _word(fabric.nodes[node])] = None
    return ["/".join(list(names[tier])[:3]) for tier in sorted(names)]


def lattice(fabric: Fabric) -> tuple[int, ...] | None:
    """Return the dimensions of the lattice of servers, or else of switches; None if there is none, or it is a line."""
    route: Any = fabric.route
    dims: tuple[int, ...] | None = getattr(route, "dims", None)
    nodes = len(fabric.nodes) - fabric.servers if fabric.has_switches else fabric.servers
    return dims if dims is not None and prod(dims) == nodes and sum(size > 1 for size in dims) > 1 else None


def groups(fabric: Fabric) -> NDArray[np.int64] | None:
    """Return the group of every switch, from names such as "router 3.1"; None without groups.

    Groups are joined by links between switches of one tier, unlike "edge 0.1" and "edge 1.0" of a fat-tree.
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
    """Return [N] the links from every node to the nearest server; larger than any distance without a path."""
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
    """Return the kind of a node's name: ``edge`` for ``edge 0.1``."""
    return name.rstrip("0123456789.-_ ") or name
