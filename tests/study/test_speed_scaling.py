"""With all speeds k times as high, an iteration takes a kth of the time: on points of all fabrics and collectives."""

from __future__ import annotations

import numpy as np
import pytest

from tests.engine.test_fluid_ties import scaled, sensitivity
from tests.study.test_bound_law import ALGORITHMS, FABRICS
from topoflow.engine.base import World
from topoflow.engine.fluid import Fluid
from topoflow.study.builder import Builder
from topoflow.study.configure.grid import grid
from topoflow.study.configure.keys import check

JOBS = (
    ("workload=vgg16", "strategy=data_parallel"),
    ("workload=bert",),
    ("workload=dlrm", "workload.tables=8", "workload.rows=10000"),
)
SERVERS = (4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
MOST_TASKS = 20_000


def some_world(seed: int) -> World | None:
    """Return the world of a random point; None where a network cannot have it, circuits change or it is too large."""
    random = np.random.default_rng(seed)
    keys = {
        "servers": random.choice(SERVERS),
        "fabric": random.choice(FABRICS),
        "degree": random.choice([1, 2, 4]),
        "bandwidth_gbps": random.choice([25, 100, 400]),
        "routing": random.choice(["ecmp", "spray", "valiant", "dmodk"]),
        "all_reduce": random.choice(ALGORITHMS),
    }
    arguments = (*JOBS[random.integers(len(JOBS))], "fidelity=fluid", *(f"{key}={keys[key]}" for key in keys))
    try:
        (point,) = Builder().build(grid(arguments, check))
    except ValueError:
        return None
    world = point.cases[0].world
    usable = not world.changes_circuits and world.graph.tasks <= MOST_TASKS
    return world if usable and Fluid().refuses(world) is None else None


def check_scaling(first: int, count: int) -> int:
    """Check the seeds from ``first`` on; return how many points there were."""
    points = 0
    for seed in range(first, first + count):
        if (world := some_world(seed)) is None:
            continue
        points += 1
        once = Fluid().simulate([world])[0]
        for factor in (3, 0.7, 10):
            faster = Fluid().simulate([scaled(world, factor)])[0]
            off = float(np.abs(faster.finish * factor - once.finish).max()) / once.makespan
            assert off <= max(1e-12, 10 * sensitivity(world) if off > 1e-12 else 0.0), (seed, factor)
    return points


def test_speeds_and_times_scale_together() -> None:
    assert check_scaling(0, 16) >= 2


@pytest.mark.slow
def test_speeds_and_times_scale_together_on_more_points() -> None:
    assert check_scaling(100, 200) >= 40
