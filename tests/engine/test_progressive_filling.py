"""Rates that are kept up to date, flow by flow, are those that plain progressive filling finds from nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from topoflow import _C
from topoflow.engine.base import LoweredGraph, World
from topoflow.engine.fluid.batch import pack

WORLDS = 60


def random_world(seed: int) -> World:
    """Flows that come within a second: some leave soon, the others stay for minutes."""
    random = np.random.default_rng(seed)
    links, paths, tasks = (int(random.integers(1, limit)) for limit in (40, 60, 200))
    crossed = [random.choice(links, size=random.integers(1, min(links, 6) + 1), replace=False) for _ in range(paths)]
    hops = sum(map(len, crossed))
    graph = LoweredGraph(
        delay=np.zeros(tasks),
        bytes=np.where(random.random(tasks) < 0.3, 1e6, 1e13),
        release=random.choice([0.0, 1.0], tasks) * random.random(tasks),
        path=random.integers(0, paths, tasks).astype(np.int32),
        after_offsets=np.zeros(tasks + 1, np.int64),
        after=np.zeros(0, np.int32),
        path_offsets=np.cumsum([0, *map(len, crossed)]),
        path_links=np.concatenate(crossed).astype(np.int32),
        owner=np.arange(tasks, dtype=np.int32),
        owners=tasks,
        links=links,
        path_weight=random.choice([1, 0.5, 0.25, 0.1], hops) if seed // 2 % 2 else None,
        path_limit=np.where(random.random(paths) < 0.5, np.inf, 10 ** random.uniform(7, 9, paths))
        if seed % 2
        else None,
    )
    return World(f"world {seed}", graph, random.uniform(1e9, 1e10, links), np.zeros(links))


def left_at(world: World, seconds: float) -> np.ndarray:
    """B that every task has to send then."""
    arrays = pack([world], all_links=True).arrays
    arrays |= {"until": np.array([float(seconds)]), "left": np.empty(world.graph.tasks)}
    _C.simulate(arrays, 2**20, 0, 0.0, 1)
    assert arrays["status"].tolist() == [_C.PAUSED]
    return arrays["left"]


def rates_from_nothing(world: World, flows: np.ndarray) -> np.ndarray:
    """B/s of each flow of a path with this many ``flows`` [P]."""
    graph, rate, none = world.graph, np.empty(len(flows)), np.zeros(0)
    arrays: dict[str, Any] = {
        "path_offsets": graph.path_offsets,
        "path_links": graph.path_links,
        "path_weight": none if graph.path_weight is None else graph.path_weight,
        "path_limit": none if graph.path_limit is None else graph.path_limit,
        "flows": flows.astype(np.int32),
        "capacity": world.capacity,
        "rate": rate,
    }
    _C.progressive_filling(arrays)
    return rate


@pytest.mark.parametrize("seed", range(WORLDS))
def test_rates_after_many_events_are_those_found_from_nothing(seed: int) -> None:
    world = random_world(seed)
    earlier, later = left_at(world, 100), left_at(world, 101)
    assert ((earlier > 0) == (later > 0)).all(), "no flow may end in between"
    flows = np.bincount(world.graph.path[later > 0], minlength=len(world.graph.path_offsets) - 1)
    expected = rates_from_nothing(world, flows)[world.graph.path]
    assert (earlier - later)[later > 0] == pytest.approx(expected[later > 0], rel=1e-6)


def test_three_flows_share_a_link_and_one_has_a_narrower_one() -> None:
    rate = np.empty(3)
    arrays: dict[str, Any] = {
        "path_offsets": np.array([0, 2, 3, 4]),
        "path_links": np.array([0, 1, 1, 1], np.int32),
        "path_weight": np.zeros(0),
        "path_limit": np.zeros(0),
        "flows": np.ones(3, np.int32),
        "capacity": np.array([10.0, 90.0]),
        "rate": rate,
    }
    _C.progressive_filling(arrays)
    assert rate.tolist() == [10, 40, 40]
