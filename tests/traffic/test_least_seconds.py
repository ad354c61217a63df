"""A lower bound of all degrees, without a task."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from topoflow.engine.fluid import Fluid
from topoflow.engine.lowering.placement import place
from topoflow.fabric.ideal_switch import IdealSwitch
from topoflow.strategy.parallel import Parallel
from topoflow.strategy.space import parallel_choices
from topoflow.traffic.least_seconds import least_seconds
from topoflow.traffic.lower import lower
from topoflow.workload.base import Workload
from topoflow.workload.gpu import Gpu
from topoflow.workload.moe import Moe
from topoflow.workload.transformer import Transformer

A100 = Gpu("A100", {"float32": 19.5e12, "bfloat16": 312e12}, 1555e9, 300e9, 40e9)
SIZES = {"layers": 8, "hidden": 256, "heads": 8, "key_value_heads": 4, "feed_forward": 512, "sequence": 128}
JOBS = [
    Transformer(A100, batch_per_gpu=2, vocabulary=1000, **SIZES).build(),
    Moe(A100, experts=4, vocabulary=1000, **SIZES).build(),
]


def makespan(
    workload: Workload,
    rule: Parallel,
    servers: int,
    bandwidth: float,
    latency: float,
    all_reduce: str = "hierarchical",
) -> float:
    """By fluid, on an ideal switch."""
    traffic = lower(workload, rule.place(workload, servers))
    fabric = IdealSwitch(bandwidth, 1, latency).build(servers, traffic.demand())
    world = place(traffic, fabric, name="one", all_reduce=all_reduce, rings="flows")
    return Fluid().simulate([world])[0].makespan


@pytest.mark.parametrize("bandwidth", [1e9, 100e9, 1e18])
@pytest.mark.parametrize("workload", JOBS, ids=lambda workload: workload.name)
def test_no_network_is_faster_and_an_ideal_one_not_much_slower(workload: Workload, bandwidth: float) -> None:
    ratios = []
    for rule in parallel_choices(workload, 2)[::4]:
        bound = least_seconds(workload, rule.place(workload, 2), bandwidth)
        ratios.append(makespan(workload, rule, 2, bandwidth, 0.0) / bound)
        assert bound >= least_seconds(workload, rule.place(workload, 2))  # that of a network that costs nothing
    assert min(ratios) >= 1 - 1e-9
    assert np.median(ratios) < 1.5  # or it would be of no use


@pytest.mark.parametrize("rule", [Parallel(), Parallel(tensor=2, expert=4), Parallel(context=8, microbatches=2)])
@pytest.mark.parametrize("all_reduce", ["ring", "hierarchical", "halving_doubling", "double_binary_tree"])
def test_no_algorithm_is_faster(rule: Parallel, all_reduce: str) -> None:
    bound = least_seconds(JOBS[1], rule.place(JOBS[1], 4), 10e9)
    assert bound <= makespan(JOBS[1], rule, 4, 10e9, 0.0, all_reduce) * (1 + 1e-9)


@pytest.mark.parametrize(("gpus", "servers"), [(4, 1), (1, 4)])
@pytest.mark.parametrize("microbatches", [1, 4])
def test_it_is_exact_where_one_thing_is_done_at_a_time(gpus: int, servers: int, microbatches: int) -> None:
    """Tensor ranks compute, then reduce, in one server or between four; there is one replica."""
    workload = replace(JOBS[0], gpus_per_server=gpus)
    rule = Parallel(tensor=4, microbatches=microbatches)
    bound = least_seconds(workload, rule.place(workload, servers), 1e9)
    assert bound == pytest.approx(makespan(workload, rule, servers, 1e9, 0.0))
