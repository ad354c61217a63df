"""Ring, torus and expander: neighbours, ports, rings along cables."""

from __future__ import annotations

import itertools

import networkx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topoflow.demand import Demand
from topoflow.fabric.base import Fabric, FabricDesign
from topoflow.fabric.channels.hamiltonian import torus_rings
from topoflow.fabric.expander import Expander
from topoflow.fabric.ring import Ring
from topoflow.fabric.routing.shortest import ShortestPaths
from topoflow.fabric.torus import Torus, most_square

B = 12.5e9  # B/s: 100 Gb/s


def build(design: FabricDesign, servers: int) -> Fabric:
    return design.build(servers, Demand(servers, {tuple(range(servers)): 1e9}))


def graph(fabric: Fabric) -> networkx.DiGraph:
    return networkx.DiGraph(zip(fabric.source.tolist(), fabric.target.tolist(), strict=True))


@given(dims=st.lists(st.integers(1, 5), min_size=1, max_size=3).filter(lambda dims: 1 < np.prod(dims) <= 40))
@settings(max_examples=30)
def test_a_torus_is_the_product_of_rings_and_its_routes_are_shortest_paths(dims: list[int]) -> None:
    servers = int(np.prod(dims))
    fabric = build(Torus(B, 6, 1e-6, dims), servers)
    neighbours = {
        (one, other)
        for one, other in itertools.permutations(np.ndindex(*dims), 2)
        if sum(min((a - b) % size, (b - a) % size) for a, b, size in zip(one, other, dims, strict=True)) == 1
    }
    number = {place: server for server, place in enumerate(np.ndindex(*dims))}
    assert sorted(graph(fabric).edges) == sorted((number[one], number[other]) for one, other in neighbours)
    generic = ShortestPaths(fabric.nodes, fabric.source, fabric.target, limit=10**6)
    for pair in itertools.permutations(range(servers), 2):
        paths = fabric.route(*pair)
        assert set(paths) <= set(generic(*pair))


def test_half_way_round_both_directions_are_offered() -> None:
    fabric = build(Torus(B, 4, 1e-6, (4, 4)), 16)
    assert len(fabric.route(0, 1)) == 1
    assert len(fabric.route(0, 2)) == 2  # two columns away, either way
    assert len(fabric.route(0, 10)) == 4  # and two rows


@pytest.mark.parametrize(
    ("dims", "degree", "parallel"),
    [((4, 4), 4, 1), ((4, 4), 9, 2), ((2, 4), 3, 1), ((2, 4), 6, 2), ((2, 2, 2), 3, 1), ((1, 8), 4, 2)],
)
def test_interfaces_are_spread_evenly_over_the_ports_of_a_torus(
    dims: tuple[int, ...], degree: int, parallel: int
) -> None:
    # ports: 2 for each dimension of more than two servers, 1 for each of two
    fabric = build(Torus(B, degree, 1e-6, dims), int(np.prod(dims)))
    assert set(fabric.bandwidth.tolist()) == {parallel * B}
    ports = sum(min(size - 1, 2) for size in dims) * parallel
    assert fabric.bill[0].count == ports * fabric.servers


@pytest.mark.parametrize(
    ("dims", "rings"), [((4, 4), 4), ((2, 4), 2), ((3, 3), 4), ((4, 8), 4), ((8, 4), 4), ((3, 4), 2), ((3, 5), 0)]
)
def test_rings_of_a_torus_are_hamiltonian_and_share_no_link(dims: tuple[int, int], rings: int) -> None:
    orders = torus_rings(dims)
    edges = graph(build(Torus(B, 4, 1e-6, dims), dims[0] * dims[1])).edges
    hops = [hop for order in orders for hop in zip(order, order[1:] + order[:1], strict=True)]
    assert len(orders) == rings
    assert all(sorted(order) == list(range(dims[0] * dims[1])) for order in orders)
    assert len(set(hops)) == len(hops)
    assert set(hops) <= set(edges)


@given(servers=st.integers(1, 3000))
def test_the_default_torus_is_the_most_square_one(servers: int) -> None:
    rows, columns = most_square(servers)
    assert rows * columns == servers
    assert not any(servers % wider == 0 for wider in range(rows + 1, int(servers**0.5) + 1))


@pytest.mark.parametrize(("degree", "parallel"), [(2, 1), (3, 1), (4, 2), (5, 2)])
def test_half_the_interfaces_of_a_ring_go_each_way(degree: int, parallel: int) -> None:
    fabric = build(Ring(B, degree, 1e-6), 6)
    assert fabric.links == 12
    assert set(fabric.bandwidth.tolist()) == {parallel * B}
    assert len(fabric.route(0, 3)) == 2  # half way: both directions
    assert [len(path) for path in fabric.route(0, 4)] == [2]
    assert fabric.channels.rings[tuple(range(6))] == ((0, 1, 2, 3, 4, 5), (5, 4, 3, 2, 1, 0))


def test_a_ring_of_one_interface_is_simplex() -> None:
    fabric = build(Ring(B, 1, 1e-6), 5)
    assert fabric.links == 5
    assert len(fabric.route(0, 4)[0]) == 4


def test_two_servers_in_a_ring_share_all_interfaces() -> None:
    fabric = build(Ring(B, 4, 1e-6), 2)
    assert fabric.bandwidth.tolist() == [4 * B, 4 * B]


@given(servers=st.integers(4, 40), degree=st.integers(2, 6), seed=st.integers(0, 10**6))
@settings(max_examples=40)
def test_an_expander_is_simple_regular_and_connected(servers: int, degree: int, seed: int) -> None:
    if degree < servers and servers * degree % 2 == 0:
        fabric = build(Expander(B, degree, 1e-6, seed), servers)
        wired = graph(fabric)
        assert fabric.links == servers * degree  # simple: no pair is cabled twice
        assert wired.number_of_edges() == fabric.links
        assert set(dict(wired.out_degree).values()) == {degree}
        assert networkx.is_strongly_connected(wired)


def test_another_seed_is_another_expander() -> None:
    one, other = (build(Expander(B, 4, 1e-6, seed), 16) for seed in (0, 1))
    assert not np.array_equal(one.target, other.target)


@pytest.mark.parametrize(
    ("design", "servers", "message"),
    [
        (Expander(B, 3, 0.0, 0), 5, r"servers \* degree must be even, a cable has two ends, got 5 \* 3"),
        (Expander(B, 4, 0.0, 0), 4, r"expander\.degree: must be less than the 4 servers, got 4"),
        (Expander(B, 1, 0.0, 0), 6, r"expander\.degree: must allow a connected graph, got 1 with 6 servers"),
        (Torus(B, 3, 0.0, (4, 4)), 16, r"torus\.degree: must be at least 4 for dims \[4, 4\], got 3"),
        (Torus(B, 4, 0.0, (4, 4)), 15, r"torus\.dims: product must be 15 servers, got \[4, 4\]"),
        (Ring(B, 2, 0.0), 0, r"ring\.servers: must be positive, got 0"),
    ],
)
def test_a_direct_fabric_that_cannot_be_is_an_error_with_its_law(
    design: FabricDesign, servers: int, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        build(design, servers)
