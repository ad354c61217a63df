"""The world of a placement strategy is that of the tasks it is lowered to, whatever worlds were made before.

The oracle is the long way: ``lower`` and ``place``, which have tests of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topoflow.engine import fluid
from topoflow.engine.base import World
from topoflow.engine.lowering.placement import place
from topoflow.engine.lowering.strategy_tasks import StrategyTasks
from topoflow.engine.lowering.strategy_world import StrategyWorlds
from topoflow.fabric.base import Fabric
from topoflow.strategy.base import Strategy
from topoflow.strategy.grid import Grid
from topoflow.traffic.lower import lower
from topoflow.workload.base import Layer, Workload

Job = Callable[..., tuple[Workload, Strategy, Fabric]]

LAW = settings(max_examples=60)
GRID = Grid(1, 1, 1, 4, 1, 1, 2, (("A",),))


def some_holders(random: np.random.Generator, servers: int) -> tuple[int, ...]:
    size = int(random.integers(1, servers + 1))
    return tuple(sorted(random.choice(servers, size, replace=False).tolist()))


def some_strategy(workload: Workload, servers: int, seed: int, **buckets: int) -> Strategy:
    """Layers on some of three sets of servers, or on all, so that several share one."""
    random = np.random.default_rng(seed)
    choices = [tuple(range(servers)), *(some_holders(random, servers) for _ in range(3))]
    placement = {layer.name: choices[random.integers(len(choices))] for layer in workload.layers}
    return Strategy(f"some {seed}", servers, placement, **buckets)


def hops(world: World) -> list[Any]:
    """What each task crosses: links, shares and limit; None: no network."""
    graph, found = world.graph, []
    for path in graph.path.tolist():
        own = slice(graph.path_offsets[path], graph.path_offsets[path + 1])
        weight = None if graph.path_weight is None else graph.path_weight[own].tolist()
        limit = None if graph.path_limit is None else graph.path_limit[path]
        found.append(None if path < 0 else (graph.path_links[own].tolist(), weight, limit))
    return found


def agree(one: World, other: World) -> None:
    """Byte for byte, but for the numbers of paths."""
    for array in ("delay", "bytes", "release", "after_offsets", "after", "owner"):
        assert getattr(one.graph, array).dtype == getattr(other.graph, array).dtype
        np.testing.assert_array_equal(getattr(one.graph, array), getattr(other.graph, array), err_msg=array)
    assert (one.graph.owners, one.graph.links) == (other.graph.owners, other.graph.links)
    assert hops(one) == hops(other)
    np.testing.assert_array_equal(one.capacity, other.capacity)
    np.testing.assert_array_equal(one.latency, other.latency)


def run_alike(one: World, other: World, merge: float = 0.0) -> None:
    """To the last bit, each traffic task."""
    first, second = fluid.simulate([one, other], merge=merge, threads=1)
    np.testing.assert_array_equal(first.task_start, second.task_start)
    np.testing.assert_array_equal(first.task_finish, second.task_finish)
    assert first.makespan == second.makespan > 0


def the_long_way(workload: Workload, strategy: Strategy, fabric: Fabric, **how: Any) -> World:
    return place(lower(workload, strategy), fabric, name=strategy.name, rings="flows", **how)


@LAW
@given(data=st.data())
def test_it_is_the_world_of_the_tasks_for_any_layers_any_holders_and_any_fabric(
    data: st.DataObject,
    workloads: st.SearchStrategy[Workload],
    fabrics: Callable[[int], st.SearchStrategy[Fabric]],
) -> None:
    servers = data.draw(st.integers(1, 6))
    workload, fabric = data.draw(workloads), data.draw(fabrics(6))
    algorithms = ["ring", "hierarchical", "halving_doubling", "double_binary_tree", "hierarchical_tree"]
    how: dict[str, Any] = {
        "all_reduce": data.draw(st.sampled_from(algorithms)),
        "routing": data.draw(st.sampled_from(["ecmp", "spray"])),
        "seed": data.draw(st.integers(0, 9)),
    }
    buckets = {"bucket_bytes": data.draw(st.sampled_from([1, 10**7])), "first_bucket_bytes": 10**5}
    worlds = StrategyWorlds(workload, fabric, **how)
    for _ in range(2):
        strategy = some_strategy(workload, servers, data.draw(st.integers(0, 99)), **buckets)
        agree(worlds.world(strategy), the_long_way(workload, strategy, fabric, **how))


@pytest.mark.parametrize("fabric", ["topoopt", "fat_tree", "expander"])
@pytest.mark.parametrize(
    ("workload", "servers", "all_reduce", "routing"),
    [
        (["workload=dlrm", "workload.tables=16"], 16, "hierarchical", "ecmp"),
        (["workload=bert", "workload.layers=2"], 8, "hierarchical", "spray"),
        (["workload=candle"], 16, "ring", "ecmp"),
        (["workload=ncf"], 4, "hierarchical", "ecmp"),
        (["workload=vgg16"], 12, "ring", "spray"),
    ],
    ids=lambda value: value[0].partition("=")[2] if isinstance(value, list) else str(value),
)
def test_it_runs_as_the_tasks_of_the_jobs_of_the_paper_do(
    workload: list[str], servers: int, all_reduce: str, routing: str, fabric: str, job: Job
) -> None:
    model, hybrid, network = job(
        *workload, f"fabric={fabric}", f"servers={servers}", "degree=4" if servers > 4 else "degree=2"
    )
    how: dict[str, Any] = {"all_reduce": all_reduce, "routing": routing, "seed": 3}
    worlds = StrategyWorlds(model, network, **how)
    for strategy in (hybrid, some_strategy(model, servers, seed=1)):
        found, expected = worlds.world(strategy), the_long_way(model, strategy, network, **how)
        agree(found, expected)
        run_alike(found, expected)
        run_alike(found, expected, merge=0.01)


@LAW
@given(data=st.data())
def test_its_demand_is_that_of_the_tasks(data: st.DataObject, workloads: st.SearchStrategy[Workload]) -> None:
    servers = data.draw(st.integers(1, 6))
    workload = data.draw(workloads)
    strategy = some_strategy(workload, servers, data.draw(st.integers(0, 99)), bucket_bytes=10**7)
    found = StrategyTasks(workload, servers).of(strategy).demand(servers)
    expected = lower(workload, strategy).demand()
    np.testing.assert_array_equal(found.matrix(), expected.matrix())
    assert list(found.all_reduce.items()) == list(expected.all_reduce.items())


def test_worlds_that_were_made_before_do_not_change_a_byte(job: Job) -> None:
    model, hybrid, network = job("workload=dlrm", "workload.tables=20", "servers=16", "fabric=fat_tree")
    worlds = StrategyWorlds(model, network)
    for seed in range(4):
        worlds.world(some_strategy(model, 16, seed))
    found, fresh = worlds.world(hybrid).graph, StrategyWorlds(model, network).world(hybrid).graph
    for array in ("path", "path_offsets", "path_links", "after", "bytes", "delay"):
        assert getattr(found, array).tobytes() == getattr(fresh, array).tobytes()


@pytest.fixture(scope="module")
def worlds(make_workload: Callable[..., Workload], make_switch: Callable[..., Fabric]) -> StrategyWorlds:
    """Of one layer, A, on a switch of 4 servers."""
    return StrategyWorlds(make_workload(Layer("A", "dense", 1, 1.0, 1, 1)), make_switch(4))


def test_a_world_has_the_name_of_its_strategy_or_its_own(worlds: StrategyWorlds) -> None:
    strategy = Strategy("all", 4, {"A": (0, 1, 2, 3)})
    assert (worlds.world(strategy).name, worlds.world(strategy, name="mine").name) == ("all", "mine")


@pytest.mark.parametrize(
    ("strategy", "message"),
    [
        (Strategy("s", 2, {}), r"^strategy\.placement: must place every layer of some, got no 'A'$"),
        (Strategy("s", 9, {"A": (0,)}), r"^s\.servers: must be at most the 4 of ideal_switch, got 9$"),
        (
            Strategy("s", 2, {"A": (0,)}, grid=GRID),
            r"^s\.grid: must be none for a placement of layers, got one$",
        ),
    ],
)
def test_strategies_that_are_no_placement_are_refused_in_one_line(
    strategy: Strategy, message: str, worlds: StrategyWorlds
) -> None:
    with pytest.raises(ValueError, match=message):
        worlds.world(strategy)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"all_reduce": "guess"}, r"^all_reduce: all_reduce must run one of ring, "),
        ({"routing": "guess"}, r"^routing: must be one of ecmp, spray"),
    ],
)
def test_what_there_is_not_is_refused_in_one_line(
    change: dict[str, Any], message: str, make_workload: Callable[..., Workload], make_switch: Callable[..., Fabric]
) -> None:
    with pytest.raises(ValueError, match=message):
        StrategyWorlds(make_workload(Layer("A", "dense", 1, 1.0, 1, 1)), make_switch(4), **change)
