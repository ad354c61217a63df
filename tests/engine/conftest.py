"""Small worlds by hand, and what runs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from topoflow.engine import fluid
from topoflow.engine.base import Graph, Run, Timeline, World
from topoflow.engine.device import Device
from topoflow.engine.fluid import Fluid, reference

Task = dict[str, Any]


def offsets(rows: Sequence[Sequence[int]]) -> np.ndarray:
    return np.cumsum([0, *(len(row) for row in rows)], dtype=np.int64)


def joined(rows: Sequence[Sequence[int]]) -> np.ndarray:
    return np.array([item for row in rows for item in row], dtype=np.int32)


@pytest.fixture(scope="session")
def make_world() -> Callable[..., World]:
    """``make_world([{"path": [0, 1], "bytes": 100.0, "after": [..], "delay": .., "release": ..}], capacity)``.

    A task with a path may also have a "weight" of each of its links, and a "limit".
    """

    def make(
        tasks: Sequence[Task], capacity: Sequence[float], latency: Sequence[float] = (), name: str = "world"
    ) -> World:
        flows = [task for task in tasks if "path" in task]
        paths = [task["path"] for task in flows]
        weights = [task.get("weight", [1.0] * len(task["path"])) for task in flows]
        limits = [float(task.get("limit", np.inf)) for task in flows]
        index = iter(range(len(paths)))
        after = [task.get("after", []) for task in tasks]

        def numbers(field: str) -> np.ndarray:
            return np.array([float(task.get(field, 0.0)) for task in tasks])

        graph = Graph(
            delay=numbers("delay"),
            bytes=numbers("bytes"),
            release=numbers("release"),
            path=np.array([next(index) if "path" in task else -1 for task in tasks], dtype=np.int32),
            after_offsets=offsets(after),
            after=joined(after),
            path_offsets=offsets(paths),
            path_links=joined(paths),
            owner=np.array([task.get("owner", t) for t, task in enumerate(tasks)], dtype=np.int32),
            owners=max((task.get("owner", t) + 1 for t, task in enumerate(tasks)), default=0),
            links=len(capacity),
            path_weight=np.concatenate(weights).astype(float) if any("weight" in task for task in flows) else None,
            path_limit=np.array(limits) if any("limit" in task for task in flows) else None,
        )
        return World(name, graph, np.array(capacity, float), np.array(latency or [0.0] * len(capacity), float))

    return make


@pytest.fixture(scope="session", params=["twin", "cpu", "cuda"])
def run(request: pytest.FixtureRequest, check_device: Callable[[str], str]) -> Callable[..., Timeline]:
    """``run(world, merge=0.0)``: the fluid model, by its plain-Python twin and by the kernel on every device."""
    if request.param == "twin":
        return reference.simulate
    device = check_device(request.param)
    return lambda world, merge=0.0: Fluid(merge).simulate([world], Run(Device.named(device)))[0]


@pytest.fixture(scope="session", params=["twin", "cpu", "cuda"])
def pause(request: pytest.FixtureRequest, check_device: Callable[[str], str]) -> Callable[..., fluid.Pause]:
    """``pause(world, until)``: by the plain-Python twin and by the kernel on every device."""
    if request.param == "twin":
        return reference.pause
    device = check_device(request.param)
    return lambda world, until: fluid.pause(world, until, run=Run(Device.named(device)))
