"""What ``topoflow search`` writes: plan.json, result.json and report.html."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from topoflow.case.rows import flow_matrix
from topoflow.report.draw import history
from topoflow.report.files import whole_folder
from topoflow.report.page.search import write_search
from topoflow.report.page.searches import write_searches
from topoflow.report.search_report import SearchReport, State, TooLarge
from topoflow.search.found import Found
from topoflow.search.judge import Candidate
from topoflow.search.problem import Problem
from topoflow.study.configure.grid import Point
from topoflow.workload.base import Workload

Tick = Callable[[int, int], None]


def report(problem: Problem, found: Found, command: str) -> SearchReport:
    """What a person is shown of a search."""
    plan, start, best = found.plan, found.start, found.best
    needed, has = problem.start.memory_per_gpu(problem.workload), problem.workload.gpu.memory
    return SearchReport(
        workload=plan.workload,
        command=command,
        all_reduce=problem.all_reduce,
        before=_state(start, problem.workload),
        after=_state(best, problem.workload),
        bound=plan.bound,
        cost=plan.cost,
        power=plan.power,
        circuits=plan.circuits,
        history=_history(found),
        too_large=None if needed is None or needed <= has else TooLarge(problem.start, needed, has),
    )


def _state(judged: Candidate, workload: Workload) -> State:
    """What was simulated of a strategy, on the network that it was simulated on."""
    sent = flow_matrix(judged.world.graph, judged.fabric)
    groups = frozenset(group for group, bytes_ in judged.traffic.demand().all_reduce.items() if bytes_ > 0)
    memory = judged.strategy.memory_per_gpu(workload)
    return State(judged.strategy, judged.fabric, judged.timeline, sent, groups, memory)


def _history(found: Found) -> history.History:
    steps = found.history
    return history.History(
        proposals=steps.proposals,
        round=steps.round,
        best=steps.best,
        current=steps.current,
        acceptance=steps.acceptance,
        rate=steps.rate,
        start=found.start.iteration_time,
        rounds=tuple(
            history.Round(each.strategies + each.topologies, each.time, each.new_strategy, each.new_topology)
            for each in steps.rounds
        ),
    )


def row(name: str, point: Point, found: Found, chosen: bool) -> dict[str, Any]:
    """What a program wants to know of one search; SI units."""
    plan, steps = found.plan, found.history
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
        "start_time": found.start.iteration_time,
        "cost_usd": plan.cost,
        "power_w": plan.power,
        "chosen": chosen,
        "proposals": steps.made,
        "acceptance": float(steps.acceptance.mean()) if walked else None,
        "evaluations_per_second": float(steps.rate[-1]) if walked else None,
        "rounds": [asdict(each) for each in steps.rounds],
        "overrides": dict(point.swept),
        "config": point.config,
    }


def memory_row(shown: SearchReport) -> dict[str, Any]:
    """Of the same row, what was found, the start and the given strategy need on the fullest GPU (B)."""
    given = shown.before.memory if shown.too_large is None else shown.too_large.memory
    return {
        "memory_per_gpu": shown.after.memory,
        "start_memory_per_gpu": shown.before.memory,
        "given_memory_per_gpu": given,
        "notes": shown.notes,
    }


def write_plan(found: Found, shown: SearchReport, out: Path, tick: Tick) -> None:
    """``plan.json`` and ``report.html`` of one search, in its folder."""
    with whole_folder(out) as folder:
        (folder / "plan.json").write_text(found.plan.to_json(), encoding="utf-8")
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
    relative = {name: folder.relative_to(out).as_posix() for name, folder in folders.items()}
    write_searches(shown, relative, chosen, out, tick)
