"""Random requests with the published statistics of a trace that was not published itself.

Shapes: N requests, C kinds of requests (a type and a number of machines), K statistics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import pi, sin, sqrt
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from topoflow.memory import check_memory
from topoflow.scheduling.base import GroupedCluster, Request
from topoflow.scheduling.entropy import greatest_entropy
from topoflow.scheduling.spread import Spread, stratified
from topoflow.units import check_positive, gib

Floats = NDArray[np.float64]
Index = NDArray[np.int64]
Number = TypeVar("Number", np.int64, np.float64)

TYPE = ("share", "cores", "memory_gib", "network_share", "most")
CLASS = ("least", "most", "share")
BYTES_PER_REQUEST = 2**10  # at least, with its outcome on some clusters
TOLERANCE = 1e-6  # of a statistic


@dataclass(frozen=True)
class Synthetic:
    """A source of ``count`` requests for at least ``least_servers`` servers each, of ``machines`` machines on average.

    ``types``: {share, cores, memory_gib, network_share, most}, where ``share`` is the share of all machines and
    ``most`` the largest request. ``sizes`` and ``server_counts``: {least, most, share}, classes of requests by their
    machines, and by the servers that they need, where ``share`` is the share of all requests.

    Of all distributions over types and numbers of machines that have these statistics, requests are drawn from the one
    with the greatest entropy. ``repeated_lifetime`` is the probability that a request lives as long as the
    one before, and so the rank correlation (Spearman) of both; ``lifetime_to_size`` is that of a request's lifetime and
    machines. Drawn numbers are ordered by normal numbers that are so correlated (Iman and Conover, 1982), which changes
    no other statistic.
    """

    count: int
    machines: float
    types: Sequence[Mapping[str, float]]
    sizes: Sequence[Mapping[str, float]]
    server_counts: Sequence[Mapping[str, float]]
    least_servers: int
    server_cores: float
    server_memory_gib: float
    interarrival: Spread
    lifetime: Spread
    repeated_lifetime: float = 0.0
    lifetime_to_size: float = 0.0

    def __post_init__(self) -> None:
        check_positive("requests.count", self.count)
        largest = max([row.get("most", 0) for row in (*self.types, *self.sizes)], default=0)
        for field, amount in (("count", self.count), ("types", largest)):
            check_memory(f"requests.{field}", f"{amount} numbers", amount * BYTES_PER_REQUEST)
        check_positive("requests.machines", self.machines)
        check_positive("requests.least_servers", self.least_servers)
        for field, least in (("repeated_lifetime", 0), ("lifetime_to_size", -1)):
            if not least <= getattr(self, field) <= 1:
                raise ValueError(f"requests.{field}: must be within {least}..1, got {getattr(self, field)}")
        rows = (("types", self.types, TYPE), ("sizes", self.sizes, CLASS), ("server_counts", self.server_counts, CLASS))
        for field, table, keys in rows:
            for position, row in enumerate(table):
                if set(row) != set(keys):
                    raise ValueError(f"requests.{field}[{position}]: must have {', '.join(keys)}, got {dict(row)}")
        if not self.types:
            raise ValueError("requests.types: must have a type, got none")
        self.probabilities  # noqa: B018  raises here where the statistics contradict each other

    def build(self, seed: int) -> tuple[Request, ...]:
        generator = np.random.Generator(np.random.Philox(key=seed))
        between = self.interarrival.draw(self.count - 1, generator)
        arrivals = np.concatenate([[0.0], np.cumsum(between)])
        cumulative = np.cumsum(self.probabilities)
        drawn = np.searchsorted(cumulative / cumulative[-1], stratified(self.count, generator))
        lives, sizes = self._orders(generator)
        _, machines, _ = self.kinds
        kinds = _reordered(drawn, machines[drawn], sizes)
        lifetimes = self.lifetime.draw(self.count, generator)
        lifetimes = _reordered(lifetimes, lifetimes, lives)
        return tuple(
            self._request(kind, f"request {number + 1}", float(arrivals[number]), float(lifetimes[number]))
            for number, kind in enumerate(kinds.tolist())
        )

    def _orders(self, generator: np.random.Generator) -> tuple[Floats, Floats]:
        """Return normal numbers [N] whose ranks are those of the lifetimes, and of the machines, of the requests."""
        lives, sizes = generator.standard_normal((2, self.count))
        new = generator.random(self.count) >= self.repeated_lifetime
        lives = lives[np.maximum.accumulate(np.where(new, np.arange(self.count), 0))]
        correlation = 2 * sin(pi / 6 * self.lifetime_to_size)  # of normal numbers with this rank correlation
        return lives, correlation * lives + sqrt(1 - correlation**2) * sizes

    def _request(self, kind: int, name: str, arrival: float, lifetime: float) -> Request:
        types, machines, _ = self.kinds
        return self._of_type(int(types[kind]), name, arrival, lifetime, int(machines[kind]))

    def _of_type(self, number: int, name: str, arrival: float, lifetime: float, machines: int) -> Request:
        type_ = self.types[number]
        memory, share = float(gib(type_["memory_gib"])), type_["network_share"]
        return Request(name, arrival, lifetime, machines, type_["cores"], memory, network_share=share)

    @cached_property
    def kinds(self) -> tuple[Index, Index, Index]:
        """Return the type [C] of every kind of requests, its machines [C], and the servers [C] that they need."""
        parts = []
        for number, row in enumerate(self.types):
            per_server = self._machines_per_server(number)
            machines = np.arange((self.least_servers - 1) * per_server + 1, int(row["most"]) + 1)
            parts.append([np.full(len(machines), number), machines, -(-machines // per_server)])
        types, machines, servers = np.concatenate(parts, axis=1)
        return types, machines, servers

    def _machines_per_server(self, number: int) -> int:
        server = GroupedCluster(1, 1, self.server_cores, self.server_memory_gib, network_gbps=1.0)
        per_server = server.machines_per_server(self._of_type(number, f"requests.types[{number}]", 0.0, 0.0, 1))
        if per_server == 0:
            raise ValueError(f"requests.types[{number}]: must fit on a server, got {dict(self.types[number])}")
        return per_server

    @cached_property
    def probabilities(self) -> Floats:
        """Return the probability of every kind [C]. Raises ``ValueError`` for contradictory statistics."""
        types, machines, servers = self.kinds
        mean = machines / self.machines
        rows = [(f"types[{n}].share", row["share"], mean * (types == n)) for n, row in enumerate(self.types)]
        for field, classes, values in (("sizes", self.sizes, machines), ("server_counts", self.server_counts, servers)):
            for n, row in enumerate(classes):
                inside = (values >= row["least"]) & (values <= row["most"])
                rows.append((f"{field}[{n}].share", row["share"], inside.astype(np.float64)))
        names, targets, features = zip(*rows, strict=True)
        probabilities = greatest_entropy(np.array(features), np.array(targets))
        error = np.abs(np.array(features) @ probabilities - targets)
        worst = int(error.argmax())
        if not error[worst] <= TOLERANCE:
            rule = "must be one that requests can have that have all other shares"
            raise ValueError(f"requests.{names[worst]}: {rule}, got {targets[worst]}")
        return probabilities


def _reordered(values: NDArray[Number], key: NDArray[np.generic], order: Floats) -> NDArray[Number]:
    """Return [N] the values in an order in which their keys have the ranks of ``order``."""
    placed = np.empty_like(values)
    placed[np.argsort(order, kind="stable")] = values[np.argsort(key, kind="stable")]
    return placed
