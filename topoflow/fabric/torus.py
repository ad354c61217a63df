"""A grid of servers whose edges meet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Protocol

from topoflow.demand import Demand
from topoflow.fabric.base import Fabric, Path
from topoflow.fabric.hamiltonian import torus_rings
from topoflow.fabric.wiring import Cable, back, cabled, check_count, check_interfaces, direct_bill, forth


@dataclass(frozen=True)
class Torus:
    """A torus of any number of dimensions, cabled directly from server to server.

         0 -- 1 -- 2 --.      dims (2, 3): rows wrap round; the two rows
         |    |    |          have one cable between them, not two
         3 -- 4 -- 5 --.      server = row * 3 + column (last dimension first)

    A dimension of more than two servers takes two ports of a server, one of two takes one, one of one none.
    The ``degree`` interfaces are spread evenly over these; what remains is left dark. The cables that run in parallel
    are one link of their summed bandwidth. Hosts forward, dimension by dimension from the last to the first,
    as in real tori (Dally & Towles, Principles and Practices of Interconnection Networks, 8.4.2); half way
    round both directions are as short and flows are hashed over them. All-reduce over all servers finds ring orders
    that use as many cables as we know how (``hamiltonian``).
    """

    bandwidth: float  # B/s of one interface, each direction
    degree: int  # interfaces per server
    latency: float  # s per link
    dims: Sequence[int] | None = None  # None: the two most equal factors of the servers

    def __post_init__(self) -> None:
        check_interfaces("torus", self.bandwidth, self.degree, self.latency)
        for position, size in enumerate(self.dims or ()):
            check_count(f"torus.dims[{position}]", size)

    def build(self, servers: int, demand: Demand) -> Fabric:
        check_count("torus.servers", servers)
        dims = tuple(self.dims) if self.dims else most_square(servers)
        if prod(dims) != servers:
            raise ValueError(f"torus.dims: product must be {servers} servers, got {list(dims)}")
        return grid_fabric("torus", self, Grid(dims), torus_rings(dims), demand)


def most_square(servers: int) -> tuple[int, int]:
    """The two factors of ``servers`` that are closest: 16 -> (4, 4), 8 -> (2, 4), 7 -> (1, 7)."""
    rows = max(rows for rows in range(1, int(servers**0.5) + 1) if servers % rows == 0)
    return rows, servers // rows


class Interfaces(Protocol):
    """What a design says of a server's interfaces."""

    @property
    def bandwidth(self) -> float: ...
    @property
    def degree(self) -> int: ...
    @property
    def latency(self) -> float: ...


def grid_fabric(
    name: str, interfaces: Interfaces, grid: Grid, orders: tuple[tuple[int, ...], ...], demand: Demand
) -> Fabric:
    """The fabric of a grid; ``orders`` are the ring orders of an all-reduce over all its servers."""
    servers = prod(grid.dims)
    parallel = grid.parallel(name, interfaces.degree)
    cables = grid.cables()
    return cabled(
        name,
        servers=servers,
        cables=cables,
        bandwidth=parallel * interfaces.bandwidth,
        latency=interfaces.latency,
        degree=interfaces.degree,
        interface_bandwidth=interfaces.bandwidth,
        route=grid.route,
        bill=direct_bill(2 * parallel * len(cables), parallel * len(cables), interfaces.bandwidth),
        rings={group: orders for group in demand.all_reduce if len(group) == servers and orders},
    )


@dataclass(frozen=True)
class Grid:
    """Where everything is in a torus. Cable of (dimension, server): from it one step up that dimension."""

    dims: tuple[int, ...]

    def parallel(self, name: str, degree: int) -> int:
        """How many cables run in parallel when ``degree`` interfaces are spread over a server's ports."""
        ports = sum(min(size - 1, 2) for size in self.dims)
        if degree < ports:
            raise ValueError(f"{name}.degree: must be at least {ports} for dims {list(self.dims)}, got {degree}")
        return degree // ports if ports else 0

    def stride(self, dimension: int) -> int:
        """How much a step up ``dimension`` adds to the number of a server."""
        return prod(self.dims[dimension + 1 :])

    def step(self, server: int, dimension: int, way: int) -> int:
        """The neighbour of ``server`` that is ``way`` (+1 or -1) along ``dimension``."""
        size, stride = self.dims[dimension], self.stride(dimension)
        place = server // stride % size
        return server + ((place + way) % size - place) * stride

    def cables(self) -> list[Cable]:
        return [
            (server, self.step(server, dimension, 1))
            for dimension, size in enumerate(self.dims)
            for server in range(prod(self.dims))
            if size > 2 or (size == 2 and self.step(server, dimension, 1) > server)
        ]

    def link(self, server: int, dimension: int, way: int) -> int:
        """The link from ``server`` to its neighbour."""
        size, stride = self.dims[dimension], self.stride(dimension)
        before = sum(self._cables_of(earlier) for earlier in range(dimension))
        if size > 2:
            return forth(before + server) if way > 0 else back(before + self.step(server, dimension, -1))
        rank = server // (2 * stride) * stride + server % stride  # of the cable among those of lower ends
        return forth(before + rank) if server // stride % 2 == 0 else back(before + rank)

    def _cables_of(self, dimension: int) -> int:
        size, servers = self.dims[dimension], prod(self.dims)
        return servers if size > 2 else servers // 2 if size == 2 else 0

    def route(self, source: int, target: int, kind: str) -> tuple[Path, ...]:
        """Dimension by dimension, the last first, the short way round; every kind of traffic takes the same."""
        choices: list[list[tuple[int, int, int]]] = []  # (dimension, way, steps)
        for dimension in reversed(range(len(self.dims))):
            size, stride = self.dims[dimension], self.stride(dimension)
            up = (target // stride - source // stride) % size
            ways = [(dimension, 1, up)] if 2 * up <= size else []
            if 2 * up > size or (2 * up == size and size > 2):
                ways.append((dimension, -1, size - up))
            choices.append(ways)
        return tuple(self._walk(source, legs) for legs in product(*choices))

    def _walk(self, server: int, legs: Sequence[tuple[int, int, int]]) -> Path:
        path = []
        for dimension, way, steps in legs:
            for _ in range(steps):
                path.append(self.link(server, dimension, way))
                server = self.step(server, dimension, way)
        return tuple(path)
