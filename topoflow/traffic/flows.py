"""Flows between random servers: sizes of a distribution, arrivals as a Poisson process at a load.

Shapes: n flows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path

import numpy as np

from topoflow.arrays import Floats
from topoflow.traffic.base import Traffic
from topoflow.traffic.columns import Columns
from topoflow.traffic.tasks import Label
from topoflow.workload.flow_sizes import read_sizes

SIZES = ("pareto", "fixed", "file")
MOST = 10_000_000  # flows


@dataclass(frozen=True)
class Flows:
    """``count`` flows whose sizes are of a distribution.

    pareto    P(size > x) = (x0 / x)^shape for x >= x0 = mean * (shape - 1) / shape. Source: Sirius, 7: 1.05, 100 KB
    fixed     every flow has ``mean`` bytes
    file      a published table of sizes in bytes and the share of flows that are not larger (0 to 1, or per cent),
              ascending, uniform between two rows
    """

    count: int = 200_000
    sizes: str = "pareto"
    mean: float = 100e3  # B; not of a file, which has its own
    shape: float = 1.05
    file: str | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.count, bool) or not isinstance(self.count, int) or not 1 <= self.count <= MOST:
            raise ValueError(f"flows.count: must be a whole number within 1..{MOST}, got {self.count!r}")
        if self.sizes not in SIZES:
            raise ValueError(f"flows.sizes: must be one of {', '.join(SIZES)}, got {self.sizes!r}")
        if (self.sizes == "file") != (self.file is not None):
            raise ValueError(f"flows.file: must be given for sizes=file and for no other, got {self.file!r}")
        if not (isfinite(self.mean) and self.mean >= 1):
            raise ValueError(f"flows.mean: must be at least 1 byte, got {self.mean}")
        if self.sizes == "pareto" and not (isfinite(self.shape) and self.shape > 1):
            raise ValueError(f"flows.shape: must be above 1, as there is no mean otherwise, got {self.shape}")

    def draw(self, servers: int, bandwidth: float, load: float) -> Traffic:
        """The flows among ``servers`` with cables of ``bandwidth`` (B/s) each; a load of 1 fills all of them.

        load = F / (R N tau): mean size F, bandwidth R, N servers, mean time tau between two arrivals (Sirius, 7). F is
        the mean of the sizes that were drawn, so that this many bytes come in this time whatever the tail was.
        """
        if not (isfinite(load) and load > 0):
            raise ValueError(f"flows.load: must be positive, got {load}")
        if servers < 2:
            raise ValueError(f"flows.servers: must be at least 2, got {servers}")
        random = np.random.Generator(np.random.Philox(key=self.seed))
        bytes = self._bytes(random)
        source = random.integers(0, servers, self.count)
        target = (source + random.integers(1, servers, self.count)) % servers
        gap = float(bytes.mean()) / (bandwidth * servers * load)
        release = np.cumsum(random.exponential(gap, self.count))
        columns = Columns()
        columns.transfer(Label("flow"), source, target, bytes)
        return replace(columns.traffic("flows", servers, np.inf), release=release)

    def _bytes(self, random: np.random.Generator) -> Floats:
        share = random.random(self.count)
        if self.sizes == "fixed":
            return np.full(self.count, np.ceil(self.mean))
        if self.sizes == "pareto":
            least = self.mean * (self.shape - 1) / self.shape
            drawn: Floats = np.ceil(least * (1 - share) ** (-1 / self.shape))
            return drawn
        assert self.file is not None
        size, below = read_sizes(Path(self.file))
        found: Floats = np.maximum(np.ceil(np.interp(share, below, size)), 1.0)
        return found
