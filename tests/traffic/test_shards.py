"""What sharded data parallelism sends, keeps and takes, against ZeRO's closed forms."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import some
from topoflow.engine.base import Timeline
from topoflow.engine.fluid import Fluid
from topoflow.engine.lowering.placement import place
from topoflow.fabric.ideal_switch import IdealSwitch
from topoflow.strategy.data_parallel import DataParallel
from topoflow.strategy.fsdp import Fsdp
from topoflow.strategy.grid import ParallelGrid, is_root, units_of
from topoflow.strategy.memory import model_state_bytes
from topoflow.strategy.parallel import Parallel
from topoflow.traffic.base import Collective, Traffic
from topoflow.traffic.grid.pipelined import held_by_stage
from topoflow.traffic.least_seconds import least_seconds
from topoflow.traffic.lower import lower
from topoflow.traffic.roofline import step_seconds
from topoflow.workload.base import Layer, LayerGraph
from topoflow.workload.gpu import Gpu
from topoflow.workload.moe import Moe
from topoflow.workload.resnet50 import Resnet50
from topoflow.workload.transformer import Transformer

A100 = Gpu("A100", {"float32": 19.5e12, "bfloat16": 312e12}, 1555e9, 300e9, 40e9)
GPT = Transformer(A100, gpus_per_server=1).build()
WORKLOADS = {
    "gpt": GPT,
    "resnet50": Resnet50(A100, gpus_per_server=1).build(),
    "moe": Moe(A100, layers=2, hidden=64, heads=8, key_value_heads=4, feed_forward=96, gpus_per_server=1).build(),
}
FREE_NETWORK = {"bandwidth": 1e18, "degree": 1, "latency": 0.0}


def simulate(traffic: Traffic, **switch: float) -> Timeline:
    settings = {"bandwidth": 12.5e9, "degree": 4, "latency": 1e-6} | switch
    fabric = IdealSwitch(**settings).build(traffic.servers, traffic.demand())
    return Fluid().simulate([place(traffic, fabric, name="one", all_reduce="hierarchical", rings="flows")])[0]


def root_parameters(workload: LayerGraph, strategy: ParallelGrid) -> float:
    (layers,) = held_by_stage(workload, strategy)
    units = units_of(layers, workload.element_bytes, strategy.bucket_bytes)
    return sum(parameters for unit in units if is_root(unit) for _, parameters in unit)


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=WORKLOADS)
@pytest.mark.parametrize(
    ("stage", "prefetch"), some(product([1, 2, 3], [1, 0, 3]), 4)
)  # 1 and 1, 1 and 3, 2 and 0, ...
def test_a_rank_sends_two_or_three_times_its_part_of_the_parameters(
    workload: LayerGraph, stage: int, prefetch: int
) -> None:
    # ZeRO, section 7: 2 P with stages 1 and 2, 3 P with stage 3, of which FSDP's root is gathered once only
    servers = 4
    strategy = Fsdp(stage=stage, prefetch=prefetch).place(workload, servers)
    sent = simulate(lower(workload, strategy)).link_bytes[:servers]
    times = 2 * workload.parameters
    times += workload.parameters - root_parameters(workload, strategy) if stage == 3 else 0
    np.testing.assert_allclose(sent, (servers - 1) / servers * times * workload.element_bytes, rtol=1e-9)


def test_stage_three_sends_three_parts_where_there_is_no_root() -> None:
    workload = WORKLOADS["resnet50"]
    strategy = Fsdp().place(workload, 8)
    assert root_parameters(workload, strategy) == 0
    sent = simulate(lower(workload, strategy)).link_bytes[:8]
    np.testing.assert_allclose(sent, 3 * 7 / 8 * workload.parameters * workload.element_bytes, rtol=1e-9)


@pytest.mark.parametrize("stage", [0, 1, 2])
def test_up_to_stage_two_as_much_is_sent_as_by_data_parallelism(stage: int) -> None:
    replicated, divided = (
        simulate(lower(GPT, rule.place(GPT, 4))).link_bytes for rule in (DataParallel(), Fsdp(stage=stage))
    )
    np.testing.assert_allclose(divided, replicated, rtol=1e-9)


def test_stage_zero_is_data_parallelism_with_a_bucket_per_unit() -> None:
    workload = WORKLOADS["resnet50"]
    rules = DataParallel(first_bucket_bytes=2**60, bucket_bytes=2**60), Fsdp(stage=0, unit_bytes=2**60)
    one, other = (simulate(lower(workload, rule.place(workload, 4))) for rule in rules)
    assert one.makespan == pytest.approx(other.makespan, rel=1e-9)


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=WORKLOADS)
def test_nothing_takes_less_than_its_least_time(workload: LayerGraph) -> None:
    job = replace(workload, gpus_per_server=2)
    for option in Fsdp().place(job, 4).alternatives(job):
        for bandwidth in (1e8, 12.5e9, 1e15):
            makespan = simulate(lower(job, option), bandwidth=bandwidth, degree=1, latency=0.0).makespan
            assert makespan >= least_seconds(job, option, bandwidth) * (1 - 1e-9)


@pytest.mark.parametrize(("stage", "gigabytes"), [(1, 31.4), (2, 16.6), (3, 1.9)])
def test_the_state_of_the_model_is_that_of_figure_1_of_zero(stage: int, gigabytes: float) -> None:
    # 7.5 B parameters, 64 GPUs, K = 12: 120 GB without
    needed = model_state_bytes(7.5e9, weight=2, gradient=2, optimizer=12, stage=stage, ranks=64)
    assert round(needed / 1e9, 1) == gigabytes
    layers = tuple(
        Layer(f"layer{number}", "dense", 75_000, 1.0, 0, 0, () if not number else (f"layer{number - 1}",))
        for number in range(1000)
    )
    workload = LayerGraph("model", layers, 1, A100, gpus_per_server=1, dtype="bfloat16", optimizer="adam")
    small = Fsdp(stage=stage, unit_bytes=1, prefetch=0).place(workload, 64).bytes_per_gpu(workload)
    # 1 % of 7.5 B, with a unit whole besides: its gradients in stage 2, its parameters too in stage 3
    expected = {1: 0, 2: 1, 3: 2}[stage] * 75_000 * 2
    np.testing.assert_allclose(small, needed / 100 + expected, rtol=1e-12)


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=WORKLOADS)
@pytest.mark.parametrize("stage", [1, 2, 3])
def test_on_a_network_that_costs_nothing_it_takes_the_compute_of_data_parallelism(
    workload: LayerGraph, stage: int
) -> None:
    # but for the update, of which every rank makes its part
    servers = 4
    alone = simulate(lower(workload, DataParallel().place(workload, servers)), **FREE_NETWORK).makespan
    makespan = simulate(lower(workload, Fsdp(stage=stage).place(workload, servers)), **FREE_NETWORK).makespan
    less = step_seconds(workload, workload.parameters) - step_seconds(workload, workload.parameters / servers)
    assert makespan == pytest.approx(alone - less, rel=1e-6)


@pytest.mark.parametrize("gpus", [1, 8])
def test_stage_zero_overlaps_the_phases_of_its_units_as_data_parallelism_does(gpus: int) -> None:
    workload = replace(chain(5, flops=1e8), gpus_per_server=gpus)
    rules = DataParallel(first_bucket_bytes=1, bucket_bytes=1), Fsdp(stage=0, unit_bytes=1)
    one, other = (simulate(lower(workload, rule.place(workload, 4)), bandwidth=100e9) for rule in rules)
    assert one.makespan == pytest.approx(other.makespan, rel=1e-9)


def test_units_are_gathered_between_servers_while_the_one_before_is_inside_them() -> None:
    # 4 servers of 4 GPUs with 50 GB/s to each other: each of 3 units takes 3.75 ms between and 0.75 ms inside servers,
    # and nothing computes. With all prefetched, the first two are hidden: inside, a unit is done before the next one
    workload = replace(chain(3, flops=0.0), gpus_per_server=4)
    workload = replace(workload, gpu=replace(workload.gpu, local_bandwidth=50e9))
    traffic = lower(workload, Fsdp(prefetch=9).place(workload, 4))
    timeline = simulate(traffic, bandwidth=10e9, degree=1, latency=0.0)
    forward = [index for index, task in enumerate(traffic.tasks) if task.name.startswith("forward")]
    assert timeline.task_finish[forward].max() == pytest.approx(3 * SENT + 3 / 4 * 50e6 / 50e9, rel=1e-6)


def chain(layers: int, flops: float) -> LayerGraph:
    """Layers that all take as long and have 50 MB of parameters each, of which each is a unit."""
    listed = tuple(
        Layer(f"l{number}", "dense", 25_000_000, flops, 0, 0, (f"l{number - 1}",) if number else ())
        for number in range(layers)
    )
    gpu = Gpu("no memory", {"bfloat16": 1e12}, 1e18, 300e9, 40e9)
    return LayerGraph("chain", listed, 1, gpu, gpus_per_server=1, dtype="bfloat16")


def update(workload: LayerGraph) -> float:
    return step_seconds(workload, workload.parameters / 4)


SENT = 3 / 4 * 50e6 / 10e9  # s of a gather or a reduction among 4 servers at 10 GB/s: 3.75 ms


@pytest.mark.parametrize("layers", [1, 2, 5])
def test_without_prefetching_everything_is_one_after_another(layers: int) -> None:
    workload = chain(layers, flops=2e9)  # 2 ms forward, 4 ms backward
    timeline = simulate(lower(workload, Fsdp(prefetch=0).place(workload, 4)), bandwidth=10e9, degree=1, latency=0.0)
    # gather and forward; gather, backward and reduce
    expected = layers * (SENT + 2e-3) + layers * (SENT + 4e-3 + SENT) + update(workload)
    assert timeline.makespan == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("layers", [1, 2, 5])
def test_with_prefetching_long_compute_hides_all_but_the_first_gathers_and_the_last_reduction(layers: int) -> None:
    workload = chain(layers, flops=1e10)  # 10 ms forward, 20 ms backward
    timeline = simulate(lower(workload, Fsdp().place(workload, 4)), bandwidth=10e9, degree=1, latency=0.0)
    # the last unit is gathered again once its forward pass has freed it, as FSDP does
    expected = SENT + layers * 10e-3 + SENT + layers * 20e-3 + SENT + update(workload)
    assert timeline.makespan == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("stage", [1, 3])
@pytest.mark.parametrize("group", [None, 2])
def test_the_collectives_of_a_group_run_one_after_another(stage: int, group: int | None) -> None:
    traffic = lower(GPT, Fsdp(stage=stage, group=group).place(GPT, 4))
    timeline = simulate(traffic)
    ends: dict[tuple[int, ...], float] = {}
    for task, start, finish in zip(traffic.tasks, timeline.task_start, timeline.task_finish, strict=True):
        if isinstance(task, Collective):
            assert start >= ends.get(task.group, 0.0)
            ends[task.group] = finish
    assert set(ends) == ({(0, 1, 2, 3)} if group is None else {(0, 1), (2, 3), (0, 2), (1, 3)})


def blocks_of(layers: int) -> LayerGraph:
    sizes = {"hidden": 64, "heads": 4, "key_value_heads": 4, "feed_forward": 64, "vocabulary": 64, "sequence": 16}
    return Transformer(A100, layers=layers, tied=False, gpus_per_server=1, **sizes).build()


def order(workload: LayerGraph, rule: Fsdp) -> list[str]:
    """Return gathers, passes of the first server and reductions, in the order in which they are issued."""
    tasks = lower(workload, rule.place(workload, 2)).tasks
    return [task.name.removesuffix(" @0") for task in tasks if not task.name.endswith(" @1")]


@given(st.integers(1, 6), st.integers(0, 4), st.integers(1, 2))
def test_units_are_gathered_before_they_are_needed_and_no_more_than_are_prefetched(
    blocks: int, prefetch: int, samples: int
) -> None:
    workload = replace(blocks_of(blocks), batch_per_gpu=samples)
    gathered: set[str] = set()
    passed: Counter[str] = Counter()
    for name in order(workload, Fsdp(prefetch=prefetch, micro_batch=1)):
        unit = name.split()[-1].split(".")[0]
        if name.startswith("all_gather"):
            assert unit not in gathered or unit == "embedding"  # the root is gathered for every microbatch
            gathered.add(unit)
        elif name.startswith(("forward", "backward")):
            passed[unit] += 1
            if unit.startswith("block"):
                gathered.remove(unit)
            else:
                assert "embedding" in gathered
        assert len(gathered - {"embedding"}) <= 1 + prefetch
    units = [f"block{number}" for number in range(blocks)]
    assert {unit: passed[unit] for unit in units} == dict.fromkeys(units, 2 * samples)


def test_a_unit_is_gathered_before_each_pass_and_reduced_after_its_backward_pass() -> None:
    """Two blocks and the root around them, one unit ahead; the last block is gathered again once it has been freed."""
    first, second = "block0.norm1", "block1.norm1"
    expected = [
        *("all_gather embedding", f"all_gather {first}", "forward 0.0 position", f"all_gather {second}"),
        *("forward 0.0 block0.ffn_down", "forward 0.0 block1.ffn_down", "forward 0.0 head"),
        *(f"all_gather {second}", "backward 0.0 norm", f"all_gather {first}", f"backward 0.0 {second}"),
        *(f"reduce_scatter {second}", f"backward 0.0 {first}", f"reduce_scatter {first}"),
        *("backward 0.0 embedding", "reduce_scatter embedding", "optimizer"),
    ]
    assert order(blocks_of(2), Fsdp()) == expected


@pytest.mark.parametrize("stage", [1, 2])
def test_up_to_stage_two_parameters_are_gathered_after_the_update(stage: int) -> None:
    names = order(blocks_of(2), Fsdp(stage=stage, unit_bytes=1))
    update = names.index("optimizer")
    assert {name.split()[0] for name in names[update + 1 :]} == {"all_gather"}
    reduced = sum(name.startswith("reduce_scatter") for name in names[:update])
    assert len(names) - update - 1 == reduced > 0


def test_compute_waits_for_the_part_of_a_collective_that_slows_it_down() -> None:
    """Half of each gather and reduction is hidden where multiplications run at half of their speed beside them."""
    measured = replace(GPT.gpu, name="H100", flops=A100.flops, efficiency="measured")
    workload = replace(GPT, gpu=measured, gpus_per_server=8)
    strategy = Fsdp().place(workload, 4)
    alone = simulate(lower(workload, strategy), bandwidth=1e17, latency=0.0).makespan
    traffic = lower(workload, strategy)
    collectives = [task for task in traffic.tasks if isinstance(task, Collective)]
    halves = Counter((task.name, task.bytes) for task in collectives)
    assert set(halves.values()) <= {2, 4}  # each twice, and gathers of blocks for both passes
    assert simulate(traffic).makespan > alone


@pytest.mark.parametrize("zero", [1, 2, 3])
@pytest.mark.parametrize(
    "degrees",
    [{"tensor": 4}, {"context": 2}, {"pipeline": 2, "microbatches": 2}, {"expert": 2}, {"tensor": 2, "pipeline": 2}],
    ids=str,
)
def test_zero_composes_with_every_axis(zero: int, degrees: dict[str, int]) -> None:
    """The state of a GPU is gathered and reduced among the ranks that hold a copy of it, whatever cuts the layers."""
    workload = WORKLOADS["moe"]
    plain, divided = (Parallel(zero=number, **degrees).place(workload, 16) for number in (0, zero))
    assert divided.memory_per_gpu(workload) < plain.memory_per_gpu(workload)
    sent = [simulate(lower(workload, strategy)).link_bytes.sum() for strategy in (plain, divided)]
    if zero == 1:
        assert sent[1] == pytest.approx(sent[0], rel=1e-9)
    assert sent[1] >= sent[0] * (1 - 1e-9)
    for strategy in (plain, divided):
        assert strategy.samples(workload) * strategy.microbatches * strategy.replicas == 16
        makespan = simulate(lower(workload, strategy), bandwidth=1e9, degree=1, latency=0.0).makespan
        assert makespan >= least_seconds(workload, strategy, 1e9) * (1 - 1e-9)


def test_hybrid_sharding_gathers_inside_a_group_and_all_reduces_a_part_between_groups() -> None:
    # 4 servers of 4 GPUs. Inside each server: nothing enters the network but the all-reduces, of P in all
    workload = replace(GPT, gpus_per_server=4)
    inside = simulate(lower(workload, Fsdp(group=1).place(workload, 4)))
    np.testing.assert_allclose(inside.link_bytes, 2 * 3 / 4 * workload.parameters * 2, rtol=1e-9)
    # groups of two: P gathered twice (its root once) and reduced once among 2, P/2 all-reduced with the other group
    strategy = Fsdp(group=2).place(workload, 4)
    pair = simulate(lower(workload, strategy))
    gathered = 3 * workload.parameters - root_parameters(workload, strategy)
    expected = 1 / 2 * gathered * 2 + 2 * 1 / 2 * workload.parameters / 2 * 2
    np.testing.assert_allclose(pair.link_bytes, expected, rtol=1e-9)


def test_one_gpu_alone_gathers_nothing() -> None:
    traffic = lower(GPT, Fsdp().place(GPT, 1))
    assert not [task for task in traffic.tasks if isinstance(task, Collective)]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"stage": 4}, "fsdp.stage: must be one of 0, 1, 2, 3, got 4"),
        ({"group": 3}, "fsdp.group: must divide the 4 servers, got 3"),
        ({"group": 0}, "fsdp.group: must be positive, got 0"),
        ({"prefetch": -1}, "fsdp.prefetch: must be a whole number of at least 0, got -1"),
        ({"unit_bytes": 0}, "fsdp.unit_bytes: must be positive, got 0"),
    ],
)
def test_what_cannot_be_divided_is_refused(fields: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match="^" + message.replace(".", r"\.")):
        Fsdp(**fields).place(GPT, 4)
