"""``topoflow search``: the strategy and the network that make an iteration fastest, found together."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from rich.console import Console

from topoflow.cli.saved_results import keep
from topoflow.cli.search_progress import SearchTerminal
from topoflow.cli.stages import Terminal
from topoflow.cli.verb import Verb, command_of, folders, needs_hydra, run_application
from topoflow.report.output import Output
from topoflow.report.search_terminal import show_all
from topoflow.study.configure.build import run_of
from topoflow.study.configure.grid import Grid
from topoflow.study.configure.keys import check as check_compared
from topoflow.study.configure.nodes import has_node
from topoflow.study.configure.output import output
from topoflow.study.configure.point import Point
from topoflow.study.configure.sweeps import MOST_POINTS, MOST_SAMPLED
from topoflow.study.recipe_files import show_recipes, write_recipes
from topoflow.study.recipes import fastest, search_recipes
from topoflow.study.recipes import report as report_of
from topoflow.study.searches import CONFIG, Searched, check, search_all
from topoflow.study.tracked import of_comparison, of_searches, tracked
from topoflow.study.trials import GROUP, is_sampled
from topoflow.units import counted

ON_NODES = ("strategy=parallel", "fabric=rail_optimized")  # with node=, where not given
NOT_COMPARED = ("out", "fold", "strategy.microbatches")  # keys that a comparison of the winner does not have


def run(arguments: argparse.Namespace) -> None:
    """Compose, search, write, print."""
    if needs_hydra(arguments):
        run_application(arguments, Verb("search", check, answer))
        return
    if has_node(arguments.overrides):
        search_on_nodes(arguments)
        return
    with Terminal() as terminal:
        terminal.stage("composing")
        samples = any(override.startswith(f"{GROUP}=") for override in arguments.overrides)
        max_points = MOST_SAMPLED if samples else MOST_POINTS
        point_grid = Grid.of(arguments.overrides, check, CONFIG, folders=folders(arguments), most=max_points)
        terminal.size(counted(len(point_grid), "point"))
        points: Sequence[Point] = point_grid if samples else point_grid.compose(observer=terminal)
    answer(points, command_of(arguments))


def search_on_nodes(arguments: argparse.Namespace) -> None:
    """Search the recipes of a transformer on nodes of GPUs, print the best, and write them as a comparison."""
    overrides = [*ON_NODES, *arguments.overrides]
    for text in overrides:
        if re.match(r"(search|resume|study)\b", text):
            raise ValueError(f"{text.partition('=')[0]}: must be left out with node, got {text.partition('=')[2]}")
    with Terminal() as terminal:
        terminal.stage("composing")
        point_grid = Grid.of(overrides, check_compared, folders=folders(arguments))
        points, command = point_grid.compose(observer=terminal), command_of(arguments)
    with output(points, "search") as out, tracked(points, "search", command, out) as log:
        with Terminal() as terminal:
            fixed = [key.removeprefix("strategy.") for key in point_grid.given_keys]
            recipes = search_recipes(points, fixed, run_of(points, log.informing(terminal), out))
            report = report_of(recipes, command)
            if out is not None:
                from topoflow.report.write import STEPS, write  # a second to import

                log.stage("drawing")
                write(report, out, lambda done: log.advance(done, STEPS))
                write_recipes(recipes, out)
        console = Output()
        show_recipes(recipes, console)
        chosen = fastest(recipes).overrides
        replaced = {*NOT_COMPARED, *(text.partition("=")[0] for text in chosen)}
        same = [text for text in overrides if text.lstrip("+").partition("=")[0] not in replaced]
        console.print(f"Compare it: {shlex.join(['topoflow', 'compare', *same, *chosen])}")
        if out is None:
            where, out = keep("search", lambda folder: write_recipes(recipes, folder))
            console.print(f"{where} Add out=DIR for report.html with pictures.", highlight=False)
        else:
            console.print(f"Open {out / 'report.html'}; all numbers are in recipes.json next to it.", highlight=False)
        log.record_results(of_comparison(report, out))


def answer(points: Sequence[Point], command: str, folder: Path | None = None) -> float:
    """One search for each point; without ``out``, plans and result.json are in ``folder``. Returns the best time, s."""
    about = [points[0]] if is_sampled(points) else points  # all others differ in what is sampled alone
    with output(about, "search") as out, tracked(about, "search", command, out or folder) as log:
        with SearchTerminal() as progress:
            run = run_of(about, log.informing(progress), out)
            searched = search_all(points, run, command, out, partial(print, flush=True))
        if out is not None:
            with Terminal() as terminal:
                log.informing(terminal).stage("drawing")
                searched.write(out, log.advance)
        folder = show(searched, Output(), folder)
        log.record_results(of_searches(searched, folder))
    return min(searched.results[name].plan.iteration_time for name in searched.winners)


def show(searched: Searched, console: Console, folder: Path | None = None) -> Path | None:
    """Print the chosen search in detail; of several searches a line for each, the fastest first, as on the page.

    Without ``out``, plans are kept in ``folder``, else in one of this moment; returns where they are.
    """
    show_all(searched.reports, searched.winners, console)
    out = searched.out
    if out is None:
        message, out = keep("search", searched.keep, folder)
        where = f"{message} Add out=DIR for report.html with pictures, and to resume a search."
    elif len(searched.searches) == 1:
        where = f"Open {out / 'report.html'}; the plan is in plan.json next to it."
    else:
        where = f"Open {out / 'report.html'}; each plan is in plan.json in its folder."
    console.print(where, highlight=False)
    return out
