"""What every fabric of configs/fabric keeps to; a new one needs no edit here."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from topoflow.demand import Demand
from topoflow.fabric.base import Fabric
from topoflow.fabric.routing.base import NO_LINK, as_routes, mean_lengths
from topoflow.fabric.routing.shortest import ShortestPaths
from topoflow.fabric.wiring import Interfaces

CONFIGS = Path(__file__).resolve().parents[2] / "src" / "topoflow" / "configs"
FABRICS = sorted(path.stem for path in (CONFIGS / "fabric").glob("*.yaml"))
PRICES = sorted(path.stem for path in (CONFIGS / "prices").glob("*.yaml"))
NAMES_AND_SIZES = [(name, servers) for name in FABRICS for servers in (8, 16)]
VARIANTS = [(name, servers, ()) for name, servers in NAMES_AND_SIZES] + [("topoopt", 16, ("fabric.routes=k_shortest",))]
WIRED = ("ring", "torus", "topoopt")  # that promise rings along their wires
Build = Callable[..., Fabric]


def two_switches() -> dict[str, object]:
    """16 servers at two switches, as a list of links."""
    cables = [(f"server {server}", f"switch {server % 2}") for server in range(16)] + [("switch 0", "switch 1")]
    ends = [end for a, b in cables for end in ((a, b), (b, a))]
    links = [{"src": src, "dst": dst, "bandwidth": 50e9, "latency": 1e-6} for src, dst in ends]
    return {"links": links, "servers": [f"server {server}" for server in range(16)]}


def demand(servers: int) -> Demand:
    """All-reduce over all and over the first half, and an uneven all-to-all."""
    mp = np.add.outer(np.arange(servers), 2.0 * np.arange(servers)) * 1e6
    np.fill_diagonal(mp, 0)
    return Demand.from_matrix(mp, {tuple(range(servers)): 1e9, tuple(range(servers // 2)): 1e8})


@pytest.fixture(scope="module")
def build(configured: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Build:
    """``build(name, servers, *overrides)`` makes the fabric of a config; the one that is a file gets a file."""
    file = tmp_path_factory.mktemp("links") / "two_switches.json"
    file.write_text(json.dumps(two_switches()))

    def make(name: str, servers: int, *overrides: str) -> Fabric:
        arguments = [f"fabric={name}", f"servers={servers}", *overrides]
        arguments += [f"fabric.file={file}"] if name == "links" else []
        fabric = configured("fabric", *arguments).build(servers, demand(servers))
        assert isinstance(fabric, Fabric)
        return fabric

    return make


@pytest.fixture(scope="module")
def built(build: Build) -> Build:
    """The same, each built once."""
    return cache(build)


def views(fabric: Fabric) -> list[Fabric]:
    """Return the fabric with its routes, and with those of all-reduces where they differ."""
    return [fabric] if fabric.reduction_route is None else [fabric, fabric.for_reductions]


def test_networks_of_columns_of_speeds_are_those_of_each_speed_alone(configured: Any) -> None:
    names = [name for name in FABRICS if name != "links"]  # whose file has the speeds
    designs = [configured("fabric", f"fabric={name}", "servers=16", "degree=4") for name in names]
    designs = [design for design in designs if isinstance(design, Interfaces)]
    assert {type(design) for design in designs} == set(Interfaces.__subclasses__())
    for design in designs:
        check_columns(design)


def check_columns(design: Any) -> None:
    speeds = [(1.25e9, 1e-6), (12.5e9 / 7, 0.0), (100e9 / 3, 2.5e-7)]
    alone = [replace(design, bandwidth=a, latency=b).build(16, demand(16)) for a, b in speeds]
    bandwidth, latency = (np.array(column)[:, None] for column in zip(*speeds, strict=True))
    columns = replace(design, bandwidth=bandwidth, latency=latency).build(16, demand(16)).rows(3)
    same_latency = replace(design, bandwidth=bandwidth, latency=1e-6).build(16, demand(16)).rows(3)
    assert [numbers(fabric) for fabric in columns] == [numbers(fabric) for fabric in alone]
    assert numbers(same_latency[0]) == numbers(alone[0])
    assert {fabric.wiring for fabric in (*columns, *same_latency)} == {alone[0].wiring}


def numbers(fabric: Fabric) -> tuple[object, ...]:
    """Return the speeds of a fabric, each as its bytes or text."""
    return fabric.bandwidth.tobytes(), fabric.latency.tobytes(), repr(fabric.interface_bandwidth), repr(fabric.bill)


@pytest.mark.parametrize(("name", "servers", "overrides"), VARIANTS)
def test_every_route_leads_from_source_to_target_and_visits_nothing_twice(
    built: Build, name: str, servers: int, overrides: tuple[str, ...]
) -> None:
    for fabric in views(built(name, servers, *overrides)):
        for source, target in itertools.permutations(range(servers), 2):
            paths = fabric.route(source, target)
            assert paths
            assert len(set(paths)) == len(paths)
            for path in paths:
                nodes = [source, *fabric.target[list(path)].tolist()]
                assert fabric.source[list(path)].tolist() == nodes[:-1]
                assert nodes[-1] == target
                assert len(set(nodes)) == len(nodes)


@pytest.mark.parametrize(("name", "servers", "overrides"), VARIANTS)
def test_routes_that_say_they_are_minimal_are_shortest_paths(
    built: Build, name: str, servers: int, overrides: tuple[str, ...]
) -> None:
    for fabric in views(built(name, servers, *overrides)):
        shortest = ShortestPaths(fabric.nodes, fabric.source, fabric.target)
        minimal = as_routes(fabric.route).has_equal_lengths()
        for source, target in itertools.permutations(range(servers), 2):
            hops, distance = {len(path) for path in fabric.route(source, target)}, shortest.hops(source, target)
            assert hops == {distance} if minimal else min(hops) >= distance


@pytest.mark.parametrize(("name", "servers", "overrides"), VARIANTS)
def test_routes_of_arrays_are_those_of_each_pair(
    built: Build, name: str, servers: int, overrides: tuple[str, ...]
) -> None:
    for fabric in views(built(name, servers, *overrides)):
        routes = as_routes(fabric.route)
        source, target = (ends.ravel() for ends in np.indices((servers, servers)))
        count = routes.choices(source, target).prod(axis=1)
        pair = np.repeat(np.arange(len(count)), count)
        number = np.arange(len(pair)) - (np.cumsum(count) - count)[pair]
        rows = routes.links(source[pair], target[pair], number)
        paths = [tuple(row[row != NO_LINK].tolist()) for row in rows]
        assert paths == [path for ends in zip(source, target, strict=True) for path in fabric.route(*map(int, ends))]
        lengths = mean_lengths(routes, source, target)
        np.testing.assert_allclose(lengths * count, np.bincount(pair, list(map(len, paths))), rtol=1e-12)


@pytest.mark.parametrize(("name", "servers"), NAMES_AND_SIZES)
def test_no_server_sends_or_receives_more_than_its_interfaces_carry(built: Build, name: str, servers: int) -> None:
    fabric = built(name, servers)
    room = fabric.degree * fabric.interface_bandwidth
    for ends in (fabric.source, fabric.target):
        per_node = np.bincount(ends, weights=fabric.bandwidth, minlength=len(fabric.nodes))
        assert np.all(per_node[:servers] <= room * (1 + 1e-12))


@pytest.mark.parametrize(("name", "servers"), NAMES_AND_SIZES)
def test_ring_orders_name_every_member_once(built: Build, name: str, servers: int) -> None:
    """Neighbours may be joined by a circuit or through switches."""
    for group, orders in built(name, servers).channels.rings.items():
        for order in orders:
            assert sorted(order) == sorted(group)


@pytest.mark.parametrize(("name", "servers"), [(name, servers) for name, servers in NAMES_AND_SIZES if name in WIRED])
def test_the_rings_of_servers_that_are_wired_to_each_other_go_over_these_wires(
    built: Build, name: str, servers: int
) -> None:
    fabric = built(name, servers)
    links = set(zip(fabric.source.tolist(), fabric.target.tolist(), strict=True))
    assert fabric.channels.rings
    for orders in fabric.channels.rings.values():
        for order in orders:
            for hop in zip(order, order[1:] + order[:1], strict=True):
                assert hop in links
                assert [len(path) for path in fabric.for_reductions.route(*hop)] == [1]


@pytest.mark.parametrize("prices", PRICES)
@pytest.mark.parametrize(("name", "servers"), NAMES_AND_SIZES)
def test_every_fabric_costs_money_and_draws_power(
    built: Build, configured: Callable[..., Any], name: str, servers: int, prices: str
) -> None:
    table = configured("prices", f"prices={prices}")
    bill = built(name, servers).bill
    assert table.cost(bill) > 0
    assert table.power(bill) > 0


@pytest.mark.parametrize(("name", "servers"), NAMES_AND_SIZES)
def test_the_same_design_is_wired_the_same_again(built: Build, build: Build, name: str, servers: int) -> None:
    one, other = built(name, servers), build(name, servers)
    for field in ("source", "target", "bandwidth", "latency"):
        assert np.array_equal(getattr(one, field), getattr(other, field))
    assert (one.nodes, one.bill, one.channels) == (other.nodes, other.bill, other.channels)
    pairs = list(itertools.permutations(range(servers), 2))
    assert [one.route(*pair) for pair in pairs] == [other.route(*pair) for pair in pairs]


@pytest.mark.parametrize("name", [name for name in FABRICS if name != "links"])
def test_bandwidth_scales_links_and_leaves_the_wiring(built: Build, build: Build, name: str) -> None:
    slow, fast = built(name, 16), build(name, 16, "bandwidth_gbps=300")  # three times the 100 of the default
    assert np.array_equal(slow.source, fast.source)
    assert np.array_equal(slow.target, fast.target)
    np.testing.assert_allclose(fast.bandwidth, 3 * slow.bandwidth, rtol=1e-15)


@pytest.mark.parametrize("name", [name for name in FABRICS if name != "links"])
def test_one_server_needs_no_path(build: Build, name: str) -> None:
    assert build(name, 1).servers == 1


@pytest.mark.parametrize("name", [name for name in FABRICS if name != "links"])
@pytest.mark.parametrize("field", ["degree", "bandwidth"])
def test_no_interface_or_no_bandwidth_is_an_error_that_names_the_field(build: Build, name: str, field: str) -> None:
    message = rf"{name}\.{field}: must be positive, got 0"
    with pytest.raises(Exception, match=message):  # Hydra wraps the ValueError of the design
        build(name, 16, f"fabric.{field}=0")
