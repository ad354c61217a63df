"""Strategy: how a workload is spread over servers.

A kind of strategy is a frozen dataclass derived from ``Strategy``. What comparisons, searches and reports need of it
are its methods; ``topoflow.traffic.lower`` knows which tasks it becomes.
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
        """Bytes [servers] that each GPU of a server needs; None: unknown."""

    @abstractmethod
    def rows(self) -> list[tuple[str, str]]:
        """(layers, where they are) for a person; layers that are held alike share a row."""

    def memory_per_gpu(self, workload: Workload) -> float | None:
        """Bytes on the fullest GPU; None: unknown."""
        needed = self.bytes_per_gpu(workload)
        return None if needed is None else float(needed.max())

    def alternatives(self, workload: Workload) -> Sequence[Strategy]:
        """All strategies of this kind that a search may choose from; none: a search changes the network only.

        Raises ``ValueError`` where nothing fits in the memory of the GPUs.
        """
        return ()

    def distance(self, other: Strategy) -> float:
        """How far apart two ``alternatives`` are; 0: both spread the job alike."""
        return float(self != other)

    def difference(self, given: Strategy) -> str:
        """In a few words, what is done instead of ``given``, a strategy of the same kind."""
        return "; ".join(where for _, where in self.rows())

    def to_json(self) -> dict[str, Any]:
        """Plain types that ``topoflow.strategy.plain.strategy_from_json`` reads."""
        kind: Any = self  # a dataclass, which the type of the abstract base does not say
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
        """The fields of the kinds that plans have had from the first: each has those of all."""
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
    """What a file of ``strategy/`` with a config defines: a frozen dataclass that makes a strategy for a workload.

    ``servers=None``: as many as a recorded job used; for a graph of layers the number must be given.
    """

    def place(self, workload: Workload, servers: int | None) -> Strategy: ...
