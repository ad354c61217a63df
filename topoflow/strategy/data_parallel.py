"""Data parallel: every server holds every layer."""

from __future__ import annotations

from dataclasses import dataclass

from topoflow.strategy.base import Strategy
from topoflow.units import mib
from topoflow.workload.base import Workload


def servers_to_place(workload: Workload, servers: int | None) -> int:
    """``servers``. Raises ``ValueError`` where there is nothing to place or nowhere to place it."""
    if workload.trace is not None:
        raise ValueError("strategy: must be as_captured for a captured job, whose layers are not known")
    if servers is None:
        raise ValueError("servers: must be given, only a captured job brings its own")
    if not isinstance(servers, int) or isinstance(servers, bool) or servers < 1:
        raise ValueError(f"servers: must be a positive integer, got {servers!r}")
    return servers


@dataclass(frozen=True)
class DataParallel:
    """Every layer on all servers, sharded tables too: their gradients are all-reduced densely (TopoOpt Fig. 1a)."""

    bucket_bytes: int = mib(25)
    first_bucket_bytes: int = mib(1)

    def place(self, workload: Workload, servers: int | None) -> Strategy:
        servers = servers_to_place(workload, servers)
        everyone = tuple(range(servers))
        return Strategy(
            name="data_parallel",
            servers=servers,
            placement={layer.name: everyone for layer in workload.layers},
            bucket_bytes=self.bucket_bytes,
            first_bucket_bytes=self.first_bucket_bytes,
        )
