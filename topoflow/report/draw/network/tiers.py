"""How far the nodes of a network with switches are from its servers.

Shapes: L links, N nodes.
"""

from __future__ import annotations

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
