"""Ranks: a motif has one rank on every server."""

from __future__ import annotations

from dataclasses import dataclass

from topoflow.strategy.base import Strategy
from topoflow.strategy.words import Row
from topoflow.units import check_count
from topoflow.workload.base import Motif, Workload


@dataclass(frozen=True)
class RankPerServer(Strategy):
    """Rank r of a motif runs on server r."""

    servers: int
    name: str = "ranks"

    def __post_init__(self) -> None:
        check_count("servers", self.servers)

    def bytes_per_gpu(self, workload: Workload) -> None:
        """Unknown, as a motif has no layers."""
        return

    def rows(self) -> list[Row]:
        return [("all messages", "rank r on server r")]


@dataclass(frozen=True)
class Ranks:
    """One rank on each of ``servers``, which must be given."""

    def place(self, workload: Workload, servers: int | None) -> RankPerServer:
        if not isinstance(workload, Motif):
            raise ValueError(f"strategy: ranks places a motif of messages, e.g. all_to_all, got {workload.name}")
        if servers is None:
            raise ValueError("servers: must be given, only a captured job brings its own")
        workload.check(servers)
        return RankPerServer(servers)
