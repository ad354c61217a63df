"""Which degrees a search may try."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from topoflow.strategy.parallel import Parallel
from topoflow.strategy.space import MAX_MICROBATCHES_PER_STAGE, parallel_choices
from topoflow.workload.base import Workload
from topoflow.workload.bert import Bert
from topoflow.workload.dlrm import Dlrm
from topoflow.workload.gpu import Gpu
from topoflow.workload.moe import Moe
from topoflow.workload.transformer import Transformer

A100 = Gpu("A100", {"float32": 19.5e12, "bfloat16": 312e12}, 1555e9, 300e9, 40e9)
JOBS = [
    (Transformer(A100, batch_per_gpu=2).build(), 6),
    (Bert(A100, batch_per_gpu=1, gpus_per_server=2).build(), 4),
    (Moe(A100, layers=4).build(), 4),
]


@pytest.mark.parametrize(("workload", "servers"), JOBS, ids=lambda value: getattr(value, "name", value))
def test_the_choices_are_all_that_can_be_placed_and_fit(workload: Workload, servers: int) -> None:
    """Every tuple of degrees, tried one by one."""
    gpus = servers * workload.gpus_per_server
    divisors = [number for number in range(1, gpus + 1) if gpus % number == 0]
    expected = set()
    for tensor, pipeline, context, expert in product(divisors, repeat=4):
        rule = Parallel(tensor, pipeline, context, expert)
        for microbatches in range(pipeline, MAX_MICROBATCHES_PER_STAGE * pipeline + 1):
            choice = replace(rule, microbatches=microbatches)
            try:
                strategy = choice.place(workload, servers)
            except ValueError:
                continue
            if strategy.bytes_per_gpu(workload).max() <= 0.8 * A100.memory:
                expected.add(choice)
    rules = parallel_choices(workload, servers)
    assert len(set(rules)) == len(rules) > 10
    assert set(rules) == expected


def test_mixtral_does_not_fit_without_being_cut() -> None:
    # 46.7 B parameters of 16 bytes are 747 GB; a GPU of 40 GB has 32 to plan with: at least 24 share it, as 32
    for choice in parallel_choices(Moe(A100).build(), 16):
        assert choice.tensor * choice.pipeline * choice.expert >= 32


def test_a_stage_keeps_as_many_microbatches_as_it_has_begun() -> None:
    # equal stages of 3 blocks; stage i of 4 keeps 4 - i microbatches: the difference of neighbours is one microbatch
    sizes = {"layers": 12, "learned_positions": False, "vocabulary": 1, "tied": False}
    workload = Transformer(A100, batch_per_gpu=8, **sizes).build()
    needed = Parallel(pipeline=4, microbatches=32).place(workload, 4).bytes_per_gpu(workload)
    one = 32 * 1024 * 768 * 3  # bytes: 32 per token and column and block, one sample in a microbatch
    assert needed[1] - needed[2] == one


def test_tensor_and_context_ranks_share_the_activations() -> None:
    workload = replace(Transformer(A100, layers=12, tied=False).build(), optimizer="sgd")
    activation_bytes = (
        12 * 2 * sum(layer.output_elements + layer.activation for layer in workload.layers)
    )  # samples, bytes
    for rule in (Parallel(), Parallel(tensor=4), Parallel(context=4), Parallel(tensor=2, context=2)):
        # a replica has as many times the samples as ranks share it: each keeps as much of the activations
        grid = rule.place(workload, 4)
        (parameters,) = (sum(stage.values()) for stage in grid.rank_parameters(workload))
        needed = rule.place(workload, 4).bytes_per_gpu(workload)
        assert set(needed) == {activation_bytes + 4 * parameters}  # 2 of the weight, 2 of the gradient


def test_nothing_that_fits_is_told_with_the_least_need() -> None:
    sizes = {"layers": 96, "hidden": 12288, "heads": 96, "key_value_heads": 96, "feed_forward": 49152}
    workload = Transformer(A100, batch_per_gpu=1, sequence=2048, **sizes).build()
    with pytest.raises(ValueError) as error:  # noqa: PT011 - the whole message is compared
        parallel_choices(workload, 4)
    degrees = "tensor=16 pipeline=1 context=1 expert=1 microbatches=8"
    need = Parallel(tensor=16, microbatches=8).place(workload, 4).bytes_per_gpu(workload).max()
    assert need > 16 * 175e9 / 16  # ZeRO's 16 bytes per parameter, on 16 GPUs
    expected = f"got at least {need / 1e9:.4g} GB with {degrees}"
    assert (
        str(error.value)
        == f"gpu.memory: transformer on 4 servers must fit in the 32 GB (80% of 40 GB) of A100, {expected}"
    )
    everywhere = replace(A100, memory=need, memory_share=1.0)
    assert np.isin([16], [choice.tensor for choice in parallel_choices(replace(workload, gpu=everywhere), 4)])


def test_only_a_transformer_has_degrees() -> None:
    with pytest.raises(ValueError, match=r"^strategy: parallel must have a transformer"):
        parallel_choices(Dlrm(A100).build(), 4)
