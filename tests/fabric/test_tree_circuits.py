"""Double binary trees, relabelled, and the circuits that TopologyFinder builds for them (TopoOpt, appendix A)."""

from __future__ import annotations

from collections import Counter

import networkx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topoflow.collectives.trees import NO_PARENT, PORTS, double_binary_tree, tree_edges
from topoflow.demand import Demand
from topoflow.engine.base import Timeline
from topoflow.engine.fluid import Fluid
from topoflow.engine.lowering.placement import place
from topoflow.fabric.base import Channels, Fabric
from topoflow.fabric.topoopt import TopoOpt
from topoflow.fabric.topoopt.topology_finder import find_topology
from topoflow.fabric.topoopt.totient_perms import totient_perms
from topoflow.traffic.base import Collective, Traffic

B, A, S = 12.5e9, 1e-6, 64 * 2**20
TREES = "double_binary_tree"
Demands = st.SearchStrategy[tuple[int, int, Demand]]


def everyone(servers: int, buffer: float = 1e9) -> Demand:
    return Demand(servers, {tuple(range(servers)): buffer})


def build(servers: int, degree: int, demand: Demand) -> Fabric:
    return TopoOpt(B, degree, A, 4, collective=TREES).build(servers, demand)


def all_reduce(fabric: Fabric, bytes: float, **fields: object) -> Timeline:
    task = Collective("all_reduce", bytes, tuple(range(fabric.servers)), **fields)
    traffic = Traffic.from_tasks("t", fabric.servers, (task,), 300e9)
    return Fluid().simulate([place(traffic, fabric, name="world", all_reduce=TREES)])[0]


def test_the_trees_of_stride_5_among_six_are_the_ones_drawn_in_the_module() -> None:
    first, second = double_binary_tree(np.arange(6) * 5 % 6)
    assert first.tolist() == [NO_PARENT, 2, 0, 4, 2, 4]
    assert second.tolist() == [5, NO_PARENT, 3, 5, 3, 1]


@given(st.integers(2, 200), st.data())
def test_each_tree_joins_everyone_and_no_server_has_more_than_four_edges(servers: int, data: st.DataObject) -> None:
    stride = data.draw(st.sampled_from(totient_perms(servers)))
    group = tuple(range(100, 100 + servers))
    edges = tree_edges(group, stride)
    for tree in (edges[: servers - 1], edges[servers - 1 :]):
        assert networkx.is_tree(networkx.Graph(tree))
        assert {end for edge in tree for end in edge} == set(group)
    assert max(Counter(end for edge in edges for end in edge).values()) <= PORTS


@given(st.integers(2, 100), st.data())
def test_relabelled_trees_are_the_same_trees_of_other_servers(servers: int, data: st.DataObject) -> None:
    stride = data.draw(st.sampled_from(totient_perms(servers)))
    renamed = [
        (child * stride % servers, parent * stride % servers) for child, parent in tree_edges(tuple(range(servers)), 1)
    ]
    assert Counter(renamed) == Counter(tree_edges(tuple(range(servers)), stride))


@given(st.integers(2, 64), st.integers(1, 3))
@settings(max_examples=30)
def test_every_four_degrees_are_a_pair_of_trees_all_of_whose_edges_are_circuits(servers: int, pairs: int) -> None:
    fabric = build(servers, PORTS * pairs, everyone(servers))
    (orders,) = fabric.channels.trees.values()
    assert len(orders) == pairs
    assert len(set(orders)) == min(pairs, len(totient_perms(servers)))
    links = set(zip(fabric.source.tolist(), fabric.target.tolist(), strict=True))
    for order in orders:
        for child, parent in tree_edges(order, 1):
            assert {(child, parent), (parent, child)} <= links


@given(data=st.data())
@settings(max_examples=80)
def test_every_order_of_trees_has_each_server_of_its_group_once(data: st.DataObject, demands: Demands) -> None:
    topology = find_topology(*data.draw(demands), collective=TREES)
    for group, orders in topology.trees().items():
        assert all(sorted(order) == sorted(group) for order in orders)


def test_what_cannot_move_keeps_its_degrees() -> None:
    # 30 GB on the wire of trees, 10 GB of MP: ceil(8 * 30 / 40) = 6 degrees are one pair of trees, 2 are matchings
    mp = np.zeros((16, 16))
    mp[np.arange(16), (np.arange(16) + 8) % 16] = 10e9 / 16
    topology = find_topology(16, 8, Demand.from_matrix(mp, {tuple(range(16)): 1e9}), collective=TREES)
    assert topology.tree_strides == {tuple(range(16)): (1,)}
    circuits = topology.circuits()
    assert all(circuits[i, (i + 8) % 16] >= 2 for i in range(16))


@pytest.mark.parametrize("servers", [6, 16, 31])
def test_an_all_reduce_takes_the_same_time_whatever_the_labels(servers: int) -> None:
    """Appendix A: a new pair of trees "can perform the AllReduce operation at the same speed"."""
    group = tuple(range(servers))
    seconds = []
    for stride in totient_perms(servers)[:4]:
        circuits = Counter(pair for ends in tree_edges(group, stride) for pair in (ends, ends[::-1]))
        links = {pair: link for link, pair in enumerate(circuits)}
        ends = np.array(list(circuits), np.int32)
        fabric = Fabric(
            name="trees",
            servers=servers,
            nodes=tuple(map(str, group)),
            source=ends[:, 0],
            target=ends[:, 1],
            bandwidth=B * np.array(list(circuits.values()), np.float64),
            latency=np.full(len(circuits), A),
            route=lambda source, target, links=links: ((links[source, target],),),
            degree=PORTS,
            interface_bandwidth=B,
            channels=Channels(trees={group: (tuple(step * stride % servers for step in range(servers)),)}),
        )
        seconds.append(all_reduce(fabric, S).makespan)
    assert seconds == pytest.approx([seconds[0]] * len(seconds), rel=1e-9)


def test_a_second_pair_of_trees_carries_half() -> None:
    one, two = (build(32, PORTS * pairs, everyone(32)) for pairs in (1, 2))
    # twice the bytes in chunks of the same size; circuits of both pairs that coincide help each other out
    assert all_reduce(two, 2 * S).makespan <= all_reduce(one, S).makespan * (1 + 1e-9)
    assert all_reduce(two, 2 * S).link_bytes.sum() == pytest.approx(2 * 31 * 2 * S)


def test_trees_between_servers_leave_the_inside_to_the_servers() -> None:
    # 4 members each: reduce-scatter and all-gather of 3/4 S at 300 GB/s, and between them the trees of the servers
    fabric = build(16, PORTS, everyone(16))
    inside = 2 * 3 / 4 * 4 * S / 300e9
    flat = all_reduce(fabric, 4 * S, local=4, algorithm="hierarchical_tree")
    between = all_reduce(fabric, 4 * S).makespan  # 64 chunks of each of 2 trees, both
    assert flat.makespan == pytest.approx(inside + between, rel=1e-9)
    assert flat.link_bytes.sum() == pytest.approx(2 * 15 * 4 * S)


def test_a_collective_that_nobody_builds_for_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"topoopt\.collective: must be one of ring, double_binary_tree, got 'star'"):
        TopoOpt(B, 4, A, 4, collective="star")
