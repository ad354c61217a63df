"""Where the nodes of a network are drawn: a torus as a grid, a dragonfly in groups, tiers as tiers, others on a circle.

Pictures and pages draw links as the quadratic Bezier curve from source to target whose control point is the middle and,
to the right of it, ``bend`` times the length: both links of a pair are seen, and those over other nodes go round them.

Shapes: N nodes, L links.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from topoflow.fabric.base import Fabric
from topoflow.report.draw.network.tiers import groups, lattice, tiers

BEND = 0.07  # of a link that passes no node
INWARDS = 0.12  # times the distance of a chord from the centre of its circle: longer ones come nearer to the centre
REACH = 0.4  # of a step of a grid: how far the longest link leaves its line
SWITCHES, SERVERS = 0.55, 0.9  # of the radius of a group: how far from its middle they are
FAN = 0.36  # of a step of a grid: how far servers are from their switch
TIER = 0.5  # between two tiers
OVER = 0.15  # how far links within a tier rise above it

Floats = NDArray[np.float64]
Index = NDArray[np.int64]


@dataclass(frozen=True)
class Layout:
    """Where nodes are, and how links bend. Places are about within -1..1."""

    shape: str  # "grid", "circle", "groups" or "tiers"
    place: Floats  # [N, 2]
    bend: Floats  # [L]
    group: Index | None = None  # [switches] of "groups"

    @property
    def keeps_proportions(self) -> bool:
        """Whether both axes have one scale."""
        return self.shape != "tiers"


def layout(fabric: Fabric) -> Layout:
    """That which suits the network: by what its routes know of its dimensions, by the names of its switches."""
    dims = lattice(fabric)
    if dims is not None:
        place = on_grid(dims)
        step = _step(place)
        place = _with_servers(fabric, place, step) if fabric.has_switches else place
        return Layout("grid", place, _round_nodes(fabric, place, step))
    if not fabric.has_switches:
        place = on_circle(fabric.servers)
        along = place[fabric.target] - place[fabric.source]
        middle = (place[fabric.source] + place[fabric.target]) / 2
        return Layout("circle", place, BEND - INWARDS * (middle * _right(along)).sum(axis=1))
    group = groups(fabric)
    if group is None:
        place = in_tiers(fabric)
        along = (place[fabric.target] - place[fabric.source])[:, 0]
        within = place[fabric.target, 1] == place[fabric.source, 1]
        return Layout("tiers", place, BEND - np.where(within, 2 * OVER / np.where(within, along, 1), 0))
    return Layout("groups", in_groups(fabric, group), np.full(fabric.links, BEND), group)


def curves(found: Layout, fabric: Fabric, points: int) -> Floats:
    """Points [L, points, 2] of links from source to target."""
    start, end = found.place[fabric.source], found.place[fabric.target]
    control = (start + end) / 2 + found.bend[:, None] * _right(end - start)
    t = np.linspace(0, 1, points)[None, :, None]
    curve = (1 - t) ** 2 * start[:, None] + 2 * t * (1 - t) * control[:, None] + t**2 * end[:, None]
    return np.asarray(curve, dtype=np.float64)


def _right(along: Floats) -> Floats:
    """Vectors [L, 2] turned to the right."""
    return np.column_stack((along[:, 1], -along[:, 0]))


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


def _step(place: Floats) -> float:
    """The least distance of two neighbours on a grid."""
    apart = np.concatenate([np.diff(np.unique(axis.round(9))) for axis in place.T])
    return float(apart.min(initial=2.0))


def _with_servers(fabric: Fabric, switches: Floats, step: float) -> Floats:
    """Places [N, 2]: servers in a fan to the lower right of their switch, off the lines of the grid."""
    place = np.concatenate((np.zeros((fabric.servers, 2)), switches))
    for switch, mine in _below(fabric):
        angle = np.radians(np.linspace(-5, -85, len(mine) + 2)[1:-1])
        place[mine] = place[switch] + FAN * step * np.column_stack((np.cos(angle), np.sin(angle)))
    return place


def _round_nodes(fabric: Fabric, place: Floats, step: float) -> Floats:
    """Bends [L]: the longer a link of a grid, the farther from its line; the longest by ``REACH``."""
    long = np.hypot(*(place[fabric.target] - place[fabric.source]).T) / step  # in steps
    beyond = np.maximum(long - 1.001, 0)
    away = REACH * beyond / max(float(beyond.max(initial=0.0)), 1e-9)  # a curve goes half as far as its control point
    return np.where(beyond > 0, np.maximum(BEND, 2 * away) / np.maximum(long, 1), BEND)


def on_circle(servers: int) -> Floats:
    """Places [servers, 2] on the unit circle, clockwise from the top."""
    angle = np.pi / 2 - 2 * np.pi * np.arange(servers) / max(1, servers)
    return np.column_stack((np.cos(angle), np.sin(angle)))


def in_tiers(fabric: Fabric) -> Floats:
    """Places [N, 2]: servers at the bottom, every tier evenly spread over the width, tiers ``TIER`` apart."""
    tier = tiers(fabric)
    place = np.zeros((len(fabric.nodes), 2))
    for level in range(int(tier.max()) + 1):
        nodes = np.flatnonzero(tier == level)
        place[nodes, 0] = 2 * (np.arange(len(nodes)) + 0.5) / len(nodes) - 1
        place[nodes, 1] = TIER * level
    return place


def in_groups(fabric: Fabric, group: Index) -> Floats:
    """Places [N, 2]: groups on a large circle, the switches of each on small ones, servers outside of their switch."""
    count, tier = int(group.max()) + 1, tiers(fabric)[fabric.servers :]
    centre, place = on_circle(count), np.zeros((len(fabric.nodes), 2))
    radius = min(0.6, 2.2 / count)
    for number in range(count):
        for level in range(1, int(tier.max()) + 1):
            mine = np.flatnonzero((group == number) & (tier == level))
            place[fabric.servers + mine] = centre[number] + SWITCHES / level * radius * on_circle(len(mine))
    for switch, mine in _below(fabric):
        middle = centre[group[switch - fabric.servers]]
        away = place[switch] - middle
        room = 2 * np.pi / int(((group == group[switch - fabric.servers]) & (tier == 1)).sum())
        turn = np.arctan2(away[1], away[0]) + (np.arange(len(mine)) + 0.5 - len(mine) / 2) * 0.8 * room / len(mine)
        place[mine] = middle + SERVERS * radius * np.column_stack((np.cos(turn), np.sin(turn)))
    return place


def _below(fabric: Fabric) -> list[tuple[int, Index]]:
    """Switches, each with the servers that are wired to it."""
    up = np.flatnonzero((fabric.source < fabric.servers) & (fabric.target >= fabric.servers))
    switch = np.zeros(fabric.servers, np.int64)
    switch[fabric.source[up]] = fabric.target[up]
    return [(number, np.flatnonzero(switch == number)) for number in np.unique(switch).tolist()]
