"""Algorithm 5 of TopoOpt: circuits for a demand, by hand and by law."""

from __future__ import annotations

import networkx
import numpy as np
import pytest

from topoflow.fabric.circuits.heuristic import choose_circuits, connect

CASES = [
    (n, d, discount, seed) for n in (2, 3, 5, 8, 16) for d in (1, 2, 4) for discount in (0.5, 1.0) for seed in (0, 1)
]


def demand(servers: int, seed: int) -> np.ndarray:
    """Some pairs want much, some little, half of them nothing."""
    random = np.random.default_rng(seed)
    sent = np.where(random.random((servers, servers)) < 0.5, 0.0, 10 ** random.uniform(0, 9, (servers, servers)))
    np.fill_diagonal(sent, 0)
    return sent


def matrix(servers: int, entries: dict[tuple[int, int], float]) -> np.ndarray:
    filled = np.zeros((servers, servers))
    for pair, bytes_ in entries.items():
        filled[pair] = bytes_
    return filled


def test_a_pair_with_more_than_twice_the_demand_gets_the_second_circuit_first() -> None:
    # d = 3 at server 0: 100 -> 1, then 50 (the second to 1), 40 to 2; 25 would be the third to 1
    circuits = choose_circuits(matrix(4, {(0, 1): 100, (0, 2): 40, (0, 3): 1}), 3, 0.5)
    assert circuits[0].tolist() == [0, 2, 1, 0]


def test_without_discount_the_highest_demand_takes_all_interfaces() -> None:
    circuits = choose_circuits(matrix(4, {(0, 1): 100, (0, 2): 99, (3, 2): 1}), 3, 1.0)
    assert circuits[0].tolist() == [0, 3, 0, 0]
    assert circuits[3].tolist() == [0, 0, 3, 0]


@pytest.mark.parametrize(("degree", "discount"), [(1, 0.5), (3, 0.5)])
def test_an_even_demand_is_wired_to_the_next_servers(degree: int, discount: float) -> None:
    circuits = choose_circuits(np.ones((6, 6)), degree, discount)
    assert [np.flatnonzero(row).tolist() for row in circuits[:2]] == [
        list(range(1, degree + 1)),
        list(range(2, degree + 2)),
    ]


def test_what_no_demand_asks_for_is_wired_to_the_next_servers() -> None:
    circuits = choose_circuits(np.zeros((5, 5)), 2, 0.5)
    assert np.flatnonzero(circuits[4]).tolist() == [0, 1]


@pytest.mark.parametrize(("servers", "degree", "discount", "seed"), CASES)
def test_no_server_has_more_circuits_than_interfaces_and_only_one_has_fewer(
    servers: int, degree: int, discount: float, seed: int
) -> None:
    circuits = choose_circuits(demand(servers, seed), degree, discount)
    assert not circuits.diagonal().any()
    for used in (circuits.sum(0), circuits.sum(1)):
        assert (used <= degree).all()
        assert (used < degree).sum() <= 1, "two servers with a free interface each could be joined"
    assert (circuits.sum(0) == circuits.sum(1)).all()


@pytest.mark.parametrize(("servers", "degree", "discount", "seed"), CASES)
def test_connecting_lets_every_server_reach_every_other_with_as_many_circuits_each(
    servers: int, degree: int, discount: float, seed: int
) -> None:
    demands = demand(servers, seed)
    before = choose_circuits(demands, degree, discount)
    after = connect(before, demands)
    assert networkx.is_strongly_connected(networkx.from_numpy_array(after, create_using=networkx.DiGraph))
    assert (after >= 0).all()
    assert (after.sum(0) <= degree).all()
    assert (after.sum(1) <= degree).all()
    assert (after.sum(0) >= before.sum(0)).all()
    assert np.array_equal(connect(after, demands), after), "what is connected stays as it is"


def test_of_two_parts_the_circuits_with_the_least_demand_are_crossed() -> None:
    demands = matrix(4, {(0, 1): 9, (1, 0): 8, (2, 3): 5, (3, 2): 6})
    circuits = connect(choose_circuits(demands, 1, 0.5), demands)
    assert np.argwhere(circuits).tolist() == [[0, 1], [1, 3], [2, 0], [3, 2]]  # 1 to 0 and 2 to 3 have gone
