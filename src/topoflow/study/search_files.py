"""Files that ``topoflow search`` writes: plan.json, megatron.txt, torchtitan.toml, result.json and report.html."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from topoflow.case.base import Job
from topoflow.report.files import whole_folder
from topoflow.report.search_report import SearchReport
from topoflow.search.problem import Problem
from topoflow.search.result import SearchResult
from topoflow.strategy.grid import ParallelGrid
from topoflow.study.configure.point import Point
from topoflow.study.configure.recipe import recipe_texts
from topoflow.workload.base import layer_graph

Tick = Callable[[int, int], None]


def report(problem: Problem, result: SearchResult, command: str) -> SearchReport:
    """Return the report of a search for people."""
    return SearchReport(
        command=command,
        requested=Job(problem.workload, problem.start),
        before=result.start,
        after=result.best,
        bound=result.plan.bound,
        circuits=result.plan.circuits,
        history=result.history,
        unpermuted=result.unpermuted,
    )


def row(name: str, point: Point, result: SearchResult, chosen: bool) -> dict[str, Any]:
    """Return the numbers of one search for programs, in SI units."""
    plan, steps = result.plan, result.history
    walked = len(steps.steps) > 0
    return {
        "search": name,
        "workload": plan.workload,
        "fabric": plan.fabric,
        "servers": plan.servers,
        "degree": plan.degree,
        "bandwidth": plan.bandwidth,
        "iteration_time": plan.iteration_time,
        "bound": plan.bound,
        "start_time": result.start.iteration_time,
        "cost_usd": plan.cost,
        "power_w": plan.power,
        "chosen": chosen,
        "proposals": steps.num_proposals,
        "acceptance": float(steps.acceptance.mean()) if walked else None,
        "rounds": [asdict(search_round) for search_round in steps.rounds],
        "overrides": dict(point.swept),
        "config": point.config,
    }


def memory_row(shown: SearchReport) -> dict[str, Any]:
    """Return what the found, the first and the given strategy need on the fullest GPU, in bytes."""
    return {
        "memory_per_gpu": shown.after.memory,
        "start_memory_per_gpu": shown.before.memory,
        "given_memory_per_gpu": shown.requested.memory,
        "notes": shown.notes,
    }


def write_plan(result: SearchResult, shown: SearchReport, out: Path, tick: Tick) -> None:
    """Write ``plan.json`` and ``report.html`` of one search to its folder, and recipes for parallel degrees."""
    from topoflow.report.page.search import write_search  # with matplotlib, a third of a second to import

    with whole_folder(out) as folder:
        (folder / "plan.json").write_text(result.plan.to_json(), encoding="utf-8")
        if isinstance(result.strategy, ParallelGrid):
            for name, text in recipe_texts(layer_graph(shown.requested.workload), result.strategy).items():
                (folder / name).write_text(text, encoding="utf-8")
    write_search(shown, out, tick)


def write_result(rows: list[dict[str, Any]], command: str, out: Path) -> None:
    """``result.json``: one row per search."""
    text = json.dumps({"command": command, "plans": rows}, indent=2, allow_nan=False)
    with whole_folder(out) as folder:
        (folder / "result.json").write_text(text + "\n", encoding="utf-8")


def write_overview(
    shown: Mapping[str, SearchReport], folders: Mapping[str, Path], chosen: Collection[str], out: Path, tick: Tick
) -> None:
    """``report.html`` of several searches."""
    from topoflow.report.page.searches import write_searches

    relative = {name: folder.relative_to(out).as_posix() for name, folder in folders.items()}
    write_searches(shown, relative, chosen, out, tick)
