"""Conversion of cables to directed links and to a bill of materials. Shapes: C cables, L links."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from topoflow.fabric.base import Channels, Fabric, Item, Path, Route, Speed
from topoflow.memory import check_memory
from topoflow.units import check_bandwidth, check_not_negative
from topoflow.units import check_count as check_count

Cable = tuple[int, int]  # the two nodes that a duplex cable joins
Cables = Sequence[Cable] | NDArray[np.int64]  # [C, 2]
Index = NDArray[np.int64]

NO_CHANNELS = Channels()
cached_wiring = lru_cache(maxsize=32)  # of functions that return the wiring of sizes: points of a sweep share it
BYTES_PER_CABLE = 88  # memory while a network is built (measured): 24 for each of its two links, the rest for ends


def check_interfaces(name: str, bandwidth: float, degree: int, latency: float) -> None:
    """Raise ``ValueError`` for invalid interfaces: a bandwidth, a whole number of interfaces, latency >= 0."""
    check_bandwidth(f"{name}.bandwidth", bandwidth)
    check_count(f"{name}.degree", degree)
    check_not_negative(f"{name}.latency", latency)


@dataclass(frozen=True)
class Interfaces:
    """The interfaces of servers, of a design whose links are as fast as an interface, or a multiple of it.

    No node, link or path depends on ``bandwidth`` and ``latency``. As columns [W, 1] these are of W networks, which
    ``build`` returns as one with columns of speeds (``Fabric.rows``).
    """

    bandwidth: float  # B/s of one interface, each direction
    degree: int  # interfaces per server; of a switched network bundled to one link
    latency: float  # s per link

    def check_interfaces(self, name: str) -> None:
        """Raise ``ValueError`` for invalid interfaces of the design ``name``."""
        speeds = self.bandwidth, self.latency
        if not any(isinstance(speed, np.ndarray) for speed in speeds):
            check_interfaces(name, self.bandwidth, self.degree, self.latency)
            return
        for extreme in (np.min, np.max):
            bandwidth, latency = (float(extreme(speed)) for speed in speeds)
            check_interfaces(name, bandwidth, self.degree, latency)


def check_cables(name: str, cables: int) -> None:
    """Raise ``ValueError`` unless that many ``cables`` between switches fit in memory."""
    check_memory("fabric", f"{name} with {cables} cables between switches", cables * BYTES_PER_CABLE)


def duplex(cables: Cables) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return source and target [2C] of the links of C cables: cable c is link 2c (as written) and 2c + 1 (back)."""
    ends = np.asarray(cables, dtype=np.int32).reshape(-1, 2)
    return ends.ravel(), ends[:, ::-1].ravel()


def forth(cable: Index) -> Index:
    """Return the links of cables from their first to their second node."""
    return 2 * cable


def back(cable: Index) -> Index:
    """Return the links of cables from their second to their first node."""
    return 2 * cable + 1


def all_pairs(first: ArrayLike, second: ArrayLike) -> NDArray[np.int64]:
    """Return [C, 2] a cable between each of ``first`` and each of ``second``."""
    return np.stack(np.meshgrid(first, second, indexing="ij"), axis=-1).reshape(-1, 2)


def server_names(servers: int) -> tuple[str, ...]:
    return tuple(f"server {server}" for server in range(servers))


@dataclass(frozen=True, eq=False)
class Cabling:
    """The nodes, links and routes of a network of duplex cables; networks that differ in speed share it."""

    servers: int
    nodes: tuple[str, ...]
    source: NDArray[np.int32]  # [2C] node
    target: NDArray[np.int32]  # [2C] node
    route: Route
    networks: dict[tuple[str, int], Fabric] = field(default_factory=dict)  # of any speed, by name and degree

    @staticmethod
    def of(servers: int, cables: Cables, route: Route, switches: Sequence[str] = ()) -> Cabling:
        """Return the wiring of ``servers`` and ``switches``."""
        return Cabling(servers, server_names(servers) + tuple(switches), *duplex(cables), route)

    @property
    def cables(self) -> int:
        """Return the number of cables."""
        return len(self.source) // 2


class NetworkPlan(Protocol):
    """The sizes of a network, equal for equal networks; it is the routes, too."""

    servers: int

    def cables(self) -> Index: ...
    def switches(self) -> list[str]: ...
    def __call__(self, source: int, target: int) -> tuple[Path, ...]: ...
    def __hash__(self) -> int: ...


@cached_wiring
def wire(plan: NetworkPlan) -> Cabling:
    """Return the nodes and links of a plan."""
    return Cabling.of(plan.servers, plan.cables(), plan, plan.switches())


def cabled(
    name: str,
    wiring: Cabling,
    *,
    bandwidth: Speed,
    latency: Speed,
    degree: int,
    interface_bandwidth: Speed,
    bill: tuple[Item, ...],
    channels: Channels = NO_CHANNELS,
) -> Fabric:
    """Return a fabric of duplex cables that all have the same ``bandwidth`` (B/s per direction) and ``latency`` (s)."""
    links, kind = 2 * wiring.cables, (name, degree)
    if kind not in wiring.networks:
        wiring.networks[kind] = Fabric(
            name=name,
            servers=wiring.servers,
            nodes=wiring.nodes,
            source=wiring.source,
            target=wiring.target,
            bandwidth=np.ones(links),
            latency=np.zeros(links),
            route=wiring.route,
            degree=degree,
            interface_bandwidth=1.0,
        )
    speeds = of_links(bandwidth, links), of_links(latency, links)
    fabric = wiring.networks[kind].with_speeds(*speeds, interface_bandwidth, bill)
    return fabric if channels is NO_CHANNELS else replace(fabric, channels=channels)


def of_links(speed: Speed, links: int) -> NDArray[np.float64]:
    """Return [L] the ``speed`` of all links, [W, L] of a column."""
    return np.full((*np.shape(speed)[:-1], links), speed, np.float64)


def switched_bill(servers: int, switch_ports: int, cables: int, bandwidth: Speed) -> tuple[Item, ...]:
    """Return the bill of a switched fabric: one NIC port per server, all ``switch_ports``, and the ``cables`` in use.

    Every cable has a transceiver at both ends: one per NIC and switch port in use (TopoOpt, Appendix G).
    """
    return (
        Item("nic_port", servers, bandwidth),
        Item("switch_port", switch_ports, bandwidth),
        Item("transceiver", 2 * cables, bandwidth),
        Item("fiber", cables, bandwidth),
    )


def direct_bill(ports: int, fibers: float, bandwidth: Speed) -> tuple[Item, ...]:
    """Return the bill of servers cabled to each other: NIC ports with a transceiver each, and fibers."""
    return (
        Item("nic_port", ports, bandwidth),
        Item("transceiver", ports, bandwidth),
        Item("fiber", fibers, bandwidth),
    )
