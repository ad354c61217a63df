"""``topoflow compare``: a grid of jobs, networks and settings, simulated as one batch."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from topoflow.case.base import Case, Result
from topoflow.cli.failures import fail_each
from topoflow.cli.output import Output
from topoflow.cli.stages import Stages
from topoflow.engine import bound, fluid
from topoflow.engine.dynamic import reconfigure
from topoflow.report.base import Report
from topoflow.report.files import check_folder
from topoflow.report.terminal import show
from topoflow.study.builder import Asked, Builder
from topoflow.study.configure.grid import Point, grid
from topoflow.study.configure.keys import check


def run(arguments: argparse.Namespace) -> None:
    """Compose, build, simulate, print; then write, if there is an ``out``."""
    with Stages() as stages:
        points = grid(arguments.overrides, check, stages.stage("composing"))
        out = output(points, "compare")
        builder = Builder()
        built = builder.build(points, stages.stage("placing"))
        ran = simulate(built, stages.stage("simulating"))
        outcomes = tuple(fail_each(built, ran, builder, stages))
        command = shlex.join(["topoflow", "compare", *arguments.overrides])
        report = Report(outcomes, command, tuple(builder.left_out))
        if out is not None:
            from topoflow.report.write import STEPS, write  # pictures and tables: a second to import

            tick_draw = stages.stage("drawing")
            write(report, out, lambda done: tick_draw(done, STEPS))
    console = Output()
    if not console.is_terminal:
        console.width = 200  # a file or a pipe has no width to fit into
    show(report, console)
    if out is None:
        console.print("Add out=DIR for report.html with pictures, result.json and Parquet tables.")
    else:
        console.print(
            f"Open {out / 'report.html'}; numbers for programs are in result.json beside it.", highlight=False
        )


def simulate(asked: Sequence[Asked], progress: Callable[[int, int], None]) -> list[Result]:
    """The result of every point. ``progress(done, total)``.

    Where several networks may be left after a failure, the result is that of the fastest.
    """
    ran = iter(_run_all([case for each in asked for case in each.cases], progress))
    return [min(islice(ran, len(each.cases)), key=lambda result: result.iteration_time) for each in asked]


def _run_all(cases: Sequence[Case], progress: Callable[[int, int], None]) -> list[Result]:
    """What has the same fidelity and settings runs as one batch, networks that reconfigure one by one."""
    batches: dict[tuple[str, float], list[int]] = {}
    ran: dict[int, Result] = {}
    for index, case in enumerate(cases):
        config: Any = case.settings.config
        fidelity = config["fidelity"]
        merge = config["fluid"]["merge"] if fidelity == "fluid" else 0.0
        if case.fabric.reconfiguration is None:
            batches.setdefault((fidelity, merge), []).append(index)
        else:
            ran[index] = _reconfigure(case, merge)
            progress(len(ran), len(cases))
    for (fidelity, merge), batch in batches.items():
        tell = partial(_tell, progress, len(ran), len(cases))
        worlds = [cases[index].world for index in batch]
        if fidelity == "bound":
            found = bound.simulate(worlds, progress=tell)
        else:
            found = fluid.simulate(worlds, progress=tell, merge=merge)
        ran |= {
            index: Result(cases[index], timeline, cases[index].world)
            for index, timeline in zip(batch, found, strict=True)
        }
    return [ran[index] for index in range(len(cases))]


def _reconfigure(case: Case, merge: float) -> Result:
    if case.settings.fidelity != "fluid":
        raise ValueError(
            f"fidelity: must be fluid on {case.fabric.name}, whose circuits change, got {case.settings.fidelity}"
        )
    how = case.lowering
    ran = reconfigure.simulate(case.world, case.fabric, seed=how.seed, routing=how.routing, merge=merge)
    return Result(case, ran.timeline, ran.world)


def _tell(progress: Callable[[int, int], None], earlier: int, total: int, done: int) -> None:
    """Progress of one batch as progress of all."""
    progress(earlier + done, total)


def output(points: Sequence[Point], verb: str) -> Path | None:
    """The one folder for ``verb`` to write to. Raises ``ValueError`` when there are several or it cannot be one."""
    outs = {str(point.config["out"]): point.config["out"] for point in points}
    if len(outs) > 1:
        raise ValueError(f"out: must be one folder for the whole comparison, got {', '.join(sorted(outs))}")
    ((name, out),) = outs.items()
    if out is None:
        return None
    if not name or isinstance(out, list | dict):
        raise ValueError(f"out: must be the name of a folder, got {out!r}")
    check_folder(Path(name), verb)
    return Path(name)
