"""Datasets of sweeps in a folder of runs: a row of each in the list, and its page."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from urllib.parse import quote

from topoflow.browse.find import dataset_in
from topoflow.browse.words import when
from topoflow.report.dataset import page
from topoflow.report.dataset.base import MANIFEST, Dataset
from topoflow.report.dataset.reading import Reader
from topoflow.report.dataset.summary import parts
from topoflow.report.page.elements import render

KEPT = 2  # pages: one of a million points takes seconds to make


def datasets_table(root: Path, names: Sequence[str]) -> str:
    """Return the datasets of a folder as HTML, each with how much of it is written; nothing where there are none."""
    return render("datasets.html", rows=[_row(root, name) for name in names]) if names else ""


def _row(root: Path, name: str) -> dict[str, str]:
    """Return the texts of a dataset: its command, time and points, or what is wrong with it."""
    try:
        dataset = dataset_in(root, name)
        if dataset is None:
            raise ValueError("its files are not in this folder")
        written = dataset.written
        changed = max((dataset.folder / file).stat().st_mtime for file in _files(dataset))
    except (OSError, ValueError) as error:  # also one that is removed meanwhile
        return {"name": name, "problem": str(error)}
    return {
        "name": name,
        "problem": "",
        "quoted": quote(name, errors="surrogateescape"),
        "command": dataset.command,
        "when": when(changed),
        "points": f"{sum(map(len, written)):,} of {dataset.points:,}",
    }


def dataset_page(dataset: Dataset) -> str:
    """The page that `topoflow report` writes. Raises ``ValueError`` where there is nothing to read, or no DuckDB."""
    files = _files(dataset)
    return _page_of(dataset, tuple((dataset.folder / file).stat().st_mtime_ns for file in files))


@lru_cache(KEPT)
def _page_of(dataset: Dataset, changed: tuple[int, ...]) -> str:
    """Return the page of a dataset whose files were last changed at these times, ns."""
    reader = Reader(dataset)
    return page.dataset_page(reader, parts(reader))


def _files(dataset: Dataset) -> list[str]:
    return [MANIFEST, *(dataset.path(part[0]).name for part in dataset.written)]
