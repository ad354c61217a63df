"""Recomputation: what runs again in the backward pass, and what need not be kept for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from topoflow.engine.fluid import Fluid
from topoflow.engine.lowering.placement import place
from topoflow.fabric.ideal_switch import IdealSwitch
from topoflow.strategy.fsdp import Fsdp
from topoflow.strategy.memory import activation_elements, recomputed_part
from topoflow.strategy.parallel import Parallel
from topoflow.traffic.grid.pipelined import held_by_stage
from topoflow.traffic.grid.stage_work import GATHER_INPUTS, SCATTER_OUTPUTS, backward_work, forward_work
from topoflow.traffic.least_seconds import least_seconds
from topoflow.traffic.lower import lower
from topoflow.workload.base import LayerGraph
from topoflow.workload.gpu import Gpu
from topoflow.workload.transformer import Transformer

GPU = Gpu("gpu", {"bfloat16": 1e12}, 1e15, 300e9, 400e9)
BLOCKS, HIDDEN, SEQUENCE, HEADS = 4, 64, 128, 8


def job(attention: str = "unfused") -> LayerGraph:
    return Transformer(
        GPU,
        batch_per_gpu=2,
        layers=BLOCKS,
        hidden=HIDDEN,
        heads=HEADS,
        key_value_heads=HEADS,
        sequence=SEQUENCE,
        attention=attention,
    ).build()


def test_selective_op_gathers_the_inputs_of_a_block_again_and_reduces_nothing_twice() -> None:
    """torchtitan's ``_save_list`` has ``reduce_scatter_tensor``, not ``all_gather_into_tensor``."""
    workload = job()
    plain, grid = (Parallel(tensor=4, recompute=how).place(workload, 1) for how in ("none", "selective_op"))
    (stage,) = held_by_stage(workload, grid)
    blocks = [part for part in stage if part[0].sharding is not None and part[0].sharding.block is not None]
    without, recomputed = (backward_work(workload, some_grid, stage).sent for some_grid in (plain, grid))
    assert (
        recomputed[GATHER_INPUTS] == without[GATHER_INPUTS] + forward_work(workload, grid, blocks).sent[GATHER_INPUTS]
    )
    assert recomputed[SCATTER_OUTPUTS] == without[SCATTER_OUTPUTS]


@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
def test_the_backward_pass_contains_the_forward_pass_of_what_is_recomputed(recompute: str) -> None:
    workload = job()
    plain = Parallel(tensor=4, pipeline=2).place(workload, 2)
    grid = Parallel(tensor=4, pipeline=2, recompute=recompute).place(workload, 2)
    for stage in held_by_stage(workload, grid):
        again = forward_work(workload, grid, [part for part in stage if recomputed_part(part[0], recompute)[0]])
        without, recomputed = backward_work(workload, plain, stage), backward_work(workload, grid, stage)
        assert recomputed.seconds == pytest.approx(without.seconds + again.seconds)
        for kind in (GATHER_INPUTS, SCATTER_OUTPUTS):
            assert recomputed.sent[kind] == without.sent[kind] + again.sent[kind]
    kinds = {layer.kind for layer in workload.layers if recomputed_part(layer, recompute)[0]}
    assert kinds == {"none": set(), "selective": {"attention"}, "full": {"norm", "dense", "attention"}}[recompute]


def test_full_recomputation_keeps_the_input_of_every_block_and_one_block() -> None:
    """Kept: the outputs of 4 blocks, and those of 2 embeddings, the last norm and the head, which is 50257 wide."""
    layers = job().layers
    stored, working = activation_elements(layers, "full")
    assert stored == (BLOCKS + 3) * HIDDEN * SEQUENCE + 50257 * SEQUENCE
    all_kept, nothing = activation_elements(layers, "none")
    assert nothing == 0
    assert all_kept == stored + BLOCKS * (working - HIDDEN * SEQUENCE)


def test_selective_recomputation_keeps_all_but_the_scores() -> None:
    """5 bytes of each score: output of the softmax, mask and output of dropout (Korthikanti et al., section 4.1)."""
    stored = {recompute: activation_elements(job().layers, recompute)[0] for recompute in ("none", "selective")}
    assert 2 * (stored["none"] - stored["selective"]) == 5 * BLOCKS * HEADS * SEQUENCE**2
    assert activation_elements(job("flash").layers, "none") == activation_elements(job("flash").layers, "selective")


@pytest.mark.parametrize("rule", [Parallel, Fsdp])
def test_more_recomputation_takes_longer_and_less_memory(rule: type[Parallel | Fsdp]) -> None:
    workload = job()
    plans = [rule(recompute=recompute).place(workload, 2) for recompute in ("none", "selective", "full")]
    seconds = [lower(workload, plan).seconds.sum() for plan in plans]
    memory = [plan.memory_per_gpu(workload) for plan in plans]
    assert seconds == sorted(set(seconds))
    assert memory == sorted(set(memory), reverse=True)


def test_an_unknown_name_is_refused() -> None:
    for rule in (Parallel(recompute="some"), Fsdp(recompute="some")):
        with pytest.raises(
            ValueError, match=r"^strategy\.recompute: must be one of none, selective, selective_op, full, got 'some'$"
        ):
            rule.place(job(), 2)
    with pytest.raises(
        ValueError, match=r"^transformer\.attention: must be one of flash, flash2, flash1, unfused, got 'fast'$"
    ):
        job("fast")


def test_selective_op_keeps_the_outputs_of_attention_and_of_every_second_matrix() -> None:
    """torchtitan's Llama block: wq, wv, w1, w2 and attention are kept, wk, wo and w3 run again."""
    sizes = {"layers": 1, "hidden": HIDDEN, "heads": HEADS, "key_value_heads": 2, "feed_forward": 96}
    workload = Transformer(GPU, gated=True, bias=False, learned_positions=False, **sizes).build()
    parts = {layer.name: recomputed_part(layer, "selective_op") for layer in workload.layers}
    key_values = HIDDEN * 2 // HEADS
    assert parts["block0.qkv"] == (key_values / (HIDDEN + 2 * key_values), 1)
    assert parts["block0.projection"] == (1, 1)
    assert parts["block0.ffn_up"] == (0.5, 1)
    assert parts["block0.ffn_down"] == (0, 1)
    assert parts["block0.attention"] == parts["embedding"] == parts["head"] == (0, 0)
    assert parts["block0.norm1"] == (1, 1)


@pytest.mark.parametrize("recompute", ["selective", "full"])
@pytest.mark.parametrize("rule", [Parallel(2, 2, micro_batch=1), Fsdp(micro_batch=1)])
def test_the_least_time_is_never_above_the_simulated_one(rule: Parallel | Fsdp, recompute: str) -> None:
    workload = replace(job(), gpu=replace(GPU, name="H100", efficiency="measured"))
    plan = replace(rule, recompute=recompute).place(workload, 2)
    traffic = lower(workload, plan)
    fabric = IdealSwitch(bandwidth=25e9, degree=4, latency=0).build(2, traffic.demand())
    world = place(traffic, fabric, name="one", all_reduce="hierarchical", rings="steps")
    assert 0 < least_seconds(workload, plan, 100e9) <= Fluid().simulate([world])[0].makespan * (1 + 1e-9)
