"""TopoOpt: its rings, matchings and routes, against the paper's text and its theorems."""

from __future__ import annotations

import itertools
from functools import reduce
from math import gcd, inf
from operator import or_
from typing import Any

import networkx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from topoflow.fabric.base import Demand, Fabric
from topoflow.fabric.coin_change import coin_change
from topoflow.fabric.k_shortest import KShortestPaths
from topoflow.fabric.matching import Matcher, maximum_weight_matching
from topoflow.fabric.routing import ShortestPaths
from topoflow.fabric.select_permutations import select_permutations
from topoflow.fabric.topology_finder import find_topology
from topoflow.fabric.topoopt import TopoOpt
from topoflow.fabric.totient_perms import ring, totient_perms

B = 12.5e9  # B/s: 100 Gb/s


def no_mp(servers: int) -> NDArray[np.float64]:
    return np.zeros((servers, servers))


def uniform_mp(servers: int, total: float) -> NDArray[np.float64]:
    """``total`` bytes, the same from everyone to everyone else."""
    mp = np.full((servers, servers), total / (servers * (servers - 1)))
    np.fill_diagonal(mp, 0)
    return mp


def build(servers: int, degree: int, demand: Demand, paths: int = 4, **options: Any) -> Fabric:
    return TopoOpt(B, degree, 1e-6, paths, **options).build(servers, demand)


def diameter(size: int, strides: tuple[int, ...]) -> int:
    """Hops to the farthest server of a ring of ``size``; who is reached is kept in the bits of a number."""
    everyone, reached, hops = (1 << size) - 1, 1, 0
    while reached != everyone:
        further = [(reached << stride | reached >> (size - stride)) & everyone for stride in strides]
        reached, hops = reduce(or_, further, reached), hops + 1
    return hops


@st.composite
def demands(draw: st.DrawFn) -> tuple[int, int, Demand]:
    """Servers, degree, any demand: some groups, some pairs."""
    servers = draw(st.integers(2, 20))
    numbers = np.random.default_rng(draw(st.integers(0, 10**6)))
    mp = numbers.random((servers, servers)) * (numbers.random((servers, servers)) < draw(st.floats(0, 1))) * 1e9
    np.fill_diagonal(mp, 0)
    members = st.lists(st.integers(0, servers - 1), min_size=2, unique=True).map(tuple)
    groups = draw(st.dictionaries(members, st.floats(0, 1e10), max_size=4))
    return servers, draw(st.integers(1, 8)), Demand(mp, groups)


def test_twelve_servers_have_the_four_rings_of_the_paper() -> None:
    assert totient_perms(12) == (1, 5, 7, 11)  # TopoOpt 4.3


@given(size=st.integers(2, 200))
def test_strides_are_all_co_prime_numbers_and_each_is_a_ring_over_everyone(size: int) -> None:
    strides = totient_perms(size)
    assert list(strides) == [stride for stride in range(size) if gcd(stride, size) == 1]  # Theorem 2
    group = tuple(range(100, 100 + size))
    orders = {ring(group, stride) for stride in strides}
    assert all(sorted(order) == list(group) for order in orders)
    assert len(orders) == len(strides)


def test_of_large_groups_only_prime_strides_and_one_remain() -> None:
    # 25: co-prime are all but 5, 10, 15, 20; of those 1 and the primes 2, 3, 7, 11, 13, 17, 19, 23
    assert totient_perms(25, primes_above=24) == (1, 2, 3, 7, 11, 13, 17, 19, 23)
    assert totient_perms(25, primes_above=25) == totient_perms(25)
    assert select_permutations(16, 8, primes_above=15) == (1, 3, 5, 11, 13, 7, 1, 3)  # six, then from the first
    large = find_topology(25, 4, Demand(no_mp(25), {tuple(range(25)): 1.0}), primes_above=24)
    assert large.strides[tuple(range(25))] == (1, 2, 3, 7)  # ratio 2.24: near 2.24, 4.47 (3 or 7: 3), 6.7


@pytest.mark.parametrize(("primes_above", "factor"), [(inf, 1.0), (0, 1.06)])
def test_the_diameter_of_the_rings_is_at_most_degree_times_the_root_of_the_servers(
    primes_above: float, factor: float
) -> None:
    """TopoOpt, Theorem 1 and E.2, with the constant of its O()."""
    for size, degree in itertools.product(range(2, 513), range(2, 9)):
        strides = select_permutations(size, degree, primes_above)
        assert all(gcd(stride, size) == 1 for stride in strides)
        assert diameter(size, strides) <= factor * degree * size ** (1 / degree), (size, degree)


def test_sixteen_servers_of_degree_3_build_the_rings_of_figure_7() -> None:
    # ratio 16^(1/3) = 2.52: 1, near 2.52 -> 3, near 3 * 2.52 = 7.56 -> 7 (0.56 away, 9 is 1.44)
    assert select_permutations(16, 3) == (1, 3, 7)


def test_the_ratio_of_the_strides_is_at_least_two() -> None:
    # 16^(1/8) = 1.41 < 2 (TopoOpt E.2): 1, near 2 -> 3, near 6 -> 5, near 10 -> 9, near 18 -> 15, near 30 -> 13, ..
    assert select_permutations(16, 8) == (1, 3, 5, 9, 15, 13, 11, 7)


@given(size=st.integers(2, 100), degree=st.integers(1, 12))
def test_rings_are_distinct_as_long_as_there_are_enough(size: int, degree: int) -> None:
    strides = select_permutations(size, degree)
    assert len(strides) == degree
    assert len(set(strides)) == min(degree, len(totient_perms(size)))


@given(size=st.integers(2, 60), degree=st.integers(1, 5))
def test_coin_change_pays_every_distance_with_the_fewest_coins(size: int, degree: int) -> None:
    coins = select_permutations(size, degree)
    circulant = networkx.DiGraph((i, (i + coin) % size) for i in range(size) for coin in coins)
    for distance, way in enumerate(coin_change(size, coins)):
        assert sum(way) % size == distance
        assert len(way) == networkx.shortest_path_length(circulant, 0, distance)


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


def test_degrees_are_split_by_bytes_on_the_wire() -> None:
    # ring all-reduce of 1 GB among 16 sends 2 * 15 * 1 GB = 30 GB; MP 10 GB; ceil(4 * 30 / 40) = 3 rings, 1 matching
    topology = find_topology(16, 4, Demand(uniform_mp(16, 10e9), {tuple(range(16)): 1e9}))
    assert topology.strides == {tuple(range(16)): (1, 3, 7)}
    assert len(topology.pairs) == 8


def test_at_least_one_degree_is_a_ring() -> None:
    topology = find_topology(16, 4, Demand(uniform_mp(16, 10e9), {}))
    assert topology.strides == {tuple(range(16)): (1,)}
    assert len(topology.pairs) == 3 * 8


@pytest.mark.parametrize("servers", [2, 3, 6, 12, 16, 31])
@pytest.mark.parametrize("degree", [1, 3, 4, 8])
def test_data_parallel_traffic_gets_all_circuits_as_rings(servers: int, degree: int) -> None:
    group = tuple(range(servers))
    fabric = build(servers, degree, Demand(no_mp(servers), {group: 1e9}))
    assert len(fabric.rings[group]) == degree
    # however many of the rings coincide, every server sends on all interfaces
    assert np.bincount(fabric.source, weights=fabric.bandwidth).tolist() == [degree * B] * servers


def test_groups_that_share_no_server_do_not_share_degrees_either() -> None:
    # two halves of 8; one degree is the ring over all that joins them, the other three are rings of both halves
    halves = {tuple(range(8)): 1e9, tuple(range(8, 16)): 1e9}
    topology = find_topology(16, 4, Demand(no_mp(16), halves))
    assert {group: len(strides) for group, strides in topology.strides.items()} == {
        tuple(range(8)): 3,
        tuple(range(8, 16)): 3,
        tuple(range(16)): 1,
    }


@given(demands())
@settings(max_examples=60)
def test_no_server_has_more_circuits_than_ports_and_everyone_is_reached(case: tuple[int, int, Demand]) -> None:
    servers, degree, demand = case
    circuits = find_topology(servers, degree, demand).circuits()
    for end in (0, 1):
        ports = np.bincount([pair[end] for pair in circuits], weights=list(circuits.values()), minlength=servers)
        assert ports.max() <= degree
    assert networkx.is_strongly_connected(networkx.DiGraph(list(circuits)))
    assert networkx.DiGraph(list(circuits)).number_of_nodes() == servers


@given(demands())
@settings(max_examples=30)
def test_every_built_ring_is_found_as_direct_circuits(case: tuple[int, int, Demand]) -> None:
    servers, degree, demand = case
    fabric = build(servers, degree, demand)
    for orders in fabric.rings.values():
        for order in orders:
            for hop in zip(order, order[1:] + order[:1], strict=True):
                assert [len(path) for path in fabric.route(*hop, "all_reduce")] == [1]


@given(demands())
@settings(max_examples=30)
def test_mp_takes_at_most_so_many_paths_and_only_shortest_ones(case: tuple[int, int, Demand]) -> None:
    servers, degree, demand = case
    fabric = build(servers, degree, demand, paths=3)
    generic = ShortestPaths(fabric.nodes, fabric.source, fabric.target, limit=10**6)
    for pair in itertools.permutations(range(servers), 2):
        paths = fabric.route(*pair, "mp")
        assert set(paths) <= set(generic(*pair, "mp"))
        assert len(paths) == min(3, generic.count(*pair))


def test_all_reduce_between_strangers_of_a_ring_pays_with_its_strides() -> None:
    fabric = build(16, 3, Demand(no_mp(16), {tuple(range(16)): 1e9}))
    (path,) = fabric.route(4, 2, "all_reduce")  # distance 14 = 7 + 7
    assert fabric.target[list(path)].tolist() == [11, 2]


def test_128_servers_of_degree_4_have_the_parts_that_topoopt_counts() -> None:
    # Appendix G: 128 * d NICs and transceivers, 128 * 2 * d patch panel ports; C: a 1x2 switch at each interface
    bill = {item.component: item.count for item in build(128, 4, Demand(no_mp(128), {tuple(range(128)): 1.0})).bill}
    assert bill == {
        "nic_port": 512,
        "transceiver": 512,
        "fiber": 1024,
        "optical_switch_1x2": 512,
        "patch_panel_port": 1024,
    }
    switched = build(128, 4, Demand(no_mp(128), {tuple(range(128)): 1.0}), optics="ocs").bill
    assert {item.component: item.count for item in switched} == {
        "nic_port": 512,
        "transceiver": 512,
        "fiber": 512,
        "ocs_port": 512,
    }


@given(
    demands(),
    st.integers(1, 6),
    st.sampled_from(["shortest", "k_shortest"]),
    st.sampled_from(["ring", "double_binary_tree"]),
)
@settings(max_examples=30)
def test_routes_exist_for_all_pairs_and_use_only_circuits_that_exist(
    case: tuple[int, int, Demand], paths: int, routes: str, collective: str
) -> None:
    servers, degree, demand = case
    fabric = build(servers, degree, demand, paths=paths, routes=routes, collective=collective)
    for (source, target), kind in itertools.product(itertools.permutations(range(servers), 2), ("all_reduce", "mp")):
        found = fabric.route(source, target, kind)
        assert 1 <= len(found) <= paths
        assert len(set(found)) == len(found)
        for path in found:
            nodes = [source, *fabric.target[list(path)].tolist()]
            assert fabric.source[list(path)].tolist() == nodes[:-1]
            assert nodes[-1] == target
            assert len(set(nodes)) == len(nodes)


@given(demands(), st.integers(1, 12))
@settings(max_examples=25)
def test_the_k_shortest_paths_are_as_long_as_yen_s(case: tuple[int, int, Demand], limit: int) -> None:
    servers, degree, demand = case
    fabric = build(servers, degree, demand)
    graph = networkx.DiGraph(zip(fabric.source.tolist(), fabric.target.tolist(), strict=True))
    route = KShortestPaths(fabric.nodes, fabric.source, fabric.target, limit)
    for source, target in itertools.islice(itertools.permutations(range(servers), 2), 30):
        yen = itertools.islice(networkx.shortest_simple_paths(graph, source, target), limit)
        assert [len(path) for path in route(source, target, "mp")] == [len(nodes) - 1 for nodes in yen]


def test_where_there_are_few_strides_rings_are_laid_twice() -> None:
    # 6 servers have +1 and +5 only: 4 interfaces are two circuits each way round
    fabric = build(6, 4, Demand(no_mp(6), {tuple(range(6)): 1e9}))
    assert fabric.links == 12
    assert fabric.bandwidth.tolist() == [2 * B] * 12


def test_without_any_demand_all_circuits_are_rings_over_everyone() -> None:
    nothing = find_topology(16, 3, Demand(no_mp(16), {}))
    assert nothing.strides == {tuple(range(16)): (1, 3, 7)}
    assert find_topology(16, 3, Demand(no_mp(16), {(0, 1): 0.0, (5,): 1e9})) == nothing  # nothing to send either


@pytest.mark.parametrize(
    ("demand", "law"),
    [
        (Demand(no_mp(3), {}), r"demand\.mp: expected \[4, 4\], got \[3, 3\]"),
        (Demand(np.full((4, 4), -1.0), {}), r"demand\.mp: must not be negative, got -1\.0"),
        (Demand(no_mp(4), {(0, 4): 1.0}), r"demand\.all_reduce: a group must name servers of 0\.\.3 once, got 0, 4"),
        (
            Demand(no_mp(4), {(0, 1, 0): 1.0}),
            r"demand\.all_reduce: a group must name servers of 0\.\.3 once, got 0, 1, 0",
        ),
        (Demand(no_mp(4), {(0, 1): -1.0}), r"demand\.all_reduce of 2 servers: must not be negative, got -1\.0"),
    ],
)
def test_a_demand_that_is_not_one_of_the_servers_is_an_error_with_its_law(demand: Demand, law: str) -> None:
    with pytest.raises(ValueError, match=law):
        find_topology(4, 2, demand)


@pytest.mark.parametrize(("optics", "ports"), [("patch_panel", 1008), ("ocs", 384)])
def test_an_optical_switch_has_a_port_for_every_server(optics: str, ports: int) -> None:
    law = rf"topoopt\.servers: must be at most the {ports} ports of an optical switch \({optics}: topoopt\.ports\), got"
    with pytest.raises(ValueError, match=law):
        build(ports + 1, 4, Demand(no_mp(ports + 1), {}), optics=optics)
    assert build(4, 2, Demand(no_mp(4), {}), ports=4).servers == 4
    with pytest.raises(ValueError, match=r"topoopt\.servers: must be at most the 4 ports"):
        build(5, 2, Demand(no_mp(5), {}), ports=4)


@pytest.mark.parametrize(
    ("options", "law"),
    [
        ({"degree": 1009}, r"topoopt\.degree: must be at most the 1008 ports of an optical switch"),
        ({"degree": 400, "optics": "ocs"}, r"topoopt\.degree: must be at most the 384 ports of an optical switch"),
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
def test_a_wrong_setting_is_an_error_with_its_law(options: dict[str, Any], law: str) -> None:
    with pytest.raises(ValueError, match=law):
        TopoOpt(**({"bandwidth": B, "degree": 4, "latency": 0.0, "paths": 4} | options))


@settings(max_examples=50)
@given(demands())
def test_a_group_that_was_given_no_ring_has_no_entry(case: tuple[int, int, Demand]) -> None:
    servers, degree, demand = case
    assert all(find_topology(servers, degree, demand).rings().values())
