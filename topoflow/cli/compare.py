"""``topoflow compare``: a grid of jobs, networks and settings, simulated as one batch."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from topoflow.cli.application import Verb, command_of, folders, is_asked
from topoflow.cli.application import run as as_application
from topoflow.cli.kept import keep
from topoflow.cli.stages import Terminal
from topoflow.report.answer import recommended
from topoflow.report.base import Report
from topoflow.report.output import Output
from topoflow.report.tables import Texts, write_result
from topoflow.report.terminal import show
from topoflow.study.compare import compare, compare_each
from topoflow.study.configure.grid import Point, grid, run_of
from topoflow.study.configure.keys import check
from topoflow.study.configure.output import output
from topoflow.study.tracked import of_comparison, tracked


def run(arguments: argparse.Namespace) -> None:
    """Compose, compare, write, print. Without ``out``, result.json is all that is written."""
    if is_asked(arguments):
        as_application(arguments, Verb("compare", check, answer, answer_each))
        return
    with Terminal() as terminal:
        terminal.stage("composing")
        points = grid(arguments.overrides, check, observer=terminal, folders=folders(arguments))
    answer(points, command_of(arguments))


def answer(points: Sequence[Point], command: str, folder: Path | None = None) -> float:
    """One comparison; without ``out``, its result.json is in ``folder``. Returns the time of what is recommended, s."""
    with output(points, "compare") as out, tracked(points, "compare", command, out or folder) as log:
        with Terminal() as terminal:
            report = compare(points, run_of(points, log.informing(terminal), out), command)
            log.rows([vars(row) for row in report.rows])
            if out is not None:
                from topoflow.report.write import NO_PARQUET, STEPS, can_write_parquet, write  # a second to import

                log.stage("drawing")
                write(report, out, lambda done: log.advance(done, STEPS))
        console = Output()
        show(report, console)
        if out is None:
            where, folder = keep("compare", lambda folder: write_result(report, folder / "result.json"), folder)
            console.print(f"{where} Add out=DIR for report.html with pictures and Parquet tables.", highlight=False)
        else:
            console.print(
                f"Open {out / 'report.html'}; numbers for programs are in result.json next to it.", highlight=False
            )
            if not can_write_parquet():
                console.print(NO_PARQUET, highlight=False)
        log.found(of_comparison(report, folder if out is None else out))
    return recommended(report.ranking)[0].iteration_time


def answer_each(points: Sequence[Point], commands: Sequence[str], folders: Sequence[Path]) -> list[float | ValueError]:
    """The points as one batch, each with its result.json in its folder: its iteration time, s, or what is wrong."""
    for point in points:
        if point.config["out"] is not None:
            raise ValueError(f"out: must be null where jobs are one batch, got {point.config['out']!r}")
    with Terminal() as terminal:
        reports = compare_each(points, commands, run_of(points, terminal))
    texts = Texts()  # of what the results have in common
    for point, report, folder in zip(points, reports, folders, strict=True):
        if isinstance(report, Report):
            write_result(report, folder / "result.json", texts)
            with tracked([point], "compare", report.command, None) as log:
                if log.logs:
                    log.found(of_comparison(report, folder))
    done = [report for report in reports if isinstance(report, Report)]
    if done:
        show(replace(done[0], outcomes=tuple(report.outcomes[0] for report in done)), Output())
    return [one.outcomes[0].iteration_time if isinstance(one, Report) else one for one in reports]
