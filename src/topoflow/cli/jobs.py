"""``topoflow compare jobs=FILE``: several training jobs at once on one cluster."""

from __future__ import annotations

import argparse

from topoflow.cli.experiment import show
from topoflow.cli.saved_results import keep
from topoflow.cli.stages import Terminal
from topoflow.cli.verb import command_of, folders
from topoflow.files import write_atomically
from topoflow.report.output import Output
from topoflow.study.configure.build import run_of
from topoflow.study.configure.output import output
from topoflow.study.figures.write import result, write
from topoflow.study.shared_jobs import JobsComparison, JobsFigure, SharingJobs
from topoflow.units import counted


def run_jobs(arguments: argparse.Namespace) -> None:
    """Simulate each job alone and all together, on every network; write, print."""
    command = command_of(arguments)
    with Terminal() as terminal:
        terminal.stage("composing")
        sharing_jobs = SharingJobs.of(arguments.overrides, folders(arguments), terminal)
        points = [point.cluster for point in sharing_jobs.points]
        with output(points, "compare") as out:
            terminal.stage("simulating")
            terminal.size(f"{counted(len(sharing_jobs.jobs), 'job')} on {counted(len(points), 'network')}")
            comparison = JobsComparison(sharing_jobs, run_of(points, terminal, out))
            rows = comparison.rows()
            figure = JobsFigure()
            if out is not None:
                write(figure, rows, command, out)
    console = Output()
    show(figure, rows, console)
    for line in comparison.left_out:
        console.print(f"Left out: {line}", highlight=False, markup=False)
    if out is None:
        text = result(figure, rows, command)
        message, _ = keep("compare", lambda folder: write_atomically(folder / "result.json", text))
        console.print(f"{message} Add out=DIR for report.html with a picture.", highlight=False)
    else:
        console.print(f"Open {out / 'report.html'}; numbers are in result.json and rows.csv.", highlight=False)
