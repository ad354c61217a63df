"""What every module of engine/lowering/routing keeps to; a new one needs no edit here. Then each one's own laws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from topoflow.demand import Demand
from topoflow.engine.lowering.paths import routed
from topoflow.engine.lowering.routing import Connections, routing_named, routings
from topoflow.engine.lowering.routing.ecmp import PURPOSE, WORD, choose
from topoflow.fabric.base import Fabric
from topoflow.fabric.fat_tree import FatTree
from topoflow.fabric.leaf_spine import LeafSpine

TREE = FatTree(1e9, 1, 0.0, radix=8).build(128, Demand(128))


def some_connections(seed: int, count: int, servers: int) -> tuple[np.ndarray, Connections]:
    draw = np.random.default_rng(seed)
    choices = draw.integers(1, 9, (count, 3))
    return choices, Connections(*draw.integers(0, servers, (2, count)), draw.integers(0, 4, count))


@pytest.mark.parametrize("name", routings())
@given(seed=st.integers(0, 10**6), count=st.integers(0, 40))
def test_the_shares_of_a_connection_are_of_different_paths_and_sum_to_one(name: str, seed: int, count: int) -> None:
    choices, connections = some_connections(seed, count, 1000)
    split = routing_named(name).split(choices, connections, seed)
    assert np.all(np.diff(split.connection) >= 0)
    assert np.all((split.number >= 0) & (split.number < choices.prod(axis=1)[split.connection]))
    assert len(set(zip(split.connection.tolist(), split.number.tolist(), strict=True))) == len(split.number)
    np.testing.assert_allclose(np.bincount(split.connection, split.share, count), np.ones(count), rtol=1e-12)


@pytest.mark.parametrize("name", routings())
def test_a_connection_is_routed_the_same_whatever_others_there_are(name: str) -> None:
    choices, connections = some_connections(1, 50, 1000)
    routing = routing_named(name)
    together = routing.split(choices, connections, 7)
    for one in range(50):
        alone = routing.split(choices[[one]], Connections(*(field[[one]] for field in connections)), 7)
        assert alone.number.tolist() == together.number[together.connection == one].tolist()


def test_a_hash_is_that_of_splitmix64_in_whole_numbers() -> None:
    def mix(state: int) -> int:
        z = (state + 0x9E3779B97F4A7C15) & WORD
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & WORD
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB & WORD
        return z ^ (z >> 31)

    _, connections = some_connections(2, 500, 10**6)
    paths = np.random.default_rng(3).integers(1, 5000, 500)
    for seed in (0, 1, 2**63 - 1):
        expected = []
        for source, target, channel, count in zip(*(field.tolist() for field in (*connections, paths)), strict=True):
            state = mix(mix(mix(mix((seed & WORD) ^ PURPOSE) ^ source) ^ target) ^ channel)
            expected.append(int((state >> 11) * 2.0**-53 * count))
        assert choose(paths, connections, seed).tolist() == expected


def flows_on(fabric: Fabric, source: np.ndarray, target: np.ndarray, routing: str) -> np.ndarray:
    """[L] how many flows cross each link."""
    connections = Connections(source, target, np.zeros_like(source))
    hops = routed(fabric, routing_named(routing), connections, 0)
    return np.bincount(hops.links, minlength=fabric.links)


@pytest.mark.parametrize("fabric", [TREE, LeafSpine(1e9, 1, 0.0, 4).build(32, Demand(32))], ids=lambda f: f.name)
def test_d_mod_k_gives_every_flow_of_a_shift_links_of_its_own(fabric: Fabric) -> None:
    servers = np.arange(fabric.servers)
    for shift in range(1, fabric.servers):
        target = (servers + shift) % fabric.servers
        assert flows_on(fabric, servers, target, "dmodk").max() == 1, shift
    assert flows_on(fabric, servers, (servers + 5) % fabric.servers, "ecmp").max() > 1, "hashed flows collide"


def test_d_mod_k_spreads_the_targets_of_a_server_evenly_over_its_ways_up() -> None:
    target = np.arange(16, 128)  # all pods but the first; edge switch 0 has 4 uplinks
    load = flows_on(TREE, np.zeros_like(target), target, "dmodk")
    uplinks = np.flatnonzero(TREE.source == 128)  # of edge switch 0
    assert sorted(load[uplinks].tolist(), reverse=True)[:4] == [28, 28, 28, 28]
