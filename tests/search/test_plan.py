"""A plan is whole: its circuits fit the switches, its rings and routes use them, and it reads back as written."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topoflow.search.alternate import search
from topoflow.search.base import Plan
from topoflow.search.circuits import cross_connects
from topoflow.search.problem import Problem, SearchSettings

Make = Callable[..., Problem]
GRID = {
    "kind": "topoflow.strategy.grid.ParallelGrid",
    **dict.fromkeys(("tensor", "context", "expert", "data", "gpus_per_server"), 1),
    **dict.fromkeys(("pipeline", "microbatches"), 2),
    "stages": [["first"], ["last"]],
}
QUICK = SearchSettings(proposals=32, chains=4, rounds=1, decide=2)


@st.composite
def multigraphs(draw: st.DrawFn) -> tuple[int, int, list[tuple[int, int]]]:
    """Servers, degree, and circuits that no server has more than ``degree`` of, each way."""
    servers, degree = draw(st.integers(2, 12)), draw(st.integers(1, 5))
    free_out, free_in, circuits = Counter(dict.fromkeys(range(servers), degree)), Counter(), []
    for source, target in draw(st.lists(st.tuples(*[st.integers(0, servers - 1)] * 2), max_size=servers * degree)):
        if source != target and free_out[source] > 0 and free_in[target] < degree:
            free_out[source] -= 1
            free_in[target] += 1
            circuits.append((source, target))
    return servers, degree, circuits


@given(multigraphs())
def test_switches_hold_every_circuit_once_and_no_port_twice(graph: tuple[int, int, list[tuple[int, int]]]) -> None:
    servers, degree, circuits = graph
    switches = cross_connects(servers, degree, circuits)
    assert len(switches) == degree
    joined = [(source, target) for switch in switches for source, target in enumerate(switch) if target is not None]
    assert Counter(joined) == Counter(circuits)
    for switch in switches:
        receives = [target for target in switch if target is not None]
        assert len(set(receives)) == len(receives)


def test_more_circuits_than_ports_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^circuits: a server has 1 receive ports, got 2 circuits at 2$"):
        cross_connects(3, 1, [(0, 2), (1, 2)])


@pytest.mark.parametrize("fabric", ["topoopt", "ring", "torus", "expander", "fat_tree", "ideal_switch"])
def test_a_plan_reads_back_as_it_was_written(problem: Make, fabric: str) -> None:
    plan = search(problem("servers=4", "degree=2", f"fabric={fabric}"), QUICK).plan
    assert Plan.from_json(plan.to_json()) == plan
    assert plan.chosen().servers == 4
    assert plan.bound <= plan.iteration_time * (1 + 1e-9)
    assert bool(plan.circuits) == bool(plan.routes) == (fabric not in ("fat_tree", "ideal_switch"))


@pytest.mark.parametrize("fabric", ["topoopt", "fat_tree"])
@pytest.mark.parametrize(("algorithm", "field"), [("hierarchical", "rings"), ("hierarchical_tree", "trees")])
def test_a_plan_orders_every_group_that_all_reduces(problem: Make, fabric: str, algorithm: str, field: str) -> None:
    result = search(problem("servers=4", f"fabric={fabric}", all_reduce=algorithm), QUICK)
    for kind in ("rings", "trees"):
        ordered = [order.group for order in getattr(result.plan, kind)]
        assert ordered == (list(result.traffic.demand().all_reduce) if kind == field else [])


def test_circuits_of_a_plan_are_the_links_of_its_fabric(problem: Make) -> None:
    result = search(problem("servers=8"), QUICK)
    fabric, plan = result.fabric, result.plan
    joined = Counter((i, j) for switch in plan.circuits for i, j in enumerate(switch) if j is not None)
    links = zip(fabric.source.tolist(), fabric.target.tolist(), fabric.bandwidth.tolist(), strict=True)
    assert joined == {(i, j): round(bandwidth / plan.bandwidth) for i, j, bandwidth in links}
    for ring in plan.rings:
        for stride, order in zip(ring.strides, ring.orders, strict=True):
            assert stride is not None
            for i, j in zip(order, (*order[1:], order[0]), strict=True):
                assert joined[i, j] > 0
                assert (ring.group.index(j) - ring.group.index(i)) % len(ring.group) == stride
    for kind in ("all_reduce", "mp"):
        for i in range(8):
            for j in range(8):
                ways = plan.routes[kind][i][j]
                assert bool(ways) == (i != j)
                assert all((way[0], way[-1]) == (i, j) for way in ways)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "other"}, "plan.json.format: must be 'topoflow plan 2'"),
        ({"cost": None, "extra": 1}, "plan.json: extra: no such field"),
        ({"servers": 0}, "plan.json: plan.servers: must be positive, got 0"),
        (
            {"circuits": [[1, 1, 3, 2]] * 4},
            r"plan.circuits\[0\]: must join every receive port once, got \[1, 1, 3, 2\]",
        ),
        ({"circuits": [[1, 0, 3, 2]]}, "plan.circuits: must be 4 switches or none, got 1"),
        ({"circuits": [[1, 0, 3, 9]] * 4}, r"plan.circuits\[0\]: must be servers within 0..3, got 9"),
        ({"circuits": [[1, 0, None, None]] * 4}, "must use circuits that exist, got"),
        (
            {"routes": {"mp": [[[]] * 3] * 4}},
            "plan.routes.mp: must have a row and a column for each of 4 servers, got 3",
        ),
        ({"routes": {"mp": [[[[1, 0]]] + [[]] * 3] * 4}}, r"plan.routes.mp\[0\]\[0\]: must lead from one to the other"),
        (
            {"routes": {"mp": [[[]] * 4] * 4}},
            "plan.routes: must be all_reduce and mp with circuits, and none without, got mp",
        ),
        ({"bandwidth": 10**400}, "plan.bandwidth: must be positive, got 1000"),
        ({"routes": {"mp": [[[5]]]}}, r"plan.routes.mp\[0\]\[0\]\[0\]: must be a list, got 5"),
        ({"routes": {"mp": [[[[{}]]] * 4] * 4}}, r"plan.routes.mp\[0\]\[0\]: must be servers within 0..3, got {}"),
        ({"circuits": [5]}, r"plan.circuits\[0\]: must be a list, got 5"),
        ({"circuits": [[{}, 0, 3, 2]] * 4}, r"plan.circuits\[0\]: must be servers within 0..3, got {}"),
        ({"strategy": {}}, "plan.strategy: must have"),
        (
            {"strategy": {"kind": "topoflow.strategy.grid.ParallelGrid", "tensors": 2}},
            "plan.strategy: must have the fields and types that it was written with, got .*'tensors'",
        ),
        (
            {"strategy": {**GRID, "schedule": ["1f1b"]}},
            "plan.strategy: must have the fields and types that it was written with, got .*'endswith'",
        ),
        ({"seed": 0.5}, "plan.seed: must be a whole number, got 0.5"),
        ({"cost": -1}, "plan.cost: must not be negative, got -1"),
        ({"servers": 8}, "plan.strategy.servers: must be 8, got 4"),
        ({"circuits": 5}, "plan.circuits: must be a list, got 5"),
        (
            {"rings": [{"group": [0, 1, 2], "strides": [2], "orders": [[0, 1, 2]]}]},
            r"plan.rings\[0\].strides: must be those of its orders, \[1\], got \[2\]",
        ),
        ({"iteration_time": "soon"}, "plan.iteration_time: must be a number, got 'soon'"),
        ({"rings": [{"group": [0, 1], "strides": [1], "orders": [[0, 2]]}]}, "must be orders of the group"),
        ({"rings": [5]}, r"plan.rings\[0\]: must have the fields group, strides, orders, got 5"),
        (
            {"rings": [{"group": [0, 1], "strides": [1], "orders": [5]}]},
            r"plan.rings\[0\].orders: must be a list of lists, got \[5\]",
        ),
        (
            {"rings": [{"group": [0, 1], "strides": [1], "orders": [[0, "1"]]}]},
            r"plan.rings\[0\].orders: must be servers within 0..3, got '1'",
        ),
        ({"trees": [{"group": 5, "orders": []}]}, r"plan.trees\[0\].group: must be a list, got 5"),
    ],
)
def test_a_wrong_plan_is_one_line(problem: Make, change: dict[str, Any], message: str) -> None:
    plain = json.loads(search(problem("servers=4"), replace(QUICK, proposals=0)).plan.to_json())
    with pytest.raises(ValueError, match=message) as error:
        Plan.from_json(json.dumps({**plain, **change}), "plan.json")
    assert "\n" not in str(error.value)


def test_a_cut_off_plan_names_its_line(problem: Make) -> None:
    text = search(problem("servers=4"), replace(QUICK, proposals=0)).plan.to_json()
    with pytest.raises(ValueError, match=r"^plan.json: must be JSON"):
        Plan.from_json(text[: len(text) // 2])


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "9" * 5000, '{"cost": NaN}', "5", "null"])
def test_what_is_no_plan_is_one_line(text: str) -> None:
    with pytest.raises(ValueError, match=r"^plan.json") as error:
        Plan.from_json(text)
    assert "\n" not in str(error.value)
