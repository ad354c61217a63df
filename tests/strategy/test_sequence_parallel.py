"""Sequence parallelism: tensor ranks divide the positions of the layers that they do not cut, or repeat them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topoflow.engine.fluid import Fluid
from topoflow.engine.lowering.placement import place
from topoflow.fabric.ideal_switch import IdealSwitch
from topoflow.strategy.grid import ParallelGrid
from topoflow.strategy.parallel import Parallel
from topoflow.traffic.grid.pipelined import held_by_stage
from topoflow.traffic.grid.stage_work import GATHER_INPUTS, SCATTER_OUTPUTS, backward_work, forward_work
from topoflow.traffic.least_seconds import least_seconds
from topoflow.traffic.lower import lower
from topoflow.workload.base import LayerGraph
from topoflow.workload.gpu import Gpu
from topoflow.workload.moe import Moe
from topoflow.workload.transformer import Transformer

GPU = Gpu("H100", {"bfloat16": 989e12}, 3.35e12, 450e9, 80e9, efficiency="measured")
LAYERS, HIDDEN, SEQUENCE, HEADS, BATCH = 4, 512, 256, 8, 2
RULES = st.builds(
    Parallel,
    tensor=st.sampled_from([1, 2, 4]),
    pipeline=st.sampled_from([1, 2]),
    context=st.sampled_from([1, 2]),
    recompute=st.sampled_from(["none", "selective", "selective_op", "full"]),
    zero=st.sampled_from([0, 1, 2, 3]),
)


def job(layers: int = LAYERS) -> LayerGraph:
    return Transformer(
        GPU,
        batch_per_gpu=BATCH,
        gpus_per_server=8,
        layers=layers,
        hidden=HIDDEN,
        feed_forward=4 * HIDDEN,
        heads=HEADS,
        key_value_heads=HEADS,
        sequence=SEQUENCE,
    ).build()


def pair(rule: Parallel, workload: LayerGraph, servers: int = 2) -> tuple[ParallelGrid, ParallelGrid]:
    """Return the grid with sequence parallelism and without it."""
    with_parts, without = (replace(rule, sequence_parallel=parts) for parts in (True, False))
    return with_parts.place(workload, servers), without.place(workload, servers)


@given(RULES)
def test_an_all_reduce_takes_the_place_of_a_gather_and_a_scatter_of_the_same_bytes(rule: Parallel) -> None:
    workload = job()
    divided, repeated = pair(rule, workload)
    for stage in held_by_stage(workload, divided):
        for work in (forward_work, backward_work):
            with_parts, without = (work(workload, grid, stage).sent for grid in (divided, repeated))
            assert without["all_reduce"] == with_parts[SCATTER_OUTPUTS]
            assert not without[GATHER_INPUTS]
            assert not without[SCATTER_OUTPUTS]
            assert not with_parts["all_reduce"]


@given(RULES)
def test_repeated_work_takes_longer_and_keeps_more_only_where_there_are_tensor_ranks(rule: Parallel) -> None:
    workload = job()
    divided, repeated = pair(rule, workload)
    stage = held_by_stage(workload, divided)[0]
    for work in (forward_work, backward_work):
        with_parts, without = (work(workload, grid, stage).seconds for grid in (divided, repeated))
        assert (without > with_parts) == (rule.tensor > 1)
        assert without >= with_parts
    needed, more = (grid.bytes_per_gpu(workload).max() for grid in (divided, repeated))
    assert (more > needed) == (rule.tensor > 1)
    assert more >= needed


@pytest.mark.parametrize("tensor", [1, 2, 8])
def test_a_block_keeps_8_and_24_over_t_bytes_for_each_token_and_column(tensor: int) -> None:
    """Korthikanti et al., 2022, equation 2: s b h (10 + 24 / t), of which we do not model 2 of dropout masks."""
    kept = []
    for layers in (2, 3):
        workload = job(layers=layers)
        grid = Parallel(tensor=tensor, sequence_parallel=False).place(workload, 1)
        elements, _ = grid.activations(workload)
        kept.append(2 * elements[0] / tensor)
    assert kept[1] - kept[0] == pytest.approx(SEQUENCE * HIDDEN * (8 + 24 / tensor))


def test_norms_and_residuals_take_as_long_as_on_one_rank() -> None:
    """Norms and residual additions are repeated; attention, matrices and activations are divided as before."""
    workload = job(layers=1)
    seconds: dict[bool, dict[str, float]] = {}
    for grid in pair(Parallel(tensor=4, micro_batch=8), workload, servers=1):
        (stage,) = held_by_stage(workload, grid)
        seconds[grid.sequence_parallel] = {
            layer.name: forward_work(workload, grid, [(layer, size)]).seconds for layer, size in stage
        }
    longer = {name for name, of_layer in seconds[False].items() if of_layer > seconds[True][name]}
    assert longer == {"position", "block0.norm1", "block0.norm2", "norm", "block0.projection", "block0.ffn_down"}
    launch = GPU.measured.launch if GPU.measured is not None else 0.0
    norm = {parts: of_layers["block0.norm1"] - launch for parts, of_layers in seconds.items()}
    moved = 3 * HIDDEN * SEQUENCE * 8 * 2 / GPU.memory_bandwidth  # two reads and a write of 8 samples of 2 bytes
    assert norm[False] >= moved
    assert norm[False] == pytest.approx(4 * norm[True], rel=1e-3)  # but for the parameters, which are read once


def test_a_stage_gathers_the_parts_that_it_receives() -> None:
    """Each tensor rank sends its part to the next stage (Narayanan et al., SC 2021, 4.1): 8 times each way."""
    workload = job()
    divided, repeated = pair(Parallel(tensor=8, pipeline=2, micro_batch=4), workload)
    assert repeated.microbatches == 8
    names = [lower(workload, grid).names() for grid in (divided, repeated)]
    gathers = [sum(name.startswith(GATHER_INPUTS) for name in of_grid) for of_grid in names]
    assert gathers[1] == 2 * 8
    assert not any(name.startswith("all_reduce") for name in names[0])


@given(RULES)
def test_the_least_time_is_never_above_the_simulated_one(rule: Parallel) -> None:
    workload = job()
    _, grid = pair(rule, workload)
    traffic = lower(workload, grid)
    fabric = IdealSwitch(bandwidth=25e9, degree=8, latency=0).build(2, traffic.demand())
    world = place(traffic, fabric, name="one", all_reduce="hierarchical", rings="steps")
    assert 0 < least_seconds(workload, grid, 200e9) <= Fluid().simulate([world])[0].makespan * (1 + 1e-9)


def test_divided_experts_need_it() -> None:
    model = Moe(GPU, layers=2, hidden=512, heads=8, key_value_heads=8, feed_forward=512, experts=8, gpus_per_server=8)
    rule = Parallel(tensor=2, expert=2, sequence_parallel=False)
    message = (
        r"^parallel\.sequence_parallel: must be true where tensor ranks share experts that are divided, "
        r"got false with expert=2$"
    )
    with pytest.raises(ValueError, match=message):
        rule.place(model.build(), 1)
    assert replace(rule, expert=1).place(model.build(), 1).repeats == 2
