"""The estimate that sees contention is that of its twin in plain Python."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import some
from tests.twins.contention import makespan
from topoflow.collectives.algorithm import names
from topoflow.engine.fluid import Fluid
from topoflow.engine.lowering.placement import place
from topoflow.engine.screen.alone import MERGE
from topoflow.engine.screen.contention import Contention
from topoflow.fabric.base import Fabric
from topoflow.strategy.base import Strategy
from topoflow.strategy.placement import Placement
from topoflow.traffic.lower import lower
from topoflow.workload.base import Layer, LayerGraph

Choices = list[tuple[int, ...]]
Draw = Callable[..., Choices]
Job = Callable[..., tuple[LayerGraph, Strategy, Fabric]]
Of = Callable[..., Strategy]


@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_it_is_that_of_the_twin_for_any_layers_any_holders_and_any_fabric(
    data: st.DataObject, placed: st.SearchStrategy[Any], strategy_of: Of
) -> None:
    workload, fabric, choices, rows, buckets = data.draw(placed)
    options: dict[str, Any] = {
        "routing": data.draw(st.sampled_from(["ecmp", "spray"])),
        "seed": data.draw(st.integers(0, 9)),
        "all_reduce": data.draw(st.sampled_from(["hierarchical", "hierarchical_tree", "halving_doubling"])),
    }
    strategies = [strategy_of(workload, fabric.servers, choices, row, **buckets) for row in rows]
    expected = [makespan(workload, fabric, strategy, **options) for strategy in strategies]
    estimates = Contention(workload, fabric, choices, **options, **buckets).makespans(rows)
    np.testing.assert_allclose(estimates, expected, rtol=1e-12)


FABRICS = ("topoopt", "fat_tree", "ideal_switch", "torus")
PAPER = (*product(("dlrm", "bert", "candle", "ncf", "moe"), FABRICS, ("ecmp", "spray")),)


@pytest.mark.slow
@pytest.mark.parametrize(("workload", "fabric", "routing"), some(PAPER, 13))  # all workloads, fabrics and routings
def test_it_is_that_of_the_twin_for_the_jobs_of_the_paper(
    workload: str, fabric: str, routing: str, job: Job, some_choices: Draw, strategy_of: Of
) -> None:
    model, hybrid, network = job(f"workload={workload}", f"fabric={fabric}", "servers=12", "degree=4")
    choices = sorted({*some_choices(12, 12, seed=0), *hybrid.placement.values()})
    row = np.random.default_rng(0).integers(0, len(choices), len(model.layers))
    rows = [[choices.index(holders) for holders in hybrid.placement.values()], row]
    strategies = [strategy_of(model, 12, choices, row) for row in rows]
    expected = [makespan(model, network, strategy, routing=routing, seed=3) for strategy in strategies]
    estimates = Contention(model, network, choices, routing=routing, seed=3).makespans(rows)
    np.testing.assert_allclose(estimates, expected, rtol=1e-12)


def test_two_layers_by_hand(make_workload: Callable[..., LayerGraph], make_switch: Callable[..., Fabric]) -> None:
    # The example of csrc/screen/contention.h. Layers without parameters move 1e12 B/s of memory: 2.5e11 elements of 4 B
    # are 1 s per sample; backward takes twice as long. 25 elements of 4 B are 100 B, 1 s at 100 B/s.
    #   forward   A@0 0-3 (three samples), 0>1 and 0>2 3-5 (200 B on the link of 0), B@0 3-4, B@1 and B@2 5-6
    #   backward  B@0 4-6, B@1 and B@2 6-8, 1>0 and 2>0 8-10, A@0 10-16
    second = int(2.5e11)
    model = make_workload(Layer("A", "dense", 0, 0.0, 25, second), Layer("B", "dense", 0, 0.0, 0, second, ("A",)))
    contention = Contention(model, make_switch(3, 100.0), [(0,), (0, 1, 2)])
    assert contention.makespans([[0, 1]])[0] == pytest.approx(16, rel=1e-12)


def test_an_all_reduce_alone_takes_what_fluid_says(
    make_workload: Callable[..., LayerGraph], make_switch: Callable[..., Fabric], strategy_of: Of
) -> None:
    """One layer on all servers: its all-reduce meets nothing, whatever the algorithm."""
    model, fabric = make_workload(Layer("A", "dense", 5 * 10**7, 0.0, 1, 1), gpus=2), make_switch(6)
    choices, traffic = [tuple(range(6))], lower(model, strategy_of(model, 6, [tuple(range(6))], [0]))
    for algorithm in names("all_reduce"):
        world = place(traffic, fabric, name="world", all_reduce=algorithm, rings="flows")
        estimates = Contention(model, fabric, choices, all_reduce=algorithm).makespans([[0]])
        exact = Fluid().simulate([world])[0].makespan
        assert estimates[0] == pytest.approx(exact, rel=MERGE), algorithm  # ends that ``alone`` takes as one


@pytest.mark.parametrize(("parameters", "outputs"), [(0, 10**15), (10**18, 10**18)])
def test_loads_of_huge_layers_on_slow_links_do_not_overflow(
    parameters: int, outputs: int, make_workload: Callable[..., LayerGraph], make_switch: Callable[..., Fabric]
) -> None:
    """Petabytes over links of 1 B/s."""
    size: dict[str, Any] = {"parameters": parameters, "forward_flops": 0.0, "memory_elements": 0}
    first = Layer("A", "dense", output_elements=outputs, **size)
    model = make_workload(first, Layer("B", "dense", output_elements=0, after=("A",), **size))
    fabric, choices, rows = make_switch(8, 1.0), [(0,), tuple(range(8))], [[0, 1], [1, 0], [1, 1]]
    strategies = [Placement("some", 8, {"A": choices[one], "B": choices[other]}) for one, other in rows]
    expected = [makespan(model, fabric, strategy) for strategy in strategies]
    np.testing.assert_allclose(Contention(model, fabric, choices).makespans(rows), expected, rtol=1e-9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"choices": []}, r"^choices: must be at least one, got none$"),
        ({"choices": [(1, 0)]}, r"^strategy\.placement\.choice 0: must be ascending servers, got \[1, 0\]$"),
        ({"choices": [(0,), (0,)]}, r"^choices: must be 2 different sets, got 1$"),
        ({"choices": [(0, 4)]}, r"^strategy\.placement\.choice 0: must be within 0\.\.3, got \[0, 4\]$"),
        ({"all_reduce": "direct"}, r"^all_reduce: must be one of .*ring, .*got 'direct'$"),
        ({"routing": "guess"}, r"^routing: must be one of .*ecmp, .*got 'guess'$"),
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
        Contention(model, make_switch(4), **arguments)
