"""``topoflow compare``: a grid of jobs, networks and settings, simulated as one batch."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from itertools import islice

from topoflow.case.base import Result
from topoflow.cli.builder import Asked, Builder
from topoflow.cli.failures import fail_each
from topoflow.cli.grid import fidelity_of, grid, run_of
from topoflow.cli.keys import check
from topoflow.cli.output import Output, output
from topoflow.cli.stages import Terminal
from topoflow.engine.base import Run
from topoflow.engine.simulation import simulate_each
from topoflow.report.base import Report
from topoflow.report.terminal import show


def run(arguments: argparse.Namespace) -> None:
    """Compose, build, simulate, print; then write, if there is an ``out``."""
    with Terminal() as terminal:
        terminal.stage("composing")
        points = grid(arguments.overrides, check, observer=terminal)
        out, run = output(points, "compare"), run_of(points, terminal)
        builder = Builder()
        terminal.stage("placing")
        built = builder.build(points, terminal)
        terminal.stage("simulating")
        ran = simulate(built, run)
        outcomes = tuple(fail_each(built, ran, builder, run))
        command = shlex.join(["topoflow", "compare", *arguments.overrides])
        report = Report(outcomes, command, tuple(builder.left_out))
        if out is not None:
            from topoflow.report.write import NO_PARQUET, STEPS, can_write_parquet, write  # a second to import

            terminal.stage("drawing")
            write(report, out, lambda done: terminal.advance(done, STEPS))
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
        if not can_write_parquet():
            console.print(NO_PARQUET, highlight=False, markup=False)


def simulate(asked: Sequence[Asked], run: Run) -> list[Result]:
    """The result of every point; what has the same fidelity runs as one batch.

    Where several networks may be left after a failure, the result is that of the fastest.
    """
    cases = [(case, fidelity_of(each.point)) for each in asked for case in each.cases]
    timelines = simulate_each([(case.world, fidelity) for case, fidelity in cases], run)
    ran = iter([Result(case, timeline) for (case, _), timeline in zip(cases, timelines, strict=True)])
    return [min(islice(ran, len(each.cases)), key=lambda result: result.iteration_time) for each in asked]
