"""Packet spraying beside ECMP: the same bytes from end to end, over all equal paths instead of one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from topoflow.case.rows import bandwidth_tax, flow_matrix
from topoflow.demand import Demand
from topoflow.engine.base import Timeline, World
from topoflow.engine.lowering.paths import union
from topoflow.engine.lowering.placement import place
from topoflow.fabric.base import Fabric
from topoflow.fabric.expander import Expander
from topoflow.fabric.fat_tree import FatTree
from topoflow.fabric.leaf_spine import LeafSpine
from topoflow.fabric.routing.base import padded
from topoflow.fabric.torus import Torus
from topoflow.traffic.base import Collective, Subflow, Traffic, Transfer

B, A, S = 12.5e9, 1e-6, 1e6  # B/s and s of every link, bytes
NONE = Demand(16)
FABRICS = {
    "fat_tree": FatTree(B, 1, A).build(16, NONE),
    "leaf_spine": LeafSpine(B, 1, A, 4).build(16, NONE),
    "torus": Torus(B, 4, A).build(16, NONE),
    "expander": Expander(B, 4, A, 0).build(16, NONE),
}
Run = Callable[[World], Timeline]


def world(fabric: Fabric, routing: str, *tasks: Transfer | Collective, seed: int = 0) -> World:
    return place(Traffic.from_tasks("traffic", fabric.servers, tasks), fabric, name="world", routing=routing, seed=seed)


def permutation(shift: int) -> list[Transfer]:
    return [Transfer(S, server, (server + shift) % 16) for server in range(16)]


def test_spraying_gives_a_permutation_the_full_bisection_where_hashing_collides(run: Run) -> None:
    # Every server of a k=4 fat-tree sends S to the next pod: 6 links of latency, then S / B at full rate. Hashed, the
    # flows of an edge switch choose among its 2 uplinks: two that choose the same take 2 S / B or longer.
    fabric = FABRICS["fat_tree"]
    full = 6 * A + S / B
    sprayed = run(world(fabric, "spray", *permutation(4)))
    np.testing.assert_allclose(sprayed.task_finish, full, rtol=1e-12)
    for seed in range(5):
        hashed = run(world(fabric, "ecmp", *permutation(4), seed=seed))
        assert hashed.makespan >= 6 * A + 2 * S / B * (1 - 1e-12)


@pytest.mark.parametrize("name", FABRICS)
@pytest.mark.parametrize("routing", ["ecmp", "spray"])
def test_bytes_in_are_bytes_out_at_every_node(name: str, routing: str, run: Run) -> None:
    fabric = FABRICS[name]
    tasks = [*permutation(5), *permutation(9), Collective("all_to_all", S, tuple(range(8)))]
    placed = world(fabric, routing, *tasks)
    carried = run(placed).link_bytes
    excess = np.zeros(len(fabric.nodes))  # sent - received
    np.add.at(excess, fabric.source, carried)
    np.subtract.at(excess, fabric.target, carried)
    servers = np.arange(fabric.servers)
    sent = flow_matrix(placed.graph, servers)
    expected = np.zeros(len(fabric.nodes))
    expected[:16] = sent.sum(axis=1) - sent.sum(axis=0)
    np.testing.assert_allclose(excess, expected, atol=1e-6 * S)
    np.testing.assert_allclose(sent, flow_matrix(world(fabric, "ecmp", *tasks).graph, servers), rtol=1e-12)


@pytest.mark.parametrize("name", FABRICS)
def test_spraying_puts_the_mean_of_all_hashes_on_every_link(name: str, run: Run) -> None:
    fabric = FABRICS[name]
    expected = np.zeros(fabric.links)
    for transfer in permutation(7):
        routes = fabric.route(transfer.source, transfer.target)
        for route in routes:
            np.add.at(expected, list(route), S / len(routes))
    np.testing.assert_allclose(run(world(fabric, "spray", *permutation(7))).link_bytes, expected, rtol=1e-12)


@pytest.mark.parametrize("name", FABRICS)
def test_servers_relay_as_much_by_spraying_as_by_hashing(name: str) -> None:
    # A switch forwards for nobody: 1. Between servers, equal paths have equally many relays.
    one, other = (world(FABRICS[name], routing, *permutation(7)).graph for routing in ("ecmp", "spray"))
    assert bandwidth_tax(one, FABRICS[name]) == pytest.approx(bandwidth_tax(other, FABRICS[name]), rel=1e-12)


def test_where_there_is_one_path_spraying_is_hashing() -> None:
    star = LeafSpine(B, 1, A, 4).build(2, Demand(2))
    one, other = (world(star, routing, Transfer(S, 0, 1)).graph for routing in ("ecmp", "spray"))
    assert other.path_weight is None
    assert np.array_equal(one.path_links, other.path_links)


def crossed(subflows: list[Subflow]) -> list[tuple[int, float]]:
    """Links and their shares of the bytes of one flow over all ``subflows``, in order."""
    rows, shares = padded([subflow.links for subflow in subflows]), np.array([subflow.weight for subflow in subflows])
    hops = union(rows, np.zeros(len(rows), np.int64), shares, 1)
    return list(zip(hops.links.tolist(), hops.weights.tolist(), strict=True))


def test_paths_with_common_links_cross_them_with_all_bytes() -> None:
    assert crossed([Subflow((0, 1, 3), 0.5), Subflow((0, 2, 3), 0.5)]) == [(0, 1.0), (1, 0.5), (2, 0.5), (3, 1.0)]


def test_a_union_begins_where_its_paths_begin_and_ends_where_they_end() -> None:
    # A short way and a long one: 4 leaves the source as 0 does, 3 reaches the target as 4 does.
    hops = crossed([Subflow((4,), 0.25), Subflow((0, 1, 2, 3), 0.75)])
    assert (hops[0][0], hops[-1][0] in (3, 4)) == (0, True)
    assert dict(hops) == {4: 0.25, 0: 0.75, 1: 0.75, 2: 0.75, 3: 0.75}


def test_paths_of_different_flows_are_joined_by_themselves() -> None:
    rows = padded([(0, 1), (0, 2), (0, 1, 2), (5, 6)])
    hops = union(rows, np.array([0, 0, 1, 2]), np.array([0.5, 0.5, 1.0, 1.0]), 3)
    assert hops.offsets.tolist() == [0, 3, 6, 8]
    assert hops.links.tolist() == [0, 1, 2, 0, 1, 2, 5, 6]
    assert hops.weights.tolist() == [1.0, 0.5, 0.5, 1.0, 1.0, 1.0, 1.0, 1.0]


def test_a_limit_of_a_transfer_is_kept_however_it_is_routed(run: Run) -> None:
    # 1 MB / 1 GB/s = 1 ms behind 6 us.
    for routing in ("ecmp", "spray"):
        timeline = run(world(FABRICS["fat_tree"], routing, Transfer(S, 0, 15, limit=1e9)))
        assert timeline.makespan == pytest.approx(6 * A + 1e-3, rel=1e-12)


def test_an_unknown_routing_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^routing: must be one of .*dmodk, ecmp, .*got 'random'$"):
        world(FABRICS["torus"], "random", Transfer(S, 0, 1))


@pytest.mark.parametrize(
    ("transfer", "message"),
    [
        (Transfer(S, 0, 1, subflows=(Subflow((0,), 0.5),)), "task 0.subflows: weights must sum to 1, got 0.5"),
        (Transfer(S, 0, 1, subflows=(Subflow((0,), 0.0),)), "task 0.subflows[0].weight: must be positive, got 0.0"),
        (Transfer(S, 0, 1, limit=0.0), "task 0.limit: must be positive, got 0.0"),
        (Transfer(S, 1, 1, limit=1.0), "task 0.limit: must be of a transfer between two servers, got 1.0"),
    ],
)
def test_a_transfer_that_breaks_a_law_is_refused(transfer: Transfer, message: str) -> None:
    with pytest.raises(ValueError, match="task 0") as caught:
        Traffic.from_tasks("traffic", 2, (transfer,))
    assert str(caught.value) == message
