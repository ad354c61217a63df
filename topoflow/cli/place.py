"""``topoflow place``: which servers of a cluster requests for machines get."""

from __future__ import annotations

import argparse
import json
import shlex

from topoflow.cli.experiment import summary_table
from topoflow.cli.kept import keep
from topoflow.cli.stages import Terminal
from topoflow.files import write_atomically
from topoflow.report.output import Output
from topoflow.study.configure.grid import grid
from topoflow.study.configure.output import output
from topoflow.study.figures.write import result, write
from topoflow.study.placements import CONFIG, Locality, check, place


def run(arguments: argparse.Namespace) -> None:
    """Compose, place, write, print."""
    command = shlex.join(["topoflow", "place", *arguments.overrides])
    points = grid(arguments.overrides, check, CONFIG)
    with output(points, "place") as out, Terminal() as terminal:
        terminal.stage("placing")
        placed = place(points, terminal)
        rows, found = [row for each in placed for row in each.rows], Locality(placed)
        if out is not None:
            lines = [json.dumps(line) for each in placed for line in each.placements]
            write(found, rows, command, out, {"placements.jsonl": "".join(f"{line}\n" for line in lines).encode()})
    console = Output()
    console.print(summary_table(found, found.summary(rows)))
    if out is None:
        kept = keep("place", lambda folder: write_atomically(folder / "result.json", result(found, rows, command)))
        console.print(
            f"{kept} Add out=DIR for report.html with pictures and the servers of every request.", highlight=False
        )
    else:
        files = "every request is in rows.csv, and its servers are in placements.jsonl next to it"
        console.print(f"Open {out / 'report.html'}; {files}.", highlight=False)
