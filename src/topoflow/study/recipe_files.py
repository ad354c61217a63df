"""The best recipes of a search: a table for the terminal, ``recipes.json`` and ``megatron.txt``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from topoflow.files import write_atomically
from topoflow.report.output import text_table
from topoflow.strategy.grid import ParallelGrid
from topoflow.study.configure.recipe import recipe_texts
from topoflow.study.recipes import FoundRecipe, FoundRecipes, fastest
from topoflow.units import human
from topoflow.workload.base import layer_graph

NAMES = {"tensor": "TP", "context": "CP", "expert": "EP", "pipeline": "bubble", "data": "DP"}  # of parts of a step
LEAST_SHOWN = 0.01  # part of a step
NUMBERS = ("step time", "bound", "tokens/s", "$ per M tokens", "GPU memory", "left", "")
HEAD = ("recipe", *NUMBERS, "what takes the time")


def show_recipes(all_recipes: Sequence[FoundRecipes], console: Console) -> None:
    """Print the best recipes of every point."""
    for point_recipes in all_recipes:
        console.print(Text(_title(point_recipes), style="bold"))
        best = pareto(point_recipes.best)
        rows = [_cells(recipe, recipe in best) for recipe in point_recipes.best]
        console.print(text_table(HEAD, rows, left=(HEAD[0], HEAD[-1])))
        console.print(Text(point_recipes.note))


def _title(point_recipes: FoundRecipes) -> str:
    result = point_recipes.best[0].result
    swept = "".join(f", {key}={value}" for key, value in point_recipes.point.swept.items() if key != "fabric")
    return f"{result.settings.workload} on {point_recipes.gpus} GPUs, {result.fabric.name}{swept}: the fastest recipes"


def _cells(recipe: FoundRecipe, is_best: bool) -> tuple[str, ...]:
    result = recipe.result
    tokens, price = result.row.tokens_per_second, result.row.usd_per_million_tokens
    return (
        recipe.name,
        human(result.iteration_time, "s"),
        human(recipe.bound, "s"),
        "-" if tokens is None else f"{tokens:,.0f}",
        "-" if price is None else f"{price:.3g}",
        human(result.memory or 0.0, "B"),
        human(recipe.memory_left, "B"),
        "Pareto" if is_best else "",
        _shares(recipe),
    )


def _shares(recipe: FoundRecipe) -> str:
    """Return what takes the time, the most first: ``compute 84 %, TP 4 %, waiting 7 %``."""
    parts = sorted(recipe.time_parts.items(), key=lambda part: -part[1])
    step = recipe.result.iteration_time
    shown = [(name, seconds / step) for name, seconds in parts if seconds / step >= LEAST_SHOWN]
    return ", ".join(f"{NAMES.get(name, name)} {share:.0%}" for name, share in shown)


def pareto(recipes: Sequence[FoundRecipe]) -> list[FoundRecipe]:
    """Return the recipes for which no other is as fast and leaves as much memory, at no higher price of a token."""
    numbers = [
        (recipe.result.iteration_time, -recipe.memory_left, recipe.result.row.usd_per_million_tokens or 0.0)
        for recipe in recipes
    ]
    return [
        recipe
        for recipe, values in zip(recipes, numbers, strict=True)
        if not any(other != values and all(a <= b for a, b in zip(other, values, strict=True)) for other in numbers)
    ]


def write_recipes(all_recipes: Sequence[FoundRecipes], out: Path) -> None:
    """Write ``recipes.json``, and files for other programs of the fastest recipe of all points."""
    plain = [
        {
            "swept": dict(point_recipes.point.swept),
            "recipes": point_recipes.recipes,
            "fitting": point_recipes.fitting,
            "simulated": point_recipes.simulated,
            "proven": point_recipes.is_proven,
            "best": [_plain(recipe, recipe in pareto(point_recipes.best)) for recipe in point_recipes.best],
        }
        for point_recipes in all_recipes
    ]
    write_atomically(out / "recipes.json", (json.dumps(plain, indent=2, allow_nan=False) + "\n").encode())
    job = fastest(all_recipes).result.case.job
    assert isinstance(job.strategy, ParallelGrid)
    for name, text in recipe_texts(layer_graph(job.workload), job.strategy).items():
        write_atomically(out / name, text.encode())


def _plain(recipe: FoundRecipe, is_best: bool) -> dict[str, Any]:
    """Return the numbers of one recipe for programs, in SI units."""
    row = recipe.result.row
    return {
        "recipe": recipe.name,
        "overrides": list(recipe.overrides),
        "iteration_time": row.iteration_time,
        "bound": recipe.bound,
        "tokens_per_second": row.tokens_per_second,
        "cost_usd": recipe.result.cost,
        "usd_per_million_tokens": row.usd_per_million_tokens,
        "memory_per_gpu": recipe.result.memory,
        "memory_left": recipe.memory_left,
        "parts": dict(recipe.time_parts),
        "pareto": is_best,
    }
