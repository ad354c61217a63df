"""``topoflow place``: which servers of a cluster requests for machines get."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from topoflow.cli.experiment import show
from topoflow.cli.saved_results import keep
from topoflow.cli.stages import Terminal
from topoflow.cli.verb import Verb, command_of, folders, needs_hydra, run_application
from topoflow.files import write_atomically
from topoflow.json_lines import json_lines
from topoflow.report.output import Output
from topoflow.study.configure.grid import grid
from topoflow.study.configure.output import output
from topoflow.study.configure.point import Point
from topoflow.study.figures.write import result, table, write
from topoflow.study.placements import CONFIG, Locality, check, place
from topoflow.study.tracked import tracked


def run(arguments: argparse.Namespace) -> None:
    """Compose, place, write, print."""
    if needs_hydra(arguments):
        run_application(arguments, Verb("place", check, answer))
        return
    answer(grid(arguments.overrides, check, CONFIG, folders=folders(arguments)), command_of(arguments))


def answer(points: Sequence[Point], command: str, folder: Path | None = None) -> None:
    """Place the requests at each point; without ``out``, result.json is in ``folder``."""
    with (
        output(points, "place") as out,
        tracked(points, "place", command, out or folder) as log,
        Terminal() as terminal,
    ):
        observer = log.informing(terminal)
        observer.stage("placing")
        placed = place(points, observer)
        rows, figure = [row for placed_point in placed for row in placed_point.rows], Locality(placed)
        if out is not None:
            lines = json_lines(line for placed_point in placed for line in placed_point.placements)
            used = table([row for placed_point in placed for row in placed_point.utilization]).encode()
            write(figure, rows, command, out, {"placements.jsonl": b"".join(lines), "utilization.csv": used})
    console = Output()
    show(figure, figure.summary(rows), console)
    if out is None:
        text = result(figure, rows, command)
        message, _ = keep("place", lambda where: write_atomically(where / "result.json", text), folder)
        console.print(
            f"{message} Add out=DIR for report.html with pictures and the servers of every request.", highlight=False
        )
    else:
        files = "rows.csv has every request, placements.jsonl its servers, utilization.csv the resources in use"
        console.print(f"Open {out / 'report.html'}; {files}.", highlight=False)
