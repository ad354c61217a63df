"""``topoflow compare``: a grid of jobs, networks and settings, simulated as one batch."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from topoflow.cli.saved_results import keep
from topoflow.cli.stages import Terminal
from topoflow.cli.verb import Verb, command_of, folders, needs_hydra, run_application
from topoflow.engine.base import Unfinished
from topoflow.report.answer import recommended
from topoflow.report.base import Report
from topoflow.report.dataset.base import SUFFIX, is_dataset
from topoflow.report.output import Output
from topoflow.report.tables import write_result
from topoflow.report.terminal import show
from topoflow.study.compare import compare, compare_each
from topoflow.study.configure.build import run_of
from topoflow.study.configure.grid import Grid
from topoflow.study.configure.keys import check
from topoflow.study.configure.output import output
from topoflow.study.configure.point import Point
from topoflow.study.configure.sweeps import MOST_POINTS, MOST_SAMPLED
from topoflow.study.dataset import dataset_of, write_dataset
from topoflow.study.tracked import of_comparison, of_dataset, tracked, trackers_of
from topoflow.units import counted


def run(arguments: argparse.Namespace) -> None:
    """Compose, compare, write, print. Without ``out``, result.json is all that is written."""
    if needs_hydra(arguments):
        run_application(arguments, Verb("compare", check, answer, answer_each))
        return
    if any(override.startswith("jobs=") for override in arguments.overrides):
        from topoflow.cli.jobs import run_jobs  # its pictures take half a second to import

        run_jobs(arguments)
        return
    with Terminal() as terminal:
        terminal.stage("composing")
        large = any(override.startswith("out=") and SUFFIX in override for override in arguments.overrides)
        max_points = MOST_SAMPLED if large else MOST_POINTS
        point_grid = Grid.of(arguments.overrides, check, folders=folders(arguments), most=max_points)
        is_lazy = large and is_dataset(point_grid[0].config["out"])
        terminal.size(counted(len(point_grid), "point"))
        points: Sequence[Point] = point_grid if is_lazy else point_grid.compose(observer=terminal)
    answer(points, command_of(arguments))


def answer(points: Sequence[Point], command: str, folder: Path | None = None) -> float | None:
    """One comparison; without ``out``, its result.json is in ``folder``. Returns the time of what is recommended, s."""
    if is_dataset(points[0].config["out"]):
        answer_rows(points, command)
        return None
    with output(points, "compare") as out, tracked(points, "compare", command, out or folder) as log:
        with Terminal() as terminal:
            report = compare(points, run_of(points, log.informing(terminal), out), command)
            log.rows([vars(row) for row in report.rows])
            if out is not None:
                from topoflow.report.write import NO_PARQUET, STEPS, can_write_parquet, write  # a second to import

                log.stage("drawing")
                absent = write(report, out, lambda done: log.advance(done, STEPS))
        console = Output()
        show(report, console)
        if out is None:
            where, folder = keep("compare", lambda folder: write_result(report, folder / "result.json"), folder)
            console.print(f"{where} Add out=DIR for report.html with pictures and Parquet tables.", highlight=False)
        else:
            console.print(
                f"Open {out / 'report.html'}; numbers for programs are in result.json next to it.", highlight=False
            )
            if absent:
                more = f" and {len(absent) - 1} more, which it names" if len(absent) > 1 else ""
                console.print(f"trace.json has no room for {absent[0]}{more}.", highlight=False, markup=False)
            if not can_write_parquet():
                console.print(NO_PARQUET, highlight=False)
        log.record_results(of_comparison(report, folder if out is None else out))
    if report.unfinished:
        count = len(report.unfinished)
        raise Unfinished(f"worlds must come to an end, got {count} of {len(points)} that did not, which were left out")
    return recommended(report.ranking)[0].iteration_time


def answer_rows(points: Sequence[Point], command: str) -> None:
    """The rows of a sweep as a dataset, those that are missing. Memory does not grow with the points."""
    if find_spec("pyarrow") is None:
        raise ValueError(
            "out: must be a folder without .parquet where pyarrow is missing (pip install 'topoflow[parquet]')"
        )
    first = [points[0]]
    with output(first, "compare") as out, tracked(first, "compare", command, None) as log:
        dataset = dataset_of(points, command, Path(str(out)))
        dataset.begin()
        missing, console = [part for part in dataset.parts if not dataset.is_whole(part)], Output()
        for part in (part for part in dataset.written if part in missing):
            line = f"{dataset.path(part[0])}: must be as it was written, got a damaged file; it is simulated again."
            console.print(line, highlight=False, soft_wrap=True)
        if num_rows := len(points) - sum(map(len, missing)):
            console.print(f"Continuing: {num_rows:,} of {len(points):,} points are written.", highlight=False)
        with Terminal() as terminal:
            write_dataset(points, dataset, missing, run_of(first, log.informing(terminal)))
        console.print(f"{len(points):,} rows are in {out}. topoflow report {out} shows them.", highlight=False)
        log.record_results(of_dataset(dataset))


def answer_each(points: Sequence[Point], commands: Sequence[str], folders: Sequence[Path]) -> list[float | ValueError]:
    """The points as one batch, each with its result.json in its folder: its iteration time, s, or what is wrong."""
    for point in points:
        if point.config["out"] is not None:
            raise ValueError(f"out: must be null where jobs are one batch, got {point.config['out']!r}")
    is_tracked = bool(trackers_of(points))  # one that is missing is known before the work
    with Terminal() as terminal:
        reports = compare_each(points, commands, run_of(points, terminal))
    for point, report, folder in zip(points, reports, folders, strict=True):
        if isinstance(report, Report):
            write_result(report, folder / "result.json")
            if is_tracked:
                with tracked([point], "compare", report.command, None) as log:
                    log.record_results(of_comparison(report, folder))
    done = [report for report in reports if isinstance(report, Report)]
    if done:
        show(replace(done[0], outcomes=tuple(report.outcomes[0] for report in done)), Output())
    return [report.outcomes[0].iteration_time if isinstance(report, Report) else report for report in reports]
