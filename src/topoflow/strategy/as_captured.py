"""The strategy ``as_captured``: a recorded job keeps its split; only the number of ranks per server can be chosen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topoflow.strategy.base import Strategy
from topoflow.strategy.words import Row
from topoflow.units import check_positive
from topoflow.workload.base import RecordedJob, Workload


@dataclass(frozen=True)
class Recorded(Strategy):
    """The split of a recorded job. Rank r runs on server ``r // ranks_per_server``."""

    name: str
    servers: int
    ranks_per_server: int = 1

    def __post_init__(self) -> None:
        check_positive("servers", self.servers)
        check_positive("strategy.ranks_per_server", self.ranks_per_server)

    def bytes_per_gpu(self, workload: Workload) -> NDArray[np.float64] | None:
        """Return what the trace says that its fullest rank needs; None if it does not."""
        if not isinstance(workload, RecordedJob) or workload.trace.memory is None:
            return None
        return np.full(self.servers, workload.trace.memory)

    def rows(self) -> list[Row]:
        return [("the whole job", "as it was recorded")]

    def to_json(self) -> dict[str, Any]:
        return self._plan_fields(placement={}, ranks_per_server=self.ranks_per_server)


@dataclass(frozen=True)
class AsCaptured:
    """The rule that places ``ranks_per_server`` consecutive ranks on a server."""

    ranks_per_server: int = 1

    def __post_init__(self) -> None:
        check_positive("strategy.ranks_per_server", self.ranks_per_server)

    def place(self, workload: Workload, servers: int | None) -> Recorded:
        """Return the strategy; ``servers`` None takes as many as the trace needs, another number must equal that."""
        if not isinstance(workload, RecordedJob):
            raise ValueError(f"strategy: as_captured places a recorded job (workload=captured), got {workload.name}")
        ranks = workload.trace.world_size
        if ranks % self.ranks_per_server:
            raise ValueError(
                f"strategy.ranks_per_server: must divide the {ranks} ranks of the trace, got {self.ranks_per_server}"
            )
        needed = ranks // self.ranks_per_server
        if servers not in (None, needed):
            raise ValueError(
                f"strategy.servers: the trace has {ranks} ranks, {self.ranks_per_server} per server, "
                f"so {needed} servers, got {servers}"
            )
        return Recorded("as_captured", needed, self.ranks_per_server)
