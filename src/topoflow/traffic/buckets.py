"""Gradient buckets: gradients that are reduced together, as in DistributedDataParallel.

Source: Li et al., "PyTorch Distributed", VLDB 2020, section 4.2.2; torch/csrc/distributed/c10d/reducer.cpp,
compute_bucket_assignment_by_size: gradients join a bucket in the order of the backward pass, and the bucket is closed
once it has reached its cap (so it may be larger). The first cap is small, so that communication starts early. DDP
assigns single parameters; we assign layers (a weight and its bias together).

    caps 1 then 25, gradients 2, 10, 20, 3 (MiB)  -> [2] [10 20] [3]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from topoflow.strategy.placement import Placement
from topoflow.workload.base import LayerGraph


@dataclass(frozen=True)
class Bucket:
    """The gradients of ``layers`` (in backward order), ``bytes`` in all, reduced among ``group``."""

    group: tuple[int, ...]
    layers: tuple[str, ...]
    bytes: float


def gradient_buckets(workload: LayerGraph, strategy: Placement) -> list[Bucket]:
    """Return the buckets of every group of holders, in the order in which the backward pass completes them.

    A layer on a single server is reduced among its GPUs, which hold replicas, unless it is a table, which is sharded. A
    layer without parameters has no gradient.
    """
    held: dict[tuple[int, ...], list[tuple[str, float]]] = {}
    for layer in reversed(workload.layers):
        holders = strategy.placement[layer.name]
        replicated = len(holders) > 1 or (workload.gpus_per_server > 1 and not layer.sparse)
        if replicated and layer.parameters:
            held.setdefault(holders, []).append((layer.name, layer.parameters * workload.element_bytes))
    buckets = [
        bucket
        for group, sizes in held.items()
        for bucket in fill(group, sizes, strategy.first_bucket_bytes, strategy.bucket_bytes)
    ]
    completed = {layer.name: -position for position, layer in enumerate(workload.layers)}
    return sorted(buckets, key=lambda bucket: completed[bucket.layers[-1]])


def fill(group: tuple[int, ...], sizes: Sequence[tuple[str, float]], first: float, cap: float) -> list[Bucket]:
    """Return the buckets of (layer, bytes), which are in the order of the backward pass."""
    buckets: list[Bucket] = []
    names: list[str] = []
    size: float = 0
    for layer, bytes in sizes:
        names.append(layer)
        size += bytes
        if size >= (cap if buckets else first):
            buckets.append(Bucket(group, tuple(names), size))
            names, size = [], 0
    if names:
        buckets.append(Bucket(group, tuple(names), size))
    return buckets
