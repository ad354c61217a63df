"""Strategy: the distribution of a workload over servers.

A kind of strategy is a frozen dataclass derived from ``Strategy``. Comparisons, searches and reports use its methods;
``topoflow.traffic.lower`` turns it into tasks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from topoflow.workload.base import Workload

BUCKET_BYTES = 25 * 2**20  # DDP's bucket_cap_mb=25 (torch.nn.parallel.DistributedDataParallel)
FIRST_BUCKET_BYTES = 2**20  # torch.distributed._DEFAULT_FIRST_BUCKET_BYTES


class Strategy(ABC):
    """A way to spread one workload over ``servers``."""

    name: str
    servers: int

    @abstractmethod
    def bytes_per_gpu(self, workload: Workload) -> NDArray[np.float64] | None:
        """Return the bytes [servers] that each GPU of a server needs; None if unknown."""

    @abstractmethod
    def rows(self) -> list[tuple[str, str]]:
        """Return (layers, their servers) as text; layers with equal placement share a row."""

    def memory_per_gpu(self, workload: Workload) -> float | None:
        """Return the bytes on the fullest GPU; None if unknown."""
        needed = self.bytes_per_gpu(workload)
        return None if needed is None else float(needed.max())

    def alternatives(self, workload: Workload) -> Sequence[Strategy]:
        """Return all strategies of this kind that a search may choose; if empty, a search changes only the network.

        Raises ``ValueError`` where nothing fits in the memory of the GPUs.
        """
        return ()

    def distance(self, other: Strategy) -> float:
        """Return how different two ``alternatives`` are; 0 if they distribute the job equally."""
        return float(self != other)

    def difference(self, reference: Strategy) -> str:
        """Describe in a few words how this strategy differs from ``reference``, which is of the same kind."""
        return "; ".join(where for _, where in self.rows())

    def to_json(self) -> dict[str, Any]:
        """Return plain types that ``topoflow.strategy.plain.strategy_from_json`` reads."""
        kind: Any = self  # every kind is a dataclass, but the abstract base is not
        return {"kind": f"{type(self).__module__}.{type(self).__qualname__}", **asdict(kind)}

    def _plan_fields(
        self,
        *,
        placement: Mapping[str, tuple[int, ...]],
        bucket_bytes: int = BUCKET_BYTES,
        first_bucket_bytes: int = FIRST_BUCKET_BYTES,
        ranks_per_server: int = 1,
        grid: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Return the fields of a plan; the kinds that plans had from the first all share these."""
        return {
            "name": self.name,
            "servers": self.servers,
            "placement": {layer: list(holders) for layer, holders in placement.items()},
            "bucket_bytes": bucket_bytes,
            "first_bucket_bytes": first_bucket_bytes,
            "ranks_per_server": ranks_per_server,
            "grid": grid,
        }


class StrategyRule(Protocol):
    """The interface of a file of ``strategy/`` with a config: a frozen dataclass that makes a strategy for a workload.

    ``servers`` None means the number that a recorded job used; a graph of layers needs a number.
    """

    def place(self, workload: Workload, servers: int | None) -> Strategy: ...
