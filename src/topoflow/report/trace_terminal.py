"""The terminal output of ``topoflow inspect``."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from math import ceil
from pathlib import Path

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from topoflow.capture.base import Trace
from topoflow.capture.summary import Number, Summary, traffic_matrix
from topoflow.units import human

MAX_ROWS = 16  # groups or ranks in a table
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
        console.print(f"All that follows is of iteration {summary.iteration}{took}; a replay simulates the same one.")
    collectives = _table("Collectives, per rank", "operation", "group size", "dtype", "count", "bytes per iteration")
    for line in summary.collectives:
        before = f" (+{_number(line.setup_count)} in set-up)" if line.setup_count else ""
        collectives.add_row(line.op, str(line.group_size), line.dtype, _number(line.count) + before,
                            _amount(line.bytes_per_iteration))  # fmt: skip
    console.print(collectives)
    groups = _table("Groups of the collectives, per member", "ranks", "size", "name", "count", "bytes per iteration")
    for group in summary.groups[:MAX_ROWS]:
        groups.add_row(_ranks(group.ranks), str(group.size), group.name, _number(group.count),
                       _amount(group.bytes_per_iteration))  # fmt: skip
    console.print(groups)
    if len(summary.groups) > MAX_ROWS:
        console.print(f"{len(summary.groups) - MAX_ROWS} more groups; --json has all")
    _show_shares(summary, console)
    _show_heat(trace, console)
    for note in summary.notes:
        console.print(Text(f"note: {note}"))


def _show_shares(summary: Summary, console: Console) -> None:
    if summary.communication_share is None or summary.exposed_share is None:
        console.print("Share of time in communication: the trace has no times of its communication")
        return
    console.print(
        f"Share of time in communication: {summary.communication_share:.1%}, "
        f"not hidden by computation: {summary.exposed_share:.1%} (mean over ranks; includes waiting for other ranks)"
    )
    table = _table("", "rank", "iteration time", "busy computing", "in communication", "not hidden")
    for share in summary.shares[:MAX_ROWS]:
        table.add_row(str(share.rank), _known(share.iteration_time, lambda time: human(time, "s")),
                      human(share.compute_time, "s"), _known(share.communication, "{:.1%}".format),
                      _known(share.exposed, "{:.1%}".format))  # fmt: skip
    console.print(table)
    if len(summary.shares) > MAX_ROWS:
        console.print(f"{len(summary.shares) - MAX_ROWS} more ranks; --json has all")


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


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, box=SIMPLE_HEAD, title_style="bold", title_justify="left")
    for column in columns:
        numeric = column in ("group size", "size", "count", "bytes per iteration", "iteration time",
                             "in communication", "not hidden")  # fmt: skip
        table.add_column(column, justify="right" if numeric else "left")
    return table


def _known(value: float | None, text: Callable[[float], str]) -> str:
    return "-" if value is None else text(value)


def _number(value: Number) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"


def _amount(value: Number) -> str:
    return f"{_number(value)} B ({human(value, 'B')})" if value >= 1000 else f"{_number(value)} B"


def _ranks(group: tuple[int, ...]) -> str:
    """Return the ranks in group order, with runs shortened: ``0-7``."""
    if len(group) > 2 and list(group) == list(range(group[0], group[0] + len(group))):
        return f"{group[0]}-{group[-1]}"
    shown = ", ".join(map(str, group[:12]))
    return shown if len(group) <= 12 else f"{shown}, ... ({len(group)})"
