"""Strides: the rings that TotientPerms finds, those that SelectPermutations takes, and the way round by them."""

from __future__ import annotations

import itertools
from functools import reduce
from math import gcd, inf
from operator import or_

import networkx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from topoflow.demand import Demand
from topoflow.fabric.topoopt.coin_change import coin_change
from topoflow.fabric.topoopt.select_permutations import select_permutations
from topoflow.fabric.topoopt.topology_finder import find_topology
from topoflow.fabric.topoopt.totient_perms import ring, totient_perms


def diameter(size: int, strides: tuple[int, ...]) -> int:
    """Hops to the farthest server of a ring of ``size``; who is reached is kept in the bits of a number."""
    everyone, reached, hops = (1 << size) - 1, 1, 0
    while reached != everyone:
        further = [(reached << stride | reached >> (size - stride)) & everyone for stride in strides]
        reached, hops = reduce(or_, further, reached), hops + 1
    return hops


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
    demand = Demand(25, {tuple(range(25)): 1.0})
    large = find_topology(25, 4, demand, primes_above=24)
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


@given(size=st.integers(3, 200), rings=st.integers(1, 6))
def test_duplex_rings_are_as_many_as_there_are_and_each_has_its_way_back(size: int, rings: int) -> None:
    strides = select_permutations(size, 2 * rings, duplex=True)
    assert len(strides) == 2 * rings
    assert all(
        (out + back) % size == 0 and gcd(out, size) == 1 for out, back in zip(strides[::2], strides[1::2], strict=True)
    )
    assert len(set(strides)) == min(2 * rings, len(totient_perms(size)))
    assert select_permutations(size, 2 * rings + 1, duplex=True) == strides  # a port is left


def test_where_rings_lead_both_ways_paths_of_degree_4_are_longer() -> None:
    # 128 servers, as in TopoOpt 5.3: one way 1, 3, 11, 37; both ways 1 and 11, near 128^(1/2) = 11.3
    one_way, both_ways = (select_permutations(128, 4, duplex=duplex) for duplex in (False, True))
    assert (one_way, both_ways) == ((1, 3, 11, 37), (1, 127, 11, 117))
    assert diameter(128, one_way) == 8
    assert diameter(128, both_ways) == 9


@given(size=st.integers(2, 60), degree=st.integers(1, 5))
def test_coin_change_pays_every_distance_with_the_fewest_coins(size: int, degree: int) -> None:
    coins = select_permutations(size, degree)
    circulant = networkx.DiGraph((i, (i + coin) % size) for i in range(size) for coin in coins)
    for distance, way in enumerate(coin_change(size, coins)):
        assert sum(way) % size == distance
        assert len(way) == networkx.shortest_path_length(circulant, 0, distance)
