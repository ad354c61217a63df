"""The world of a placement strategy is that of the tasks it is lowered to, whatever worlds were made before.

The oracle is the long way: ``lower`` and ``place``, which have tests of their own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from topoflow.cli.compare import check
from topoflow.cli.grid import build, grid
from topoflow.engine import fluid
from topoflow.engine.base import World
from topoflow.engine.placement import place
from topoflow.engine.strategy_tasks import StrategyTasks
from topoflow.engine.strategy_world import StrategyWorlds
from topoflow.fabric.base import Demand, Fabric
from topoflow.fabric.expander import Expander
from topoflow.fabric.fat_tree import FatTree
from topoflow.fabric.ideal_switch import IdealSwitch
from topoflow.fabric.ring import Ring
from topoflow.strategy.base import Strategy
from topoflow.strategy.grid import Grid
from topoflow.traffic.lower import lower
from topoflow.workload.base import Layer, Workload
from topoflow.workload.gpu import Gpu

GPU = Gpu("some", {"float32": 1e12}, 1e12, 300e9, 40e9)
LAW = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
GRID = Grid(1, 1, 1, 4, 1, 1, 2, (("A",),))
NOTHING = Demand(np.zeros((1, 1)), {})


@st.composite
def layers(draw: st.DrawFn, most: int = 8) -> tuple[Layer, ...]:
    """Up to ``most`` layers, each reading any earlier ones."""
    drawn: list[Layer] = []
    for index in range(draw(st.integers(1, most))):
        earlier = [layer.name for layer in drawn]
        after = draw(st.lists(st.sampled_from(earlier), max_size=3)) if earlier else []
        kind = draw(st.sampled_from(["dense", "table"]))
        size = draw(st.sampled_from([0, 10**4, 10**6, 10**7]))
        outputs = draw(st.integers(0, 1000))
        flops = draw(st.floats(0, 1e9))
        drawn.append(Layer(f"L{index}", kind, size, flops, outputs, 2 * outputs, tuple(after), sparse=kind == "table"))
    return tuple(drawn)


def fabrics(servers: int, latency: float) -> list[Fabric]:
    interface = {"bandwidth": 1e9, "degree": 2, "latency": latency}
    designs: list[Any] = [IdealSwitch(**interface), FatTree(**interface)]
    if servers > 2:
        designs += [Expander(**interface, seed=1), Ring(**interface)]
    return [design.build(servers, NOTHING) for design in designs]


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


def job(*keys: str) -> tuple[Workload, Strategy, Fabric]:
    """A job, its hybrid strategy and the network that is built for it, from the configs."""
    (point,) = grid(["strategy=hybrid", *keys], check, lambda done, total: None)
    workload = build(point, "workload").build()
    strategy = build(point, "strategy").place(workload, point.config["servers"])
    demand = Demand(*lower(workload, strategy).demand())
    return workload, strategy, build(point, "fabric").build(strategy.servers, demand)


@LAW
@given(data=st.data())
def test_it_is_the_world_of_the_tasks_for_any_layers_any_holders_and_any_fabric(data: st.DataObject) -> None:
    servers = data.draw(st.integers(1, 6))
    workload = Workload("some", data.draw(layers()), data.draw(st.integers(1, 64)), GPU, data.draw(st.integers(1, 3)))
    fabric = data.draw(st.sampled_from(fabrics(6, data.draw(st.sampled_from([0.0, 1e-6, 1e-3])))))
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
    workload: list[str], servers: int, all_reduce: str, routing: str, fabric: str
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
def test_its_demand_is_that_of_the_tasks(data: st.DataObject) -> None:
    servers = data.draw(st.integers(1, 6))
    workload = Workload("some", data.draw(layers()), data.draw(st.integers(1, 64)), GPU, data.draw(st.integers(1, 3)))
    strategy = some_strategy(workload, servers, data.draw(st.integers(0, 99)), bucket_bytes=10**7)
    found, groups = StrategyTasks(workload, servers).of(strategy).demand(servers)
    expected, reduced = lower(workload, strategy).demand()
    np.testing.assert_array_equal(found, expected)
    assert list(groups.items()) == list(reduced.items())


def test_worlds_that_were_made_before_do_not_change_a_byte() -> None:
    model, hybrid, network = job("workload=dlrm", "workload.tables=20", "servers=16", "fabric=fat_tree")
    worlds = StrategyWorlds(model, network)
    for seed in range(4):
        worlds.world(some_strategy(model, 16, seed))
    found, fresh = worlds.world(hybrid).graph, StrategyWorlds(model, network).world(hybrid).graph
    for array in ("path", "path_offsets", "path_links", "after", "bytes", "delay"):
        assert getattr(found, array).tobytes() == getattr(fresh, array).tobytes()


def test_a_world_has_the_name_of_its_strategy_or_its_own() -> None:
    model = Workload("one", (Layer("A", "dense", 1, 1.0, 1, 1),), 1, GPU)
    worlds = StrategyWorlds(model, IdealSwitch(bandwidth=1e9, degree=1, latency=0.0).build(4, NOTHING))
    strategy = Strategy("all", 4, {"A": (0, 1, 2, 3)})
    assert (worlds.world(strategy).name, worlds.world(strategy, name="mine").name) == ("all", "mine")


@pytest.mark.parametrize(
    ("strategy", "message"),
    [
        (Strategy("s", 2, {}), r"^strategy\.placement: must place every layer of one, got no 'A'$"),
        (Strategy("s", 9, {"A": (0,)}), r"^s\.servers: must be at most the 4 of ideal_switch, got 9$"),
        (
            Strategy("s", 2, {"A": (0,)}, grid=GRID),
            r"^s\.grid: must be none for a placement of layers, got one$",
        ),
    ],
)
def test_strategies_that_are_no_placement_are_refused_in_one_line(strategy: Strategy, message: str) -> None:
    model = Workload("one", (Layer("A", "dense", 1, 1.0, 1, 1),), 1, GPU)
    worlds = StrategyWorlds(model, IdealSwitch(bandwidth=1e9, degree=1, latency=0.0).build(4, NOTHING))
    with pytest.raises(ValueError, match=message):
        worlds.world(strategy)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"all_reduce": "guess"}, r"^all_reduce: all_reduce must run one of ring, "),
        ({"routing": "guess"}, r"^routing: must be one of ecmp, spray"),
    ],
)
def test_what_there_is_not_is_refused_in_one_line(change: dict[str, Any], message: str) -> None:
    model = Workload("one", (Layer("A", "dense", 1, 1.0, 1, 1),), 1, GPU)
    with pytest.raises(ValueError, match=message):
        StrategyWorlds(model, IdealSwitch(bandwidth=1e9, degree=1, latency=0.0).build(4, NOTHING), **change)
