"""Torus: a grid of servers that wraps around in every dimension."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from topoflow.demand import Demand, Group
from topoflow.fabric.base import Channels, Fabric, Orders
from topoflow.fabric.channels.hamiltonian import torus_rings
from topoflow.fabric.routing.base import NO_LINK, Index, Links, Routes
from topoflow.fabric.wiring import (
    Cabling,
    Interfaces,
    back,
    cabled,
    cached_wiring,
    check_count,
    direct_bill,
    forth,
)


@dataclass(frozen=True)
class Torus(Interfaces):
    """A torus of any number of dimensions, cabled directly from server to server.

         0 -- 1 -- 2 --.      dims (2, 3): rows wrap around; the two rows
         |    |    |          have one cable between them, not two
         3 -- 4 -- 5 --.      server = row * 3 + column (last dimension first)

    A dimension of more than two servers takes two ports of a server, of two servers one, of one server none. The
    ``degree`` interfaces are spread evenly over these ports; remaining interfaces are not used. Parallel cables are one
    link of their summed bandwidth. Hosts forward, dimension by dimension from the last to the first, as in real tori
    (Dally & Towles, Principles and Practices of Interconnection Networks, 8.4.2); to opposite servers both directions
    are equally short, and flows are hashed over them. All-reduces over all servers get the ring orders of a known
    construction that uses the most cables (``hamiltonian``).
    """

    dims: Sequence[int] | None = None  # None: the two most equal factors of the servers

    def __post_init__(self) -> None:
        self.check_interfaces("torus")
        for position, size in enumerate(self.dims or ()):
            check_count(f"torus.dims[{position}]", size)

    def build(self, servers: int, demand: Demand) -> Fabric:
        check_count("torus.servers", servers)
        dims = tuple(self.dims) if self.dims else most_square(servers)
        if prod(dims) != servers:
            raise ValueError(f"torus.dims: product must be {servers} servers, got {list(dims)}")
        return grid_fabric("torus", self, TorusRoutes(dims), torus_rings(dims), demand)


def most_square(servers: int) -> tuple[int, int]:
    """Return the two factors of ``servers`` that are closest: 16 -> (4, 4), 8 -> (2, 4), 7 -> (1, 7)."""
    rows = max(rows for rows in range(1, int(servers**0.5) + 1) if servers % rows == 0)
    return rows, servers // rows


def grid_fabric(
    name: str, interfaces: Interfaces, grid: TorusRoutes, orders: tuple[tuple[int, ...], ...], demand: Demand
) -> Fabric:
    """Return the fabric of a grid; ``orders`` are the ring orders of an all-reduce over all its servers."""
    servers = prod(grid.dims)
    parallel = grid.parallel(name, interfaces.degree)
    wiring = wiring_of(grid)
    return cabled(
        name,
        wiring,
        bandwidth=parallel * interfaces.bandwidth,
        latency=interfaces.latency,
        degree=interfaces.degree,
        interface_bandwidth=interfaces.bandwidth,
        bill=direct_bill(2 * parallel * wiring.cables, parallel * wiring.cables, interfaces.bandwidth),
        channels=_channels(orders, tuple(group for group in demand.all_reduce if len(group) == servers and orders)),
    )


@cached_wiring
def _channels(orders: Orders, groups: tuple[Group, ...]) -> Channels:
    return Channels(dict.fromkeys(groups, orders))


@cached_wiring
def wiring_of(grid: TorusRoutes) -> Cabling:
    """Return the servers and links of a grid."""
    return Cabling.of(prod(grid.dims), grid.cables(), grid)


@dataclass(frozen=True)
class TorusRoutes(Routes):
    """The numbering of cables of a torus, and the paths through it.

    The cable of a dimension and a server leads one step up that dimension.
    """

    dims: tuple[int, ...]

    def parallel(self, name: str, degree: int) -> int:
        """Return how many cables are parallel when ``degree`` interfaces are spread over a server's ports."""
        ports = sum(min(size - 1, 2) for size in self.dims)
        if degree < ports:
            raise ValueError(f"{name}.degree: must be at least {ports} for dims {list(self.dims)}, got {degree}")
        return degree // ports if ports else 0

    def stride(self, dimension: int) -> int:
        """Return the difference of server numbers of a step up ``dimension``."""
        return prod(self.dims[dimension + 1 :])

    def neighbour(self, server: Index, dimension: int, sign: Index | int) -> Index:
        """Return the neighbours of servers at ``sign`` (+1 or -1) along ``dimension``."""
        size, stride = self.dims[dimension], self.stride(dimension)
        place = server // stride % size
        return server + ((place + sign) % size - place) * stride

    def cables(self) -> Index:
        """Return [C, 2] the servers that each cable joins, dimension by dimension."""
        server = np.arange(prod(self.dims))
        parts = [np.zeros((0, 2), np.int64)]
        for dimension, size in enumerate(self.dims):
            up = self.neighbour(server, dimension, 1)
            has_cable = (up > server) | (size > 2)  # two servers share a single cable
            parts.append(np.stack([server, up], axis=1)[has_cable & (size > 1)])
        return np.concatenate(parts)

    def link(self, server: Index, dimension: int, sign: Index) -> Index:
        """Return the links from servers to their neighbours."""
        size, stride = self.dims[dimension], self.stride(dimension)
        before = sum(self._cables_of(earlier) for earlier in range(dimension))
        if size > 2:
            below = self.neighbour(server, dimension, -1)
            return np.where(sign > 0, forth(before + server), back(before + below))
        rank = server // (2 * stride) * stride + server % stride  # index of the cable in this dimension
        return np.where(server // stride % 2 == 0, forth(before + rank), back(before + rank))

    def _cables_of(self, dimension: int) -> int:
        size, servers = self.dims[dimension], prod(self.dims)
        return servers if size > 2 else servers // 2 if size == 2 else 0

    def choices(self, source: Index, target: Index) -> Index:
        """Return [F, dims] the directions, last dimension first: 2 where both are equally short, else 1."""
        legs = [(self._up(source, target, dimension), size) for dimension, size in self._last_first()]
        return np.stack([np.where((2 * up == size) & (size > 2), 2, 1) for up, size in legs], axis=1)

    def links(self, source: Index, target: Index, number: Index) -> Links:
        """Return the links in the shorter direction of each dimension, the last first."""
        choices = self.choices(source, target)
        at, hops = source, [np.zeros((len(source), 0), np.int64)]
        for branch, (dimension, size) in enumerate(self._last_first()):
            second = number // choices[:, branch + 1 :].prod(axis=1) % choices[:, branch] > 0
            up = self._up(source, target, dimension)
            sign = np.where((2 * up > size) | second, -1, 1)
            steps = np.where(sign > 0, up, size - up)
            for step in range(size // 2):
                moves = step < steps
                hops.append(np.where(moves, self.link(at, dimension, sign), NO_LINK)[:, None])
                at = np.where(moves, self.neighbour(at, dimension, sign), at)
        return np.concatenate(hops, axis=1).astype(np.int32)

    def _last_first(self) -> list[tuple[int, int]]:
        """Return the dimensions, last first, with their sizes."""
        return list(enumerate(self.dims))[::-1]

    def _up(self, source: Index, target: Index, dimension: int) -> Index:
        """Return [F] the steps up ``dimension`` to the target."""
        stride = self.stride(dimension)
        return (target // stride - source // stride) % self.dims[dimension]
