"""The worlds that the benchmarks run are what the benchmarks say they are."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from fluid_speed.curve import EVENTS, FLOWS, everywhere, islands, islands_core
from fluid_speed.speed import distinct
from worlds.cases import BANDWIDTH, Case, all_to_all, dlrm, many_c, ring_all_reduce
from worlds.fat_tree import FatTree
from worlds.random_worlds import GENERATIONS, random_world

from topoflow.engine.base import World
from topoflow.engine.fluid import Fluid

SMALL = {
    "all_to_all.dmodk": lambda: all_to_all("dmodk", 4, ecmp=False, uneven=True),
    "all_to_all.ecmp": lambda: all_to_all("ecmp", 6, ecmp=True, uneven=True),
    "ring": lambda: ring_all_reduce("ring", 4, 1e9),
    "random.0": lambda: random_world(0),
    "random.10": lambda: random_world(10),
    "dlrm": lambda: dlrm("dlrm", "topoopt", 4, servers=8),
}


def paths(case: Case) -> list[list[int]]:
    graph = case.world.graph
    return [links.tolist() for links in np.split(graph.path_links, graph.path_offsets[1:-1])]


def loads(world: World) -> np.ndarray:
    """[L] flows on each link."""
    return np.bincount(world.graph.path_links, minlength=world.graph.links)


@pytest.mark.parametrize("make", SMALL.values(), ids=SMALL)
def test_every_path_leads_from_link_to_link_and_crosses_none_twice(make: Callable[[], Case]) -> None:
    case = make()
    for path in paths(case):
        assert all(case.target[one] == case.source[next] for one, next in pairwise(path))
        assert len(set(path)) == len(path)


@pytest.mark.parametrize("make", SMALL.values(), ids=SMALL)
def test_all_links_have_100_gigabits_or_several_of_them_and_no_latency(make: Callable[[], Case]) -> None:
    world = make().world
    assert np.all(world.capacity % BANDWIDTH == 0)  # TopoOpt lays parallel circuits
    assert np.all(world.capacity > 0)
    assert not world.latency.any()


@pytest.mark.parametrize("ecmp", [False, True])
def test_an_all_to_all_has_one_flow_for_each_pair_from_host_to_host(ecmp: bool) -> None:
    case = all_to_all("A", 8, ecmp=ecmp, uneven=False)
    ends = {(int(case.source[path[0]]), int(case.target[path[-1]])) for path in paths(case)}
    assert ends == {(i, j) for i in range(128) for j in range(128) if i != j}
    assert case.world.graph.tasks == len(ends) == 16_256


def test_paths_under_a_switch_in_a_pod_and_between_pods_have_2_4_and_6_hops() -> None:
    hops = np.bincount([len(path) for path in paths(all_to_all("A", 8, ecmp=True, uneven=False))])
    # Of 127 other hosts 3 are under the same edge switch, 12 more in the pod, 112 elsewhere.
    assert hops.tolist() == [0, 0, 128 * 3, 0, 128 * 12, 0, 128 * 112]


def test_destination_mod_k_loads_all_links_of_a_layer_alike() -> None:
    tree, load = FatTree(8), loads(all_to_all("A", 8, ecmp=False, uneven=False).world)
    hosts, edges, aggregations = load[: 3 * tree.hosts].reshape(3, -1)
    assert set(hosts) == {127}
    # 4 hosts send to the 128 - 4 beyond the switch, spread over 4 ports; 16 to the 128 - 16 beyond the pod, over 16.
    assert set(edges) == {4 * 124 // 4}
    assert set(aggregations) == {16 * 112 // 16}
    assert [set(layer) for layer in load[3 * tree.hosts :].reshape(3, -1)] == [{127}, {124}, {112}]


def test_random_routes_load_links_unevenly() -> None:
    tree, load = FatTree(8), loads(all_to_all("B", 8, ecmp=True, uneven=False).world)
    assert len(set(load[tree.hosts : 2 * tree.hosts])) > 10


def test_the_even_all_to_all_over_destination_mod_k_ends_all_at_once() -> None:
    (timeline,) = Fluid().simulate([all_to_all("A", 8, ecmp=False, uneven=False).world])
    # A host's link carries the most flows: 127 MB / 12.5 GB/s.
    np.testing.assert_allclose(timeline.finish, 127e6 / BANDWIDTH, rtol=1e-12)


@pytest.mark.parametrize("ecmp", [False, True])
def test_the_uneven_all_to_all_ends_2862_times(ecmp: bool) -> None:
    case = all_to_all("C", 6, ecmp=ecmp, uneven=True)
    size = case.world.graph.bytes
    assert size.min() >= 0.5e6
    assert size.max() <= 1.5e6
    (timeline,) = Fluid().simulate([case.world])
    assert distinct(timeline.finish) == case.world.graph.tasks == 54 * 53 == 2862


def test_worlds_of_a_batch_share_neither_sizes_nor_random_routes() -> None:
    worlds = many_c(4)
    assert len({world.graph.bytes.tobytes() for world in worlds}) == 4
    assert len({world.graph.path_links.tobytes() for world in worlds}) == 3  # 0 and 2 go by destination


def test_the_ring_all_reduce_has_254_dependent_steps() -> None:
    case = ring_all_reduce("D", 8, 1e9)
    graph = case.world.graph
    assert graph.tasks == 254 * 128 == 32_512
    # Each host sends 2 (n-1)/n of the buffer.
    assert graph.bytes.sum() == pytest.approx(128 * 2 * 127 / 128 * 1e9)
    assert loads(case.world).max() == 1  # so that a step takes 1 GB / 128 / 12.5 GB/s = 0.625 ms
    (timeline,) = Fluid().simulate([case.world])
    step = np.repeat(np.arange(1, 255), 128)
    np.testing.assert_allclose(timeline.finish, step * 0.625e-3, rtol=1e-12)


def test_a_step_of_the_ring_waits_for_what_the_host_before_sent() -> None:
    graph = ring_all_reduce("D", 4, 1e9).world.graph
    for task in range(16, graph.tasks):
        (earlier,) = graph.after[graph.after_offsets[task] : graph.after_offsets[task + 1]]
        assert earlier // 16 == task // 16 - 1
        assert earlier % 16 == (task % 16 - 1) % 16


def test_chains_of_a_random_world_are_short() -> None:
    for seed in range(20):
        graph = random_world(seed).world.graph
        depth = np.ones(graph.tasks, int)
        for task in range(graph.tasks):
            for earlier in graph.after[graph.after_offsets[task] : graph.after_offsets[task + 1]]:
                assert earlier < task
                depth[task] = max(depth[task], depth[earlier] + 1)
        assert depth.max() <= GENERATIONS


def test_random_worlds_have_late_starts_dependencies_computes_and_shared_paths() -> None:
    worlds = [random_world(seed).world.graph for seed in range(20)]
    assert any(graph.release.any() for graph in worlds)
    assert any(len(graph.after) for graph in worlds)
    assert any((graph.path < 0).any() for graph in worlds)
    assert any(np.bincount(graph.path[graph.path >= 0]).max() > 1 for graph in worlds)


def test_rounding_stays_small_in_random_worlds() -> None:
    for seed in range(20):
        world = random_world(seed).world
        nudged = World(world.name, world.graph, np.nextafter(world.capacity, np.inf), world.latency)
        one, other = Fluid().simulate([world, nudged])
        np.testing.assert_allclose(one.finish, other.finish, rtol=1e-12)


@pytest.mark.parametrize(("make", "hops"), [(islands, 1), (islands_core, 2)])
def test_flows_of_an_island_share_its_link_and_nothing_else(make: Callable[[int], World], hops: int) -> None:
    world = make(FLOWS[0])
    assert len(world.graph.path_links) == hops * FLOWS[0]
    (timeline,) = Fluid().simulate([world])
    assert distinct(timeline.finish) == FLOWS[0]
    # An island is done when its link has carried its 8 flows: the core is never full.
    last = timeline.finish.reshape(-1, 8).max(axis=1)
    np.testing.assert_allclose(last, world.graph.bytes.reshape(-1, 8).sum(axis=1) / BANDWIDTH, rtol=1e-12)


def test_flows_on_one_link_end_256_times() -> None:
    (timeline,) = Fluid().simulate([everywhere(FLOWS[0])])
    assert distinct(timeline.finish) == EVENTS
