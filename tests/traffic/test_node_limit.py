"""Routing of tokens to experts on a limited number of nodes (DeepSeek-V3, 2.1.2 and 3.2.2), in bytes and in time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from topoflow.demand import Demand
from topoflow.engine.fluid import Fluid
from topoflow.engine.lowering.placement import place
from topoflow.engine.simulation import simulate
from topoflow.fabric.ideal_switch import IdealSwitch
from topoflow.strategy.parallel import Parallel
from topoflow.traffic.least_seconds import least_seconds
from topoflow.traffic.lower import lower
from topoflow.units import gbps
from topoflow.workload.base import LayerGraph
from topoflow.workload.gpu import Gpu
from topoflow.workload.moe import Moe

LAYERS, HIDDEN, TOKENS, TOP_K = 2, 64, 128, 8
A100 = Gpu("A100", {"bfloat16": 312e12}, 1555e9, 300e9, 40e9)
TOKEN_BYTES = 2 * HIDDEN  # of bfloat16
# A token goes to its experts and back, in the forward and in the backward pass.
JOURNEYS = 4 * LAYERS


def model(node_limit: int, per_server: int = 1, per_node: int | None = 8) -> LayerGraph:
    built = Moe(
        A100, 1, per_server, layers=LAYERS, hidden=HIDDEN, heads=8, key_value_heads=8, feed_forward=64, experts=64,
        top_k=TOP_K, vocabulary=256, sequence=TOKENS, node_limit=node_limit,
    ).build()  # fmt: skip
    return replace(built, gpus_per_node=per_node)


def sent(job: LayerGraph, servers: int, node: int, **degrees: int) -> tuple[float, float]:
    """Return the bytes of a GPU's all-to-alls to other nodes, and to other GPUs of its node; a server is an endpoint.

    All-reduces of gradients are no pairs.
    """
    grid = Parallel(**degrees).place(job, servers)
    demand = lower(job, grid).demand()
    between = demand.source // node != demand.target // node
    gpus = servers * job.gpus_per_server
    return float(demand.bytes[between].sum()) / gpus, float(demand.bytes[~between].sum()) / gpus


@pytest.mark.parametrize(("limit", "nodes"), [(1, 2), (1, 4), (2, 4), (4, 4), (4, 2), (8, 4)])
def test_a_token_crosses_to_at_most_as_many_nodes_as_the_limit(limit: int, nodes: int) -> None:
    """min(M, N) copies of a token, each on its own node with 1 / N; then a copy for each expert inside the node."""
    between, inside = sent(model(limit), 8 * nodes, 8, expert=8 * nodes)
    copies = min(limit, nodes, TOP_K) * (nodes - 1) / nodes
    assert between == pytest.approx(JOURNEYS * TOKENS * TOKEN_BYTES * copies)
    assert inside == pytest.approx(JOURNEYS * TOKENS * TOKEN_BYTES * TOP_K * 7 / 8)


def test_without_a_limit_each_expert_gets_a_copy() -> None:
    nodes, ranks = 4, 32
    between, inside = sent(model(0), ranks, 8, expert=ranks)
    assert between == pytest.approx(JOURNEYS * TOKENS * TOKEN_BYTES * TOP_K * (nodes - 1) / nodes)
    assert inside == pytest.approx(JOURNEYS * TOKENS * TOKEN_BYTES * TOP_K * 7 / ranks)


def test_servers_as_endpoints_send_what_their_gpus_send() -> None:
    single, _ = sent(model(4), 32, 8, expert=32)
    whole, _ = sent(model(4, per_server=8, per_node=None), 4, 1, expert=32)
    assert whole == pytest.approx(single)


def test_ranks_that_share_a_sample_share_its_tokens() -> None:
    """With t tensor ranks there are 8 / t expert ranks on a node, each with 1 / t of the tokens of t samples."""
    single, _ = sent(model(2), 32, 8, expert=32)
    shared, _ = sent(model(2), 32, 8, expert=16, tensor=2)
    assert shared == pytest.approx(single)


def test_experts_on_one_node_have_no_limit() -> None:
    jobs = [model(limit) for limit in (0, 4)]
    first, second = (lower(job, Parallel(expert=8).place(job, 16)) for job in jobs)
    assert np.array_equal(first.bytes, second.bytes)
    assert first.operations == second.operations


@pytest.mark.parametrize("per_server", [1, 8])
def test_a_step_is_never_below_its_bound(per_server: int) -> None:
    """Where an endpoint is a node, its network is slow, and a limit of 2 saves 3 of 4 bytes; GPUs have slow nodes."""
    servers, bandwidth, times = 32 // per_server, gbps(1), []
    for limit in (0, 2):
        job = model(limit, per_server, 8 if per_server == 1 else None)
        grid = Parallel(expert=32).place(job, servers)
        fabric = IdealSwitch(bandwidth, 1, 0.0).build(servers, Demand(servers))
        world = place(lower(job, grid), fabric, name="job")
        times.append(simulate([world], Fluid())[0].makespan)
        assert times[-1] >= least_seconds(job, grid, bandwidth) * (1 - 1e-9)
    assert per_server == 1 or times[1] < 0.5 * times[0]


def test_expert_ranks_fill_nodes() -> None:
    job = model(2, per_node=6)
    with pytest.raises(ValueError, match=r"parallel\.expert: .* GPUs of a node with workload\.node_limit, got 16"):
        lower(job, Parallel(expert=16).place(job, 16))


def test_a_limit_is_at_most_the_experts_of_a_token() -> None:
    with pytest.raises(ValueError, match=r"moe\.node_limit: must be at most the top_k of 8, got 9"):
        model(9)
