"""Cluster: servers in groups, each below one first-level switch, and requests for machines on them.

    request -> policy -> servers        (``scheduler.py``)

A *machine* is a virtual machine, a container or a pod, and runs on one server. A *request* is for several equal
machines, which start and end together; it is placed as a whole or denied.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import floor, isnan
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from topoflow.memory import check_memory
from topoflow.units import check_not_negative, check_positive, gbps, gib, is_finite

Index = NDArray[np.int64]

# Resources of a server, and the unit in which each is counted: sums of whole numbers do not drift.
RESOURCES: Mapping[str, float] = {"cores": 1e-3, "memory": 1.0, "network": 1.0, "gpus": 1e-3}  # core, B, B/s, GPU
DISPLAY_UNITS = {"memory": (gib(1), " GiB"), "network": (gbps(1), " Gb/s")}  # size and name of a unit in messages
MAX_COUNT = 2**62  # of any resource, all servers together, in the units of RESOURCES
BYTES_PER_SERVER = 2**7  # memory while requests are placed: free resources and temporary arrays


@dataclass(frozen=True)
class Request:
    """A request for ``machines`` equal machines, with the resources that each needs of a server.

    The need of network bandwidth is the sum of a rate in B/s (``network``) and a share of the server's
    (``network_share``), since clouds sell both.
    """

    name: str
    arrival: float  # s
    lifetime: float  # s, from when it is placed; inf: it never ends
    machines: int
    cores: float
    memory: float = 0.0  # B
    network: float = 0.0  # B/s
    network_share: float = 0.0  # 0..1 of a server's
    gpus: float = 0.0

    def __post_init__(self) -> None:
        if self.machines < 1:
            raise ValueError(f"{self.name}.machines: must be at least 1, got {self.machines}")
        if not is_finite(self.arrival):
            raise ValueError(f"{self.name}.arrival: must be finite, got {self.arrival}")
        if isnan(self.lifetime) or self.lifetime < 0:
            raise ValueError(f"{self.name}.lifetime: must not be negative, got {self.lifetime}")
        for field in (*RESOURCES, "network_share"):
            check_not_negative(f"{self.name}.{field}", getattr(self, field))
        if not any(getattr(self, field) for field in (*RESOURCES, "network_share")):
            raise ValueError(f"{self.name}: must need something of a server, got none of {', '.join(RESOURCES)}")


@dataclass(frozen=True)
class GroupedCluster:
    """A cluster of ``groups`` of ``servers_per_group`` equal servers; one switch joins the servers of a group."""

    groups: int
    servers_per_group: int
    cores: float  # of a server
    memory_gib: float = 0.0
    network_gbps: float = 0.0
    gpus: float = 0.0

    def __post_init__(self) -> None:
        for field in ("groups", "servers_per_group", "cores"):
            check_positive(f"cluster.{field}", getattr(self, field))
        for field in ("memory_gib", "network_gbps", "gpus"):
            check_not_negative(f"cluster.{field}", getattr(self, field))
        check_memory("cluster.groups", f"{self.servers} servers", self.servers * BYTES_PER_SERVER)
        for name, amount in zip(RESOURCES, self._amounts, strict=True):
            if amount / RESOURCES[name] * self.servers > MAX_COUNT:
                rule = f"must be at most {MAX_COUNT * RESOURCES[name]:g} of all servers together"
                raise ValueError(f"cluster.{name}: {rule}, got {amount:g} of each of {self.servers}")

    @property
    def servers(self) -> int:
        return self.groups * self.servers_per_group

    @property
    def capacity(self) -> Index:
        """Return the resources of a server [R] in the units of ``RESOURCES``."""
        return _counted(self._amounts)

    @property
    def _amounts(self) -> tuple[float, ...]:
        """Return the resources of a server in cores, B, B/s and GPUs."""
        return self.cores, gib(self.memory_gib), gbps(self.network_gbps), self.gpus

    def need(self, request: Request) -> Index:
        """Return the resources that a machine of ``request`` needs of a server [R] in the units of ``RESOURCES``."""
        return _counted(self._needs(request))

    def _needs(self, request: Request) -> tuple[float, ...]:
        """Return the resources that a machine of ``request`` needs in cores, B, B/s and GPUs."""
        network = request.network + request.network_share * gbps(self.network_gbps)
        return request.cores, request.memory, network, request.gpus

    def machines_per_server(self, request: Request) -> int:
        """Return how many machines an empty server holds. Raises ``ValueError`` where they need no resource."""
        need = self.need(request)
        if not need.any():
            units = ", ".join(f"{unit:g} of its {name}" for name, unit in RESOURCES.items())
            raise ValueError(f"{request.name}: must need at least one of {units} of a server, got less")
        return int(fits(self.capacity[:, None], need)[0])

    def fewest_groups(self, request: Request) -> int:
        """Return the number of groups that hold the request in an empty cluster.

        Raises ``ValueError`` where not even the empty cluster holds it.
        """
        per_server = self.machines_per_server(request)
        if per_server == 0:
            self._refuse(request)
        groups = -(-request.machines // (per_server * self.servers_per_group))
        if groups > self.groups:
            capacity = per_server * self.servers
            raise ValueError(
                f"{request.name}.machines: must be at most the {capacity} that fit, got {request.machines}"
            )
        return groups

    def _refuse(self, request: Request) -> None:
        """Raise ``ValueError`` that names the resource of a server that a machine exceeds."""
        too_much = (self.need(request) > self.capacity).tolist()
        for name, has, needs, exceeds in zip(RESOURCES, self._amounts, self._needs(request), too_much, strict=True):
            if exceeds:
                size, unit = DISPLAY_UNITS.get(name, (1.0, ""))
                rule = f"must be at most the {has / size:.12g}{unit} of a server"
                raise ValueError(f"{request.name}.{name}: {rule}, got {needs / size:.12g}{unit}")


class Requests(Protocol):
    """A source of requests: an object that a file of ``configs/requests`` describes."""

    def build(self, seed: int) -> tuple[Request, ...]: ...


def fits(free: Index, need: Index) -> Index:
    """Return how many machines with ``need`` [R] each server holds [S]; ``free`` is [R, S]."""
    needed = need > 0
    machines: Index = (free[needed] // need[needed, None]).min(axis=0)
    return machines


def _counted(amounts: tuple[float, ...]) -> Index:
    """Return amounts in whole units, rounded down with a tolerance of 1e-9, so that three thirds fit on a server.

    Amounts are limited to ``MAX_COUNT``, more than any server has.
    """
    counts = zip(amounts, RESOURCES.values(), strict=True)
    return np.array([min(floor(amount / unit * (1 + 1e-9)), MAX_COUNT) for amount, unit in counts], np.int64)
