"""TopoOpt as a fabric: its circuits, its routes and its parts, against the paper's text."""

from __future__ import annotations

import itertools
from typing import Any

import networkx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topoflow.demand import Demand
from topoflow.fabric.base import Fabric
from topoflow.fabric.routing.k_shortest import KShortestPaths
from topoflow.fabric.routing.shortest import ShortestPaths
from topoflow.fabric.topoopt import TopoOpt

B = 12.5e9  # B/s: 100 Gb/s
Demands = st.SearchStrategy[tuple[int, int, Demand]]


def build(servers: int, degree: int, demand: Demand, paths: int = 4, **options: Any) -> Fabric:
    return TopoOpt(B, degree, 1e-6, paths, **options).build(servers, demand)


@pytest.mark.parametrize("servers", [2, 3, 6, 12, 16, 31])
@pytest.mark.parametrize(("degree", "duplex"), [(1, False), (3, False), (4, False), (8, False), (2, True), (8, True)])
def test_data_parallel_traffic_gets_all_circuits_as_rings(servers: int, degree: int, duplex: bool) -> None:
    group = tuple(range(servers))
    fabric = build(servers, degree, Demand(servers, {group: 1e9}), duplex=duplex)
    assert len(fabric.channels.rings[group]) == degree
    # however many of the rings coincide, every server sends on all interfaces
    assert np.bincount(fabric.source, weights=fabric.bandwidth).tolist() == [degree * B] * servers


@given(data=st.data())
@settings(max_examples=30)
def test_every_built_ring_is_found_as_direct_circuits(data: st.DataObject, demands: Demands) -> None:
    servers, degree, demand = data.draw(demands)
    fabric = build(servers, degree, demand)
    for orders in fabric.channels.rings.values():
        for order in orders:
            for hop in zip(order, order[1:] + order[:1], strict=True):
                assert [len(path) for path in fabric.for_reductions.route(*hop)] == [1]


@given(data=st.data())
@settings(max_examples=30)
def test_mp_takes_at_most_so_many_paths_and_only_shortest_ones(data: st.DataObject, demands: Demands) -> None:
    servers, degree, demand = data.draw(demands)
    fabric = build(servers, degree, demand, paths=3)
    generic = ShortestPaths(fabric.nodes, fabric.source, fabric.target, limit=10**6)
    for pair in itertools.permutations(range(servers), 2):
        paths = fabric.route(*pair)
        assert set(paths) <= set(generic(*pair))
        assert len(paths) == min(3, generic.count(*pair))


def test_all_reduce_between_strangers_of_a_ring_pays_with_its_strides() -> None:
    fabric = build(16, 3, Demand(16, {tuple(range(16)): 1e9}))
    (path,) = fabric.for_reductions.route(4, 2)  # distance 14 = 7 + 7
    assert fabric.target[list(path)].tolist() == [11, 2]


def test_128_servers_of_degree_4_have_the_parts_that_topoopt_counts() -> None:
    # Appendix G: 128 * d NICs and transceivers, 128 * 2 * d patch panel ports; C: a 1x2 switch at each interface
    bill = {item.component: item.count for item in build(128, 4, Demand(128, {tuple(range(128)): 1.0})).bill}
    assert bill == {
        "nic_port": 512,
        "transceiver": 512,
        "fiber": 1024,
        "optical_switch_1x2": 512,
        "patch_panel_port": 1024,
    }
    switched = build(128, 4, Demand(128, {tuple(range(128)): 1.0}), optics="ocs").bill
    assert {item.component: item.count for item in switched} == {
        "nic_port": 512,
        "transceiver": 512,
        "fiber": 512,
        "ocs_port": 512,
    }


@given(
    st.data(),
    st.integers(1, 6),
    st.sampled_from(["shortest", "k_shortest"]),
    st.sampled_from(["ring", "double_binary_tree"]),
)
@settings(max_examples=30)
def test_routes_exist_for_all_pairs_and_use_only_circuits_that_exist(
    demands: Demands, data: st.DataObject, paths: int, named: str, collective: str
) -> None:
    servers, degree, demand = data.draw(demands)
    fabric = build(servers, degree, demand, paths=paths, routes=named, collective=collective)
    routes = (fabric.route, fabric.for_reductions.route)
    for (source, target), route in itertools.product(itertools.permutations(range(servers), 2), routes):
        alternatives = route(source, target)
        assert 1 <= len(alternatives) <= paths
        assert len(set(alternatives)) == len(alternatives)
        for path in alternatives:
            nodes = [source, *fabric.target[list(path)].tolist()]
            assert fabric.source[list(path)].tolist() == nodes[:-1]
            assert nodes[-1] == target
            assert len(set(nodes)) == len(nodes)


@given(st.data(), st.integers(1, 12))
@settings(max_examples=25)
def test_the_k_shortest_paths_are_as_long_as_yen_s(demands: Demands, data: st.DataObject, limit: int) -> None:
    servers, degree, demand = data.draw(demands)
    fabric = build(servers, degree, demand)
    graph = networkx.DiGraph(zip(fabric.source.tolist(), fabric.target.tolist(), strict=True))
    route = KShortestPaths(fabric.nodes, fabric.source, fabric.target, limit)
    for source, target in itertools.islice(itertools.permutations(range(servers), 2), 30):
        yen = itertools.islice(networkx.shortest_simple_paths(graph, source, target), limit)
        assert [len(path) for path in route(source, target)] == [len(nodes) - 1 for nodes in yen]


@given(data=st.data(), duplex=st.booleans())
@settings(max_examples=30)
def test_without_circuits_for_mp_the_network_does_not_depend_on_it(
    data: st.DataObject, duplex: bool, demands: Demands
) -> None:
    servers, degree, demand = data.draw(demands)
    fabric = build(servers, degree + 1, demand, duplex=duplex, mp_circuits=False)
    alone = build(servers, degree + 1, Demand(servers, demand.all_reduce), duplex=duplex)
    for field in ("source", "target", "bandwidth"):
        assert getattr(fabric, field).tolist() == getattr(alone, field).tolist()
    assert fabric.channels == alone.channels


def test_where_there_are_few_strides_rings_are_laid_twice() -> None:
    # 6 servers have +1 and +5 only: 4 interfaces are two circuits each way round
    fabric = build(6, 4, Demand(6, {tuple(range(6)): 1e9}))
    assert fabric.links == 12
    assert fabric.bandwidth.tolist() == [2 * B] * 12


@pytest.mark.parametrize(("optics", "ports"), [("patch_panel", 1008), ("ocs", 384)])
def test_an_optical_switch_has_a_port_for_every_server(optics: str, ports: int) -> None:
    message = (
        rf"topoopt\.servers: must be at most the {ports} ports of an optical switch \({optics}: topoopt\.ports\), got"
    )
    with pytest.raises(ValueError, match=message):
        build(ports + 1, 4, Demand(ports + 1), optics=optics)
    assert build(4, 2, Demand(4), ports=4).servers == 4
    with pytest.raises(ValueError, match=r"topoopt\.servers: must be at most the 4 ports"):
        build(5, 2, Demand(5), ports=4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"degree": 1009}, r"topoopt\.degree: must be at most the 1008 ports of an optical switch"),
        ({"degree": 400, "optics": "ocs"}, r"topoopt\.degree: must be at most the 384 ports of an optical switch"),
        ({"duplex": 1}, r"topoopt\.duplex: must be true or false, got 1"),
        ({"mp_circuits": "no"}, r"topoopt\.mp_circuits: must be true or false, got 'no'"),
        ({"duplex": True, "degree": 1}, r"topoopt\.degree: must be at least 2 for rings of duplex circuits, got 1"),
        ({"fibers": 0}, r"topoopt\.fibers: must be positive, got 0"),
        ({"ports": 0}, r"topoopt\.ports: must be positive, got 0"),
        ({"routes": "scenic"}, r"topoopt\.routes: must be one of shortest, k_shortest, got 'scenic'"),
        ({"primes_above": 0}, r"topoopt\.primes_above: must be positive, got 0"),
        ({"degree": 0}, r"topoopt\.degree: must be positive, got 0"),
        ({"degree": 2.5}, r"topoopt\.degree: must be a whole number, got 2.5"),
        ({"paths": 0}, r"topoopt\.paths: must be positive, got 0"),
        ({"bandwidth": -1.0}, r"topoopt\.bandwidth: must be positive, got -1.0"),
        ({"optics": "mirror"}, r"topoopt\.optics: must be one of patch_panel, ocs, got 'mirror'"),
    ],
)
def test_a_wrong_setting_is_an_error_with_its_law(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TopoOpt(**({"bandwidth": B, "degree": 4, "latency": 0.0, "paths": 4} | options))
