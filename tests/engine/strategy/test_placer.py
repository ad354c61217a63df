"""The world of a traffic is the same whatever was placed before; how paths are numbered changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topoflow.engine.base import LoweredGraph, Run, World
from topoflow.engine.fluid import Fluid
from topoflow.engine.lowering import assembly
from topoflow.engine.lowering.blocks import BlockBuilder
from topoflow.engine.lowering.paths import NO_PATH, PathTable
from topoflow.engine.lowering.placement import Lowering, Placer, place
from topoflow.fabric.base import Fabric
from topoflow.strategy.placement import Placement
from topoflow.traffic.lower import lower
from topoflow.traffic.tasks import Operation
from topoflow.workload.base import Layer, LayerGraph

Job = Callable[..., tuple[LayerGraph, Placement, Fabric]]

LAW = settings(max_examples=60)


def some_holders(random: np.random.Generator, servers: int) -> tuple[int, ...]:
    size = int(random.integers(1, servers + 1))
    return tuple(sorted(random.choice(servers, size, replace=False).tolist()))


def some_strategy(workload: LayerGraph, servers: int, seed: int, **buckets: int) -> Placement:
    """Layers on some of three sets of servers, or on all, so that several share one."""
    random = np.random.default_rng(seed)
    choices = [tuple(range(servers)), *(some_holders(random, servers) for _ in range(3))]
    placement = {layer.name: choices[random.integers(len(choices))] for layer in workload.layers}
    return Placement(f"some {seed}", servers, placement, **buckets)


def arrays(graph: LoweredGraph) -> list[Any]:
    """All fields, those of the alternatives one by one."""
    values = [getattr(graph, field.name) for field in fields(LoweredGraph) if field.name != "alternatives"]
    several = graph.alternatives
    return values + ([getattr(several, field.name) for field in fields(several)] if several is not None else [])


def agree(one: World, other: World) -> None:
    """Byte for byte."""
    assert (one.graph.alternatives is None) == (other.graph.alternatives is None)
    for array, expected in zip(arrays(one.graph), arrays(other.graph), strict=True):
        assert np.asarray(array).dtype == np.asarray(expected).dtype
        np.testing.assert_array_equal(array, expected)
    np.testing.assert_array_equal(one.capacity, other.capacity)
    np.testing.assert_array_equal(one.latency, other.latency)


@LAW
@given(data=st.data())
def test_what_was_placed_before_does_not_change_a_byte(
    data: st.DataObject,
    workloads: st.SearchStrategy[LayerGraph],
    fabrics: Callable[[int], st.SearchStrategy[Fabric]],
) -> None:
    servers = data.draw(st.integers(1, 6))
    workload, fabric = data.draw(workloads), data.draw(fabrics(6))
    algorithms = ["ring", "hierarchical", "halving_doubling", "double_binary_tree", "hierarchical_tree"]
    options: dict[str, Any] = {
        "all_reduce": data.draw(st.sampled_from(algorithms)),
        "routing": data.draw(st.sampled_from(["ecmp", "spray"])),
        "rings": data.draw(st.sampled_from(["steps", "flows"])),
        "seed": data.draw(st.integers(0, 9)),
    }
    buckets = {"bucket_bytes": data.draw(st.sampled_from([1, 10**7])), "first_bucket_bytes": 10**5}
    placer = Placer(fabric, Lowering(**options))
    for _ in range(3):
        traffic = lower(workload, some_strategy(workload, servers, data.draw(st.integers(0, 99)), **buckets))
        agree(placer.place(traffic, "one"), place(traffic, fabric, name="one", **options))


@pytest.mark.parametrize("fabric", ["topoopt", "fat_tree", "expander"])
@pytest.mark.parametrize(
    ("workload", "servers", "lowering"),
    [
        (["workload=dlrm", "workload.tables=16"], 16, Lowering("hierarchical", "ecmp", "flows", 3)),
        (["workload=bert", "workload.layers=2"], 8, Lowering("hierarchical", "spray", "flows", 3)),
        (["workload=candle"], 16, Lowering("ring", "ecmp", "flows", 3)),
        (["workload=ncf"], 4, Lowering("hierarchical", "ecmp", "steps", 3)),
        (["workload=vgg16"], 12, Lowering("ring", "spray", "steps", 3)),
    ],
    ids=lambda value: value[0].partition("=")[2] if isinstance(value, list) else "",
)
def test_worlds_whose_paths_are_numbered_otherwise_run_alike_to_the_last_bit(
    workload: list[str], servers: int, lowering: Lowering, fabric: str, job: Job
) -> None:
    keys = f"fabric={fabric}", f"servers={servers}", "degree=4" if servers > 4 else "degree=2"
    model, hybrid, network = job(*workload, *keys)
    placer = Placer(network, lowering)
    for strategy in (hybrid, some_strategy(model, servers, seed=1)):
        world = placer.place(lower(model, strategy), "one")
        other = replace(world, graph=renumbered(world.graph, network))
        for merge in (0.0, 0.01):
            first, second = Fluid(merge).simulate([world, other], Run(threads=1))
            np.testing.assert_array_equal(first.start, second.start)
            np.testing.assert_array_equal(first.finish, second.finish)
            assert first.makespan > 0


def renumbered(graph: LoweredGraph, fabric: Fabric) -> LoweredGraph:
    """Its paths in another order."""
    paths = len(graph.path_offsets) - 1
    order = np.random.default_rng(0).permutation(paths).astype(np.int32)
    hops = len(graph.path_links)
    weights = np.ones(hops) if graph.path_weight is None else graph.path_weight
    table = PathTable(graph.path_offsets, graph.path_links, weights, np.full(paths, np.inf), np.zeros(paths))
    taken = table.taken(order)
    number = np.append(np.argsort(order), NO_PATH).astype(np.int32)
    return replace(
        graph,
        path=number[graph.path],
        path_offsets=taken.offsets,
        path_links=taken.links,
        path_weight=taken.path_weight,
        path_limit=None,
    )


def test_paths_are_numbered_as_tasks_take_them(job: Job) -> None:
    model, hybrid, network = job("workload=dlrm", "workload.tables=20", "servers=16", "fabric=fat_tree")
    path = place(lower(model, hybrid), network, name="one").graph.path
    _, first = np.unique(path[path != NO_PATH], return_index=True)
    assert np.all(np.diff(first) > 0)


def test_a_job_of_more_servers_than_the_fabric_is_refused_in_one_line(
    make_workload: Callable[..., LayerGraph], make_switch: Callable[..., Fabric]
) -> None:
    workload = make_workload(Layer("A", "dense", 1, 1.0, 1, 1))
    placer = Placer(make_switch(4), Lowering())
    with pytest.raises(ValueError, match=r"servers: must be at most the 4 of ideal_switch, got 9$"):
        placer.place(lower(workload, Placement("s", 9, {"A": (0,)})), "one")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"all_reduce": "guess"}, r"^all_reduce: all_reduce must run one of ring, "),
        ({"routing": "guess"}, r"^routing: must be one of .*ecmp, .*got .guess.$"),
        ({"rings": "guess"}, r"^rings: must be one of steps, flows"),
    ],
)
def test_what_there_is_not_is_refused_in_one_line(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Lowering(**change)


def test_collectives_that_differ_in_their_servers_only_share_a_block(make_switch: Callable[..., Fabric]) -> None:
    pairs = [Operation("all_reduce", (server, server + 4)) for server in range(4)]
    blocks = BlockBuilder(make_switch(8), "ring", "steps")
    assert len({id(blocks.of(pair.task(8.0), "pair")) for pair in pairs}) == 1
    assert blocks.of(Operation("all_reduce", (0, 1, 2)).task(8.0), "three") is not blocks.of(pairs[0].task(8.0), "pair")


def test_a_world_is_the_same_however_many_entries_are_made_at_once(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    model, hybrid, network = job("workload=dlrm", "workload.tables=20", "servers=16", "fabric=fat_tree")
    traffic = lower(model, hybrid)
    at_once = place(traffic, network, name="one")
    monkeypatch.setattr(assembly, "MAX_ENTRIES", 1)
    agree(place(traffic, network, name="one"), at_once)
