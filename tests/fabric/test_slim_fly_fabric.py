"""Slim Fly: the graphs of McKay, Miller and Siran, and the fields that they are made of."""

from __future__ import annotations

import numpy as np
import pytest

from topoflow.demand import Demand
from topoflow.fabric.base import Fabric
from topoflow.fabric.galois_field import GaloisField, prime_power
from topoflow.fabric.slim_fly import SlimFly, SlimFlyGraph

B = 12.5e9  # B/s: 100 Gb/s
POWERS = [3, 4, 5, 7, 8, 9, 11, 13, 16, 17]  # of primes, with q = 4 w - 1, 4 w and 4 w + 1


def build(servers: int, q: int | None = None, nodes: int | None = None) -> Fabric:
    return SlimFly(B, 1, 1e-6, q, nodes).build(servers, Demand(servers))


@pytest.mark.parametrize("q", POWERS)
def test_any_two_routers_are_at_most_two_cables_apart_and_each_has_as_many_as_the_paper_says(q: int) -> None:
    """Besta and Hoefler, II-B1: 2 q^2 routers with (3 q - d) / 2 cables each, q = 4 w + d, diameter 2."""
    graph = SlimFlyGraph(q)
    difference = {1: 1, 0: 0, 3: -1}[q % 4]
    near = np.zeros((2 * q * q, 2 * q * q), np.int64)
    near[graph.cables[:, 0], graph.cables[:, 1]] = near[graph.cables[:, 1], graph.cables[:, 0]] = 1
    assert set(near.sum(axis=0)) == {(3 * q - difference) / 2}
    assert len(graph.cables) == q * q * (3 * q - difference) / 2  # no pair comes twice
    assert not np.diag(near).any()
    assert np.all(near @ near + near + np.eye(len(near), dtype=np.int64) > 0)


def test_q_5_is_the_graph_of_hoffman_and_singleton() -> None:
    """50 routers of degree 7: any two that are not adjacent have exactly one common neighbour (girth 5)."""
    graph = SlimFlyGraph(5)
    near = np.zeros((50, 50), np.int64)
    near[graph.cables[:, 0], graph.cables[:, 1]] = near[graph.cables[:, 1], graph.cables[:, 0]] = 1
    assert np.array_equal(near @ near, 7 * np.eye(50, dtype=np.int64) + 1 - np.eye(50, dtype=np.int64) - near)


@pytest.mark.parametrize("q", [*POWERS, 25, 27, 49, 64])
def test_a_field_has_the_laws_of_a_field(q: int) -> None:
    field, draw = GaloisField(q), np.random.default_rng(q)
    a, b, c = draw.integers(0, q, (3, 500))
    assert sorted(field.powers.tolist()) == list(range(1, q))
    assert np.array_equal(field.multiply(a, field.add(b, c)), field.add(field.multiply(a, b), field.multiply(a, c)))
    assert np.array_equal(field.multiply(a, field.multiply(b, c)), field.multiply(field.multiply(a, b), c))
    assert np.array_equal(field.add(field.subtract(a, b), b), a)
    assert np.array_equal(field.multiply(a, np.ones_like(a)), a)
    times, p = np.zeros_like(a), prime_power(q)
    assert p is not None
    for _ in range(p[0]):
        times = field.add(times, a)
    assert not times.any()


def test_prime_powers_are_those_of_primes() -> None:
    orders = [q for q in range(1, 50) if prime_power(q) is not None]
    assert orders == [2, 3, 4, 5, 7, 8, 9, 11, 13, 16, 17, 19, 23, 25, 27, 29, 31, 32, 37, 41, 43, 47, 49]


def test_sizes_that_are_not_given_are_the_smallest_balanced_ones() -> None:
    """q = 19 has 722 routers of 29 cables and 15 servers each, 10,830 servers (Besta and Hoefler, VI-B: 10,830)."""
    fabric = build(10_830)
    assert len(fabric.nodes) - fabric.servers == 722
    assert {item.component: item.count for item in fabric.bill}["switch_port"] == 722 * (29 + 15)
    assert len(build(10_831).nodes) - 10_831 == 2 * 23 * 23


def test_100000_servers_need_3362_routers() -> None:
    fabric = build(100_000)
    routers = len(fabric.nodes) - fabric.servers
    assert routers == 2 * 41 * 41  # 61 cables and 31 servers each: 104,222 servers
    assert fabric.links == 2 * (100_000 + routers * 61 // 2)


@pytest.mark.parametrize(
    ("q", "nodes", "message"),
    [
        (6, None, r"slim_fly\.q: must be a power of a prime and at least 3, got 6"),
        (2, None, r"slim_fly\.q: must be a power of a prime and at least 3, got 2"),
        (0, None, r"slim_fly\.q: must be positive, got 0"),
        (3, 1, r"slim_fly\.q: must hold 19 servers, got 3: 18 routers of 1 servers each"),
        (3, 0, r"slim_fly\.nodes: must be positive, got 0"),
    ],
)
def test_a_slim_fly_that_cannot_be_is_an_error_with_its_law(q: int, nodes: int | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build(19, q, nodes)
