"""``topoflow report``: the page of a run, whole or cut off."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from topoflow.browse.pages import run_page
from topoflow.browse.run import REPORT, run_at
from topoflow.browse.words import how_to_continue, missing, state_line
from topoflow.files import write_atomically
from topoflow.report.output import Output


def run(arguments: argparse.Namespace) -> None:
    """Write report.html where the run has none of its own, and say what is missing."""
    folder: Path = arguments.folder
    if not folder.is_dir():
        got = "a file" if folder.exists() else "no such folder"
        raise ValueError(f"folder: must be one of a run (written with out=), got {folder}, {got}")
    found = run_at(folder, folder.resolve().name)
    if found is None:
        raise ValueError(f"folder: must have files of a run (written with out=), got {folder}, which has none")
    console = Output()
    for line in (state_line(found), *missing(found)):
        console.print(line, highlight=False, soft_wrap=True)
    if again := how_to_continue(found):
        console.print(f"{again}\n  {found.again}", highlight=False, soft_wrap=True)
    page = folder / REPORT
    if not found.has_report:
        write_atomically(page, run_page(found, served=False).encode("utf-8", "surrogateescape"))
    console.print(f"Open {os.fspath(page)}.", highlight=False, soft_wrap=True)
