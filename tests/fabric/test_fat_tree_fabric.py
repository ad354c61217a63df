"""Fat-tree, leaf-spine and the ideal switch: published counts, bisection, equal-cost paths."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topoflow.demand import Demand
from topoflow.engine.fluid import Fluid
from topoflow.engine.lowering.placement import place
from topoflow.fabric.base import Fabric, FabricDesign
from topoflow.fabric.fat_tree import FatTree, FatTreeNumbering
from topoflow.fabric.ideal_switch import IdealSwitch
from topoflow.fabric.leaf_spine import LeafSpine
from topoflow.fabric.routing.shortest import ShortestPaths
from topoflow.strategy.ranks import RankPerServer
from topoflow.traffic.lower import lower
from topoflow.workload.flow_sizes import Pareto
from topoflow.workload.messages.flows import Arrivals

B = 12.5e9  # B/s: 100 Gb/s


def build(design: FabricDesign, servers: int) -> Fabric:
    return design.build(servers, Demand(servers))


def counts(fabric: Fabric) -> dict[str, float]:
    return {item.component: item.count for item in fabric.bill}


def assert_routes_are_all_shortest_paths(fabric: Fabric) -> None:
    generic = ShortestPaths(fabric.nodes, fabric.source, fabric.target, limit=10**6)
    for pair in itertools.permutations(range(fabric.servers), 2):
        assert sorted(fabric.route(*pair)) == sorted(generic(*pair))


def test_a_fat_tree_of_radix_8_has_the_parts_that_topoopt_counts() -> None:
    # TopoOpt, Appendix G: 80 switches, 640 switch ports, one NIC per host, a transceiver per NIC and switch port
    fabric = build(FatTree(B, 4, 1e-6, radix=8), 128)
    assert len(fabric.nodes) - fabric.servers == 80
    # 128 hosts + 640 ports in use; 128 + 256 + 256 cables
    assert counts(fabric) == {"nic_port": 128, "switch_port": 640, "transceiver": 768, "fiber": 384}
    assert {item.bandwidth for item in fabric.bill} == {4 * B}


@pytest.mark.parametrize("radix", [4, 6, 8])
def test_a_full_fat_tree_uses_every_port_of_every_switch(radix: int) -> None:
    servers = radix**3 // 4
    fabric = build(FatTree(B, 1, 0.0, radix=radix), servers)
    for ends in (fabric.source, fabric.target):
        assert set(np.bincount(ends)[servers:].tolist()) == {radix}


@pytest.mark.parametrize(("oversubscription", "share"), [(1, 1.0), (2, 0.5)])
def test_the_uplinks_of_an_edge_switch_carry_its_servers_over_the_oversubscription(
    oversubscription: int, share: float
) -> None:
    fabric = build(FatTree(B, 4, 1e-6, radix=8, oversubscription=oversubscription), 128)
    up = sum(
        bandwidth
        for source, target, bandwidth in zip(fabric.source, fabric.target, fabric.bandwidth, strict=True)
        if fabric.nodes[source] == "edge 0.0" and fabric.nodes[target].startswith("aggregation")
    )
    assert up == pytest.approx(share * 4 * 4 * B)  # 4 servers of 4 B each
    core = sum(
        bandwidth
        for source, bandwidth in zip(fabric.source, fabric.bandwidth, strict=True)
        if fabric.nodes[source].startswith("core")
    )
    assert core == pytest.approx(share * 128 * 4 * B)  # what enters the pods: full bisection is all of it


def test_equal_cost_paths_of_a_fat_tree_are_1_then_k_half_then_k_half_squared() -> None:
    fabric = build(FatTree(B, 1, 1e-6, radix=8), 128)
    assert [len(fabric.route(0, target)) for target in (1, 4, 16, 127)] == [1, 4, 16, 16]
    assert [len(fabric.route(0, target)[0]) for target in (1, 4, 16, 127)] == [2, 4, 6, 6]
    assert len(build(FatTree(B, 1, 1e-6, radix=8, oversubscription=2), 128).route(0, 127)) == 8


@settings(max_examples=15)
@given(servers=st.integers(1, 24), oversubscription=st.sampled_from([1, 2]))
def test_closed_form_routes_of_a_fat_tree_are_all_shortest_paths(servers: int, oversubscription: int) -> None:
    assert_routes_are_all_shortest_paths(build(FatTree(B, 1, 1e-6, oversubscription=oversubscription), servers))


@given(servers=st.integers(1, 5000), oversubscription=st.sampled_from([1, 2]))
def test_the_default_radix_is_the_smallest_that_holds_the_servers(servers: int, oversubscription: int) -> None:
    tree, step = FatTreeNumbering.smallest(servers, oversubscription), 2 * oversubscription
    assert tree.room >= servers
    assert tree.radix == step or (tree.radix - step) ** 3 // 4 < servers


@settings(max_examples=15)
@given(
    servers=st.integers(1, 20), leaf=st.sampled_from([1, 2, 4, 6]), spines=st.integers(1, 4), planes=st.integers(1, 2)
)
def test_closed_form_routes_of_a_leaf_spine_are_all_shortest_paths(
    servers: int, leaf: int, spines: int, planes: int
) -> None:
    if leaf >= spines:
        fabric = build(LeafSpine(B, 2, 1e-6, leaf, oversubscription=leaf / spines, leaves_per_group=planes), servers)
        assert_routes_are_all_shortest_paths(fabric)


@pytest.mark.parametrize(
    ("servers_per_leaf", "gbps", "switches", "bisection"), [(48, 100, 272, 409.6), (96, 400, 160, 1638.4)]
)
def test_the_networks_of_motion(servers_per_leaf: int, gbps: float, switches: int, bisection: float) -> None:
    """Maniotis et al., JOCN 2022, section 3 and Figure 2: 6,144 servers, each with an interface to two leaves."""
    rate = gbps * 1e9 / 8
    fabric = build(LeafSpine(rate, 2, 1e-6, servers_per_leaf, oversubscription=3, leaves_per_group=2), 6144)
    spines = [node for node, name in enumerate(fabric.nodes) if name.startswith("spine")]
    assert len(fabric.nodes) - fabric.servers == switches
    assert counts(fabric)["nic_port"] == 12_288
    to_spines = np.isin(fabric.target, spines)
    assert fabric.bandwidth[to_spines].sum() * 8 / 1e12 == pytest.approx(bisection)
    ports = np.bincount(fabric.source)[fabric.servers :]
    assert set(ports.tolist()) == ({64, 256} if servers_per_leaf == 48 else {128})
    assert fabric.route(0, 1) == ((0, 5), (2, 7)), "one hop in a group, by either leaf"
    assert len(fabric.route(0, 6143)) == 2 * len(spines) * 2


@settings(max_examples=20, derandomize=True)
@given(load=st.sampled_from([0.3, 1.0]), spines=st.sampled_from([1, 2]), seed=st.integers(0, 99))
def test_flows_sprayed_over_bundles_take_as_long_as_over_single_cables(load: float, spines: int, seed: int) -> None:
    """Every path to the spines carries the same share of each flow, so one of all their bandwidth fills as they do."""
    gpu: Any = SimpleNamespace(exchange_bandwidth=1e12)
    traffic = lower(Arrivals(gpu, Pareto(1e4, 1.2), 60, load, B, seed), RankPerServer(24))
    designs = [LeafSpine(B, 1, 1e-7, 12, oversubscription=3, spines=number) for number in (None, spines)]
    worlds = [place(traffic, build(design, 24), name="flows", routing="spray") for design in designs]
    single, bundled = Fluid().simulate(worlds)
    assert bundled.task_finish == pytest.approx(single.task_finish, rel=1e-9)


def test_bundles_cost_what_their_cables_do() -> None:
    single, bundled = (build(LeafSpine(B, 4, 1e-6, 12, oversubscription=3, spines=n), 24) for n in (None, 2))
    assert bundled.bill == single.bill
    assert bundled.bandwidth.sum() == single.bandwidth.sum()
    with pytest.raises(ValueError, match="spines: must be a divisor of the 4 cables of a leaf, got 3"):
        LeafSpine(B, 4, 1e-6, 12, oversubscription=3, spines=3)


def test_interfaces_that_cannot_be_spread_over_the_leaves() -> None:
    with pytest.raises(ValueError, match="leaves_per_group: must be a divisor of the 4 interfaces of a server, got 3"):
        LeafSpine(B, 4, 1e-6, 4, leaves_per_group=3)


def test_a_leaf_has_oversubscription_times_more_bandwidth_down_than_up() -> None:
    fabric = build(LeafSpine(B, 4, 1e-6, servers_per_leaf=6, oversubscription=3), 12)
    # 6 servers / 3 = 2 spines; 2 leaves of 6 + 2 ports, 2 spines of 2: 20 ports; 12 + 4 cables, two transceivers each
    assert fabric.nodes[12:] == ("leaf 0", "leaf 1", "spine 0", "spine 1")
    assert counts(fabric) == {"nic_port": 12, "switch_port": 20, "transceiver": 32, "fiber": 16}


def test_the_ideal_switch_is_two_hops_wide_and_billed_as_a_full_fat_tree() -> None:
    switch, tree = build(IdealSwitch(B, 4, 1e-6), 128), build(FatTree(B, 4, 1e-6), 128)
    assert switch.bill == tree.bill  # TopoOpt 5.2
    assert switch.route(3, 5) == ((6, 11),)  # up the cable of 3, down that of 5
    assert set(switch.bandwidth.tolist()) == {4 * B}  # TopoOpt 5.1: d * B


@pytest.mark.parametrize(
    ("design", "message"),
    [
        (lambda: FatTree(B, 4, 0.0, radix=7), r"fat_tree\.radix: must be even, got 7"),
        (
            lambda: FatTree(B, 4, 0.0, radix=6, oversubscription=2),
            r"fat_tree\.radix: must be a multiple of 4 .*, got 6",
        ),
        (lambda: FatTree(B, 4, 0.0, oversubscription=3), r"fat_tree\.oversubscription: must be 1 or 2, got 3"),
        (lambda: FatTree(B, 4, -1.0), r"fat_tree\.latency: must not be negative, got -1"),
        (lambda: FatTree(B, 4, 0.0, radix=4).build(17, Demand(17)), r"must hold 17 servers, got 4"),
        (lambda: LeafSpine(B, 4, 0.0, 4, 3), r"whole number of cables, got 4 / 3"),
        (lambda: LeafSpine(B, 4, 0.0, 4, 0.5), r"oversubscription: must be at least 1, got 0.5"),
        (lambda: LeafSpine(B, 4, 0.0, 0), r"servers_per_leaf: must be positive, got 0"),
        (lambda: IdealSwitch(B, 0, 0.0), r"ideal_switch\.degree: must be positive, got 0"),
        (lambda: IdealSwitch(float("nan"), 1, 0.0), r"ideal_switch\.bandwidth: must be positive, got nan"),
    ],
)
def test_a_switched_fabric_that_cannot_be_is_an_error_with_its_law(design: object, message: str) -> None:
    assert callable(design)
    with pytest.raises(ValueError, match=message):
        design()
