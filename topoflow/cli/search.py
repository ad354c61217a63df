"""``topoflow search``: the strategy and the network that make an iteration fastest, found together."""

from __future__ import annotations

import argparse
import shlex
from functools import partial

from rich.console import Console

from topoflow.cli.kept import keep
from topoflow.cli.search_progress import SearchTerminal
from topoflow.cli.stages import Terminal
from topoflow.report.output import Output
from topoflow.report.search_terminal import show_all
from topoflow.study.configure.grid import grid, run_of
from topoflow.study.configure.output import output
from topoflow.study.searches import CONFIG, Searched, check, search_all


def run(arguments: argparse.Namespace) -> None:
    """Compose, search, write, print."""
    command = shlex.join(["topoflow", "search", *arguments.overrides])
    with Terminal() as terminal:
        terminal.stage("composing")
        points = grid(arguments.overrides, check, CONFIG, terminal)
    with output(points, "search") as out:
        with SearchTerminal() as progress:
            searched = search_all(points, run_of(points, progress), command, out, partial(print, flush=True))
        if out is not None:
            with Terminal() as terminal:
                terminal.stage("drawing")
                searched.write(out, terminal.advance)
    show(searched, Output())


def show(searched: Searched, console: Console) -> None:
    """What was chosen, at length; of several searches, a line for each, the quickest first as on the page."""
    show_all(searched.reports, searched.winners, console)
    out = searched.out
    where = (
        f"{keep('search', searched.keep)} Add out=DIR for report.html with pictures, and to resume a search."
        if out is None
        else f"Open {out / 'report.html'}; the plan is in plan.json next to it."
        if len(searched.searches) == 1
        else f"Open {out / 'report.html'}; each plan is in plan.json in its folder."
    )
    console.print(where, highlight=False)
