"""The samples of an iteration: no degree changes them, and what cannot be divided is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topoflow.strategy.data_parallel import DataParallel
from topoflow.strategy.fsdp import Fsdp
from topoflow.strategy.parallel import Parallel
from topoflow.strategy.space import parallel_choices
from topoflow.traffic.base import Traffic
from topoflow.traffic.least_seconds import least_seconds
from topoflow.traffic.lower import lower
from topoflow.workload.base import LayerGraph
from topoflow.workload.gpu import Gpu
from topoflow.workload.transformer import Transformer

GPU = Gpu("gpu", {"bfloat16": 1e12}, 1e12, 300e9, 400e9)
SERVERS = 16  # of 4 GPUs


def job(global_batch: int, layers: int = 4) -> LayerGraph:
    model = Transformer(GPU, layers=layers, hidden=64, heads=8, key_value_heads=8, feed_forward=64, sequence=64)
    return model.build().with_global_batch(global_batch, SERVERS)


degrees = st.sampled_from([1, 2, 4])


@given(degrees, degrees, degrees, st.sampled_from([1, 2, 4]))
def test_a_degree_never_changes_the_global_batch(tensor: int, pipeline: int, context: int, micro_batch: int) -> None:
    workload = job(256)
    grid = Parallel(tensor, pipeline, context, micro_batch=micro_batch).place(workload, SERVERS)
    assert grid.samples(workload) == micro_batch
    assert grid.microbatches * micro_batch * grid.replicas == 256


def test_a_search_at_a_global_batch_below_the_gpus_keeps_it() -> None:
    workload = job(16)
    choices = parallel_choices(workload, SERVERS)
    assert {choice.tensor * choice.context * choice.pipeline for choice in choices} == {4, 8, 16, 32, 64}
    for choice in choices:
        grid = choice.place(workload, SERVERS)
        assert grid.samples(workload) * grid.microbatches * grid.replicas == 16


def test_a_batch_that_replicas_cannot_share_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^global_batch: must be a multiple of the replicas .*, got 0\.75 samples"):
        Parallel(tensor=4).place(job(12), SERVERS)
    with pytest.raises(ValueError, match=r"^micro_batch: must divide the 4 samples of a replica, got 3$"):
        Parallel(tensor=4, micro_batch=3).place(job(64), SERVERS)
    with pytest.raises(ValueError, match=r"^parallel\.microbatches: must be null with micro_batch, got 2$"):
        Parallel(tensor=4, micro_batch=1, microbatches=2).place(job(64), SERVERS)
    for rule in (DataParallel(), Fsdp()):
        with pytest.raises(ValueError, match=r"^global_batch: must be a multiple of the GPUs, .*, got 0\.25 samples"):
            rule.place(job(16), SERVERS)
    with pytest.raises(
        ValueError, match=r"^global_batch: must be a multiple of the replicas of some degrees, got 0\.5"
    ):
        parallel_choices(job(1).with_global_batch(1, 2 * SERVERS), SERVERS)


def count(traffic: Traffic, name: str) -> int:
    """Return how many tasks have a label that begins with ``name``."""
    return sum(traffic.labels[label].stem.startswith(name) for label in traffic.label.tolist())


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_accumulated_gradients_are_computed_of_all_samples_and_updated_once(stage: int) -> None:
    """4 microbatches of 2 samples: 4 times the passes of one; gradients that are divided are reduced each time."""
    workload = job(8 * 64)
    undivided, parts = (Fsdp(stage=stage, micro_batch=size).place(workload, SERVERS) for size in (8, 2))
    once, often = lower(workload, undivided), lower(workload, parts)
    assert count(often, "forward") == 4 * count(once, "forward")
    assert count(often, "optimizer") == count(once, "optimizer") == SERVERS
    reduces = "bucket" if stage == 0 else "reduce_scatter"
    assert count(often, reduces) == (4 if stage >= 2 else 1) * count(once, reduces) > 0
    assert least_seconds(workload, parts) >= least_seconds(workload, undivided)
    assert parts.memory_per_gpu(workload) < undivided.memory_per_gpu(workload)
