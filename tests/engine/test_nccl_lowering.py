"""Laws of NCCL's collectives on GPUs of nodes: flows take the time that ``topoflow nccl`` predicts, and share links."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from topoflow.collectives.algorithms import named
from topoflow.collectives.communicator import Communicator
from topoflow.collectives.nccl import Overrides
from topoflow.collectives.nccl_flows import Nccl, flows, send_wait
from topoflow.collectives.nccl_time import network_of, predict
from topoflow.demand import Demand
from topoflow.engine.fluid import Fluid
from topoflow.engine.lowering.placement import Lowering, Placer
from topoflow.fabric.attached import Attached, fold, rings
from topoflow.fabric.base import Fabric
from topoflow.fabric.clos import Clos
from topoflow.fabric.ideal_switch import IdealSwitch
from topoflow.hardware.cluster import Cluster
from topoflow.hardware.presets import preset
from topoflow.traffic.base import Collective, Traffic, Transfer

SIZES = (2**10, 2**20, 2**24, 2**30)


@cache
def ideal(node: str, gpus: int, per_node: int = 0) -> Fabric:
    """Nodes on one switch without contention."""
    cluster = Cluster(preset(node), gpus, per_node)
    rate = max(port.bandwidth for port in cluster.ports)
    return Attached(IdealSwitch(rate, 1, 1e-6), cluster).build(gpus, Demand(gpus))


def seconds(fabric: Fabric, *tasks: Collective | Transfer, nccl: Nccl | None = None) -> float:
    traffic = Traffic.from_tasks("collectives", fabric.servers, tasks)
    placer = Placer(fabric, Lowering("nccl", nccl=nccl or Nccl()))
    (timeline,) = Fluid().simulate([placer.place(traffic, "world")])
    return timeline.makespan


def predicted(node: str, gpus: int, op: str, size: int, per_node: int = 0) -> tuple[float, str]:
    comm = Communicator(preset(node), gpus, per_node)
    prediction = predict(comm, op, size, network=network_of(comm.node))
    return prediction.time, prediction.choice.algorithm


@pytest.mark.parametrize("op", ["all_reduce", "all_gather", "reduce_scatter", "all_to_all"])
@pytest.mark.parametrize("node", ["hgx_h100", "hgx_b200", "gb200_nvl72", "dgx_a100", "gh200", "l40s"])
def test_a_collective_alone_in_a_node_takes_the_time_that_nccl_predicts(node: str, op: str) -> None:
    gpus = min(len(preset(node).gpus), 16)
    fabric = ideal(node, gpus)
    for size in SIZES:
        time, _ = predicted(node, gpus, op, size)
        assert seconds(fabric, Collective(op, size, tuple(range(gpus)))) == pytest.approx(time, rel=1e-9)


@pytest.mark.parametrize("op", ["all_reduce", "all_gather", "reduce_scatter", "all_to_all"])
@pytest.mark.parametrize(("gpus", "per_node"), [(8, 0), (16, 0), (4, 1)])
def test_calls_take_as_long_as_one_after_the_other(gpus: int, per_node: int, op: str) -> None:
    """As one task of all bytes; the latency of a path between nodes, of two links of 1 us, counts once in it."""
    fabric, group = ideal("hgx_h100", gpus, per_node), tuple(range(gpus))
    for size in SIZES[:3]:
        separate = [Collective(op, size, group, after=(number - 1,) if number else ()) for number in range(5)]
        together = seconds(fabric, Collective(op, 5 * size, group, calls=5))
        assert together == pytest.approx(seconds(fabric, *separate), rel=1e-9, abs=4 * 2e-6 if gpus != 8 else 0)
        assert together > seconds(fabric, Collective(op, 5 * size, group))


@pytest.mark.parametrize("target", [1, 8, 9])
def test_a_send_waits_for_its_launch_and_then_takes_its_bytes(target: int) -> None:
    wait = send_wait(preset("hgx_h100"), Nccl(), target >= 8)
    assert wait > 9e-6  # of the launch
    for size in SIZES:
        rate = 50e9 if target >= 8 else 450e9
        simulated = seconds(ideal("hgx_h100", 16), Transfer(size, 0, target))
        assert simulated == pytest.approx(wait + size / rate, rel=1e-9)


@pytest.mark.parametrize("op", ["all_reduce", "all_gather", "reduce_scatter", "all_to_all"])
@pytest.mark.parametrize(
    ("node", "gpus", "per_node"), [("hgx_h100", 32, 0), ("gh200", 16, 0), ("hgx_h100", 4, 1), ("dgx_a100", 24, 0)]
)
def test_a_collective_alone_between_nodes_is_never_slower_than_predicted(
    node: str, gpus: int, per_node: int, op: str
) -> None:
    """Rings take exactly the predicted time; trees may be faster where no node is between two others."""
    fabric = ideal(node, gpus, per_node)
    for size in SIZES:
        time, chosen = predicted(node, gpus, op, size, per_node)
        simulated = seconds(fabric, Collective(op, size, tuple(range(gpus))))
        if chosen in ("tree", "nvls_tree"):
            assert 0.75 * time < simulated <= time * (1 + 1e-9)
        else:
            assert simulated == pytest.approx(time, rel=1e-9)


@pytest.mark.parametrize("name", ["ring", "tree", "pat", "p2p"])
@pytest.mark.parametrize("nodes", [2, 3, 5, 8])
def test_nodes_send_as_much_as_they_receive_in_all_and_at_most_their_bytes(name: str, nodes: int) -> None:
    sent, received = np.zeros(nodes), np.zeros(nodes)
    for source, target, part in named(name).edges(nodes):
        assert source != target
        sent[source] += part
        received[target] += part
    assert sent.sum() == pytest.approx(received.sum())
    assert max(*sent, *received) <= 1 + 1e-12
    if name != "tree":
        assert sent == pytest.approx(np.ones(nodes))


def test_groups_on_one_rail_share_nothing_and_groups_on_one_port_share_it() -> None:
    fabric = ideal("hgx_h100", 32)
    size = 2**28
    rail = [Collective("all_gather", size, tuple(range(first, 32, 8))) for first in range(8)]
    alone = seconds(fabric, rail[0])
    assert seconds(fabric, *rail) == pytest.approx(alone, rel=1e-9)
    assert seconds(fabric, rail[0], rail[0]) > 1.8 * alone


def test_separate_rails_carry_an_all_to_all_as_nvlink_joins_them() -> None:
    cluster = Cluster(preset("hgx_h100"), 32)
    everyone = Collective("all_to_all", 2**26, tuple(range(32)))
    times = [
        seconds(Attached(Clos(50e9, 1, 1e-6, rails=True, separate=separate), cluster).build(32, Demand(32)), everyone)
        for separate in (True, False)
    ]
    assert times[0] == pytest.approx(times[1], rel=1e-9)


def test_without_pxn_separate_rails_have_no_path_between_them() -> None:
    fabric = Attached(Clos(50e9, 1, 1e-6, rails=True, separate=True), Cluster(preset("hgx_h100"), 16), pxn=False).build(
        16, Demand(16)
    )
    assert fabric.route(0, 8)
    assert not fabric.route(0, 9)


@pytest.mark.parametrize(
    ("node", "algo"), [("hgx_h100", "NVLS"), ("dgx_a100", "CollNetDirect"), ("gh200", "CollNetChain")]
)
def test_an_all_reduce_by_switches_alone_takes_the_time_that_nccl_predicts(node: str, algo: str) -> None:
    gpus = 4 * len(preset(node).gpus)
    comm, nccl = Communicator(preset(node), gpus, collnet=True), Nccl(algo=algo, collnet=True)
    for size in SIZES:
        prediction = predict(comm, "all_reduce", size, network=network_of(comm.node), overrides=Overrides(algo))
        simulated = seconds(ideal(node, gpus), Collective("all_reduce", size, tuple(range(gpus))), nccl=nccl)
        assert simulated == pytest.approx(prediction.time, rel=1e-9)


def test_settings_of_nccl_are_obeyed() -> None:
    fabric = ideal("hgx_h100", 8)
    task = Collective("all_reduce", 2**28, tuple(range(8)))
    by_ring = seconds(fabric, task, nccl=Nccl(algo="ring"))
    assert by_ring > seconds(fabric, task)
    assert seconds(fabric, task, nccl=Nccl(algo="ring", max_channels=2)) > 3 * by_ring
    with pytest.raises(ValueError, match="NCCL_ALGO: must be of"):
        Nccl(algo="rings")


def test_a_collective_is_not_faster_than_its_launch_nor_than_its_bytes_over_a_port() -> None:
    generator = np.random.default_rng(7)
    node = preset("hgx_h100")
    for _ in range(50):
        nodes, used = int(generator.integers(1, 6)), int(generator.integers(1, 9))
        if nodes * used < 2:
            continue
        members = tuple(np.repeat(np.arange(nodes), used).tolist())
        size = float(2 ** generator.uniform(0, 34))
        for op in ("all_gather", "reduce_scatter", "all_to_all"):
            lowered = flows(node, Nccl(), op, size, members)
            assert lowered.wait > 5e-6
            if nodes > 1:
                ranks = nodes * used
                between = [flow for flow in lowered.flows if members[flow.source] != members[flow.target]]
                sent = np.bincount([members[flow.source] for flow in between], [flow.bytes for flow in between])
                bound = (nodes - 1) / nodes * size * (used if op == "all_to_all" else 1)
                assert sent.min() >= bound * (1 - 1e-6) * (ranks > 1)


def test_nccl_needs_nodes() -> None:
    fabric = IdealSwitch(50e9, 1, 1e-6).build(8, Demand(8))
    with pytest.raises(ValueError, match=r"nccl must be on GPUs of nodes \(node=\)"):
        seconds(fabric, Collective("all_reduce", 8.0, tuple(range(8))))


@pytest.mark.parametrize("op", ["all_reduce", "all_gather", "reduce_scatter"])
@pytest.mark.parametrize(("local", "side_by_side"), [(8, 1), (4, 2), (1, 8)])
@pytest.mark.parametrize("size", SIZES)
def test_a_folded_collective_takes_as_long_as_those_of_all_gpus(
    op: str, local: int, side_by_side: int, size: int
) -> None:
    """Groups side by side, unfolded, and one collective of nodes, folded, on a network without hashing."""
    cluster, nodes, total = Cluster(preset("hgx_h100"), 64), 8, 64
    design = Clos(50e9, 1, 1e-6, rails=True)
    gpus = Attached(design, cluster).build(total, Demand(total))
    folded = Attached(design, cluster, folded=True).build(nodes, Demand(nodes))
    groups = [
        tuple(node * 8 + first * local + member for node in range(nodes) for member in range(local))
        for first in range(side_by_side)
    ]
    unfolded = seconds(gpus, *(Collective(op, size, group) for group in groups))
    full_group = Collective(op, size * side_by_side, tuple(range(nodes)), local=local)
    assert seconds(folded, full_group) == pytest.approx(unfolded, rel=1e-9)


def test_a_folded_network_has_the_bandwidth_of_all_gpus_of_a_node() -> None:
    cluster = Cluster(preset("hgx_h100"), 32)
    gpus = Attached(IdealSwitch(50e9, 1, 1e-6), cluster).build(32, Demand(32))
    folded = fold(gpus)
    assert folded.endpoint == "node"
    assert folded.nodes[:2] == ("node 0", "node 1")
    assert folded.bandwidth.sum() == pytest.approx(gpus.bandwidth.sum())
    rails = fold(Attached(Clos(50e9, 1, 1e-6, rails=True), cluster).build(32, Demand(32)))
    assert [name for name in rails.nodes if name.startswith("leaf")] == ["leaf 0"]  # which stands for all rails
    assert rails.bandwidth.sum() == pytest.approx(
        Attached(Clos(50e9, 1, 1e-6, rails=True), cluster).build(32, Demand(32)).bandwidth.sum()
    )
    from_node = folded.bandwidth[folded.source == 0]
    assert sorted(from_node) == pytest.approx([8 * 63.01e9, 8 * 450e9], rel=1e-3)


def test_rings_join_equal_rails_and_pass_every_gpu_once() -> None:
    cluster = Cluster(preset("hgx_h100"), 32)
    for order in rings(cluster, tuple(range(32))):
        assert sorted(order) == list(range(32))
        for here, there in zip(order, (*order[1:], order[0]), strict=True):
            assert here // 8 == there // 8 or here % 8 == there % 8
    meshed = rings(Cluster(preset("mi300x"), 8), tuple(range(8)))
    pairs = [(a, b) for order in meshed for a, b in zip(order, (*order[1:], order[0]), strict=True)]
    assert len(set(pairs)) == len(pairs) == 4 * 8
    starts = {order[0] for order in rings(cluster, tuple(range(32)))}
    assert starts == set(range(8))
