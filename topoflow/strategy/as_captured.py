"""As captured: a recorded job keeps its own split; only how many of its ranks share a server is open."""

from __future__ import annotations

from dataclasses import dataclass

from topoflow.strategy.base import Strategy
from topoflow.units import check_positive
from topoflow.workload.base import Workload


@dataclass(frozen=True)
class AsCaptured:
    """Rank r runs on server ``r // ranks_per_server``."""

    ranks_per_server: int = 1

    def __post_init__(self) -> None:
        check_positive("strategy.ranks_per_server", self.ranks_per_server)

    def place(self, workload: Workload, servers: int | None) -> Strategy:
        """``servers=None`` takes as many as the trace needs; any other number must be that one."""
        if workload.trace is None:
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
        return Strategy("as_captured", needed, placement={}, ranks_per_server=self.ranks_per_server)
