"""Placement: every layer is held completely by one server, by some, or by all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from operator import ge
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topoflow.strategy.base import BUCKET_BYTES, FIRST_BUCKET_BYTES, Strategy
from topoflow.strategy.memory import layer_bytes_per_gpu
from topoflow.strategy.words import Row, placement_rows
from topoflow.units import check_count, check_positive, check_whole
from topoflow.workload.base import LayerGraph, RecordedJob, Workload, layer_graph


@dataclass(frozen=True)
class Placement(Strategy):
    """The servers that hold each layer, its holders.

    A layer held by all servers is replicated (data parallel); otherwise it is model parallel for the other servers.
    ``host(L, s)`` computes layer L for the samples of server s: s itself if it holds L; otherwise the holders take the
    remaining servers in turn. Gradients of a layer with several holders are all-reduced among them.
    """

    name: str
    servers: int
    placement: Mapping[str, tuple[int, ...]]  # layer -> holders, ascending
    bucket_bytes: int = BUCKET_BYTES
    first_bucket_bytes: int = FIRST_BUCKET_BYTES

    def __post_init__(self) -> None:
        check_positive("servers", self.servers)
        check_positive("strategy.bucket_bytes", self.bucket_bytes)
        check_positive("strategy.first_bucket_bytes", self.first_bucket_bytes)
        first_layer: dict[tuple[int, ...], str] = {}  # distinct holders -> the first layer that they hold
        for layer, holders in self.placement.items():
            first_layer.setdefault(tuple(holders), layer)
        for holders, layer in first_layer.items():
            if not holders or any(map(ge, holders, holders[1:])):
                raise ValueError(f"strategy.placement.{layer}: must be ascending servers, got {list(holders)}")
            if holders[0] < 0 or holders[-1] >= self.servers:
                raise ValueError(
                    f"strategy.placement.{layer}: must be within 0..{self.servers - 1}, got {list(holders)}"
                )

    def host(self, layer: str, server: int) -> int:
        """Return the server that computes ``layer`` for the samples of ``server``."""
        holders = self.placement[layer]
        return holders[int(places(self.servers, holders)[server])]

    def bytes_per_gpu(self, workload: Workload) -> NDArray[np.float64]:
        """Return the bytes [servers] on each GPU of a server: the sum over the layers that it holds."""
        job = layer_graph(workload)
        needed = np.zeros(self.servers)
        for layer in job.layers:
            holders = self.placement[layer.name]
            needed[list(holders)] += layer_bytes_per_gpu(job, layer, len(holders), self.servers)
        return needed

    def rows(self) -> list[Row]:
        return placement_rows(self.placement, self.servers)

    def difference(self, reference: Strategy) -> str:
        assert isinstance(reference, Placement)
        moved = sum(self.placement[layer] != holders for layer, holders in reference.placement.items())
        count = len(reference.placement)
        return f"{moved} of its {count:,} layer{'' if count == 1 else 's'} on other servers"

    def to_json(self) -> dict[str, Any]:
        return self._plan_fields(
            placement=self.placement, bucket_bytes=self.bucket_bytes, first_bucket_bytes=self.first_bucket_bytes
        )


def places(servers: int, holders: tuple[int, ...]) -> NDArray[np.int64]:
    """Return [servers] the index in ``holders`` of the server that computes each server's samples."""
    holds = np.zeros(servers, np.bool_)
    holds[list(holders)] = True
    return np.where(holds, np.cumsum(holds) - 1, (np.cumsum(~holds) - 1) % len(holders))


def servers_to_place(strategy: str, workload: Workload, servers: int | None) -> tuple[LayerGraph, int]:
    """Return the layers and the number of servers. Raises ``ValueError`` where either is not known."""
    if not isinstance(workload, LayerGraph):
        recorded = isinstance(workload, RecordedJob)
        suitable = "as_captured for a captured job" if recorded else f"ranks for {workload.name}"
        raise ValueError(f"strategy: must be {suitable}, whose layers are not known, got {strategy}")
    if servers is None:
        raise ValueError("servers: must be given, only a captured job brings its own")
    check_whole("servers", servers, 1)
    return workload, servers


def whole_batch(workload: LayerGraph) -> int:
    """Return the samples of a GPU. Raises ``ValueError`` where the number is not whole."""
    if workload.batch_per_gpu % 1:
        rule = "must be a multiple of the GPUs, each of which has samples of its own with this strategy"
        raise ValueError(f"global_batch: {rule}, got {workload.batch_per_gpu:g} samples per GPU")
    return int(workload.batch_per_gpu)


def count_microbatches(samples: int, micro_batch: int) -> int:
    """Return the number of microbatches into which the ``samples`` of a replica are divided."""
    check_count("micro_batch", micro_batch)
    if samples % micro_batch:
        raise ValueError(f"micro_batch: must divide the {samples} samples of a replica, got {micro_batch}")
    return samples // micro_batch
