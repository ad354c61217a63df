"""Law: a row of a sweep is that of its point alone, bit for bit, whatever points were made before it."""

from __future__ import annotations

import itertools
import pickle
import random
import re
import sys
from dataclasses import replace
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

NODES = ("workload=llama3_8b", "workload.layers=4", "strategy=parallel", "global_batch=32")
KEYS_OF_NODES = {
    "fabric": ("rail_optimized", "rail_only", "fat_tree", "leaf_spine", "ideal_switch"),
    "node": ("hgx_h100", "dgx_a100"),
    "gpus": ("8", "16", "32"),
    "fold": ("true", "false", "null"),
    "bandwidth_gbps": ("50", "100.5", "400"),
    "latency_us": ("0", "0.3", "7"),
    "strategy.tensor": ("4", "8"),
    "strategy.zero": ("0", "1"),
    "prices": ("gpu_cluster", "topoopt_table2"),
    "nccl.pxn": ("true", "false"),
    "reliability.spares": ("0", "2"),
}
BEGINNINGS = (
    (("fabric=fat_tree", "fidelity=bound", "servers=8", *SMALL), KEYS),
    (("fabric=fat_tree", "fidelity=bound", "node=hgx_h100", "gpus=16", "strategy.tensor=4", *NODES), KEYS_OF_NODES),
)


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


@pytest.mark.parametrize(("beginning", "keys"), BEGINNINGS, ids=["servers", "nodes"])
@pytest.mark.parametrize("seed", range(6))
def test_a_row_of_a_sweep_is_that_of_its_point_alone(beginning: tuple[str, ...], keys: Any, seed: int) -> None:
    dice = random.Random(seed)
    chosen = dice.sample(sorted(keys), 4)
    values = {key: dice.sample(keys[key], dice.randint(1, min(3, len(keys[key])))) for key in chosen}
    arguments = [text for text in beginning if text.partition("=")[0] not in values]
    arguments += [f"{key}={','.join(choices)}" for key, choices in values.items()]
    together = rows(grid(arguments, check))
    product = Grid.of(arguments, check).product
    for number in dice.sample(range(len(product)), min(6, len(product))):
        forget_everything()
        assert rows(grid(product[number], check)) == [together[number]], (seed, product[number])


@pytest.mark.parametrize(
    "arguments",
    [
        ("fabric=leaf_spine,fat_tree", "bandwidth_gbps=10,62.5,33", "latency_us=0,0.3"),
        ("bandwidth_gbps=10,62.5", "fabric=fat_tree", "fabric.latency=1e-6,0.0,2.5e-7", "prices=topoopt_table2,sirius"),
        ("fabric=fat_tree", "bandwidth_gbps=10,20", "fabric.bandwidth=1000000000"),
        ("fabric=fat_tree", "workload=flows", "workload.count=1000", "bandwidth_gbps=10,20"),
        ("fabric=fat_tree", "bandwidth_gbps=10,20", "fail.fibers=[0]"),
        ("fabric=ring", "bandwidth_gbps=10,20", "degree=1", "rings=auto"),
    ],
    ids=["speeds", "design", "fixed", "traffic", "failure", "simplex"],
)
def test_points_that_differ_in_speeds_are_those_alone(arguments: tuple[str, ...]) -> None:
    words = [*arguments, "fidelity=bound", "servers=8", *(() if "workload=flows" in arguments else SMALL)]
    together = Builder().build(grid(words, check))
    product = Grid.of(words, check).product
    alone = []
    for number in range(len(product)):
        forget_everything()
        alone += Builder().build(grid(product[number], check))
    assert [repr(built.point.config) for built in together] == [repr(built.point.config) for built in alone]
    for key in ("config", "latency", "fidelity", "notes", "prices"):
        values = [[getattr(built.cases[0].settings, key) for built in several] for several in (together, alone)]
        assert repr(values[0]) == repr(values[1])
    sent = pickle.loads(pickle.dumps([built.cases[0] for built in Builder().build(grid(words, check))]))
    for case, built in zip(sent, alone, strict=True):
        assert repr(case.fabric.bill) == repr(built.cases[0].fabric.bill)
        assert repr(case.settings.config) == repr(built.cases[0].settings.config)
    results = [[repr(vars(replace(result.row, world=""))) for result in simulate(b, Run())] for b in (together, alone)]
    assert results[0] == results[1]


@pytest.mark.parametrize("wrong", ["bandwidth_gbps=-1", "degree=0", "latency_us=-2", "seed=half", "fabric.radix=3"])
def test_a_wrong_value_of_a_sweep_is_the_error_of_its_point_alone(wrong: str) -> None:
    key, _, value = wrong.partition("=")
    good = {"seed": "1", "fabric.radix": "8"}.get(key, "10")
    errors = []
    for values in (value, f"{good},{value}"):
        with pytest.raises(ValueError, match=re.escape(value)) as raised:
            rows(grid(["fabric=fat_tree", "fidelity=bound", "servers=8", *SMALL, f"{key}={values}"], check))
        errors.append(str(raised.value).partition(" (at ")[0])
    assert errors[0] == errors[1]


def test_a_sweep_without_a_price_fails_as_its_first_point_alone() -> None:
    words = ["fabric=fat_tree", "fidelity=bound", "servers=8", *SMALL, "~prices.usd.fiber"]
    errors = []
    for values in ("10", "10,20"):
        built = Builder().build(grid([*words, f"bandwidth_gbps={values}"], check))
        with pytest.raises(ValueError, match=r"prices\.usd: must have fiber") as raised:
            _ = [result.row for result in simulate(built, Run(threads=1))]
        errors.append(str(raised.value))
    assert errors[0] == errors[1]


def test_points_are_named_by_what_varies() -> None:
    points = grid(["fabric=ring,ring", "bandwidth_gbps=10,20", "latency_us=1", "seed=3"], check)
    assert [point.swept for point in points] == [{"bandwidth_gbps": "10"}, {"bandwidth_gbps": "20"}] * 2
    points = grid(["fabric=ring,torus", "latency_us=2,3", "seed=1,2", "bandwidth_gbps=10,20"], check)
    keys = ("latency_us", "seed", "bandwidth_gbps")
    values = [(point.choices["fabric"], *(point.config[key] for key in keys)) for point in points]
    assert values == [*itertools.product(("ring", "torus"), (2, 3), (1, 2), (10, 20))]
    assert [[*point.swept.values()] for point in points] == [[*map(str, texts)] for texts in values]
