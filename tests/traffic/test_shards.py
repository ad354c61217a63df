"""What sharded data parallelism sends, keeps and takes, against ZeRO's closed forms."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from topoflow.engine.base import Timeline
from topoflow.engine.fluid import Fluid
from topoflow.engine.lowering.placement import place
from topoflow.fabric.ideal_switch import IdealSwitch
from topoflow.strategy.data_parallel import DataParallel
from topoflow.strategy.fsdp import Fsdp
from topoflow.strategy.shards import Shards, model_state_bytes
from topoflow.traffic.base import Collective, Traffic
from topoflow.traffic.least_seconds import least_seconds
from topoflow.traffic.lower import lower
from topoflow.traffic.program import BACKWARD, FORWARD, UPDATE
from topoflow.traffic.roofline import step_seconds
from topoflow.traffic.shards import GATHER, SCATTER, of_shards
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
FREE = {"bandwidth": 1e18, "degree": 1, "latency": 0.0}


def simulate(traffic: Traffic, **switch: float) -> Timeline:
    given = {"bandwidth": 12.5e9, "degree": 4, "latency": 1e-6} | switch
    fabric = IdealSwitch(**given).build(traffic.servers, traffic.demand())
    return Fluid().simulate([place(traffic, fabric, name="one", all_reduce="hierarchical", rings="flows")])[0]


def root_parameters(workload: LayerGraph, strategy: Shards) -> int:
    return sum(layer.parameters for layer in workload.layers if layer.name in strategy.root)


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=WORKLOADS)
@pytest.mark.parametrize("stage", [1, 2, 3])
@pytest.mark.parametrize("prefetch", [0, 1, 3])
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
            found = simulate(lower(job, option), bandwidth=bandwidth, degree=1, latency=0.0).makespan
            assert found >= least_seconds(job, option, bandwidth) * (1 - 1e-9)


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
    whole = {1: 0, 2: 1, 3: 2}[stage] * 75_000 * 2
    np.testing.assert_allclose(small, needed / 100 + whole, rtol=1e-12)


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=WORKLOADS)
@pytest.mark.parametrize("stage", [1, 2, 3])
def test_on_a_network_that_costs_nothing_it_takes_the_compute_of_data_parallelism(
    workload: LayerGraph, stage: int
) -> None:
    # but for the update, of which every rank makes its part
    servers = 4
    alone = simulate(lower(workload, DataParallel().place(workload, servers)), **FREE).makespan
    found = simulate(lower(workload, Fsdp(stage=stage).place(workload, servers)), **FREE).makespan
    less = step_seconds(workload, workload.parameters) - step_seconds(workload, workload.parameters / servers)
    assert found == pytest.approx(alone - less, rel=1e-6)


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
    found = simulate(traffic, bandwidth=10e9, degree=1, latency=0.0)
    forward = [index for index, task in enumerate(traffic.tasks) if task.name.startswith("forward")]
    assert found.task_finish[forward].max() == pytest.approx(3 * SENT + 3 / 4 * 50e6 / 50e9, rel=1e-6)


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


def shards(units: int, root: bool, prefetch: int, stage: int = 3) -> Shards:
    return Shards(1, stage, 1, tuple((f"unit{number}",) for number in range(units)), ("root",) * root, prefetch)


@given(st.integers(1, 6), st.booleans(), st.integers(0, 4))
def test_units_are_gathered_before_they_are_needed_and_no_more_than_are_prefetched(
    count: int, root: bool, prefetch: int
) -> None:
    units = [*range(count + root), *[0] * root]  # a root around the others
    held: set[int] = set()
    passed: Counter[int] = Counter()
    for one in of_shards(shards(count, root, prefetch), units):
        if one.name == GATHER:
            assert one.of not in held
            held.add(one.of)
        elif one.name in (FORWARD, BACKWARD):
            unit = units[one.of]
            assert unit in held
            passed[unit] += 1
            if not (root and unit == 0):
                held.remove(unit)
        elif one.name == SCATTER:
            assert passed[one.of] == 2 * units.count(one.of)
        assert len(held - ({0} if root else set())) <= 1 + prefetch
    assert passed == Counter(units + units)


def test_the_program_of_a_root_and_two_units_is_the_one_in_its_docstring() -> None:
    program = of_shards(shards(2, True, 1), [0, 1, 2, 0])
    found = [f"{one.name.upper()} {one.of}".replace("UPDATE 0", "UPDATE") for one in program]
    text = " ".join((of_shards.__doc__ or "").split())
    assert ", ".join(found) in text
    none, *stages = ([one.name for one in of_shards(shards(2, True, 1, stage), [0, 1, 2, 0])] for stage in (0, 1, 2))
    assert stages[0] == stages[1] == none + [GATHER] * 3
    assert stages[0][-4:] == [UPDATE, GATHER, GATHER, GATHER]


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
        ({"group": 0}, "fsdp.group: must be a whole number of at least 1, got 0"),
        ({"prefetch": -1}, "fsdp.prefetch: must be a whole number of at least 0, got -1"),
        ({"unit_bytes": 0}, "fsdp.unit_bytes: must be positive, got 0"),
    ],
)
def test_what_cannot_be_divided_is_refused(fields: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match="^" + message.replace(".", r"\.")):
        Fsdp(**fields).place(GPT, 4)
