"""The bound of a placement strategy is the bound of the tasks it is lowered to.

The oracle is the long way: ``lower``, ``place`` and ``bound``, which have tests of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topoflow.demand import Demand
from topoflow.engine.bound import Bound
from topoflow.engine.lowering.placement import place
from topoflow.engine.screen.contention import Contention
from topoflow.engine.screen.contention_reference import makespan
from topoflow.engine.screen.strategy_bound import StrategyBound
from topoflow.fabric.base import Fabric
from topoflow.fabric.expander import Expander
from topoflow.strategy.base import Strategy
from topoflow.strategy.placement import Placement
from topoflow.traffic.base import Traffic
from topoflow.traffic.lower import lower
from topoflow.workload.base import Layer, LayerGraph

ROWS = [[0, 1], [1, 0], [1, 1]]
Choices = list[tuple[int, ...]]
Draw = Callable[..., Choices]
Job = Callable[..., tuple[LayerGraph, Strategy, Fabric]]
Of = Callable[..., Strategy]


def by_tasks(traffic: Traffic, fabric: Fabric, **how: Any) -> float:
    """The long way."""
    return Bound().simulate([place(traffic, fabric, name="some", rings="flows", **how)])[0].makespan


def test_a_transfer_without_bytes_does_not_make_a_link_busy_earlier(
    make_workload: Callable[..., LayerGraph], some_choices: Draw, strategy_of: Of
) -> None:
    """What L3 reads of L0 has no bytes: only the all-reduce of L0 is on the links."""
    empty = [Layer(f"L{i}", "dense", 10_000 * (i == 0), 0.0, 0, 0, ("L0",) if i == 3 else ()) for i in range(5)]
    workload = make_workload(*empty)
    fabric = Expander(bandwidth=1e9, degree=2, latency=0.0, seed=1).build(5, Demand(5))
    choices = some_choices(5, 4, 41)
    rows = [[everyone, 0, 0, other, 0] for everyone in range(len(choices)) for other in range(len(choices))]
    expected = [by_tasks(lower(workload, strategy_of(workload, 5, choices, row)), fabric) for row in rows]
    np.testing.assert_allclose(StrategyBound(workload, fabric, choices, all_reduce="ring").makespans(rows), expected)


@settings(max_examples=40)
@given(data=st.data())
def test_it_is_the_bound_of_the_tasks_for_any_layers_any_holders_and_any_fabric(
    data: st.DataObject, placed: st.SearchStrategy[Any], strategy_of: Of
) -> None:
    workload, fabric, choices, rows, buckets = data.draw(placed)
    how: dict[str, Any] = {
        "all_reduce": data.draw(st.sampled_from(["ring", "hierarchical"])),
        "routing": data.draw(st.sampled_from(["ecmp", "spray"])),
        "seed": data.draw(st.integers(0, 9)),
    }
    expected = [
        by_tasks(lower(workload, strategy_of(workload, fabric.servers, choices, row, **buckets)), fabric, **how)
        for row in rows
    ]
    found = StrategyBound(workload, fabric, choices, **how, **buckets).makespans(rows)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize("fabric", ["topoopt", "fat_tree", "ideal_switch", "expander"])
@pytest.mark.parametrize(
    ("workload", "servers", "gbps", "all_reduce", "routing"),
    [
        (["workload=dlrm", "workload.tables=16"], 16, 100, "hierarchical", "ecmp"),
        (["workload=dlrm"], 8, 5, "ring", "spray"),
        (["workload=bert", "workload.layers=2"], 8, 25, "hierarchical", "spray"),
        (["workload=candle"], 16, 100, "ring", "ecmp"),
        (["workload=ncf"], 4, 1000, "hierarchical", "ecmp"),
        (["workload=vgg16"], 12, 100, "ring", "ecmp"),
    ],
    ids=lambda value: value[0].partition("=")[2] if isinstance(value, list) else str(value),
)
def test_it_is_the_bound_of_the_tasks_of_the_jobs_of_the_paper(
    workload: list[str],
    servers: int,
    gbps: int,
    all_reduce: str,
    routing: str,
    fabric: str,
    job: Job,
    some_choices: Draw,
    strategy_of: Of,
) -> None:
    keys = [f"fabric={fabric}", f"servers={servers}", f"bandwidth_gbps={gbps}", f"degree={4 if servers > 4 else 2}"]
    model, hybrid, network = job(*workload, *keys)
    choices = sorted({*some_choices(servers, 12, seed=servers), *hybrid.placement.values()})
    row = np.random.default_rng(0).integers(0, len(choices), len(model.layers))
    rows = [[choices.index(holders) for holders in hybrid.placement.values()], row]
    how: dict[str, Any] = {"all_reduce": all_reduce, "routing": routing, "seed": 3}
    strategies = [strategy_of(model, servers, choices, row) for row in rows]
    expected = [by_tasks(lower(model, strategy), network, **how) for strategy in strategies]
    np.testing.assert_allclose(StrategyBound(model, network, choices, **how).makespans(rows), expected, rtol=1e-9)


@pytest.mark.slow
def test_it_is_the_bound_of_the_tasks_where_servers_and_edges_are_more_than_a_word_has_bits(
    job: Job, some_choices: Draw, strategy_of: Of
) -> None:
    model, hybrid, network = job("workload=dlrm", "workload.tables=70", "servers=70", "fabric=topoopt", "degree=4")
    choices = sorted({*some_choices(70, 8, seed=0), *hybrid.placement.values()})
    rows = np.array([[choices.index(holders) for holders in hybrid.placement.values()]] * 2)
    rows[1, ::3] = np.random.default_rng(0).integers(0, len(choices), len(rows[1, ::3]))
    expected = [
        by_tasks(lower(model, strategy_of(model, 70, choices, row)), network, all_reduce="hierarchical") for row in rows
    ]
    np.testing.assert_allclose(StrategyBound(model, network, choices).makespans(rows), expected, rtol=1e-9)


def test_two_layers_by_hand(make_workload: Callable[..., LayerGraph], make_switch: Callable[..., Fabric]) -> None:
    # The example of csrc/screen/strategy_bound.h. Layers without parameters move 1e12 B/s of memory: 2.5e11 elements of
    # 4 B are 1 s per sample; backward takes twice as long. 25 elements of 4 B are 100 B, 1 s at 100 B/s.
    #   forward   A@0 0-2 (two samples), 0>1 2-3, B@0 2-3, B@1 3-4
    #   backward  B@0 3-5, B@1 4-6, 1>0 6-7, A@0 7-11
    second = int(2.5e11)
    model = make_workload(Layer("A", "dense", 0, 0.0, 25, second), Layer("B", "dense", 0, 0.0, 0, second, ("A",)))
    whole = StrategyBound(model, make_switch(2, 100.0), [(0,), (0, 1)])
    assert whole.makespans([[0, 1]])[0] == pytest.approx(11, rel=1e-12)
    # A slower network, 10 s each way: 0>1 2-12, B@1 12-15, 1>0 15-25, A@0 25-29. Both held by both: 2 * (1 + 2) s.
    slow = StrategyBound(model, make_switch(2, 10.0), [(0,), (0, 1)])
    assert slow.makespans([[0, 1], [1, 1]]).tolist() == pytest.approx([29, 6])


@pytest.mark.parametrize(("parameters", "outputs"), [(0, 10**15), (10**18, 10**18)])
def test_loads_of_huge_layers_on_slow_links_do_not_overflow(
    parameters: int, outputs: int, make_workload: Callable[..., LayerGraph], make_switch: Callable[..., Fabric]
) -> None:
    """Petabytes over links of 1 B/s."""
    size: dict[str, Any] = {"parameters": parameters, "forward_flops": 0.0, "memory_elements": 0}
    first = Layer("A", "dense", output_elements=outputs, **size)
    model = make_workload(first, Layer("B", "dense", output_elements=0, after=("A",), **size))
    fabric, choices = make_switch(8, 1.0), [(0,), tuple(range(8))]
    strategies = [Placement("some", 8, {"A": choices[one], "B": choices[other]}) for one, other in ROWS]
    expected = [by_tasks(lower(model, strategy), fabric, all_reduce="hierarchical") for strategy in strategies]
    np.testing.assert_allclose(StrategyBound(model, fabric, choices).makespans(ROWS), expected, rtol=1e-9)
    expected = [makespan(model, fabric, strategy) for strategy in strategies]
    np.testing.assert_allclose(Contention(model, fabric, choices).makespans(ROWS), expected, rtol=1e-9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"choices": []}, r"^choices: must be at least one, got none$"),
        ({"choices": [(1, 0)]}, r"^strategy\.placement\.choice 0: must be ascending servers, got \[1, 0\]$"),
        ({"choices": [(0,), (0,)]}, r"^choices: must be 2 different sets, got 1$"),
        ({"choices": [(0, 4)]}, r"^strategy\.placement\.choice 0: must be within 0\.\.3, got \[0, 4\]$"),
        ({"all_reduce": "direct"}, r"^all_reduce: must be one of ring, hierarchical, got 'direct'$"),
        ({"routing": "guess"}, r"^routing: must be one of dmodk, ecmp, spray, got 'guess'$"),
        ({"bucket_bytes": 0}, r"^bucket_bytes: must be positive, got 0$"),
        ({"threads": 0}, r"^threads: must be None or within 1\.\.1024, got 0$"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    change: dict[str, Any],
    message: str,
    make_workload: Callable[..., LayerGraph],
    make_switch: Callable[..., Fabric],
) -> None:
    model = make_workload(Layer("A", "dense", 1, 1.0, 1, 1))
    arguments: dict[str, Any] = {"choices": [(0,), (0, 1, 2, 3)]} | change
    with pytest.raises(ValueError, match=message):
        StrategyBound(model, make_switch(4), **arguments)
