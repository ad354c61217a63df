"""``topoflow report``: what a run has left, also one that was cut off, and what a dataset of a sweep says."""

from __future__ import annotations

import argparse
from pathlib import Path

from topoflow.browse.run import REPORT, run_at
from topoflow.browse.words import how_to_continue, missing, state_line
from topoflow.cli.stages import Terminal
from topoflow.files import write_atomically
from topoflow.report.dataset.base import Dataset, is_dataset
from topoflow.report.dataset.reading import Reader
from topoflow.report.dataset.summary import parts, state
from topoflow.report.output import Output, text_table
from topoflow.units import counted


def run(arguments: argparse.Namespace) -> None:
    """Read, print, write."""
    folder, console = arguments.folder, Output()
    report = of_dataset if is_dataset(str(folder)) else of_run
    out = report(folder, arguments.out, console)
    console.print(f"Open {out}.", highlight=False, soft_wrap=True)


def of_dataset(folder: Path, out: Path | None, console: Output) -> Path:
    """Print and write what a dataset says. Returns where the page is."""
    with Terminal() as terminal:
        terminal.stage("reading")
        dataset = Dataset.open(folder)
        terminal.size(f"{counted(len(dataset.written), 'file')} of up to {counted(dataset.points, 'row')}")
        reader = Reader(dataset)
        lines, found = state(reader), parts(reader)
    for each in (table for part in found for table in part.tables):
        console.print(text_table(each.head, each.rows, title=each.title, left=each.head))
    from topoflow.report.dataset.page import dataset_page  # a second to import

    out = out or Path(f"{folder.absolute().with_suffix('')}.html")
    with Terminal() as terminal:
        terminal.stage("drawing")
        write_atomically(out, dataset_page(reader, found).encode())
    for line in lines:
        console.print(line, highlight=False)
    return out


def of_run(folder: Path, out: Path | None, console: Output) -> Path:
    """Say what is missing of a run, and write a page where it has none of its own. Returns where the page is."""
    if not folder.is_dir():
        got = "a file" if folder.exists() else "no such folder"
        raise ValueError(f"folder: must be one of a run (written with out=), got {folder}, {got}")
    found = run_at(folder, folder.resolve().name)
    if found is None:
        raise ValueError(f"folder: must have files of a run (written with out=), got {folder}, which has none")
    for line in (state_line(found), *missing(found)):
        console.print(line, highlight=False, soft_wrap=True)
    if again := how_to_continue(found):
        console.print(f"{again}\n  {found.again}", highlight=False, soft_wrap=True)
    if found.has_report and out is None:
        return folder / REPORT
    from topoflow.browse.pages import run_page  # a second to import

    out = out or folder / REPORT
    write_atomically(out, run_page(found, served=False).encode("utf-8", "backslashreplace"))
    return out
