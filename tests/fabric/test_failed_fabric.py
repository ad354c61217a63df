"""Fabrics after a failure: what is gone is not used, what is left is found, and little else changes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from topoflow.demand import Demand
from topoflow.fabric.base import Fabric
from topoflow.fabric.failed import Disconnected, without
from topoflow.fabric.fat_tree import FatTree
from topoflow.fabric.ideal_switch import IdealSwitch
from topoflow.fabric.ocs_reconfig import OcsReconfig
from topoflow.fabric.ring import Ring
from topoflow.fabric.topoopt import TopoOpt

EVERYONE = tuple(range(12))


def topoopt(degree: int = 3) -> Fabric:
    mp = np.random.default_rng(3).random((12, 12))
    np.fill_diagonal(mp, 0)
    return TopoOpt(10.0, degree, 1e-6, degree).build(12, Demand.from_matrix(mp, {EVERYONE: 100.0}))


def fat_tree() -> Fabric:
    return FatTree(10.0, 2, 1e-6).build(12, Demand(12))


def ends(fabric: Fabric) -> list[tuple[str, str]]:
    names = fabric.nodes
    return [(names[i], names[j]) for i, j in zip(fabric.source.tolist(), fabric.target.tolist(), strict=True)]


def between_switches(fabric: Fabric) -> list[int]:
    return np.flatnonzero((fabric.source >= fabric.servers) & (fabric.target >= fabric.servers)).tolist()


@pytest.mark.parametrize(
    "fabric",
    [topoopt(), topoopt().for_reductions, fat_tree()],
    ids=["topoopt", "all-reduces on topoopt", "fat_tree"],
)
def test_every_route_leads_over_what_is_left_and_keeps_what_was_whole(fabric: Fabric) -> None:
    links = range(0, fabric.links, 5) if fabric.name == "topoopt" else between_switches(fabric)[::7]
    for link in links:
        degraded = without(fabric, links=[link])
        number = {
            old: new for new, old in enumerate(candidate for candidate in range(fabric.links) if candidate != link)
        }
        for source, target in itertools.permutations(range(12), 2):
            before, paths = fabric.route(source, target), degraded.route(source, target)
            assert paths
            for path in paths:
                nodes = [source, *degraded.target[list(path)].tolist()]
                assert degraded.source[list(path)].tolist() == nodes[:-1]
                assert nodes[-1] == target
            if any(link not in path for path in before):
                assert list(paths) == [tuple(number[hop] for hop in path) for path in before if link not in path]


def test_parallel_circuits_go_on_when_one_fiber_fails() -> None:
    fabric = TopoOpt(10.0, 4, 1e-6, 4).build(2, Demand(2, {(0, 1): 1.0}))
    assert fabric.bandwidth.tolist() == [40.0, 40.0]
    assert without(fabric, fibers=[0]).bandwidth.tolist() == [30.0, 40.0]
    assert without(fabric, fibers=[0, 0, 1]).bandwidth.tolist() == [20.0, 30.0]


def test_a_ring_that_lost_a_hop_recovers_it_or_leaves_its_bytes_to_the_others() -> None:
    fabric = topoopt()
    orders = fabric.channels.rings[EVERYONE]
    assert len(orders) > 1
    hop = orders[0][:2]
    link = list(zip(fabric.source.tolist(), fabric.target.tolist(), strict=True)).index(hop)
    recovered, dropped = without(fabric, links=[link]), without(fabric, links=[link], rings="drop")
    assert recovered.channels.rings[EVERYONE] == orders
    assert len(recovered.for_reductions.route(*hop)[0]) > 1, "hosts forward it"
    assert dropped.channels.rings[EVERYONE] == orders[1:]


def test_the_last_ring_of_a_group_is_recovered() -> None:
    fabric = TopoOpt(10.0, 1, 1e-6, 1).build(12, Demand(12, {EVERYONE: 1.0}))
    with pytest.raises(Disconnected, match=r"topoopt: must stay connected, got no path from 'server 0' to 'server 1'"):
        without(fabric, links=[0])  # a single one-way ring
    two = TopoOpt(10.0, 2, 1e-6, 2).build(12, Demand(12, {EVERYONE: 1.0}))
    links = [0, int(np.flatnonzero(two.source == 5)[-1])]
    assert without(two, links=links, rings="drop").channels.rings[EVERYONE]


def test_a_server_that_fails_takes_its_links_and_leaves_its_rings() -> None:
    fabric = topoopt()
    degraded = without(fabric, servers=[4])
    assert degraded.servers == 11
    assert "server 4" not in degraded.nodes
    assert ends(degraded) == [pair for pair in ends(fabric) if "server 4" not in pair]
    assert list(degraded.channels.rings) == [tuple(range(11))]
    for before, after in zip(fabric.channels.rings[EVERYONE], degraded.channels.rings[tuple(range(11))], strict=True):
        assert [degraded.nodes[server] for server in after] == [fabric.nodes[s] for s in before if s != 4]


def test_nothing_that_failed_is_nothing_that_changed() -> None:
    fabric, degraded = topoopt(), without(topoopt())
    assert ends(degraded) == ends(fabric)
    assert degraded.bandwidth.tolist() == fabric.bandwidth.tolist()
    pairs = list(itertools.permutations(range(12), 2))
    assert [degraded.route(*pair) for pair in pairs] == [fabric.route(*pair) for pair in pairs]


def test_a_circle_of_cables_goes_the_other_way_round() -> None:
    fabric = Ring(10.0, 2, 1e-6).build(6, Demand(6))
    degraded = without(fabric, links=[0, 1])  # the cable of servers 0 and 1
    assert [len(path) for path in degraded.route(0, 1)] == [5]


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        ({"links": [99]}, r"links: must be within 0\.\.23 of ideal_switch, got 99"),
        ({"servers": range(12)}, r"servers: must leave one of the 12 of ideal_switch, got 12"),
        ({"links": [0]}, r"ideal_switch: must stay connected, got no path from"),
        ({"rings": "repair"}, r"rings: must be one of recover, drop, got 'repair'"),
    ],
)
def test_what_cannot_fail_is_an_error_with_its_law(failure: dict[str, object], message: str) -> None:
    fabric = IdealSwitch(10.0, 2, 1e-6).build(12, Demand(12))
    with pytest.raises(ValueError, match=message):
        without(fabric, **failure)


def test_a_network_that_reconfigures_is_refused() -> None:
    design = OcsReconfig(10.0, 2, 0.0, 1.0, 0.1, forwarding=True, discount=0.5, paths=1)
    with pytest.raises(ValueError, match="ocs_reconfig: must keep its circuits to lose one"):
        without(design.build(4, Demand(4)), links=[0])
