"""FSDP: fully sharded data parallel, and ZeRO stages 1 and 2: a grid without cuts (``grid.py``)."""

from __future__ import annotations

from dataclasses import dataclass

from topoflow.strategy.grid import ZERO, ParallelGrid
from topoflow.strategy.placement import count_microbatches, servers_to_place, whole_batch
from topoflow.units import check_among, check_count, check_positive, mib
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
    reduce_dtype: str | None = None

    def place(self, workload: Workload, servers: int | None) -> ParallelGrid:
        job, servers = servers_to_place("fsdp", workload, servers)
        check_positive("fsdp.unit_bytes", self.unit_bytes)
        check_among("fsdp.stage", self.stage, ZERO)
        group = servers if self.group is None else self.group
        check_count("fsdp.group", group)
        if servers % group:
            raise ValueError(f"fsdp.group: must divide the {servers} servers, got {group}")
        replicate = servers // group if self.stage else 1
        samples = whole_batch(job)
        return ParallelGrid(
            tensor=1,
            context=1,
            expert=1,
            data=servers * job.gpus_per_server // replicate,
            pipeline=1,
            microbatches=1 if self.micro_batch is None else count_microbatches(samples, self.micro_batch),
            gpus_per_server=job.gpus_per_server,
            stages=(tuple(layer.name for layer in job.layers),),
            recompute=self.recompute,
            zero=self.stage,
            replicate=replicate,
            prefetch=self.prefetch,
            reduce_dtype=self.reduce_dtype,
            bucket_bytes=self.unit_bytes,
            name="fsdp",
        )
