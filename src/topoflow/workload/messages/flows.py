"""Flows between random servers, with sizes from a distribution and Poisson arrivals at a given load.

    topoflow compare workload=flows workload.load=0.5 fabric=sirius,fat_tree fidelity=fitting

Shapes: n flows.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from topoflow.units import check_among, check_bandwidth, check_count, check_positive, check_seed
from topoflow.workload.base import MessagePattern, Messages
from topoflow.workload.flow_sizes import FixedSize, Pareto, Sizes, read_sizes
from topoflow.workload.gpu import Gpu

SIZES = ("pareto", "fixed", "file")
MAX_FLOWS = 10_000_000


@dataclass(frozen=True)
class Arrivals(MessagePattern):
    """A Poisson process of ``count`` flows between random pairs of servers, with sizes drawn from ``sizes``.

    load = F / (R N tau): mean size F, bandwidth R of a server, N servers, mean time tau between two arrivals (Sirius,
    7). F is the mean of the drawn sizes, so that the load is exact for any tail of the distribution.
    """

    name: ClassVar[str] = "flows"
    gpu: Gpu
    sizes: Sizes
    count: int
    load: float  # 1 fills the cables of all servers
    bandwidth: float  # B/s of all cables of a server together
    seed: int = 0

    def __post_init__(self) -> None:
        check_count("workload.count", self.count)
        if self.count > MAX_FLOWS:
            raise ValueError(f"workload.count: must be at most {MAX_FLOWS}, got {self.count}")
        check_positive("workload.load", self.load)
        check_bandwidth("workload.bandwidth", self.bandwidth)
        check_seed("workload.seed", self.seed)

    def check(self, ranks: int) -> None:
        if ranks < 2:
            raise ValueError(f"servers: must be at least 2 for flows, got {ranks}")

    def messages(self, ranks: int) -> Messages:
        """Return n messages in the order in which they begin."""
        self.check(ranks)
        random = np.random.Generator(np.random.Philox(key=self.seed))
        bytes = self.sizes.of(random.random(self.count))
        source = random.integers(0, ranks, self.count)
        target = (source + random.integers(1, ranks, self.count)) % ranks
        gap = float(bytes.mean()) / (self.bandwidth * ranks * self.load)
        release = np.cumsum(random.exponential(gap, self.count))
        return Messages(source, target, bytes, release=release)


@dataclass(frozen=True)
class Flows:
    """The flows that a config describes.

    ``sizes`` is one of:

    pareto    sizes with a long tail, with ``mean`` and ``shape``
    fixed     every flow has ``mean`` bytes
    file      ``file`` is a table of sizes in bytes and the share of flows that are not larger
    """

    gpu: Gpu
    bandwidth: float  # B/s of an interface of a server
    degree: int  # interfaces of a server
    count: int = 2000
    load: float = 0.5
    sizes: str = "pareto"
    mean: float = 100e3  # B
    shape: float = 1.05
    file: str | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        check_among("workload.sizes", self.sizes, SIZES)
        if (self.sizes == "file") != (self.file is not None):
            raise ValueError(f"workload.file: must be given for sizes=file and for no other, got {self.file!r}")
        check_count("workload.degree", self.degree)
        if self.file is None:
            self.build()

    def build(self) -> Arrivals:
        bandwidth = self.bandwidth * self.degree
        return Arrivals(self.gpu, self._sizes(), self.count, self.load, bandwidth, self.seed)

    def _sizes(self) -> Sizes:
        if self.file is not None:
            return read_sizes(Path(self.file))
        return Pareto(self.mean, self.shape) if self.sizes == "pareto" else FixedSize(self.mean)
