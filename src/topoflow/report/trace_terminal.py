"""The terminal output of ``topoflow inspect``."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from math import ceil
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from topoflow.capture.base import Trace
from topoflow.capture.summary import Summary, traffic_matrix
from topoflow.report.output import text_table
from topoflow.report.trace_tables import (
    MAX_ROWS,
    TraceTable,
    collectives_table,
    groups_table,
    repetition,
    shares_table,
    side_by_side,
    stragglers,
)
from topoflow.units import human

MAX_CELLS = 64  # rows of the heat map


def next_step(paths: Sequence[Path]) -> str:
    """Return a line with the command that replays a job; the files of its ranks are given as their folder."""
    path = paths[0] if len(paths) == 1 else paths[0].parent
    command = shlex.join(["topoflow", "compare", "workload=captured", f"workload.trace={path}"])
    return f"{command} replays it on several networks."


def show(trace: Trace, summary: Summary, console: Console) -> None:
    """Print the tables of a trace."""
    console.print(Text(f"{summary.name} ({summary.source})", style="bold"))
    plural = "s" if summary.iterations > 1 else ""
    console.print(f"{summary.iterations} iteration{plural}, {summary.ranks} of {summary.world_size} ranks recorded")
    if summary.iterations > 1:
        took = "" if summary.iteration_time is None else f", which took {human(summary.iteration_time, 's')}"
        same = "; a replay simulates the same one" if summary.replayable else ""
        console.print(f"All that follows is of iteration {summary.iteration}{took}{same}.")
        console.print(repetition(summary.steps))
    console.print(_table(collectives_table(summary)))
    console.print(_table(groups_table(summary)))
    if len(summary.groups) > MAX_ROWS:
        console.print(f"{len(summary.groups) - MAX_ROWS} more groups; --json has all")
    _show_shares(summary, console)
    _show_heat(trace, console)
    for note in summary.notes:
        console.print(Text(f"note: {note}"))


def show_pair(first: Summary, second: Summary, console: Console) -> None:
    """Print two traces side by side."""
    for letter, summary in zip("AB", (first, second), strict=True):
        console.print(Text(f"{letter}: {summary.name} ({summary.source})", style="bold"))
    console.print(_table(side_by_side(first, second)))
    for letter, summary in zip("AB", (first, second), strict=True):
        for line in (*stragglers(summary), *(f"note: {note}" for note in summary.notes)):
            console.print(Text(f"{letter}: {line}"))


def _show_shares(summary: Summary, console: Console) -> None:
    if summary.communication_share is None:
        console.print("Share of time in communication: the trace has no times of its communication")
        return
    exposed = ""
    if summary.exposed_share is not None:
        exposed = f", exposed: {summary.exposed_share:.1%}"
    console.print(f"Share of time in communication: {summary.communication_share:.1%}{exposed} (mean over ranks)")
    console.print(_table(shares_table(summary)))
    if len(summary.shares) > MAX_ROWS:
        console.print(f"{len(summary.shares) - MAX_ROWS} more ranks; --json has all")
    for line in stragglers(summary):
        console.print(line)


def _show_heat(trace: Trace, console: Console) -> None:
    """Print a coarse heat map with one character per cell: blank for zero, full for the largest value."""
    matrix = traffic_matrix(trace, MAX_CELLS)
    largest = matrix.max()
    if largest <= 0:
        return
    run = ceil(trace.world_size / MAX_CELLS)
    ranks = "rank" if run == 1 else f"{run} ranks"
    console.print(
        f"Traffic in one iteration, from {ranks} (row) to {ranks} (column); █ is {human(float(largest), 'B')}"
    )
    for cell, row in enumerate(matrix):
        cells = "".join(" ░▒▓█"[int(np.ceil(4 * amount / largest))] * 2 for amount in row)
        console.print(Text(f"{cell * run:>{len(str(trace.world_size)) + 3}} |{cells}|"))


def _table(table: TraceTable) -> Table:
    return text_table(table.columns, table.rows, title=table.title, left=table.columns[: table.left])
