"""Dragonfly+: two layers in each group, global cables of spines, three hops between switches at most."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from topoflow.demand import Demand
from topoflow.fabric.base import Fabric
from topoflow.fabric.dragonfly_plus import DragonflyPlus

B = 12.5e9  # B/s: 100 Gb/s
SIZES = st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(1, 4), st.integers(1, 6), st.integers(1, 4))


def build(servers: int, **sizes: int) -> Fabric:
    return DragonflyPlus(B, 1, 1e-6, **sizes).build(servers, Demand(servers))


def full(nodes: int, leaves: int, spines: int, groups: int, global_links: int) -> Fabric:
    sizes = {"nodes": nodes, "leaves": leaves, "spines": spines, "groups": groups, "global_links": global_links}
    return build(nodes * leaves * groups, **sizes)


@given(sizes=SIZES)
def test_leaves_see_all_spines_of_their_group_and_every_two_groups_are_cabled(
    sizes: tuple[int, int, int, int, int],
) -> None:
    _, leaves, spines, groups, global_links = sizes
    fabric = full(*sizes)
    kind = [name.split()[0] for name in fabric.nodes]
    group = [int(name.split()[1].split(".")[0]) for name in fabric.nodes]
    inside: Counter[tuple[str, int]] = Counter()
    between: Counter[tuple[int, int]] = Counter()
    for source, target in zip(fabric.source.tolist(), fabric.target.tolist(), strict=True):
        if "server" in (kind[source], kind[target]):
            continue
        if kind[source] == kind[target] == "spine":
            between[group[source], group[target]] += 1
        else:
            assert group[source] == group[target]
            inside[kind[source], group[source]] += 1
    assert set(inside.values()) == {leaves * spines}
    assert len(inside) == 2 * groups
    assert set(between.values()) <= {global_links}
    assert len(between) == groups * (groups - 1)


@given(sizes=SIZES)
def test_global_cables_are_spread_over_the_spines(sizes: tuple[int, int, int, int, int]) -> None:
    _, leaves, spines, groups, global_links = sizes
    fabric = full(*sizes)
    first = fabric.servers + groups * leaves
    ports = np.bincount(fabric.source, minlength=len(fabric.nodes))[first:] - leaves
    assert ports.max() <= -(-global_links * (groups - 1) // spines)
    assert ports.sum() == groups * (groups - 1) * global_links


def test_the_largest_one_of_36_ports_holds_105300_servers() -> None:
    """Shpiner et al.: h = 18 servers, leaves, spines and global cables each: h^4 + h^2 servers, a cable per two groups.

    325 groups of 18 leaves and 18 spines, all of whose 36 ports are used; at most 3 cables between two switches.
    """
    fabric = build(105_300)
    assert [name for name in fabric.nodes[105_300:] if name.startswith("leaf")][-1] == "leaf 324.17"
    ports = np.bincount(fabric.source, minlength=len(fabric.nodes))[105_300:]
    assert len(ports) == 325 * 36
    assert set(ports.tolist()) == {36}
    assert {item.component: item.count for item in fabric.bill}["switch_port"] == 325 * 36 * 36
    assert fabric.links == 2 * (105_300 + 325 * 18 * 18 + 325 * 324 // 2)
    draw = np.random.default_rng(0)
    assert max(len(path) for pair in draw.integers(0, 105_300, (50, 2)).tolist() for path in fabric.route(*pair)) == 5


def test_paths_inside_a_group_take_every_spine_and_between_groups_every_cable() -> None:
    fabric = full(2, 3, 4, 3, 5)
    assert len(fabric.route(0, 1)) == 1  # one leaf
    assert len(fabric.route(0, 2)) == 4
    assert len(fabric.route(0, 17)) == 5


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        (
            {"groups": 2, "leaves": 2, "nodes": 1},
            r"dragonfly_plus\.groups: must hold 5 servers, got 2 of 2 leaves with 1",
        ),
        ({"spines": 0}, r"dragonfly_plus\.spines: must be positive, got 0"),
        ({"global_links": 0}, r"dragonfly_plus\.global_links: must be positive, got 0"),
    ],
)
def test_a_dragonfly_plus_that_cannot_be_is_an_error_with_its_law(sizes: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build(5, **sizes)
