"""The bound is never above a fidelity that says so, on random points of comparisons."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import yaml
from hydra.utils import instantiate

from tests.examples import examples
from topoflow.engine.base import Fidelity, World
from topoflow.engine.bound import Bound
from topoflow.engine.simulation import simulate
from topoflow.study.builder import Builder
from topoflow.study.configure.grid import grid
from topoflow.study.configure.keys import check

CONFIGS = sorted((Path(__file__).resolve().parents[2] / "src" / "topoflow" / "configs" / "fidelity").glob("*.yaml"))
ALL: list[Fidelity] = [instantiate(yaml.safe_load(path.read_text())) for path in CONFIGS]
CHECKED_FIDELITIES = [fidelity for fidelity in ALL if fidelity.name != Bound.name]
ROUNDING = 1e-9
POINTS = examples(1_000)
PARTS = 2  # that workers share

JOBS = (
    ("workload=dlrm", "workload.tables=4", "workload.rows=1000", "workload.batch_per_gpu=1,64"),
    ("workload=vgg16", "strategy=data_parallel"),
    ("workload=transformer", "strategy=parallel"),
    ("workload=flows", "workload.count=60", "workload.load=0.1,0.6"),
    ("workload=all_to_all", "workload.bytes=256,65536"),
)
FABRICS = (
    *("fat_tree", "leaf_spine", "torus", "ring", "hyperx", "expander", "topoopt", "dragonfly", "slim_fly"),
    *("sirius", "fosquare", "rotornet", "opera", "ideal_switch"),
)
ALGORITHMS = ("ring", "halving_doubling", "double_binary_tree", "hierarchical", "hierarchical_tree", "swing")


def some_points(draw: np.random.Generator) -> tuple[str, ...]:
    """Return the arguments of a comparison of 36 or 72 points; some networks cannot have this number of servers."""

    def some(values: tuple[object, ...], count: int) -> str:
        return ",".join(str(values[index]) for index in draw.permutation(len(values))[:count])

    return (
        *JOBS[draw.integers(len(JOBS))],
        f"servers={draw.integers(2, 9)}",
        f"fabric={some(FABRICS, 3)}",
        f"degree={draw.choice([2, 4])}",
        f"latency_us={some((0, 1, 20, 300), 2)}",
        f"bandwidth_gbps={some((10, 100, 400), 1)}",
        f"routing={some(('ecmp', 'spray', 'valiant', 'dmodk'), 3)}",
        f"all_reduce={some(ALGORITHMS, 2)}",
        f"seed={draw.integers(100)}",
    )


def some_worlds(seed: int) -> Iterator[World]:
    points, builder = grid(some_points(np.random.default_rng(seed)), check), Builder()
    for point in points:
        try:
            (built,) = builder.build([point])
        except ValueError:  # a network or an algorithm that this number of servers cannot have
            continue
        yield from (case.world for case in built.cases)


def check_bounds(seed: int) -> int:
    """Check every fidelity that says that it is never below the bound; return the number of worlds."""
    worlds = [world for world in some_worlds(seed) if Bound().refuses(world) is None]
    bounds = [timeline.makespan for timeline in simulate(worlds, Bound())]
    for fidelity in CHECKED_FIDELITIES:
        numbers = [
            n for n, world in enumerate(worlds) if fidelity.refuses(world) is None and fidelity.keeps_bound(world)
        ]
        timelines = simulate([worlds[n] for n in numbers], fidelity)
        for number, timeline in zip(numbers, timelines, strict=True):
            bound = bounds[number] * (1 - ROUNDING)
            assert timeline.makespan >= bound, f"seed {seed}, {worlds[number].name}, {fidelity}"
    return len(worlds)


@pytest.mark.parametrize("seed", [2, 6, 8, 11, 24])  # each of another job
def test_the_bound_is_never_above_a_fidelity_that_keeps_it(seed: int) -> None:
    assert check_bounds(seed) > 20


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("part", range(PARTS))
def test_the_bound_is_never_above_a_fidelity_that_keeps_it_on_many_points(part: int) -> None:
    seeds, points = itertools.count(100 + part, PARTS), 0
    while points < POINTS / PARTS:
        points += check_bounds(next(seeds))
