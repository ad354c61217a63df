"""Strategy: how a workload is spread over servers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from topoflow.strategy.grid import Grid
from topoflow.strategy.shards import Shards
from topoflow.units import check_positive
from topoflow.workload.base import Workload


@dataclass(frozen=True)
class Strategy:
    """Which servers hold which layer. ``placement[layer]`` are the servers that hold it.

    A layer that is held by all servers is replicated (data parallel); one held by some is model parallel
    towards the others. Server s's samples are computed, for layer L, on ``host(L, s)``: s itself when it
    holds L, otherwise the holders take the remaining servers in turn. Parameters of a layer with several
    holders are all-reduced among them. Where there is a ``grid``, holders have what it gives them of a layer.
    """

    name: str
    servers: int
    placement: Mapping[str, tuple[int, ...]]  # layer -> holders, ascending
    bucket_bytes: int = 25 * 2**20  # DDP's bucket_cap_mb=25 (torch.nn.parallel.DistributedDataParallel)
    first_bucket_bytes: int = 2**20  # torch.distributed._DEFAULT_FIRST_BUCKET_BYTES
    ranks_per_server: int = 1  # captured jobs: consecutive ranks that share a server
    grid: Grid | None = None  # of tensor, context, expert, data and pipeline ranks, which then cut the layers
    shards: Shards | None = None  # replicas divide the state of the model (ZeRO)

    def __post_init__(self) -> None:
        check_positive("servers", self.servers)
        check_positive("strategy.bucket_bytes", self.bucket_bytes)
        check_positive("strategy.first_bucket_bytes", self.first_bucket_bytes)
        check_positive("strategy.ranks_per_server", self.ranks_per_server)
        for layer, holders in self.placement.items():
            if not holders or list(holders) != sorted(set(holders)):
                raise ValueError(f"strategy.placement.{layer}: must be ascending servers, got {list(holders)}")
            if holders[0] < 0 or holders[-1] >= self.servers:
                raise ValueError(
                    f"strategy.placement.{layer}: must be within 0..{self.servers - 1}, got {list(holders)}"
                )

    def host(self, layer: str, server: int) -> int:
        """The server that computes ``layer`` for the samples of ``server``."""
        holders = self.placement[layer]
        return holders[int(places(self.servers, holders)[server])]


def places(servers: int, holders: tuple[int, ...]) -> NDArray[np.int64]:
    """[servers] which of the ``holders`` computes the samples of each server: itself, or one after the other."""
    holds = np.zeros(servers, np.bool_)
    holds[list(holders)] = True
    return np.where(holds, np.cumsum(holds) - 1, (np.cumsum(~holds) - 1) % len(holders))


class StrategyRule(Protocol):
    """What a file of ``strategy/`` holds: a frozen dataclass that places a workload.

    ``servers=None``: as many as a recorded job used; a job of layers must be told.
    """

    def place(self, workload: Workload, servers: int | None) -> Strategy: ...
