"""Where the nodes of a network are drawn: a torus as a grid, a dragonfly in groups, tiers as tiers, others on a circle.

Shapes: N nodes.
"""

from __future__ import annotations

from math import isqrt, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topoflow.fabric.base import Fabric
from topoflow.report.draw.network.tiers import tiers

Floats = NDArray[np.float64]


def places(fabric: Fabric) -> Floats:
    """Places [N, 2], about within -1..1."""
    route: Any = fabric.route
    dims = getattr(route, "dims", None)
    if not fabric.has_switches:
        return on_grid(dims) if dims is not None and prod(dims) == fabric.servers else on_circle(fabric.servers)
    group = _groups(fabric)
    return in_tiers(fabric) if group is None else in_groups(fabric, group)


def on_grid(dims: tuple[int, ...]) -> Floats:
    """Places of a lattice whose last dimension varies fastest: it is to the right, the one before down, and so on."""
    number, place = np.arange(prod(dims)), np.zeros((prod(dims), 2))
    size, stride = np.ones(2), 1
    for dimension, length in enumerate(reversed(dims)):
        axis = dimension % 2
        step = size[axis] * (1.0 if dimension < 2 else 1.3)  # a third dimension are copies side by side
        place[:, axis] += (number // stride % length) * step
        size[axis] = length * step
        stride *= length
    span = np.maximum(place.max(axis=0), 1)
    return np.asarray(2 * place / span.max() - span / span.max(), dtype=np.float64) * [1, -1]


def on_circle(servers: int) -> Floats:
    """Places [servers, 2] on the unit circle, clockwise from the top."""
    angle = np.pi / 2 - 2 * np.pi * np.arange(servers) / max(1, servers)
    return np.column_stack((np.cos(angle), np.sin(angle)))


def in_tiers(fabric: Fabric) -> Floats:
    """Places [N, 2]: servers at the bottom, every tier evenly spread over the width, tiers 0.5 apart."""
    tier = tiers(fabric)
    place = np.zeros((len(fabric.nodes), 2))
    for level in range(int(tier.max()) + 1):
        nodes = np.flatnonzero(tier == level)
        place[nodes, 0] = 2 * (np.arange(len(nodes)) + 0.5) / len(nodes) - 1
        place[nodes, 1] = 0.5 * level
    return place


def in_groups(fabric: Fabric, group: NDArray[np.int64]) -> Floats:
    """Places [N, 2]: groups on a large circle, the switches of each on a small one, servers outside of their switch."""
    groups = int(group.max()) + 1
    centre, place = on_circle(groups), np.zeros((len(fabric.nodes), 2))
    radius = min(0.6, 2.2 / groups)
    for number in range(groups):
        mine = np.flatnonzero(group == number)
        place[fabric.servers + mine] = centre[number] + 0.5 * radius * on_circle(len(mine))
    up = np.flatnonzero((fabric.source < fabric.servers) & (fabric.target >= fabric.servers))
    switch = np.zeros(fabric.servers, np.int64)
    switch[fabric.source[up]] = fabric.target[up]
    for number in np.unique(switch).tolist():
        mine = np.flatnonzero(switch == number)
        away = place[number] - centre[group[number - fabric.servers]]
        turn = np.arctan2(away[1], away[0]) + np.linspace(-0.5, 0.5, len(mine) + 2)[1:-1] * 2 * np.pi / (
            1 + isqrt(len(up))
        )
        out = 0.9 * radius * np.column_stack((np.cos(turn), np.sin(turn)))
        place[mine] = centre[group[number - fabric.servers]] + out
    return place


def _groups(fabric: Fabric) -> NDArray[np.int64] | None:
    """The group of every switch, from names such as "router 3.1"; None where it is of tiers."""
    switches = fabric.nodes[fabric.servers :]
    if (np.unique(tiers(fabric)[fabric.servers :]).size > 1) or not all("." in name for name in switches):
        return None
    names = [name.rpartition(".")[0] for name in switches]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return np.array([numbers[name] for name in names]) if 1 < len(numbers) < len(names) else None
