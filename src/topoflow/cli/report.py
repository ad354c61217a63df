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
    """Print the tables of a dataset and write its page. Returns the path of the page."""
    with Terminal() as terminal:
        terminal.stage("reading")
        dataset = Dataset.open(folder)
        terminal.size(f"{counted(len(dataset.written), 'file')} of up to {counted(dataset.points, 'row')}")
        reader = Reader(dataset)
        lines, sections = state(reader), parts(reader)
    for table in (table for part in sections for table in part.tables):
        console.print(text_table(table.head, table.rows, title=table.title, left=table.head))
    from topoflow.report.dataset.page import dataset_page  # a second to import

    out = out or Path(f"{folder.absolute().with_suffix('')}.html")
    with Terminal() as terminal:
        terminal.stage("drawing")
        write_atomically(out, dataset_page(reader, sections).encode())
    for line in lines:
        console.print(line, highlight=False)
    return out


def of_run(folder: Path, out: Path | None, console: Output) -> Path:
    """Print what is missing of a run, and write its page if it has none. Returns the path of the page."""
    if not folder.is_dir():
        got = "a file" if folder.exists() else "no such folder"
        raise ValueError(f"folder: must be one of a run (written with out=), got {folder}, {got}")
    run_folder = run_at(folder, folder.resolve().name)
    if run_folder is None:
        raise ValueError(f"folder: must have files of a run (written with out=), got {folder}, which has none")
    for line in (state_line(run_folder), *missing(run_folder)):
        console.print(line, highlight=False, soft_wrap=True)
    if again := how_to_continue(run_folder):
        console.print(f"{again}\n  {run_folder.again}", highlight=False, soft_wrap=True)
    if run_folder.has_report and out is None:
        return folder / REPORT
    from topoflow.browse.pages import run_page  # a second to import

    out = out or folder / REPORT
    write_atomically(out, run_page(run_folder, served=False).encode("utf-8", "backslashreplace"))
    return out
