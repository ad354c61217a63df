"""Port shares and joins: TopoOpt's Algorithm 1 where one group is everyone, and groups apart that do not compete."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from math import ceil

import networkx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from topoflow.demand import Demand
from topoflow.fabric.topoopt.joining import join
from topoflow.fabric.topoopt.matching import Matcher, maximum_weight_matching
from topoflow.fabric.topoopt.port_shares import PortShares, add_rings, parts, share_ports
from topoflow.fabric.topoopt.topology_finder import find_topology


def random_mp(servers: int, seed: int, density: float) -> NDArray[np.float64]:
    numbers = np.random.default_rng(seed)
    mp = numbers.random((servers, servers)) * (numbers.random((servers, servers)) < density) * 1e9
    np.fill_diagonal(mp, 0)
    return mp


def pipeline(stages: int, size: int, buffer: float, moved: float) -> Demand:
    """Each stage all-reduces ``buffer``; each of its servers and its like in the next send each other ``moved``."""
    servers = stages * size
    mp = np.diag(np.full(servers - size, moved), size)
    return Demand.from_matrix(mp + mp.T, {tuple(range(s, s + size)): buffer for s in range(0, servers, size)})


@given(st.integers(2, 20), st.integers(1, 8), st.floats(0, 1e10), st.integers(0, 10**6), st.floats(0, 1))
@settings(max_examples=60)
def test_one_group_of_everyone_gets_the_degrees_of_algorithm_1(
    servers: int, degree: int, buffer: float, seed: int, density: float
) -> None:
    mp, everyone = random_mp(servers, seed, density), tuple(range(servers))
    reduced = 2 * (servers - 1) * buffer
    total = reduced + mp.sum()
    rings = max(1, ceil(degree * reduced / total - 1e-9)) if total > 0 else degree  # line 2
    shares = share_ports(degree, {everyone: buffer}, mp)
    assert shares.groups == Counter({everyone: rings})
    assert shares.mp == [degree - rings] * servers  # line 3
    assert not any(shares.joins)
    assert np.array_equal(shares.rest, mp)


@given(st.integers(2, 8), st.integers(2, 8), st.integers(1, 8), st.integers(0, 10**6), st.floats(0.1, 1))
@settings(max_examples=60)
def test_parts_that_send_each_other_nothing_have_the_shares_they_would_have_alone(
    left: int, right: int, degree: int, seed: int, density: float
) -> None:
    def alone(size: int, start: int, buffer: float) -> tuple[dict[tuple[int, ...], float], NDArray[np.float64]]:
        members = tuple(range(start, start + size))
        return {members: buffer, members[: size // 2 + 1]: 2 * buffer}, random_mp(size, seed + start, density)

    (groups, mp), (others, other_mp) = alone(left, 0, 1e9), alone(right, left, 3e8)
    both = np.zeros((left + right, left + right))
    both[:left, :left], both[left:, left:] = mp, other_mp
    together = share_ports(degree, groups | others, both)
    first: PortShares = share_ports(degree, groups, mp)
    second = share_ports(degree, {tuple(i - left for i in group): size for group, size in others.items()}, other_mp)
    moved = Counter({tuple(i + left for i in group): count for group, count in second.groups.items()})
    assert together.groups == first.groups + moved
    assert together.mp == first.mp + second.mp
    assert together.joins == first.joins + second.joins


def test_rings_go_where_members_send_most_per_ring() -> None:
    # a member of the pair sends 7, of the four 3, at first over 1/2 and 1/4 of a ring: 14 and 12, the pair is next;
    # 7 / 1.5 = 4.7 and 12: the four; 4.7 and 3 / 1.25 = 2.4: the pair; 7 / 2.5 = 2.8 and 2.4: the pair
    pair, four = (0, 1), (0, 1, 2, 3)
    rings: Counter[tuple[int, ...]] = Counter()
    spare = [4, 4, 4, 4]
    add_rings(rings, {pair: 14.0, four: 12.0}, spare)
    assert rings == {pair: 3, four: 1}
    assert spare == [0, 0, 3, 3]


def test_what_a_group_without_a_ring_sends_is_left_to_match() -> None:
    # of two ports the heavy pairs take one, and one is kept for the join of both, which only the light group sends
    groups: dict[tuple[int, ...], float] = {(0, 1): 1e12, (2, 3): 1e12, (1, 2): 1e6}
    shares = share_ports(2, groups, np.zeros((4, 4)))
    assert shares.groups == {(0, 1): 1, (2, 3): 1}
    assert shares.joins == [0, 1, 1, 0]
    assert shares.rest[1, 2] == shares.rest[2, 1] == 1e6  # 2 (k - 1) / k S of each member of two
    assert find_topology(4, 2, Demand(4, groups)).pairs == ((1, 2),)


def test_the_last_port_is_a_ring() -> None:
    assert share_ports(1, {(0, 1): 1.0, (2, 3): 1.0}, random_mp(4, 0, 1)).joins == [0, 0, 0, 0]


@pytest.mark.parametrize("degree", [2, 4, 8])
def test_stages_of_a_pipeline_are_joined_by_pairs_alone(degree: int) -> None:
    topology = find_topology(32, degree, pipeline(4, 8, 1e12, 1e6))
    assert tuple(range(32)) not in topology.strides
    across = Counter((min(i, j) // 8, max(i, j) // 8) for i, j in topology.pairs)
    # one port of each: 8 of a stage for two neighbours, of which the first and the last stage have one
    assert across == {(0, 1): 4, (1, 2): 4, (2, 3): 4}


@pytest.mark.parametrize("degree", [4, 8])
def test_stages_that_reduce_over_trees_are_joined_by_pairs_too(degree: int) -> None:
    topology = find_topology(32, degree, pipeline(4, 8, 1e12, 1e6), collective="double_binary_tree")
    assert not topology.strides
    across = Counter((min(i, j) // 8, max(i, j) // 8) for i, j in topology.pairs if i // 8 != j // 8)
    assert min(across[stage, stage + 1] for stage in range(3)) >= 4


def test_the_way_back_to_a_stage_is_as_short_as_the_way_there() -> None:
    """A ring over all servers would lead back through all other stages: 12 circuits and more of 16."""
    demand = pipeline(4, 4, 1e12, 1e6)
    graph = networkx.DiGraph(list(find_topology(16, 3, demand).circuits()))
    for i, j in zip(demand.source.tolist(), demand.target.tolist(), strict=True):
        assert networkx.shortest_path_length(graph, i, j) <= 2 + 1 + 2  # two rings of four, +1 and +3, and the join


def test_parts_not_joined_yet_are_joined_first() -> None:
    # parts 0, 2 and 4 of two servers; 0-2 has nine times the bytes of 2-4, but is joined when 2-4 is not
    demand = np.zeros((6, 6))
    demand[0, 2], demand[1, 3], demand[2, 4] = 9.0, 9.0, 2.0
    assert join([1] * 6, parts(6, [(0, 1), (2, 3), (4, 5)]), Matcher(demand)) == [(0, 2), (3, 4)]
    assert join([2] * 6, parts(6, [(0, 1), (2, 3), (4, 5)]), Matcher(demand))[:3] == [(0, 2), (2, 4), (1, 3)]


@given(st.lists(st.lists(st.integers(0, 15), min_size=1, max_size=4, unique=True), max_size=12))
def test_parts_are_the_connected_components(pieces: list[list[int]]) -> None:
    graph = networkx.Graph()
    graph.add_nodes_from(range(16))
    for piece in pieces:
        graph.add_edges_from(pairwise(piece))
    part = parts(16, map(tuple, pieces))
    groups = {frozenset(np.flatnonzero(part == number).tolist()) for number in part.tolist()}
    assert groups == {frozenset(component) for component in networkx.connected_components(graph)}


def test_bytes_too_few_to_be_scaled_are_not_matched() -> None:
    assert maximum_weight_matching(np.array([[0.0, 5e-324], [5e-324, 0.0]])) == []
    assert maximum_weight_matching(np.array([[0.0, 1e-280], [1e-280, 0.0]])) == [(0, 1)]
