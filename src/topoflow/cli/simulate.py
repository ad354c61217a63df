"""``topoflow simulate``: one world from a file, made by hand or by another tool."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from topoflow.api.worlds import Simulated
from topoflow.cli.stages import Terminal, size_of
from topoflow.engine.simulation import simulate
from topoflow.report.output import Output
from topoflow.study.configure.build import fidelity_of, run_of
from topoflow.study.configure.grid import grid
from topoflow.study.configure.keys import check_keys, check_run
from topoflow.study.configure.os_errors import named
from topoflow.study.configure.output import output
from topoflow.study.configure.point import Point
from topoflow.study.tracked import tracked
from topoflow.units import counted
from topoflow.worldfile.world_file import read

CONFIG = "simulate"
KEYS = ("world", "fidelity", "device", "threads", "out")


def run(arguments: argparse.Namespace) -> None:
    """Read, simulate, write, print."""
    point = parse(arguments.settings)
    path, fidelity = Path(str(point.config["world"])), fidelity_of(point)
    command = shlex.join(["topoflow", "simulate", *arguments.settings])
    with output([point], "simulate") as out, tracked([point], "simulate", command, out) as log:
        with Terminal() as terminal:
            run_settings = run_of([point], log.informing(terminal), out)
            with named({"world": path}):
                log.stage("reading")
                log.size(size_of([path]))
                file = read(path)
            log.stage(file.world.name)
            log.size(f"{counted(file.world.graph.tasks, 'task')} on {counted(len(file.world.capacity), 'link')}")
            (timeline,) = simulate([file.world], fidelity, run_settings)
        simulated = Simulated(file, timeline)
        if out is not None:
            simulated.save(out)
    console = Output(highlight=False)
    show(simulated, console)
    files = "when each task ran is in flows.csv, and the load of each link in links.csv"
    console.print(
        f"Add out=DIR: {files}." if out is None else f"{files[0].upper()}{files[1:]}, in {out}.", soft_wrap=True
    )


def parse(settings: Sequence[str]) -> Point:
    """Return the point of ``KEY=VALUE`` words.

    Raises ``ValueError`` for a key that does not exist, is given twice or has no value.
    """
    values: dict[str, str] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not value:
            raise ValueError(f"{key}: must have a value, as in {key}=VALUE, got {setting!r}")
        if key in values:
            raise ValueError(f"{key}: must be given once, got {values[key]!r} and {value!r}")
        values[key] = value
    points = grid(settings, _check, CONFIG)
    if len(points) > 1:
        raise ValueError(f"{next(iter(points[0].swept))}: must be one value, as one world is simulated, got several")
    return points[0]


def _check(config: Mapping[str, Any]) -> None:
    """Raise ``ValueError`` for a key or a value that ``configs/simulate.yaml`` does not have, before it is used."""
    check_keys(config, KEYS)
    check_run(config)


def show(simulated: Simulated, console: Console) -> None:
    """Print the makespan and the busiest link."""
    summary = Table("", "", title=simulated.world.name, show_header=False)
    for quantity, value in simulated.summary:
        summary.add_row(quantity, value)
    console.print(summary)
