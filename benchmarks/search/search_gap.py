"""How far from the best that there is a search ends.

    python benchmarks/search/search_gap.py                        all, with 8 seeds
    python benchmarks/search/search_gap.py small random cases=20  next to exhaustive optima
    python benchmarks/search/search_gap.py large times=100        next to annealing with 100 times the proposals

Prints ``path.metric value`` lines; a gap is time / best - 1, of ``fluid`` without merged events. Searches have the
settings of configs/search.yaml, and each seed draws other proposals; routes and wiring do not depend on it.

``small`` and ``random``, of jobs drawn layer by layer: every placement that a search can propose, on every network that
the design builds for one of them (``oracles``). Gaps are never negative. ``favourite`` is that of the placement
that the estimate likes best, on the best network.

``large``: annealing takes the place of parallel tempering (``oracles``). Negative gaps are searches that found
something faster.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # benchmarks
from measure import say, settings
from search.oracles.annealing import Annealed
from search.oracles.exhaustive import optimum

from topoflow.collectives.algorithm import names
from topoflow.engine.base import Floats
from topoflow.search.alternate import search
from topoflow.search.problem import Problem, SearchSettings
from topoflow.strategy.data_parallel import DataParallel
from topoflow.study.configure.build import build
from topoflow.study.configure.grid import grid
from topoflow.study.configure.keys import check
from topoflow.workload.base import Layer, LayerGraph

PARTS = ("small", "random", "large")
SETTINGS = {"seeds": 8, "cases": 20, "times": 100}


@dataclass(frozen=True)
class Case:
    """A search: the keys of its grid, and how it is placed. Routes do not depend on the seed."""

    keys: tuple[str, ...]
    all_reduce: str = "hierarchical"
    routing: str = "spray"

    def problem(self, seed: int) -> Problem:
        (point,) = grid([*self.keys], check)
        workload = build(point, "workload").build()
        start = build(point, "strategy").place(workload, point.config["servers"])
        options = {"all_reduce": self.all_reduce, "routing": self.routing, "seed": seed}
        return Problem(workload, start, build(point, "fabric"), build(point, "prices"), **options)


LAYERS = ("workload.tables=1", "workload.dense_layers=2", "workload.feature_layers=1", "workload.batch_per_gpu=2048")
DLRM = ("workload=dlrm", "workload.rows=1000000", *LAYERS)
CANDLE = ("workload=candle", *(f"workload.{key}" for key in ("feature_layers=1", "dense_layers=1")))
SIZES = ("workload.feature_size=4096", "workload.dense_size=4096")

SMALL = {
    "dlrm.fat_tree.hierarchical": Case((*DLRM, "servers=4", "fabric=fat_tree")),
    "dlrm.torus.swing": Case((*DLRM, "servers=4", "fabric=torus"), "swing"),
    "dlrm.expander.halving_doubling": Case((*DLRM, "servers=4", "fabric=expander", "degree=2"), "halving_doubling"),
    "dlrm.topoopt.hierarchical": Case((*DLRM, "servers=3", "fabric=topoopt", "degree=2")),
    "dlrm.topoopt.double_binary_tree": Case((*DLRM, "servers=3", "fabric=topoopt", "degree=2"), "double_binary_tree"),
    "candle.fat_tree.ring": Case((*CANDLE, *SIZES, "servers=2", "fabric=fat_tree"), "ring"),
}
LARGE = {
    "candle.fat_tree.16": Case(("workload=candle", "servers=16", "fabric=fat_tree")),
    "bert.topoopt.16": Case(("workload=bert", "servers=16", "fabric=topoopt", "strategy=hybrid")),
    "ncf.fat_tree.16": Case(("workload=ncf", "servers=16", "fabric=fat_tree")),
    "dlrm.topoopt.16": Case(("workload=dlrm", "servers=16", "fabric=topoopt")),
    "dlrm.fat_tree.128": Case(("workload=dlrm", "servers=128", "fabric=fat_tree")),
}


@dataclass(frozen=True)
class RandomCase:
    """Four layers on three servers: all of the job, the fabric and the all-reduce are drawn, by ``number``."""

    number: int

    def problem(self, seed: int) -> Problem:
        random = np.random.default_rng(self.number)
        keys = ("servers=3", f"fabric={random.choice(FABRICS)}", "degree=2")
        (point,) = grid([*keys, "workload=dlrm", *LAYERS], check)
        workload = LayerGraph(f"random {self.number}", random_layers(random), 16, build(point, "gpu"), 4)
        start = DataParallel().place(workload, 3)
        all_reduce = str(random.choice(names("all_reduce")))
        design = build(point, "fabric")
        return Problem(workload, start, design, all_reduce=all_reduce, routing="spray", seed=seed)


FABRICS = ("fat_tree", "ideal_switch", "ring", "topoopt")


def random_layers(random: np.random.Generator) -> tuple[Layer, ...]:
    """Four, each of which reads up to two earlier ones. Sizes spread evenly over powers of ten."""
    layers: list[Layer] = []
    for number in range(4):
        kind = str(random.choice(["dense", "table"]))
        parameters, outputs = (int(10 ** random.uniform(*powers)) for powers in ((4, 8.5), (2, 6)))
        reads = random.choice(number, min(number, int(random.integers(0, 3))), replace=False).tolist()
        after = tuple(f"L{earlier}" for earlier in sorted(reads))
        flops = 10 ** random.uniform(6, 11)
        layers.append(Layer(f"L{number}", kind, parameters, flops, outputs, 2 * outputs, after, sparse=kind == "table"))
    return tuple(layers)


def measure_small(path: str, case: Case | RandomCase, seeds: int) -> Floats:
    """The gaps [seeds]."""
    best = optimum(case.problem(0), SearchSettings())
    gaps = found_by(case, seeds) / best.seconds - 1
    say(f"{path}.placements", best.placements)
    say(f"{path}.networks", best.networks)
    say(f"{path}.favourite", best.favourite / best.seconds - 1)
    say_gaps(path, gaps)
    return gaps


def measure_large(path: str, case: Case, seeds: int, times: int) -> None:
    """Annealing runs once; its proposals are many."""
    cpu = time.process_time()
    makespans = found_by(case, seeds)
    say(f"{path}.cpu_seconds_per_search", (time.process_time() - cpu) / seeds)
    say(f"{path}.best_seconds", float(makespans.min()))
    problem, cpu = case.problem(seeds), time.process_time()
    annealed = search(problem, SearchSettings(), within=Annealed.of(problem, times)).plan.iteration_time
    say(f"{path}.annealing.cpu_seconds", time.process_time() - cpu)
    say(f"{path}.annealing.seconds", annealed)
    say_gaps(path, makespans / annealed - 1)


def found_by(case: Case, seeds: int) -> Floats:
    """[seeds] s of what searches find."""
    return np.array([search(case.problem(seed), SearchSettings()).plan.iteration_time for seed in range(seeds)])


def say_gaps(path: str, gaps: Floats) -> None:
    for quantile, name in ((0.0, "least"), (0.5, "median"), (0.9, "ninth_decile"), (1.0, "largest")):
        say(f"{path}.gap.{name}", float(np.quantile(gaps, quantile)))


def main(arguments: list[str]) -> None:
    parts = [argument for argument in arguments if argument in PARTS] or list(PARTS)
    chosen = settings([argument for argument in arguments if argument not in parts], SETTINGS)
    if "small" in parts:
        for name, case in SMALL.items():
            measure_small(f"search_gap.small.{name}", case, chosen["seeds"])
    if "random" in parts:
        cases = {number: RandomCase(number) for number in range(chosen["cases"])}
        gaps = [
            measure_small(f"search_gap.random.{number}", random_case, chosen["seeds"])
            for number, random_case in cases.items()
        ]
        say_gaps("search_gap.random", np.concatenate(gaps))
    if "large" in parts:
        for name, large in LARGE.items():
            measure_large(f"search_gap.large.{name}", large, chosen["seeds"], chosen["times"])


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except ValueError as error:
        sys.exit(str(error))
