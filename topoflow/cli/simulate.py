"""``topoflow simulate``: one world from a file, made by hand or by another tool."""

from __future__ import annotations

import argparse
import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from topoflow.cli.output import Output
from topoflow.engine.base import Timeline
from topoflow.engine.checks import check_merge
from topoflow.engine.fluid import simulate
from topoflow.report.files import check_folder, whole_folder
from topoflow.study.configure.os_errors import named
from topoflow.units import human
from topoflow.worldfile.world_file import WorldFile, read

KEYS = ("world", "out", "device", "fluid.merge")
DEVICES = ("cpu", "cuda")


def run(arguments: argparse.Namespace) -> None:
    """Read, simulate, write, print."""
    settings = parse(arguments.settings)
    if "out" in settings:
        check_folder(Path(settings["out"]), "simulate")
    with named(settings):
        file = read(Path(settings["world"]))
    merge = float(settings.get("fluid.merge", 0))
    (timeline,) = simulate([file.world], device=settings.get("device", "cpu"), merge=merge)
    if "out" in settings:
        write(file, timeline, Path(settings["out"]))
    show(file, timeline, Output())


def parse(settings: Sequence[str]) -> dict[str, str]:
    """``KEY=VALUE`` words. Raises ``ValueError`` for a key that does not exist, comes twice or lacks its value."""
    found: dict[str, str] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if key not in KEYS:
            raise ValueError(f"{key}: no such key; must be one of {', '.join(KEYS)}")
        if not equals or not value:
            raise ValueError(f"{key}: must have a value, as in {key}=VALUE, got {setting!r}")
        if key in found:
            raise ValueError(f"{key}: must be given once, got {found[key]!r} and {value!r}")
        found[key] = value
    if "world" not in found:
        raise ValueError("world: must be given, as in world=FILE.json")
    if found.get("device", "cpu") not in DEVICES:
        raise ValueError(f"device: must be one of {', '.join(DEVICES)}, got {found['device']!r}")
    check_merge("fluid.merge", _number(found.get("fluid.merge", "0")))
    return found


def _number(text: str) -> float | str:
    """The number that the text is, the text where it is none."""
    try:
        return float(text)
    except ValueError:
        return text


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
