"""Layers that lie anywhere on small fabrics of all kinds, and the jobs of the paper on networks built for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import strategies as st

from topoflow.demand import Demand
from topoflow.fabric.base import Fabric
from topoflow.fabric.expander import Expander
from topoflow.fabric.fat_tree import FatTree
from topoflow.fabric.ideal_switch import IdealSwitch
from topoflow.fabric.ring import Ring
from topoflow.strategy.base import Strategy
from topoflow.strategy.placement import Placement
from topoflow.study.configure.build import build
from topoflow.study.configure.grid import grid
from topoflow.study.configure.keys import check
from topoflow.traffic.lower import lower
from topoflow.workload.base import Layer, LayerGraph
from topoflow.workload.gpu import Gpu

GPU = Gpu("some", {"float32": 1e12}, 1e12, 300e9, 40e9)
NOTHING = Demand(1)

Choices = list[tuple[int, ...]]


class Placed(NamedTuple):
    """Layers on sets of servers."""

    workload: LayerGraph
    fabric: Fabric
    choices: Choices
    rows: list[list[int]]  # placements: of every layer the number of its choice
    buckets: dict[str, int]


@st.composite
def layers(draw: st.DrawFn, most: int = 8) -> tuple[Layer, ...]:
    """Up to ``most`` layers, each reading any earlier ones."""
    chain: list[Layer] = []
    for index in range(draw(st.integers(1, most))):
        earlier = [layer.name for layer in chain]
        after = draw(st.lists(st.sampled_from(earlier), max_size=3)) if earlier else []
        kind = draw(st.sampled_from(["dense", "table"]))
        size = draw(st.sampled_from([0, 10**4, 10**6, 10**7]))
        outputs = draw(st.integers(0, 1000))
        flops = draw(st.floats(0, 1e9))
        chain.append(Layer(f"L{index}", kind, size, flops, outputs, 2 * outputs, tuple(after), sparse=kind == "table"))
    return tuple(chain)


@pytest.fixture(scope="session")
def make_workload() -> Callable[..., LayerGraph]:
    """``make_workload(*layers)``, by default of 1 sample on 1 GPU."""
    return lambda *layers, batch=1, gpus=1: LayerGraph("some", layers, batch, GPU, gpus)


@pytest.fixture(scope="session")
def workloads() -> st.SearchStrategy[LayerGraph]:
    """Any layers, on servers of 1 to 3 GPUs."""
    return st.builds(LayerGraph, st.just("some"), layers(), st.integers(1, 64), st.just(GPU), st.integers(1, 3))


@pytest.fixture(scope="session")
def fabrics() -> Callable[[int], st.SearchStrategy[Fabric]]:
    """``fabrics(servers)``: any of four kinds, fast or far."""

    def build(servers: int, latency: float) -> list[Fabric]:
        interface = {"bandwidth": 1e9, "degree": 2, "latency": latency}
        designs: list[Any] = [IdealSwitch(**interface), FatTree(**interface)]
        if servers > 2:
            designs += [Expander(**interface, seed=1), Ring(**interface)]
        return [design.build(servers, NOTHING) for design in designs]

    latency = st.sampled_from([0.0, 1e-6, 1e-3])
    return lambda servers: latency.flatmap(lambda seconds: st.sampled_from(build(servers, seconds)))


@pytest.fixture(scope="session")
def make_switch() -> Callable[..., Fabric]:
    """``make_switch(servers, bandwidth)``: one link each way, without latency."""
    return lambda servers, bandwidth=1e9: IdealSwitch(bandwidth, 1, 0.0).build(servers, NOTHING)


@pytest.fixture(scope="session")
def job() -> Callable[..., tuple[LayerGraph, Strategy, Fabric]]:
    """``job("workload=dlrm", "servers=16")``: a job, its hybrid strategy and the network that is built for it."""

    def make(*keys: str) -> tuple[LayerGraph, Strategy, Fabric]:
        (point,) = grid(["strategy=hybrid", *keys], check)
        workload = build(point, "workload").build()
        strategy = build(point, "strategy").place(workload, point.config["servers"])
        demand = lower(workload, strategy).demand()
        return workload, strategy, build(point, "fabric").build(strategy.servers, demand)

    return make


@pytest.fixture(scope="session")
def some_choices() -> Callable[..., Choices]:
    """``some_choices(servers, count, seed)``: all servers, each alone, and ``count`` sets of any size."""

    def draw(servers: int, count: int, seed: int) -> Choices:
        random = np.random.default_rng(seed)
        sizes = random.integers(1, servers + 1, count).tolist()
        sets = {tuple(sorted(random.choice(servers, size, replace=False).tolist())) for size in sizes}
        return sorted({tuple(range(servers)), *((server,) for server in range(servers)), *sets})

    return draw


@pytest.fixture(scope="session")
def strategy_of() -> Callable[..., Strategy]:
    """``strategy_of(workload, servers, choices, row)``: layer i on the servers ``choices[row[i]]``."""

    def make(workload: LayerGraph, servers: int, choices: Choices, row: Any, **buckets: int) -> Strategy:
        placement = {layer.name: choices[choice] for layer, choice in zip(workload.layers, row, strict=True)}
        return Placement("some", servers, placement, **buckets)

    return make


@pytest.fixture(scope="session")
def placed(
    workloads: st.SearchStrategy[LayerGraph],
    fabrics: Callable[[int], st.SearchStrategy[Fabric]],
    some_choices: Callable[..., Choices],
) -> st.SearchStrategy[Placed]:
    """Any layers on any fabric, placed twice."""

    @st.composite
    def draws(draw: st.DrawFn) -> Placed:
        servers = draw(st.integers(1, 6))
        workload, fabric = draw(workloads), draw(fabrics(servers))
        choices = some_choices(servers, 4, draw(st.integers(0, 99)))
        row = st.lists(st.integers(0, len(choices) - 1), min_size=len(workload.layers), max_size=len(workload.layers))
        buckets = {"bucket_bytes": draw(st.sampled_from([1, 10**7])), "first_bucket_bytes": 10**5}
        return Placed(workload, fabric, choices, [draw(row), draw(row)], buckets)

    return draws()
