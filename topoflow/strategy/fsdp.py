"""FSDP: fully sharded data parallel, and ZeRO stages 1 and 2 (``shards.py``)."""

from __future__ import annotations

from dataclasses import dataclass

from topoflow.strategy.base import Strategy
from topoflow.strategy.data_parallel import servers_to_place
from topoflow.strategy.shards import Shards, units_of
from topoflow.units import check_positive, mib
from topoflow.workload.base import Workload


@dataclass(frozen=True)
class Fsdp:
    """Every server computes every layer for its own samples; who keeps what in between is divided.

    ``shard_servers``: how many consecutive servers divide one copy of the model among their GPUs; None: all of them.
    """

    stage: int = 3
    shard_servers: int | None = None
    prefetch: int = 1
    unit_bytes: int = mib(25)

    def place(self, workload: Workload, servers: int | None) -> Strategy:
        servers = servers_to_place(workload, servers)
        check_positive("fsdp.unit_bytes", self.unit_bytes)
        divided = servers if self.shard_servers is None else self.shard_servers
        units, root = units_of(workload, self.unit_bytes)
        shards = Shards(self.stage, divided, units, root, self.prefetch)
        if servers % shards.servers:
            raise ValueError(f"fsdp.shard_servers: must divide the {servers} servers, got {divided}")
        everyone = tuple(range(servers))
        return Strategy(
            name="fsdp",
            servers=servers,
            placement={layer.name: everyone for layer in workload.layers},
            shards=shards,
        )
