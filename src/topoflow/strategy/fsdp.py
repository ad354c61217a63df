"""FSDP: fully sharded data parallel, and ZeRO stages 1 and 2 (``shards.py``)."""

from __future__ import annotations

from dataclasses import dataclass

from topoflow.strategy.placement import count_microbatches, servers_to_place, whole_batch
from topoflow.strategy.shards import Shards, units_of
from topoflow.units import check_positive, mib
from topoflow.workload.base import Workload


@dataclass(frozen=True)
class Fsdp:
    """The rule of FSDP: every GPU computes every layer for its own samples, and the model's state is divided.

    ``group`` is the number of consecutive servers that divide one copy of the model among their GPUs; None: all. A GPU
    accumulates gradients over microbatches of ``micro_batch`` samples; None: all samples at once.
    """

    stage: int = 3
    group: int | None = None
    prefetch: int = 1
    unit_bytes: int = mib(25)
    micro_batch: int | None = None
    recompute: str = "none"

    def place(self, workload: Workload, servers: int | None) -> Shards:
        job, servers = servers_to_place("fsdp", workload, servers)
        check_positive("fsdp.unit_bytes", self.unit_bytes)
        units, root = units_of(job, self.unit_bytes)
        group = servers if self.group is None else self.group
        samples = whole_batch(job)
        microbatches = 1 if self.micro_batch is None else count_microbatches(samples, self.micro_batch)
        return Shards(servers, self.stage, group, units, root, self.prefetch, microbatches, self.recompute)
