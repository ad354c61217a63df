"""Asynchronous tensor and expert parallelism: their collectives overlap with the compute of their pass."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topoflow.engine.fluid import Fluid
from topoflow.engine.lowering.placement import place
from topoflow.fabric.ideal_switch import IdealSwitch
from topoflow.strategy.parallel import Parallel
from topoflow.traffic.least_seconds import least_seconds
from topoflow.traffic.lower import lower
from topoflow.workload.base import LayerGraph
from topoflow.workload.gpu import Gpu
from topoflow.workload.moe import Moe
from topoflow.workload.transformer import Transformer

H100 = Gpu("H100", {"bfloat16": 989e12}, 3.35e12, 450e9, 80e9, efficiency="measured")  # overlap: 0.5
B200 = replace(H100, name="B200")  # overlap: 1
RULES = st.builds(
    Parallel,
    tensor=st.sampled_from([1, 2, 4]),
    pipeline=st.sampled_from([1, 2]),
    context=st.sampled_from([1, 2]),
    recompute=st.sampled_from(["none", "selective_op", "full"]),
    zero=st.sampled_from([0, 1, 2, 3]),
)


def mixture(gpu: Gpu, node_limit: int) -> LayerGraph:
    sizes = {"layers": 2, "hidden": 512, "heads": 8, "key_value_heads": 8, "feed_forward": 256, "sequence": 256}
    model = Moe(
        gpu, batch_per_gpu=2, gpus_per_server=8, experts=16, top_k=4, node_limit=node_limit, dense_layers=0, **sizes
    )
    return replace(model.build(), gpus_per_node=4)


def job(gpu: Gpu) -> LayerGraph:
    model = Transformer(
        gpu, batch_per_gpu=2, gpus_per_server=8, layers=4, hidden=512, heads=8, key_value_heads=8, sequence=256
    )
    return model.build()


def seconds(workload: LayerGraph, rule: Parallel) -> float:
    """Return the simulated step on two servers."""
    traffic = lower(workload, rule.place(workload, 2))
    fabric = IdealSwitch(bandwidth=25e9, degree=8, latency=0).build(2, traffic.demand())
    world = place(traffic, fabric, name="one", all_reduce="hierarchical", rings="steps")
    return float(Fluid().simulate([world])[0].makespan)


def sent(workload: LayerGraph, rule: Parallel) -> Counter[str]:
    """Return the bytes of all collectives of a step by operation, in millions, rounded."""
    traffic = lower(workload, rule.place(workload, 2))
    sums = Counter[str]()
    for name, bytes in zip(traffic.kinds(), traffic.bytes.tolist(), strict=True):
        sums[name] += bytes
    return Counter({name: round(bytes / 1e6, 3) for name, bytes in sums.items()})


@given(RULES, st.sampled_from([H100, B200]))
def test_it_sends_the_same_and_never_takes_longer(rule: Parallel, gpu: Gpu) -> None:
    workload = job(gpu)
    plain, beside = replace(rule, async_tensor=False), replace(rule, async_tensor=True)
    assert sent(workload, plain) == sent(workload, beside)
    before, after = seconds(workload, plain), seconds(workload, beside)
    assert after <= before * (1 + 1e-9)
    if rule.tensor == 1:
        assert after == before
    else:
        assert after < before


@given(
    st.builds(Parallel, expert=st.sampled_from([1, 4, 8]), tensor=st.sampled_from([1, 2]), pipeline=st.just(1)),
    st.sampled_from([H100, B200]),
    st.sampled_from([0, 1]),
)
def test_experts_send_the_same_and_never_take_longer(rule: Parallel, gpu: Gpu, node_limit: int) -> None:
    workload = mixture(gpu, node_limit)
    plain, beside = replace(rule, async_expert=False), replace(rule, async_expert=True)
    assert sent(workload, plain) == sent(workload, beside)
    before, after = seconds(workload, plain), seconds(workload, beside)
    assert after == before if rule.expert == 1 else after < before
    assert least_seconds(workload, beside.place(workload, 2), 200e9) <= after * (1 + 1e-9)


@given(RULES, st.sampled_from([H100, B200]))
def test_the_least_time_is_never_above_the_simulated_one(rule: Parallel, gpu: Gpu) -> None:
    workload, beside = job(gpu), replace(rule, async_tensor=True)
    assert 0 < least_seconds(workload, beside.place(workload, 2), 200e9) <= seconds(workload, beside) * (1 + 1e-9)


@pytest.mark.parametrize(("gpu", "hidden"), [(H100, 0.5), (B200, 1.0)])
def test_compute_waits_for_what_slows_multiplications(gpu: Gpu, hidden: float) -> None:
    """A step of one server and one pass each way: compute hides that part of all gathers and scatters."""
    workload = job(replace(gpu, local_bandwidth=4e12))  # so that compute takes longer than what is hidden
    rule = Parallel(tensor=8)
    plain, beside = (lower(workload, replace(rule, async_tensor=on).place(workload, 1)) for on in (False, True))
    calls = [Counter(name.rstrip("0123456789.@ ") for name in traffic.names()) for traffic in (plain, beside)]
    assert calls[0]["gather_inputs forward"] > 0
    assert calls[1]["gather_inputs hidden forward"] > 0
    assert (calls[1]["gather_inputs forward"] == 0) == (hidden == 1.0)
    no_network = IdealSwitch(bandwidth=1e12, degree=8, latency=0)
    steps = []
    for traffic in (plain, beside):
        world = place(traffic, no_network.build(1, traffic.demand()), name="one", all_reduce="hierarchical")
        steps.append(float(Fluid().simulate([world])[0].makespan))
    compute = plain.seconds.sum()
    exposed = (steps[1] - compute) / (steps[0] - compute)
    assert 1 - hidden - 1e-9 <= exposed <= 1 - hidden + 1 / 8  # whole calls are hidden, of 8 and more in a pass


def test_it_needs_sequence_parallelism() -> None:
    workload = job(H100)
    rule = Parallel(tensor=2, async_tensor=True, sequence_parallel=False)
    message = r"^parallel\.async_tensor: must be false without sequence_parallel, got true$"
    with pytest.raises(ValueError, match=message):
        rule.place(workload, 2)
