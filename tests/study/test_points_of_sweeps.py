"""Law: a row of a sweep is that of its point alone, bit for bit, whatever points were made before it."""

from __future__ import annotations

import random
import sys
from typing import Any

import pytest

from topoflow.engine.base import Run
from topoflow.fabric import base
from topoflow.study.builder import Builder
from topoflow.study.compare import simulate
from topoflow.study.configure.build import forget
from topoflow.study.configure.grid import Grid, grid
from topoflow.study.configure.keys import check

SMALL = ("workload.tables=2", "workload.rows=100", "workload.batch_per_gpu=8")
KEYS = {
    "fabric": ("fat_tree", "leaf_spine", "ring", "torus", "expander", "ideal_switch", "hyperx", "dragonfly", "topoopt"),
    "servers": ("6", "8", "12"),
    "bandwidth_gbps": ("10", "25", "62.5", "100", "400"),
    "latency_us": ("0", "0.3", "1", "7"),
    "degree": ("4", "6"),
    "gpu.flops.float32": ("1e12", "19500000000000.0", "3e13"),
    "global_batch": ("null", "192"),
    "routing": ("ecmp", "spray"),
    "rings": ("steps", "flows", "auto"),
    "seed": ("0", "1"),
    "prices": ("topoopt_table2", "sirius"),
    "fidelity": ("bound", "fluid"),
}


def rows(points: Any) -> list[str]:
    """Return the rows of points that are built together."""
    results = simulate(Builder().build(points), Run(threads=1))
    return [repr({key: value for key, value in vars(result.row).items() if key != "world"}) for result in results]


def forget_everything() -> None:
    """Forget what points may share: the objects of groups, and the wiring of networks."""
    forget()
    base._digests.clear()
    for name in [name for name in sys.modules if name.startswith("topoflow.fabric.")]:
        for value in vars(sys.modules[name]).values():
            if hasattr(value, "cache_clear"):
                value.cache_clear()


@pytest.mark.parametrize("seed", range(6))
def test_a_row_of_a_sweep_is_that_of_its_point_alone(seed: int) -> None:
    dice = random.Random(seed)
    chosen = dice.sample(sorted(KEYS), 4)
    values = {key: dice.sample(KEYS[key], dice.randint(1, min(3, len(KEYS[key])))) for key in chosen}
    arguments = ["fabric=fat_tree", "fidelity=bound", "servers=8", *SMALL]
    arguments += [f"{key}={','.join(choices)}" for key, choices in values.items()]
    together = rows(grid(arguments, check))
    product = Grid.of(arguments, check).product
    for number in dice.sample(range(len(product)), min(6, len(product))):
        forget_everything()
        assert rows(grid(product[number], check)) == [together[number]], (seed, product[number])
