"""Dragonfly: cables of a router, global cables between groups, routes with at most one of them; 110,592 servers."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from topoflow.demand import Demand
from topoflow.fabric.base import Fabric
from topoflow.fabric.dragonfly import Dragonfly
from topoflow.fabric.routing.base import NO_LINK, as_routes

B = 12.5e9  # B/s: 100 Gb/s
FIELDS = ("nodes", "routers", "groups", "global_links")
SIZES = st.tuples(st.integers(1, 3), st.integers(1, 5), st.integers(1, 7), st.integers(1, 4))


def build(servers: int, wiring: str = "palm_tree", **sizes: int) -> Fabric:
    return Dragonfly(B, 2, 1e-6, **sizes, wiring=wiring).build(servers, Demand(servers))


def full(nodes: int, routers: int, groups: int, global_links: int) -> Fabric:
    sizes = nodes, routers, groups, global_links
    return build(nodes * routers * groups, **dict(zip(FIELDS, sizes, strict=True)))


@given(sizes=SIZES)
def test_every_two_routers_of_a_group_and_every_two_groups_are_cabled(sizes: tuple[int, int, int, int]) -> None:
    _, routers, groups, global_links = sizes
    fabric = full(*sizes)
    inside: Counter[tuple[int, int]] = Counter()
    between: Counter[tuple[int, int]] = Counter()
    for source, target in zip(fabric.source.tolist(), fabric.target.tolist(), strict=True):
        if min(source, target) >= fabric.servers:
            ends = source - fabric.servers, target - fabric.servers
            far = ends[0] // routers != ends[1] // routers
            (between if far else inside)[tuple(end // routers for end in ends) if far else ends] += 1
    assert set(inside.values()) <= {1}
    assert len(inside) == groups * routers * (routers - 1)
    assert set(between.values()) <= {global_links}
    assert len(between) == groups * (groups - 1)


@given(sizes=SIZES)
def test_the_global_cables_of_a_group_are_spread_over_its_routers(sizes: tuple[int, int, int, int]) -> None:
    nodes, routers, groups, global_links = sizes
    fabric = full(*sizes)
    ports = np.bincount(fabric.source, minlength=len(fabric.nodes))[fabric.servers :] - nodes - (routers - 1)
    assert ports.max() <= -(-global_links * (groups - 1) // routers)
    assert ports.sum() == groups * (groups - 1) * global_links


@given(sizes=SIZES)
def test_the_absolute_wiring_leads_to_groups_in_the_order_of_their_numbers(sizes: tuple[int, int, int, int]) -> None:
    """Ports are dealt as merlin deals them: routers that have one less come last. So is every pair of groups cabled."""
    nodes, routers, groups, global_links = sizes
    fabric = build(nodes * routers * groups, **dict(zip(FIELDS, sizes, strict=True)), wiring="absolute")
    leads: dict[int, list[int]] = {}
    for source, target in zip(fabric.source.tolist(), fabric.target.tolist(), strict=True):
        source_group, target_group = ((end - fabric.servers) // routers for end in (source, target))
        if min(source, target) >= fabric.servers and source_group != target_group:
            leads.setdefault(source - fabric.servers, []).append(target_group)
    count = global_links * (groups - 1)
    for group in range(groups):
        others = [other for other in range(groups) if other != group] * global_links
        most, short = -(-count // routers), -count % routers
        begin = 0
        for place in range(routers):
            ports = most - (place >= routers - short)
            assert sorted(leads.get(group * routers + place, [])) == sorted(others[begin : begin + ports])
            begin += ports
        assert begin == count


def test_cables_that_do_not_divide_leave_the_last_routers_fewer() -> None:
    """3 cables to each of 3 other groups are 3 for each of 4 routers but the last, as docs/packet.md says."""
    fabric = full(1, 4, 4, 3)
    ports = np.bincount(fabric.source, minlength=len(fabric.nodes))[fabric.servers :] - 1 - 3
    assert ports.tolist() == [3, 3, 3, 0] * 4


@given(sizes=SIZES, seed=st.integers(0, 10**6))
def test_a_route_crosses_one_global_cable_and_at_most_one_of_each_group(
    sizes: tuple[int, int, int, int], seed: int
) -> None:
    nodes, routers, _, global_links = sizes
    fabric = full(*sizes)
    source, target = np.random.default_rng(seed).integers(fabric.servers, size=2).tolist()
    size = nodes * routers
    paths = fabric.route(source, target)
    assert len(paths) == (1 if source // size == target // size else global_links)
    for path in paths:
        ends = [(int(fabric.source[link]), int(fabric.target[link])) for link in path[1:-1]]
        crossed = [tuple((end - fabric.servers) // routers for end in pair) for pair in ends]
        assert len(ends) <= 3
        assert sum(one != other for one, other in crossed) == (source // size != target // size)


def test_the_default_is_the_smallest_balanced_one() -> None:
    fabric = build(72)  # p = h = 2, a = 4: 9 groups of 8 servers, one cable between every two
    assert fabric.nodes[-1] == "router 8.3"
    ports = np.bincount(fabric.source, minlength=len(fabric.nodes))[72:]
    assert set(ports.tolist()) == {2 + 3 + 2}
    assert build(73).nodes[-1] == "router 4.5"  # p = 3, a = 6: 5 groups of 18


def test_a_dragonfly_of_110592_servers_is_built_and_routed() -> None:
    """24 nodes at each of 48 routers in each of 96 groups."""
    fabric = full(24, 48, 96, 12)
    assert fabric.servers == 110_592
    # The numbers of ports and links that the study of tapered dragonflies states (III-B and V).
    ports = fabric.source >= 110_592  # of routers
    group, far = (fabric.source[ports] - 110_592) // 48, (fabric.target[ports] - 110_592) // 48
    is_global = (fabric.target[ports] >= 110_592) & (group != far)
    assert np.count_nonzero(is_global) == 2 * 54_720
    assert set(np.bincount(group[is_global]).tolist()) == {1_140}
    assert np.count_nonzero(~is_global) == 327_168
    assert fabric.links == 2 * (110_592 + 96 * 48 * 47 // 2 + 12 * 96 * 95 // 2)
    source, target, number = np.random.default_rng(0).integers([110_592, 110_592, 12], size=(100_000, 3)).T
    routes = as_routes(fabric.route)
    rows = routes.links(source, target, number % routes.choices(source, target)[:, 0])
    at = source
    for hop in rows.T:
        assert np.array_equal(fabric.source[hop[hop != NO_LINK]], at[hop != NO_LINK])
        at = np.where(hop != NO_LINK, fabric.target[hop], at)
    assert np.array_equal(at, target)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"groups": 2, "routers": 2, "nodes": 1}, r"dragonfly\.groups: must hold 5 servers, got 2 of 2 routers with 1"),
        ({"routers": 0}, r"dragonfly\.routers: must be positive, got 0"),
    ],
)
def test_a_dragonfly_that_cannot_be_is_an_error_with_its_law(sizes: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build(5, **sizes)
