"""A search over recipes: how a transformer is trained fastest on the GPUs of nodes.

All recipes that fit in memory are bounded (``search.recipe_bound``). Those with the least bounds are simulated as
``topoflow compare`` simulates them, until no other is expected among the best, or ``MOST_SIMULATED`` are. Recipes have
1F1B, interleaved where ranks have several stages. With a ``strategy.schedule`` that splits backward passes (zero-bubble
schedules, DualPipe-V) the best of these are simulated under it, and are the answer.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
from itertools import islice
from multiprocessing import current_process
from typing import Any

import numpy as np

from topoflow.case.base import Result
from topoflow.collectives.algorithm import NCCL
from topoflow.demand import Demand
from topoflow.engine.base import LoweredGraph, Run
from topoflow.engine.observer import Silent
from topoflow.fabric.attached import Attached
from topoflow.memory import no_garbage_collection
from topoflow.processes import start
from topoflow.report.base import Report
from topoflow.search.recipe_bound import RecipeBound
from topoflow.search.recipes import CHOSEN, recipes
from topoflow.strategy import schedules
from topoflow.strategy.parallel import Parallel, shardings
from topoflow.study.builder import (
    MIN_FOLDED,
    PIPELINE,
    Builder,
    PointCases,
    batched,
    cluster_of,
    has_joined_flows,
    joins_nodes,
    workload_of,
)
from topoflow.study.compare import simulate
from topoflow.study.configure.build import build
from topoflow.study.configure.point import Point, at_point
from topoflow.traffic.base import Traffic
from topoflow.traffic.least_seconds import least_seconds
from topoflow.units import counted, human
from topoflow.workload.base import LayerGraph, layer_graph

BEST = 10  # recipes that are reported
MOST_SIMULATED = 64
AT_ONCE = 4  # recipes that are simulated as one batch, at most
MIN_JOINED = 4096  # GPUs from which on a pipeline rank is one endpoint where ``fold`` is null


@dataclass(frozen=True, eq=False)
class FoundRecipe:
    """A recipe with its simulated step."""

    chosen: Mapping[str, Any]  # keys of strategy=parallel
    bound: float  # s
    parts: Mapping[str, float]  # s of the bound, by what takes them
    result: Result

    @property
    def overrides(self) -> tuple[str, ...]:
        """Return the arguments that choose this recipe in a comparison."""
        keys = ((key, value) for key, value in self.chosen.items() if key != "micro_batch")
        fold = self.result.settings.config["fold"]
        return (
            *(f"strategy.{key}={value}" for key, value in keys),
            f"micro_batch={self.chosen['micro_batch']}",
            *(() if fold is None else (f"fold={str(fold).lower()}",)),
        )

    @property
    def name(self) -> str:
        """Return the recipe in the letters of its axes."""
        return self.result.settings.swept["recipe"]

    @property
    def time_parts(self) -> Mapping[str, float]:
        """Return the seconds of the step by what takes them; ``waiting`` is for messages and shared links."""
        return {**self.parts, "waiting": max(self.result.iteration_time - sum(self.parts.values()), 0.0)}

    @property
    def memory_left(self) -> float:
        """Return the bytes of the usable memory that the recipe does not need."""
        return self.result.case.job.usable_memory - (self.result.case.job.memory or 0.0)


@dataclass(frozen=True, eq=False)
class FoundRecipes:
    """The best recipes of one point, the fastest first."""

    point: Point
    gpus: int
    best: tuple[FoundRecipe, ...]
    recipes: int
    fitting: int
    simulated: int
    schedule: str | None  # of all ``best``; None: 1F1B or interleaved
    is_proven: bool  # no other recipe can be among the best, by its bound

    @property
    def note(self) -> str:
        """Return how many recipes there are, and what was done with them."""
        swept = ",".join(f"{key}={value}" for key, value in self.point.swept.items())
        others = "no other is expected" if self.simulated < MOST_SIMULATED else "others may be"
        if self.is_proven:
            others = "by the bounds, no other can be"
        folds = {recipe.result.settings.config["fold"] for recipe in self.best}
        return (
            f"{f'{swept}: ' if swept else ''}{counted(self.recipes, 'recipe')}: {self.recipes - self.fitting:,} do not "
            f"fit in memory, {self.fitting:,} were bounded, {self.simulated} simulated; {others} among the best."
            + (f" The best are of fold={PIPELINE}: all GPUs of a pipeline rank as one." if PIPELINE in folds else "")
            + (f" The best were then simulated with strategy.schedule={self.schedule}." if self.schedule else "")
        )


def search_recipes(points: Sequence[Point], given_keys: Sequence[str], run: Run) -> list[FoundRecipes]:
    """Search the recipes of every point. Keys of ``strategy`` that are in ``given_keys`` keep their values.

    Raises ``ValueError`` in one line for what is impossible, before anything is simulated.
    """
    searches = []
    for point in points:
        with at_point(point):
            searches.append(_Search(point, given_keys, run))
    all_recipes = []
    for search in searches:
        with at_point(search.point):
            all_recipes.append(search.find())
    return all_recipes


def report(all_recipes: Sequence[FoundRecipes], command: str) -> Report:
    """Return the best recipes of all points as a comparison."""
    notes = tuple(point_recipes.note for point_recipes in all_recipes)
    return Report(
        tuple(recipe.result for point_recipes in all_recipes for recipe in point_recipes.best), command, notes
    )


def fastest(all_recipes: Sequence[FoundRecipes]) -> FoundRecipe:
    """Return the fastest recipe of all points."""
    return min(
        (point_recipes.best[0] for point_recipes in all_recipes), key=lambda recipe: recipe.result.iteration_time
    )


class _Search:
    """The search of one point; its recipes are bounded when it is made."""

    def __init__(self, point: Point, given_keys: Sequence[str], run: Run) -> None:
        self.run = run
        self.builder = Builder()
        rule = build(point, "strategy")
        workload = layer_graph(workload_of(point))
        _check(point, rule, workload)
        self.schedule = rule.schedule
        self.rule = rule = replace(rule, schedule=None)
        strategy = {**point.config["strategy"], "schedule": None}
        cluster = self.cluster = cluster_of(point)
        self.gpus, fold = cluster.gpus, point.config["fold"]
        forks = sys.platform == "linux" and self.gpus >= MIN_FOLDED and not current_process().daemon
        self.processes = (run.threads or os.cpu_count() or 1) if forks else 1
        can_join = cluster.node.switched and has_joined_flows(point)
        self.joined = can_join and (fold == PIPELINE or (fold is None and cluster.gpus >= MIN_JOINED))
        fold = None if fold == PIPELINE else fold
        self.point = replace(point, config={**point.config, "strategy": strategy, "fold": fold}, alike=None)
        single = replace(workload, gpus_per_server=1, gpus_per_node=cluster.per_node)
        alone = layer_graph(batched(point, single, cluster.gpus))
        self.alone, self.given_keys = alone, given_keys
        fixed = {key: getattr(rule, key) for key in CHOSEN if key in given_keys}
        run.observer.stage("bounding")
        self.recipes = recipes(alone, cluster.gpus, fixed, rule.sequence_parallel)
        if self.schedule is not None:
            self.recipes = self.recipes.at(self.recipes.pipeline > 1)
            if not len(self.recipes):
                raise ValueError(f"strategy.schedule: must be null without a pipeline, got {self.schedule}")
        run.observer.size(f"{counted(len(self.recipes), 'recipe')} on {counted(cluster.gpus, 'GPU')}")
        folded = cluster.node.switched and cluster.per_node > 1
        endpoints = cluster.nodes if folded else cluster.gpus
        Attached(build(point, "fabric"), cluster, folded=folded).build(
            endpoints, Demand(endpoints)
        )  # raises for others
        nccl = build(point, "nccl") if point.config["all_reduce"] == NCCL else None
        self.bound = RecipeBound(alone, cluster, nccl, rule)
        self.bounds = self.bound.of(self.recipes, alone.gpu.usable_memory, self.processes)
        self.fits = self.bounds.memory <= alone.gpu.usable_memory
        if not self.fits.any():
            least = int(self.bounds.memory.argmin())
            recipe_text = " ".join(f"{key}={value}" for key, value in self.recipes.chosen(least).items())
            raise ValueError(
                f"gpu.memory: {alone.name} on {counted(cluster.gpus, 'GPU')} must fit in the {alone.gpu.room} of "
                f"{alone.gpu.name}, got at least {human(float(self.bounds.memory[least]), 'B')} of "
                f"{counted(len(self.recipes), 'recipe')}, with {recipe_text}"
            )

    def find(self) -> FoundRecipes:
        """Simulate recipes in the order of their bounds until others are not expected among the best.

        They are expected there while some simulated recipe is so close to its bound that the next one, as close to its
        own, would be. That none can be there is proven where the next bound is above the slowest of the best.
        """
        self.run.observer.stage("simulating")
        waiting, most = self._in_order(), min(MOST_SIMULATED, int(self.fits.sum()))
        best, ahead, simulated = list[FoundRecipe](), list[int](), 0
        nearest = slowest = limit = np.inf  # no other with a bound of ``limit`` is expected among the best
        while True:
            count = min(AT_ONCE, (BEST if simulated < BEST else most) - simulated)
            ahead += islice(waiting, max(max(count, 1) - len(ahead), 0))
            rows = [row for row in ahead[:count] if self.bounds.seconds[row] < limit]
            if not rows:
                break
            self.run.observer.advance(simulated, most)
            latest = self._simulated(rows)
            simulated, ahead = simulated + len(rows), ahead[len(rows) :]
            nearest = min(nearest, *(recipe.result.iteration_time / recipe.bound for recipe in latest))
            best = sorted([*best, *latest], key=lambda recipe: recipe.result.iteration_time)[:BEST]
            if len(best) == BEST:
                slowest = best[-1].result.iteration_time
                limit = slowest / nearest
        least = float(self.bounds.seconds[ahead[0]]) if ahead else np.inf
        if self.schedule is not None:
            best = self._scheduled(best, self.schedule)
        return FoundRecipes(
            point=self.point,
            gpus=self.gpus,
            best=tuple(best),
            recipes=len(self.recipes),
            fitting=int(self.fits.sum()),
            simulated=simulated,
            schedule=self.schedule,
            is_proven=slowest <= least,
        )

    def _scheduled(self, best: Sequence[FoundRecipe], schedule: str) -> list[FoundRecipe]:
        """Return the recipes of pipelines among the ``best`` under a ``schedule``, the fastest first.

        Those that it does not allow, or that do not fit in memory with it, are left out. The bound of a recipe is that
        of its compute (``least_seconds``); what its bubble takes is a part of the time that it waits.
        """
        virtual = schedules.rules()[schedule].virtual
        candidates: dict[str, tuple[dict[str, Any], Point, Mapping[str, float], float]] = {}
        for recipe in best:
            chosen = {**recipe.chosen, "virtual": virtual or recipe.chosen["virtual"], "schedule": schedule}
            changed = "virtual" in self.given_keys and chosen["virtual"] != recipe.chosen["virtual"]
            if changed:
                continue
            try:
                grid = replace(self.rule, **chosen).place(self.alone, self.gpus)
            except ValueError:  # a law of the schedule that this recipe breaks
                continue
            needed = grid.memory_per_gpu(self.alone)
            if needed is not None and needed <= self.alone.gpu.usable_memory:
                parts = {name: part for name, part in recipe.parts.items() if name != "pipeline"}
                point = self._with_recipe(chosen, grid.data)
                candidates.setdefault(named(chosen, grid.data), (chosen, point, parts, least_seconds(self.alone, grid)))
        if not candidates:
            requirement = f"must be one that some of the {len(best)} best recipes allows, and has the memory for"
            raise ValueError(f"strategy.schedule: {requirement}, got {schedule}")
        cases = Builder().build([point for _, point, _, _ in candidates.values()])
        results = simulate(cases, replace(self.run, observer=Silent()))
        recipes = [
            FoundRecipe(chosen, bound, parts, result)
            for (chosen, _, parts, bound), result in zip(candidates.values(), results, strict=True)
        ]
        return sorted(recipes, key=lambda recipe: recipe.result.iteration_time)

    def _in_order(self) -> Iterator[int]:
        """Yield the recipes that fit, the least bound first; only these are bounded by all of their passes."""
        rows = np.flatnonzero(self.fits)
        waiting = [
            (seconds, False, row)
            for seconds, row in zip(self.bounds.seconds[rows].tolist(), rows.tolist(), strict=True)
        ]
        heapify(waiting)
        while waiting:
            seconds, is_exact, row = heappop(waiting)
            if is_exact:
                yield row
            else:
                (higher,) = self.bound.pipelined(self.recipes.at(np.array([row]))).tolist()
                self.bounds.seconds[row] = max(seconds, higher)
                heappush(waiting, (max(seconds, higher), True, row))

    def _simulated(self, rows: Sequence[int]) -> list[FoundRecipe]:
        points = [self._with_recipe(self.recipes.chosen(row), int(self.recipes.data[row])) for row in rows]
        with no_garbage_collection():
            cases = self._built(points)
            self.builder.forget_jobs()
        results = simulate(cases, replace(self.run, observer=Silent()))
        return [
            FoundRecipe(
                self.recipes.chosen(row),
                float(self.bounds.seconds[row]),
                {name: float(values[row]) for name, values in self.bounds.parts.items()},
                result,
            )
            for row, result in zip(rows, results, strict=True)
        ]

    def _built(self, points: Sequence[Point]) -> list[PointCases]:
        """Return the cases of points, of which each processor writes the traffic of some, and places it."""
        shares = [points[first :: self.processes] for first in range(min(self.processes, len(points)))]
        others = [start(self._lowered, share, "strategy: must be built") for share in shares[1:]]
        self.builder.build(shares[0])
        for share, wait in zip(shares[1:], others, strict=True):
            for point, (traffic, graph) in zip(share, wait(), strict=True):
                self.builder.take(point, traffic, graph)
        return self.builder.build(points)

    def _lowered(self, points: Sequence[Point]) -> list[tuple[Traffic, LoweredGraph]]:
        cases = (built.cases[0] for built in self.builder.build(points))
        return [(case.job.traffic, case.world.graph) for case in cases]

    def _with_recipe(self, chosen: Mapping[str, Any], data: int) -> Point:
        """Return the point of a comparison with one recipe."""
        strategy = {**self.point.config["strategy"], **chosen, "microbatches": None}
        config = {**self.point.config, "strategy": strategy, "micro_batch": chosen["micro_batch"]}
        if self.joined and chosen["expert"] == 1 and joins_nodes(self.cluster, chosen["pipeline"]):
            config["fold"] = PIPELINE
        return replace(self.point, config=config, swept={**self.point.swept, "recipe": named(chosen, data)})


def _check(point: Point, rule: object, workload: LayerGraph) -> None:
    """Raise ``ValueError`` for a point whose recipes cannot be searched."""
    if not isinstance(rule, Parallel):
        raise ValueError(f"strategy: must be parallel or left out with node, got {point.choices['strategy']}")
    if rule.microbatches is not None:
        requirement = "must be left out, as it follows from micro_batch"
        raise ValueError(f"strategy.microbatches: {requirement}, got {rule.microbatches}")
    known = [name for name, schedule_rule in schedules.rules().items() if schedule_rule.splits]
    if rule.schedule not in (None, *known):
        requirement = f"must be left out in a search of recipes, or one of {', '.join(known)}"
        raise ValueError(f"strategy.schedule: {requirement}, got {rule.schedule}")
    if workload.kernels is not None:
        raise ValueError(f"workload.kernels: must be null in a search of recipes, got {workload.kernels.name}")
    shardings(workload)


def named(chosen: Mapping[str, Any], data: int) -> str:
    """Return a recipe in the letters of its axes: ``tp8 pp4x5 dp16 zero1 mb2 full``."""
    axes = {"tp": "tensor", "cp": "context", "ep": "expert"}
    words = [f"{short}{chosen[axis]}" for short, axis in axes.items() if chosen[axis] > 1]
    if chosen["pipeline"] > 1:
        words.append(f"pp{chosen['pipeline']}" + (f"x{chosen['virtual']}" if chosen["virtual"] > 1 else ""))
    words.append(f"dp{data}" + (f"x{chosen['replicate']}" if chosen["replicate"] > 1 else ""))
    words += [f"zero{chosen['zero']}", f"mb{chosen['micro_batch']}"]
    words += [chosen["schedule"]] if chosen.get("schedule") else []
    return " ".join(words + [chosen["recompute"]] * (chosen["recompute"] != "none"))
