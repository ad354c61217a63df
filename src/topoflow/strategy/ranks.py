"""Ranks: every server runs one rank of a motif, or several."""

from __future__ import annotations

from dataclasses import dataclass

from topoflow.strategy.base import Strategy
from topoflow.strategy.words import Row
from topoflow.units import check_count
from topoflow.workload.base import MessagePattern, Workload


@dataclass(frozen=True)
class RankPerServer(Strategy):
    """The placement of a motif: rank r runs on server ``r // ranks_per_server``."""

    servers: int
    name: str = "ranks"
    ranks_per_server: int = 1

    def __post_init__(self) -> None:
        check_count("servers", self.servers)
        check_count("strategy.ranks_per_server", self.ranks_per_server)

    @property
    def ranks(self) -> int:
        """Return the number of ranks on all servers."""
        return self.servers * self.ranks_per_server

    def bytes_per_gpu(self, workload: Workload) -> None:
        """Return None: a motif has no layers."""
        return

    def rows(self) -> list[Row]:
        per_server = self.ranks_per_server
        return [("all messages", "rank r on server r" if per_server == 1 else f"rank r on server r // {per_server}")]


@dataclass(frozen=True)
class Ranks:
    """The rule that places ``ranks_per_server`` consecutive ranks on each of ``servers``, which is required."""

    ranks_per_server: int = 1

    def __post_init__(self) -> None:
        check_count("strategy.ranks_per_server", self.ranks_per_server)

    def place(self, workload: Workload, servers: int | None) -> RankPerServer:
        if not isinstance(workload, MessagePattern):
            raise ValueError(f"strategy: ranks places a motif of messages, e.g. all_to_all, got {workload.name}")
        if servers is None:
            raise ValueError("servers: must be given, only a captured job brings its own")
        placed = RankPerServer(servers, ranks_per_server=self.ranks_per_server)
        workload.check(placed.ranks)
        return placed
