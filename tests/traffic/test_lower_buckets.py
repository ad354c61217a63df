"""Gradient buckets: DistributedDataParallel's, in a real job and in general."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from topoflow.strategy.data_parallel import DataParallel
from topoflow.strategy.placement import Placement
from topoflow.traffic.base import Collective
from topoflow.traffic.buckets import gradient_buckets
from topoflow.traffic.lower import lower
from topoflow.workload.base import Layer, LayerGraph
from topoflow.workload.gpu import Gpu
from topoflow.workload.resnet50 import Resnet50

A100 = Gpu("A100", {"float32": 19.5e12}, 1555e9, 300e9, 40e9)
MIB = 2**18  # elements of float32


def chain(parameters: list[int], gpus_per_server: int = 4) -> LayerGraph:
    """Layers one after another with these many parameters."""
    layers = [
        Layer(f"L{index}", "dense", size, 1.0, 1, 1, after=(f"L{index - 1}",) if index else ())
        for index, size in enumerate(parameters)
    ]
    return LayerGraph("chain", tuple(layers), batch_per_gpu=1, gpu=A100, gpus_per_server=gpus_per_server)


def test_resnet50_is_reduced_in_the_buckets_of_a_real_job(shared_data: Path) -> None:
    """torch DDP on two A100, profiled by Kineto: the order of layers and the caps are right, or this fails."""
    path = next((shared_data / "hta_single_rank").glob("nccl_parser_config*.json.gz"))
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    reduced = [
        event["args"]["In msg nelems"]
        for event in sorted(events, key=lambda event: event.get("ts", 0))
        if event.get("cat") == "kernel" and event.get("args", {}).get("Collective name") == "allreduce"
    ]
    workload = Resnet50(A100).build()
    traffic = lower(workload, DataParallel().place(workload, 2))
    buckets = [task.bytes // 4 for task in traffic.tasks if isinstance(task, Collective)]
    assert buckets == [2_049_000, 7_875_584, 6_563_840, 6_637_568, 2_431_040]
    assert reduced == 3 * buckets  # three steps


def test_a_bucket_closes_once_it_has_reached_its_cap() -> None:
    # backward order 2, 10, 20, 3 MiB; caps 1 and then 25: [2], [10 + 20], [3]
    workload = chain([3 * MIB, 20 * MIB, 10 * MIB, 2 * MIB])
    buckets = gradient_buckets(workload, DataParallel().place(workload, 2))
    assert [bucket.layers for bucket in buckets] == [("L3",), ("L2", "L1"), ("L0",)]
    assert [bucket.bytes / 2**20 for bucket in buckets] == [2, 30, 3]


def test_a_layer_larger_than_the_cap_is_not_split() -> None:
    workload = chain([100 * MIB, 100 * MIB])
    buckets = gradient_buckets(workload, DataParallel().place(workload, 2))
    assert [bucket.layers for bucket in buckets] == [("L1",), ("L0",)]


def test_a_layer_without_parameters_is_not_reduced() -> None:
    pool = Layer("pool", "pool", 0, 1.0, 1, 1)
    dense = Layer("dense", "dense", 10, 1.0, 1, 1, after=("pool",))
    workload = LayerGraph("half", (pool, dense), batch_per_gpu=1, gpu=A100)
    (bucket,) = gradient_buckets(workload, DataParallel().place(workload, 2))
    assert bucket.layers == ("dense",)


@given(
    st.lists(
        st.tuples(st.integers(0, 60), st.sampled_from([(0,), (0, 1), (1, 2), (0, 1, 2)])), min_size=1, max_size=20
    ),
    st.sampled_from([1, 4]),
)
def test_buckets_are_the_backward_order_of_each_group_cut_at_its_caps(
    layers: list[tuple[int, tuple[int, ...]]], gpus: int
) -> None:
    workload = chain([size * MIB for size, _ in layers], gpus)
    placement = {f"L{index}": holders for index, (_, holders) in enumerate(layers)}
    buckets = gradient_buckets(workload, Placement("some", 3, placement))
    sizes = {f"L{index}": size * 2**20 for index, (size, _) in enumerate(layers)}
    for group in set(placement.values()):
        group_buckets = [bucket for bucket in buckets if bucket.group == group]
        replicas = len(group) * gpus
        expected = [name for name in reversed(placement) if placement[name] == group and sizes[name] and replicas > 1]
        assert [name for bucket in group_buckets for name in bucket.layers] == expected
        for position, bucket in enumerate(group_buckets):
            cap = (25 if position else 1) * 2**20
            assert bucket.bytes == sum(sizes[name] for name in bucket.layers)
            assert bucket.bytes - sizes[bucket.layers[-1]] < cap  # it was not full before its last layer
            assert bucket.bytes >= cap or position == len(group_buckets) - 1
