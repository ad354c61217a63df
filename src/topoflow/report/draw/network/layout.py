"""Layouts of networks: a torus as a grid, a dragonfly in groups, tiered networks in tiers, others on a circle.

Pictures and pages draw a link as a quadratic Bezier curve from source to target. Its control point is ``bend`` times
the length to the right of the middle, so that both links of a pair are visible, and curves avoid other nodes.

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
REACH = 0.4  # largest distance of a link from its line, in steps of a grid
SWITCHES, SERVERS = 0.55, 0.9  # distance from the middle of a group, as a share of its radius
FAN = 0.36  # distance of servers from their switch, in steps of a grid
TIER = 0.5  # distance of two tiers
OVER = 0.15  # height of links within a tier above it

Floats = NDArray[np.float64]
Index = NDArray[np.int64]


@dataclass(frozen=True)
class NetworkLayout:
    """The places of nodes, about within -1..1, and the bends of links."""

    shape: str  # "grid", "circle", "groups" or "tiers"
    place: Floats  # [N, 2]
    bend: Floats  # [L]
    group: Index | None = None  # [switches] of "groups"

    @property
    def keeps_proportions(self) -> bool:
        """Return whether both axes have the same scale."""
        return self.shape != "tiers"


def layout(fabric: Fabric) -> NetworkLayout:
    """Return a suitable layout, from the dimensions of the network's routes and the names of its switches."""
    dims = lattice(fabric)
    if dims is not None:
        place = on_grid(dims)
        step = _step(place)
        place = _with_servers(fabric, place, step) if fabric.has_switches else place
        return NetworkLayout("grid", place, _around_nodes(fabric, place, step))
    if not fabric.has_switches:
        place = on_circle(fabric.servers)
        along = place[fabric.target] - place[fabric.source]
        middle = (place[fabric.source] + place[fabric.target]) / 2
        return NetworkLayout("circle", place, BEND - INWARDS * (middle * _right(along)).sum(axis=1))
    group = groups(fabric)
    if group is None:
        place = in_tiers(fabric)
        along = (place[fabric.target] - place[fabric.source])[:, 0]
        within = place[fabric.target, 1] == place[fabric.source, 1]
        return NetworkLayout("tiers", place, BEND - np.where(within, 2 * OVER / np.where(within, along, 1), 0))
    return NetworkLayout("groups", in_groups(fabric, group), np.full(fabric.links, BEND), group)


def curves(drawn: NetworkLayout, fabric: Fabric, points: int) -> Floats:
    """Return points [L, points, 2] of links from source to target."""
    start, end = drawn.place[fabric.source], drawn.place[fabric.target]
    control = (start + end) / 2 + drawn.bend[:, None] * _right(end - start)
    t = np.linspace(0, 1, points)[None, :, None]
    curve = (1 - t) ** 2 * start[:, None] + 2 * t * (1 - t) * control[:, None] + t**2 * end[:, None]
    return np.asarray(curve, dtype=np.float64)


def _right(along: Floats) -> Floats:
    """Return vectors [L, 2] turned to the right by 90 degrees."""
    return np.column_stack((along[:, 1], -along[:, 0]))


def on_grid(dims: tuple[int, ...]) -> Floats:
    """Return the places of a lattice.

    The last dimension, which varies fastest, goes to the right, the one before down, and so on.
    """
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
    """Return the least distance of two neighbours on a grid."""
    distances = np.concatenate([np.diff(np.unique(axis.round(9))) for axis in place.T])
    return float(distances.min(initial=2.0))


def _with_servers(fabric: Fabric, switches: Floats, step: float) -> Floats:
    """Return places [N, 2] with servers in a fan at the lower right of their switch, off the grid's lines."""
    place = np.concatenate((np.zeros((fabric.servers, 2)), switches))
    for switch, servers in _below(fabric):
        angle = np.radians(np.linspace(-5, -85, len(servers) + 2)[1:-1])
        place[servers] = place[switch] + FAN * step * np.column_stack((np.cos(angle), np.sin(angle)))
    return place


def _around_nodes(fabric: Fabric, place: Floats, step: float) -> Floats:
    """Return bends [L]: longer links of a grid leave their line farther, the longest by ``REACH``."""
    long = np.hypot(*(place[fabric.target] - place[fabric.source]).T) / step  # in steps
    beyond = np.maximum(long - 1.001, 0)
    away = REACH * beyond / max(float(beyond.max(initial=0.0)), 1e-9)  # a curve goes half as far as its control point
    return np.where(beyond > 0, np.maximum(BEND, 2 * away) / np.maximum(long, 1), BEND)


def on_circle(servers: int) -> Floats:
    """Return places [servers, 2] on the unit circle, clockwise from the top."""
    angle = np.pi / 2 - 2 * np.pi * np.arange(servers) / max(1, servers)
    return np.column_stack((np.cos(angle), np.sin(angle)))


def in_tiers(fabric: Fabric) -> Floats:
    """Return places [N, 2]: servers at the bottom, every tier evenly spread over the width, ``TIER`` apart."""
    tier = tiers(fabric)
    place = np.zeros((len(fabric.nodes), 2))
    for level in range(int(tier.max()) + 1):
        nodes = np.flatnonzero(tier == level)
        place[nodes, 0] = 2 * (np.arange(len(nodes)) + 0.5) / len(nodes) - 1
        place[nodes, 1] = TIER * level
    return place


def in_groups(fabric: Fabric, group: Index) -> Floats:
    """Return places [N, 2]: groups on a large circle, their switches on small ones, servers outside of their switch."""
    count, tier = int(group.max()) + 1, tiers(fabric)[fabric.servers :]
    centre, place = on_circle(count), np.zeros((len(fabric.nodes), 2))
    radius = min(0.6, 2.2 / count)
    for number in range(count):
        for level in range(1, int(tier.max()) + 1):
            switches = np.flatnonzero((group == number) & (tier == level))
            place[fabric.servers + switches] = centre[number] + SWITCHES / level * radius * on_circle(len(switches))
    for switch, servers in _below(fabric):
        middle = centre[group[switch - fabric.servers]]
        away = place[switch] - middle
        room = 2 * np.pi / int(((group == group[switch - fabric.servers]) & (tier == 1)).sum())
        fan = (np.arange(len(servers)) + 0.5 - len(servers) / 2) * 0.8 * room / len(servers)
        turn = np.arctan2(away[1], away[0]) + fan
        place[servers] = middle + SERVERS * radius * np.column_stack((np.cos(turn), np.sin(turn)))
    return place


def _below(fabric: Fabric) -> list[tuple[int, Index]]:
    """Return each switch with the servers that are wired to it."""
    up = np.flatnonzero((fabric.source < fabric.servers) & (fabric.target >= fabric.servers))
    switch = np.zeros(fabric.servers, np.int64)
    switch[fabric.source[up]] = fabric.target[up]
    return [(number, np.flatnonzero(switch == number)) for number in np.unique(switch).tolist()]
