"""Cables to directed links, and the bill of materials of what was cabled. C cables, L links."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from topoflow.fabric.base import Fabric, Item, Route
from topoflow.units import check_not_negative, check_positive

Cable = tuple[int, int]  # the two nodes that a duplex cable joins


def check_interfaces(name: str, bandwidth: float, degree: int, latency: float) -> None:
    """The laws of every design: interfaces carry something, there is a whole number of them, light is not late."""
    check_positive(f"{name}.bandwidth", bandwidth)
    check_count(f"{name}.degree", degree)
    check_not_negative(f"{name}.latency", latency)


def check_count(field: str, value: int) -> None:
    """Raise ``ValueError`` unless ``value`` is a whole number > 0."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{field}: must be a whole number, got {value!r}")
    check_positive(field, value)


def duplex(cables: Sequence[Cable]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Source and target [2C] of the links of C cables: cable c is link 2c (as written) and link 2c + 1 (back)."""
    ends = np.asarray(cables, dtype=np.int32).reshape(-1, 2)
    return ends.ravel(), ends[:, ::-1].ravel()


def forth(cable: int) -> int:
    """The link of a cable from its first to its second node."""
    return 2 * cable


def back(cable: int) -> int:
    """The link of a cable from its second to its first node."""
    return 2 * cable + 1


def server_names(servers: int) -> tuple[str, ...]:
    return tuple(f"server {server}" for server in range(servers))


def cabled(
    name: str,
    *,
    servers: int,
    switches: Sequence[str] = (),
    cables: Sequence[Cable],
    bandwidth: float,
    latency: float,
    degree: int,
    interface_bandwidth: float,
    route: Route,
    bill: tuple[Item, ...],
    rings: dict[tuple[int, ...], tuple[tuple[int, ...], ...]] | None = None,
) -> Fabric:
    """A fabric of duplex cables that all have the same ``bandwidth`` (B/s each direction) and ``latency`` (s)."""
    source, target = duplex(cables)
    return Fabric(
        name=name,
        servers=servers,
        nodes=server_names(servers) + tuple(switches),
        source=source,
        target=target,
        bandwidth=np.full(len(source), float(bandwidth)),
        latency=np.full(len(source), float(latency)),
        route=route,
        degree=degree,
        interface_bandwidth=float(interface_bandwidth),
        bill=bill,
        rings=rings or {},
    )


def switched_bill(servers: int, switch_ports: int, cables: int, bandwidth: float) -> tuple[Item, ...]:
    """What a switched fabric is made of: one NIC per server, ``switch_ports`` bought, ``cables`` lit.

    A transceiver at both ends of every cable: one per NIC and switch port in use (TopoOpt, Appendix G).
    """
    return (
        Item("nic_port", servers, bandwidth),
        Item("switch_port", switch_ports, bandwidth),
        Item("transceiver", 2 * cables, bandwidth),
        Item("fiber", cables, bandwidth),
    )


def direct_bill(ports: int, fibers: float, bandwidth: float) -> tuple[Item, ...]:
    """What servers that are cabled to each other are made of: NIC ports with a transceiver each, and fibers."""
    return (
        Item("nic_port", ports, bandwidth),
        Item("transceiver", ports, bandwidth),
        Item("fiber", fibers, bandwidth),
    )
