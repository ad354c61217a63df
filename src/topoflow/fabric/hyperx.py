"""HyperX: switches in a grid, each cabled to every other switch of its row, its column, and so on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from topoflow.demand import Demand
from topoflow.fabric.base import Fabric
from topoflow.fabric.routing.base import Index
from topoflow.fabric.routing.dimension_order import DimensionOrder, coordinates, strides
from topoflow.fabric.torus import most_square
from topoflow.fabric.wiring import (
    Cabling,
    Interfaces,
    cabled,
    cached_wiring,
    check_cables,
    check_count,
    server_names,
    switched_bill,
)


@dataclass(frozen=True)
class HyperX(Interfaces):
    """A HyperX (Ahn et al., HyperX: Topology, Routing, and Packaging of Efficient Large-Scale Networks, SC 2009).

        0.0 -- 0.1 -- 0.2        dims [2, 3]: a row of three switches is a full mesh (0.0 -- 0.2 is not drawn),
         |      |      |         and so is a column of two; servers_per_switch servers below each switch
        1.0 -- 1.1 -- 1.2

    Two switches that differ in m coordinates are m cables apart, on m! shortest paths; a flow is hashed over them. So
    the diameter between switches is the number of dimensions. Every cable carries degree * bandwidth (K = 1 in the
    paper). A cut through the middle of a dimension of even size S has S / (2 * servers_per_switch) of the bandwidth
    of the servers on one side. Servers fill the switches in order; the last ones may have fewer.
    """

    servers_per_switch: int
    dims: Sequence[int] | None = None  # switches in each dimension; None: two, as equal as possible

    def __post_init__(self) -> None:
        self.check_interfaces("hyperx")
        check_count("hyperx.servers_per_switch", self.servers_per_switch)
        for position, size in enumerate(self.dims or ()):
            check_count(f"hyperx.dims[{position}]", size)

    def build(self, servers: int, demand: Demand) -> Fabric:
        check_count("hyperx.servers", servers)
        dims = tuple(self.dims or most_square(-(-servers // self.servers_per_switch)))
        if servers > prod(dims) * self.servers_per_switch:
            raise ValueError(
                f"hyperx.dims: must hold {servers} servers, got {list(dims)} of {self.servers_per_switch} servers each"
            )
        check_cables("hyperx", prod(dims) * sum(size - 1 for size in dims) // 2)
        wiring = _wiring(servers, self.servers_per_switch, dims)
        ports = prod(dims) * (self.servers_per_switch + sum(size - 1 for size in dims))
        bandwidth = self.degree * self.bandwidth
        return cabled(
            "hyperx",
            wiring,
            bandwidth=bandwidth,
            latency=self.latency,
            degree=self.degree,
            interface_bandwidth=self.bandwidth,
            bill=switched_bill(servers, ports, wiring.cables, bandwidth),
        )


@cached_wiring
def _wiring(servers: int, servers_per_switch: int, dims: tuple[int, ...]) -> Cabling:
    server = np.arange(servers)
    below = np.stack([server, servers + server // servers_per_switch], axis=1)
    cables = np.concatenate([below, servers + switch_cables(dims)])
    names = [f"switch {'.'.join(map(str, place))}" for place in product(*map(range, dims))]
    route = DimensionOrder((*server_names(servers), *names), cables, servers, dims)
    return Cabling.of(servers, cables, route, names)


def switch_cables(dims: tuple[int, ...]) -> Index:
    """Return [C, 2] the pairs of switches that differ in one coordinate, the lower first, ascending."""
    switch = np.arange(prod(dims))
    parts = [np.zeros((0, 2), np.int64)]
    for place, stride in zip(coordinates(dims), strides(dims), strict=True):
        for step in range(1, int(place.max()) + 1):
            lower = switch[place + step <= place.max()]
            parts.append(np.stack([lower, lower + step * stride], axis=1))
    cables = np.concatenate(parts)
    return cables[np.lexsort((cables[:, 1], cables[:, 0]))]
