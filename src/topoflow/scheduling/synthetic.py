"""Random requests with the published statistics of a trace that was not published itself.

Shapes: N requests, K kinds of requests, V values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from topoflow.memory import check_memory
from topoflow.scheduling.base import GroupedCluster, Request
from topoflow.scheduling.spread import Spread, bisect, stratified
from topoflow.units import check_positive, gib

Floats = NDArray[np.float64]

TYPE = ("share", "cores", "memory_gib", "network_share", "most")
CLASS = ("least", "most", "share")
MAX_SLOPE = 1.0  # of a distribution, per machine: a size is e times as likely as the next
BYTES_PER_REQUEST = 2**10  # at least, with its outcome on some clusters


@dataclass(frozen=True)
class _Kind:
    """A kind of requests: ``least`` to ``most`` machines of one type."""

    type: int
    least: int
    most: int
    share: float  # of the requests
    slope: float = 0.0  # of the logarithm of the probability of each size; 0: all sizes are equally likely

    @property
    def sizes(self) -> tuple[Floats, Floats]:
        """Return the numbers of machines [V], and the probability of each."""
        numbers = np.arange(self.least, self.most + 1, dtype=np.float64)
        weights = np.exp(-self.slope * (numbers - (self.least if self.slope > 0 else self.most)))  # at most 1
        return numbers, weights / weights.sum()

    @property
    def mean(self) -> float:
        numbers, probabilities = self.sizes
        return float(numbers @ probabilities)


@dataclass(frozen=True)
class Synthetic:
    """A source of ``count`` requests for at least ``least_servers`` servers each, of ``machines`` machines on average.

    ``types``: {share, cores, memory_gib, network_share, most}, where ``share`` is the share of all machines and
    ``most`` the largest request. ``sizes``: {least, most, share}, the classes of small requests, where ``share`` is the
    share of all requests; the other requests are larger than all of these.

    If a server holds several machines of a type, a request for ``least_servers`` needs more machines than the small
    classes have. The number of requests per type, and the mean size of the larger ones, follow from ``machines`` and
    the shares. Three assumptions replace missing statistics: small requests are divided over the types that can be
    small, in proportion to their shares; all sizes of a small class are equally likely; larger sizes follow a truncated
    geometric distribution (the one with the greatest entropy for its mean), equally steep for all types.
    """

    count: int
    machines: float
    types: Sequence[Mapping[str, float]]
    sizes: Sequence[Mapping[str, float]]
    least_servers: int
    server_cores: float
    server_memory_gib: float
    interarrival: Spread
    lifetime: Spread

    def __post_init__(self) -> None:
        check_positive("requests.count", self.count)
        largest = max([row.get("most", 0) for row in (*self.types, *self.sizes)], default=0)
        for field, amount in (("count", self.count), ("types", largest)):
            check_memory(f"requests.{field}", f"{amount} numbers", amount * BYTES_PER_REQUEST)
        check_positive("requests.machines", self.machines)
        check_positive("requests.least_servers", self.least_servers)
        for field, rows, keys in (("types", self.types, TYPE), ("sizes", self.sizes, CLASS)):
            for position, row in enumerate(rows):
                if set(row) != set(keys):
                    raise ValueError(f"requests.{field}[{position}]: must have {', '.join(keys)}, got {dict(row)}")
        if not self.sizes or not self.types:
            raise ValueError("requests.sizes: must have a class, and requests.types a type, got none")
        self.kinds  # noqa: B018  raises here where the statistics contradict each other

    def build(self, seed: int) -> tuple[Request, ...]:
        generator = np.random.Generator(np.random.Philox(key=seed))
        between = self.interarrival.draw(self.count - 1, generator)
        arrivals = np.concatenate([[0.0], np.cumsum(between)])
        lifetimes = self.lifetime.draw(self.count, generator)
        ends = np.cumsum([kind.share for kind in self.kinds])
        kinds = np.searchsorted(ends / ends[-1], stratified(self.count, generator))
        at = generator.random(self.count)
        return tuple(
            self._request(number, arrivals[number], lifetimes[number], self.kinds[kind], at[number])
            for number, kind in enumerate(kinds.tolist())
        )

    def _request(self, number: int, arrival: float, lifetime: float, kind: _Kind, at: float) -> Request:
        numbers, probabilities = kind.sizes
        index = min(int(np.searchsorted(np.cumsum(probabilities), at, side="right")), len(numbers) - 1)
        return self._of_type(kind.type, f"request {number + 1}", float(arrival), float(lifetime), int(numbers[index]))

    def _of_type(self, number: int, name: str, arrival: float, lifetime: float, machines: int) -> Request:
        type_ = self.types[number]
        memory, share = float(gib(type_["memory_gib"])), type_["network_share"]
        return Request(name, arrival, lifetime, machines, type_["cores"], memory, network_share=share)

    @cached_property
    def kinds(self) -> tuple[_Kind, ...]:
        """Return the kinds of requests and their shares. Raises ``ValueError`` for contradictory statistics."""
        least = [self._least(number) for number in range(len(self.types))]
        first, last = int(self.sizes[0]["least"]), int(self.sizes[-1]["most"])
        can_be_small = [number for number, machines in enumerate(least) if machines <= first]
        of_small = sum(self.types[number]["share"] for number in can_be_small)
        small = [
            _Kind(number, int(size["least"]), int(size["most"]), size["share"] * self.types[number]["share"] / of_small)
            for size in self.sizes
            for number in can_be_small
        ]
        remaining = {number: self.machines * row["share"] for number, row in enumerate(self.types)}  # per request
        for kind in small:
            remaining[kind.type] -= kind.share * kind.mean
        large = 1.0 - sum(size["share"] for size in self.sizes)
        ranges = {n: (max(least[n], last + 1), int(self.types[n]["most"])) for n in remaining if remaining[n] > 0}
        self._check(small, least, ranges)

        def larger(slope: float) -> list[_Kind]:
            kinds = [_Kind(number, low, high, 1.0, slope) for number, (low, high) in ranges.items()]
            return [_Kind(k.type, k.least, k.most, remaining[k.type] / k.mean, slope) for k in kinds]

        slope = bisect(lambda slope: sum(kind.share for kind in larger(slope)) - large, -MAX_SLOPE, MAX_SLOPE)
        large_kinds = larger(slope)
        if abs(sum(kind.share for kind in large_kinds) - large) > 1e-9:
            rule = f"must be such that {large:.3g} of the requests are larger than {last} machines"
            raise ValueError(f"requests.machines: {rule}, got {self.machines}")
        return (*small, *large_kinds)

    def _check(self, small: Sequence[_Kind], least: Sequence[int], ranges: Mapping[int, tuple[int, int]]) -> None:
        """Raise ``ValueError`` where no request can be small, or where the larger ones cannot make up the rest."""
        if not small:
            rule = f"must be at least {min(least)}, which need {self.least_servers} servers of some type"
            raise ValueError(f"requests.sizes[0].least: {rule}, got {self.sizes[0]['least']}")
        of_small = {kind.type: 0.0 for kind in small}
        for kind in small:
            of_small[kind.type] += kind.share * kind.mean
        enough = max((mean / self.types[number]["share"] for number, mean in of_small.items() if mean), default=0.0)
        if self.machines < enough:
            rule = f"must be at least {enough:.4g} in the mean, for as many as the small classes have"
            raise ValueError(f"requests.machines: {rule}, got {self.machines}")
        for number, (low, high) in ranges.items():
            if low > high:
                rule = f"must be at least {low}, more than the small classes have"
                raise ValueError(f"requests.types[{number}].most: {rule}, got {high}")

    def _least(self, number: int) -> int:
        """Return the machines of this type that need ``least_servers``."""
        server = GroupedCluster(1, 1, self.server_cores, self.server_memory_gib, network_gbps=1.0)
        per_server = server.machines_per_server(self._of_type(number, f"requests.types[{number}]", 0.0, 0.0, 1))
        if per_server == 0:
            raise ValueError(f"requests.types[{number}]: must fit on a server, got {dict(self.types[number])}")
        return (self.least_servers - 1) * per_server + 1
