"""Data parallel: every server holds every layer."""

from __future__ import annotations

from dataclasses import dataclass

from topoflow.strategy.placement import Placement, servers_to_place, whole_batch
from topoflow.units import mib
from topoflow.workload.base import Workload


@dataclass(frozen=True)
class DataParallel:
    """The rule that places every layer on all servers, also tables, with dense all-reduces (TopoOpt Fig. 1a)."""

    bucket_bytes: int = mib(25)
    first_bucket_bytes: int = mib(1)

    def place(self, workload: Workload, servers: int | None) -> Placement:
        job, servers = servers_to_place("data_parallel", workload, servers)
        whole_batch(job)
        everyone = tuple(range(servers))
        return Placement(
            name="data_parallel",
            servers=servers,
            placement={layer.name: everyone for layer in job.layers},
            bucket_bytes=self.bucket_bytes,
            first_bucket_bytes=self.first_bucket_bytes,
        )
