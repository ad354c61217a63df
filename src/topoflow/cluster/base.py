"""Cluster: servers in groups below the same first switches, and who asks for machines on them.

    request -> policy -> servers        (``scheduler.py``)

A *machine* is a virtual machine, a container or a pod: it is on one server, whole. A *request* is for several that are
alike, which start and end together; it is placed as a whole or denied.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import floor, isfinite, isnan
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from topoflow.memory import check_memory
from topoflow.units import check_not_negative, check_positive, gbps, gib

Index = NDArray[np.int64]

# What a server has and a machine needs, and how finely it is counted: sums of whole numbers do not drift.
RESOURCES: Mapping[str, float] = {"cores": 1e-3, "memory": 1.0, "network": 1.0, "gpus": 1e-3}  # core, B, B/s, GPU
SHOWN = {"memory": (gib(1), " GiB"), "network": (gbps(1), " Gb/s")}  # a unit of what is said of a resource
MOST = 2**62  # of any resource, of all servers together, so counted
BYTES_PER_SERVER = 2**7  # while requests are placed: what is free, and arrays as long as a few numbers of each server


@dataclass(frozen=True)
class Request:
    """``machines`` that are alike, each with what it needs of a server.

    What is needed of the network is B/s (``network``) and a share of what a server has (``network_share``), added up:
    clouds sell both.
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
        if not isfinite(self.arrival):
            raise ValueError(f"{self.name}.arrival: must be finite, got {self.arrival}")
        if isnan(self.lifetime) or self.lifetime < 0:
            raise ValueError(f"{self.name}.lifetime: must not be negative, got {self.lifetime}")
        for field in (*RESOURCES, "network_share"):
            check_not_negative(f"{self.name}.{field}", getattr(self, field))
        if not any(getattr(self, field) for field in (*RESOURCES, "network_share")):
            raise ValueError(f"{self.name}: must need something of a server, got none of {', '.join(RESOURCES)}")


@dataclass(frozen=True)
class Cluster:
    """``groups`` of ``servers_per_group`` equal servers. Servers of a group reach each other through one switch."""

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
            if amount / RESOURCES[name] * self.servers > MOST:
                law = f"must be at most {MOST * RESOURCES[name]:g} of all servers together"
                raise ValueError(f"cluster.{name}: {law}, got {amount:g} of each of {self.servers}")

    @property
    def servers(self) -> int:
        return self.groups * self.servers_per_group

    @property
    def capacity(self) -> Index:
        """What a server has [R], in the units of ``RESOURCES``."""
        return _counted(self._amounts)

    @property
    def _amounts(self) -> tuple[float, ...]:
        """The same in cores, B, B/s and GPUs."""
        return self.cores, gib(self.memory_gib), gbps(self.network_gbps), self.gpus

    def need(self, request: Request) -> Index:
        """What a machine of ``request`` needs of a server here [R], in the units of ``RESOURCES``."""
        return _counted(self._needs(request))

    def _needs(self, request: Request) -> tuple[float, ...]:
        """The same in cores, B, B/s and GPUs."""
        network = request.network + request.network_share * gbps(self.network_gbps)
        return request.cores, request.memory, network, request.gpus

    def machines_per_server(self, request: Request) -> int:
        """How many of its machines an empty server holds. Raises ``ValueError`` where they need nothing of it."""
        need = self.need(request)
        if not need.any():
            units = ", ".join(f"{unit:g} of its {name}" for name, unit in RESOURCES.items())
            raise ValueError(f"{request.name}: must need at least one of {units} of a server, got less")
        return int(fits(self.capacity[:, None], need)[0])

    def fewest_groups(self, request: Request) -> int:
        """Groups that hold the request while nobody else is here.

        Raises ``ValueError`` where not even the empty cluster holds it.
        """
        each = self.machines_per_server(request)
        if each == 0:
            self._refuse(request)
        groups = -(-request.machines // (each * self.servers_per_group))
        if groups > self.groups:
            most = each * self.servers
            raise ValueError(f"{request.name}.machines: must be at most the {most} that fit, got {request.machines}")
        return groups

    def _refuse(self, request: Request) -> None:
        """Say which resource of a server a machine exceeds."""
        too_much = (self.need(request) > self.capacity).tolist()
        for name, has, needs, exceeds in zip(RESOURCES, self._amounts, self._needs(request), too_much, strict=True):
            if exceeds:
                one, unit = SHOWN.get(name, (1.0, ""))
                law = f"must be at most the {has / one:.12g}{unit} of a server"
                raise ValueError(f"{request.name}.{name}: {law}, got {needs / one:.12g}{unit}")


class Requests(Protocol):
    """What a file of ``configs/requests`` describes."""

    def build(self, seed: int) -> tuple[Request, ...]: ...


def fits(free: Index, need: Index) -> Index:
    """How many machines that ``need`` [R] each server holds [S]; ``free`` is [R, S]."""
    needed = need > 0
    found: Index = (free[needed] // need[needed, None]).min(axis=0)
    return found


def _counted(amounts: tuple[float, ...]) -> Index:
    """In whole units, rounded down, so that three thirds of a server fit on it; at most ``MOST``, more than any has."""
    counts = zip(amounts, RESOURCES.values(), strict=True)
    return np.array([min(floor(amount / unit * (1 + 1e-9)), MOST) for amount, unit in counts], np.int64)
