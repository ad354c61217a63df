"""``topoflow experiment``: the figures of papers, one command each."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from itertools import compress
from textwrap import wrap

from rich.console import Console
from rich.table import Table

from topoflow.cli.stages import Terminal
from topoflow.engine.observer import Silent
from topoflow.report.files import sole_writer
from topoflow.report.output import Output, text_table
from topoflow.report.terminal import width
from topoflow.study.configure.build import run_of
from topoflow.study.figures.base import Figure, Row
from topoflow.study.figures.load import load, split
from topoflow.study.figures.measure import identified, measure, setups
from topoflow.study.figures.points import PointFile
from topoflow.study.figures.write import columns, headed, write
from topoflow.study.tracked import of_figure, tracked
from topoflow.units import counted

CHECKPOINT = "checkpoint.jsonl"
TITLES = (80, 24, 16, 12, 8)  # characters of a line of a title: the first with which all columns fit


def run(arguments: argparse.Namespace) -> None:
    """Compose the points, measure those that are not stored, write the figure, print its summary."""
    experiment = load(arguments.name, arguments.overrides)
    out, chosen, grid_arguments = split(arguments.overrides, experiment)
    command = shlex.join(["topoflow", "experiment", arguments.name, *arguments.overrides])
    with sole_writer(out, f"experiment {arguments.name}"):
        stored = PointFile(out / CHECKPOINT)
        points = list(setups(experiment, chosen, grid_arguments))
        experiment.check([setup.label for setup in points])
        simulated_points = [setup.point for setup in points]
        run_settings = run_of(simulated_points, Silent(), out)
        with tracked(simulated_points, "experiment", command, out) as log:
            with Terminal() as terminal:
                observer = log.informing(terminal)
                observer.stage("composing")
                observer.size(counted(len(points), "point"))
                todo = identified(experiment, points, observer)
                done = sum(point in stored for point, _ in todo)
                if done:
                    print(f"Continuing from {done} of {len(todo)} points in {stored.path}.", flush=True)
                observer.stage("simulating")
                observer.size(f"{len(todo) - done:,} of {counted(len(todo), 'point')}")
                rows = measure(experiment, todo, stored, run_settings, observer)
                experiment = experiment.titled(rows)
                write(experiment, rows, command, out)
            summary = experiment.summary(rows)
            log.record_results(of_figure(summary, rows, out))
    console = Output()
    show(experiment, summary, console)
    console.print(f"Open {out / 'report.html'}; numbers are in result.json and rows.csv next to it.", highlight=False)


def show(figure: Figure, summary: Sequence[Row], console: Console) -> None:
    """Print the summary of the figure; where a console is too narrow for titles, these have several lines."""
    for characters in TITLES:
        table = summary_table(figure, summary, characters)
        if width(table, console) <= console.width:
            break
    console.print(table)


def summary_table(figure: Figure, summary: Sequence[Row], characters: int) -> Table:
    """The summary of the figure, with units. A title is wrapped at ``characters``, but not within a word."""
    head, rows = headed(figure, summary)
    shown = ["\n".join(wrap(title, characters, break_long_words=False)) for title in head]
    texts = [any(isinstance(row.get(key), str) for row in summary) for key in columns(summary)]
    return text_table(shown, rows, title=figure.title, left=[*compress(shown, texts)])
