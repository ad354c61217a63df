"""HyperX: cables of a switch, distances, and the bandwidth of a cut."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from topoflow.demand import Demand
from topoflow.fabric.base import Fabric
from topoflow.fabric.hyperx import HyperX

B = 12.5e9  # B/s: 100 Gb/s
DIMS = st.lists(st.integers(1, 4), min_size=1, max_size=3)


def build(dims: list[int] | None, servers_per_switch: int, servers: int) -> Fabric:
    return HyperX(B, 2, 1e-6, servers_per_switch, dims).build(servers, Demand(servers))


@given(dims=DIMS, servers_per_switch=st.integers(1, 3))
def test_a_switch_is_cabled_to_all_others_of_each_dimension(dims: list[int], servers_per_switch: int) -> None:
    switches = math.prod(dims)
    fabric = build(dims, servers_per_switch, switches * servers_per_switch)
    links = np.bincount(fabric.source, minlength=len(fabric.nodes))
    assert set(links[: fabric.servers]) == {1}
    assert set(links[fabric.servers :]) == {servers_per_switch + sum(size - 1 for size in dims)}


@given(dims=DIMS)
def test_switches_are_as_far_apart_as_they_differ_in_coordinates(dims: list[int]) -> None:
    fabric = build(dims, 1, math.prod(dims))
    places = list(np.ndindex(*dims))
    longest = 0
    for server, place in enumerate(places):
        hops = sum(coordinate != 0 for coordinate in place)  # from switch 0.0
        if server:
            paths = fabric.route(0, server)
            assert len(paths) == math.factorial(hops)
            assert {len(path) for path in paths} == {2 + hops}
        longest = max(longest, hops)
    assert longest == sum(size > 1 for size in dims)  # the diameter is the number of dimensions


@pytest.mark.parametrize(("dims", "cut"), [([4, 4], 0), ([2, 4], 1), ([3, 2, 4], 2), ([8], 0)])
def test_a_cut_through_the_middle_has_the_bandwidth_of_the_paper(dims: list[int], cut: int) -> None:
    """K S / (2 T) of the bandwidth of the servers on one side, with S switches in the dimension."""
    terminals = 3
    fabric = build(dims, terminals, math.prod(dims) * terminals)
    below = [place[cut] < dims[cut] // 2 for place in np.ndindex(*dims)]
    side = np.array(list(np.repeat(below, terminals)) + below)  # servers, then switches
    crossing = fabric.bandwidth[side[fabric.source] & ~side[fabric.target]].sum()
    one_side = fabric.servers / 2 * 2 * B
    assert crossing == pytest.approx(dims[cut] / (2 * terminals) * one_side)


def test_the_default_grid_is_the_most_square_one_that_holds_the_servers() -> None:
    fabric = build(None, 4, 45)  # 12 switches, 3 x 4; the last has one server
    assert fabric.nodes[45:] == tuple(f"switch {row}.{column}" for row in range(3) for column in range(4))
    assert np.bincount(fabric.target)[45:].tolist() == 11 * [4 + 2 + 3] + [1 + 2 + 3]


def test_all_ports_of_all_switches_are_bought() -> None:
    bill = {item.component: item.count for item in build([2, 3], 4, 24).bill}
    # 6 switches of 4 + 1 + 2 ports; cables: 24 to servers, 2 rows of 3 and 3 columns of 1
    assert bill == {"nic_port": 24, "switch_port": 42, "transceiver": 66, "fiber": 33}


@pytest.mark.parametrize(
    ("design", "message"),
    [
        ({"dims": [2, 2]}, r"hyperx\.dims: must hold 17 servers, got \[2, 2\] of 4 servers each"),
        ({"dims": [2, 0]}, r"hyperx\.dims\[1\]: must be positive, got 0"),
        ({"servers_per_switch": 0}, r"hyperx\.servers_per_switch: must be positive, got 0"),
    ],
)
def test_a_hyperx_that_cannot_be_is_an_error_with_its_law(design: dict[str, object], message: str) -> None:
    keys = {"servers_per_switch": 4} | design
    with pytest.raises(ValueError, match=message):
        HyperX(B, 4, 1e-6, **keys).build(17, Demand(17))
