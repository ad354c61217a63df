"""``topoflow simulate``: one world from a file, made by hand or by another tool."""

from __future__ import annotations

import argparse
import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from topoflow.cli.output import Output
from topoflow.engine.base import Timeline
from topoflow.engine.observer import Silent
from topoflow.engine.simulation import simulate
from topoflow.report.files import whole_folder
from topoflow.study.configure.grid import Point, fidelity_of, grid, run_of
from topoflow.study.configure.keys import check_keys, check_run
from topoflow.study.configure.os_errors import named
from topoflow.study.configure.output import output
from topoflow.units import human
from topoflow.worldfile.world_file import WorldFile, read

CONFIG = "simulate"
KEYS = ("world", "fidelity", "device", "threads", "out")


def run(arguments: argparse.Namespace) -> None:
    """Read, simulate, write, print."""
    point = parse(arguments.settings)
    path, how, fidelity = Path(str(point.config["world"])), run_of([point], Silent()), fidelity_of(point)
    out = output([point], "simulate")
    with named({"world": path}):
        file = read(path)
    (timeline,) = simulate([file.world], fidelity, how)
    if out is not None:
        write(file, timeline, out)
    show(file, timeline, Output())


def parse(settings: Sequence[str]) -> Point:
    """``KEY=VALUE`` words. Raises ``ValueError`` for a key that does not exist, is given twice or has no value."""
    given: dict[str, str] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not value:
            raise ValueError(f"{key}: must have a value, as in {key}=VALUE, got {setting!r}")
        if key in given:
            raise ValueError(f"{key}: must be given once, got {given[key]!r} and {value!r}")
        given[key] = value
    points = grid(settings, _check, CONFIG)
    if len(points) > 1:
        raise ValueError(f"{next(iter(points[0].swept))}: must be one value, as one world is simulated, got several")
    return points[0]


def _check(config: Mapping[str, Any]) -> None:
    """Raise ``ValueError`` for a key or a value that ``configs/simulate.yaml`` does not have, before it is used."""
    check_keys(config, KEYS)
    check_run(config)


def write(file: WorldFile, timeline: Timeline, out: Path) -> None:
    """``flows.csv`` and ``links.csv``, both or none; numbers are the shortest that read back as the same double."""
    flows = table(("id", "start", "finish"), file.flows(timeline))
    links = table(("link", "src", "dst", "bytes", "utilization"), _numbered(file.loads(timeline)))
    with whole_folder(out) as folder:
        (folder / "flows.csv").write_bytes(flows)
        (folder / "links.csv").write_bytes(links)


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> bytes:
    """CSV as RFC 4180 has it, with line feeds."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([repr(cell) if isinstance(cell, float) else cell for cell in row] for row in rows)
    return text.getvalue().encode()


def _numbered(rows: Iterable[tuple[object, ...]]) -> Iterable[tuple[object, ...]]:
    return ((number, *row) for number, row in enumerate(rows))


def show(file: WorldFile, timeline: Timeline, console: Console) -> None:
    """What a person wants to know first."""
    summary = Table("", "", title=escape(file.world.name), show_header=False)
    summary.add_row("makespan", human(timeline.makespan, "s"))
    summary.add_row("tasks", f"{len(file.ids):,}")
    summary.add_row("links", f"{len(file.ends):,}")
    loads = file.loads(timeline)
    if loads:
        link = max(range(len(loads)), key=lambda link: loads[link][3])
        source, target, carried, utilization = loads[link]
        summary.add_row("busiest link", escape(f"{link}: {source} to {target}"))
        summary.add_row("its load", f"{human(carried, 'B')}, {utilization:.1%} of what it could carry")
    console.print(summary)
