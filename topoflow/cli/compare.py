"""``topoflow compare``: a grid of jobs, networks and settings, simulated as one batch."""

from __future__ import annotations

import argparse
import shlex

from topoflow.cli.kept import keep
from topoflow.cli.stages import Terminal
from topoflow.report.output import Output
from topoflow.report.tables import write_result
from topoflow.report.terminal import show
from topoflow.study.compare import compare
from topoflow.study.configure.grid import grid, run_of
from topoflow.study.configure.keys import check
from topoflow.study.configure.output import output


def run(arguments: argparse.Namespace) -> None:
    """Compose, compare, write, print. Without ``out``, result.json is all that is written."""
    with Terminal() as terminal:
        terminal.stage("composing")
        points = grid(arguments.overrides, check, observer=terminal)
    with output(points, "compare") as out, Terminal() as terminal:
        report = compare(points, run_of(points, terminal), shlex.join(["topoflow", "compare", *arguments.overrides]))
        if out is not None:
            from topoflow.report.write import NO_PARQUET, STEPS, can_write_parquet, write  # a second to import

            terminal.stage("drawing")
            write(report, out, lambda done: terminal.advance(done, STEPS))
    console = Output()
    show(report, console)
    if out is None:
        where = keep("compare", lambda folder: write_result(report, folder / "result.json"))
        console.print(f"{where} Add out=DIR for report.html with pictures and Parquet tables.", highlight=False)
    else:
        console.print(
            f"Open {out / 'report.html'}; numbers for programs are in result.json next to it.", highlight=False
        )
        if not can_write_parquet():
            console.print(NO_PARQUET, highlight=False)
