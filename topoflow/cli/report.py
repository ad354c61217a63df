"""``topoflow report``: what a dataset of ``compare out=NAME.parquet`` says, also one that is not complete."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.table import Table

from topoflow.files import write_atomically
from topoflow.report.dataset.base import Dataset
from topoflow.report.dataset.reading import Reader
from topoflow.report.dataset.summary import parts, state
from topoflow.report.output import Output


def run(arguments: argparse.Namespace) -> None:
    """Read, print, write."""
    folder: Path = arguments.dataset
    reader, console = Reader(Dataset.open(folder)), Output()
    lines, found = state(reader), parts(reader)
    for each in (table for part in found for table in part.tables):
        shown = Table(*each.head, title=each.title, title_justify="left", box=SIMPLE_HEAD)
        for row in each.rows:
            shown.add_row(*row)
        console.print(shown)
    from topoflow.report.dataset.page import page  # a second to import

    out: Path = arguments.out or Path(f"{folder.absolute().with_suffix('')}.html")
    write_atomically(out, page(reader, found).encode())
    for line in (*lines, f"Open {out}."):
        console.print(line, highlight=False)
