"""TopologyFinder: how degrees are split between rings and matchings, against the paper's text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import networkx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from topoflow.demand import Demand
from topoflow.fabric.topoopt.matching import Matcher, maximum_weight_matching
from topoflow.fabric.topoopt.topology_finder import find_topology

Demands = st.SearchStrategy[tuple[int, int, Demand]]


def uniform_mp(servers: int, total: float) -> NDArray[np.float64]:
    """``total`` bytes, the same from everyone to everyone else."""
    mp = np.full((servers, servers), total / (servers * (servers - 1)))
    np.fill_diagonal(mp, 0)
    return mp


def test_degrees_are_split_by_bytes_on_the_wire() -> None:
    # ring all-reduce of 1 GB among 16 sends 2 * 15 * 1 GB = 30 GB; MP 10 GB; ceil(4 * 30 / 40) = 3 rings, 1 matching
    topology = find_topology(16, 4, Demand.from_matrix(uniform_mp(16, 10e9), {tuple(range(16)): 1e9}))
    assert topology.strides == {tuple(range(16)): (1, 3, 7)}
    assert len(topology.pairs) == 8


def test_at_least_one_degree_is_a_ring() -> None:
    topology = find_topology(16, 4, Demand.from_matrix(uniform_mp(16, 10e9), {}))
    assert topology.strides == {tuple(range(16)): (1,)}
    assert len(topology.pairs) == 3 * 8


def test_groups_that_share_no_server_do_not_share_degrees_either() -> None:
    # two halves of 8; one degree is the ring over all that joins them, the other three are rings of both halves
    halves = {tuple(range(8)): 1e9, tuple(range(8, 16)): 1e9}
    topology = find_topology(16, 4, Demand(16, halves))
    assert {group: len(strides) for group, strides in topology.strides.items()} == {
        tuple(range(8)): 3,
        tuple(range(8, 16)): 3,
        tuple(range(16)): 1,
    }


@pytest.mark.parametrize("collective", ["ring", "double_binary_tree"])
@pytest.mark.parametrize("duplex", [False, True])
@given(data=st.data())
@settings(max_examples=60)
def test_no_server_has_more_circuits_than_ports_and_everyone_is_reached(
    collective: str, duplex: bool, data: st.DataObject, demands: Demands
) -> None:
    servers, degree, demand = data.draw(demands)
    degree += duplex  # a ring takes two
    circuits = find_topology(servers, degree, demand, collective=collective, duplex=duplex).circuits()
    if duplex:
        assert circuits == Counter({(j, i): count for (i, j), count in circuits.items()})
    for end in (0, 1):
        ports = np.bincount([pair[end] for pair in circuits], weights=list(circuits.values()), minlength=servers)
        assert ports.max() <= degree
    graph = networkx.DiGraph(list(circuits))
    assert networkx.is_strongly_connected(graph)
    assert graph.number_of_nodes() == servers


def test_a_duplex_ring_takes_two_ports() -> None:
    # as above: rings send 30 GB and pairs 10 GB; of two duplex rings of 16 (2 ports each), ceil(2 * 30 / 40) = 2
    demand = Demand.from_matrix(uniform_mp(16, 10e9), {tuple(range(16)): 1e9})
    assert find_topology(16, 4, demand, duplex=True).strides == {tuple(range(16)): (1, 15, 3, 13)}
    # pairs send 30 GB: ceil(2 * 30 / 60) = 1 ring, two ports are left for matchings
    more = Demand.from_matrix(uniform_mp(16, 30e9), {tuple(range(16)): 1e9})
    topology = find_topology(16, 4, more, duplex=True)
    assert topology.strides == {tuple(range(16)): (1, 15)}
    assert len(topology.pairs) == 2 * 8


def test_without_any_demand_all_circuits_are_rings_over_everyone() -> None:
    nothing = find_topology(16, 3, Demand(16))
    assert nothing.strides == {tuple(range(16)): (1, 3, 7)}
    assert find_topology(16, 3, Demand(16, {(0, 1): 0.0, (5,): 1e9})) == nothing  # nothing to send either


@settings(max_examples=50)
@given(data=st.data())
def test_a_group_that_was_given_no_ring_has_no_entry(data: st.DataObject, demands: Demands) -> None:
    servers, degree, demand = data.draw(demands)
    assert all(find_topology(servers, degree, demand).rings().values())


@given(size=st.integers(2, 12), seed=st.integers(0, 10**6))
@settings(max_examples=40)
def test_a_matching_has_the_largest_weight_that_there_is(size: int, seed: int) -> None:
    weights = np.random.default_rng(seed).random((size, size)) * 1e9
    weights = weights + weights.T
    np.fill_diagonal(weights, 0)
    pairs = maximum_weight_matching(weights)
    best = networkx.max_weight_matching(networkx.from_numpy_array(weights))
    assert sum(weights[pair] for pair in pairs) == pytest.approx(sum(weights[pair] for pair in best), rel=1e-12)
    assert len({server for pair in pairs for server in pair}) == 2 * len(pairs)


def test_matched_pairs_count_half_the_next_time() -> None:
    # 0-1 wants 10 + 5, 0-2 wants 8: 0-1 first (15), then 0-2 (8 > 7.5), then 0-1 again (7.5 > 4)
    mp = np.array([[0, 10, 8], [5, 0, 0], [0, 0, 0]], dtype=float)
    matcher, free = Matcher(mp), [3, 3, 3]
    assert [matcher.match(free) for _ in range(3)] == [[(0, 1)], [(0, 2)], [(0, 1)]]
    assert free == [0, 1, 2]
    assert matcher.match(free) == []  # nobody wants 1-2


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Demand(3), r"demand\.servers: must be the 4 of the network, got 3"),
        (lambda: Demand.from_matrix(np.full((4, 4), -1.0), {}), r"demand\.bytes: must not be negative, got -1\.0"),
        (lambda: Demand.from_pairs(4, [0], [4], [1.0], {}), r"demand\.target: must be servers of 0\.\.3, got 4"),
        (
            lambda: Demand.from_matrix(np.zeros((4, 3)), {}),
            r"demand\.bytes: expected \[servers, servers\], got \[4, 3\]",
        ),
        (
            lambda: Demand(4, {(0, 4): 1.0}),
            r"demand\.all_reduce: a group must name servers of 0\.\.3 once, got 0, 4",
        ),
        (
            lambda: Demand(4, {(0, 1, 0): 1.0}),
            r"demand\.all_reduce: a group must name servers of 0\.\.3 once, got 0, 1, 0",
        ),
        (lambda: Demand(4, {(0, 1): -1.0}), r"demand\.all_reduce of 2 servers: must not be negative, got -1\.0"),
    ],
)
def test_a_demand_that_is_not_one_of_the_servers_is_an_error_with_its_law(
    make: Callable[[], Demand], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        find_topology(4, 2, make())
