"""Datasets of sweeps in a folder of runs: a row of each in the list, and its page."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from html import escape
from pathlib import Path
from urllib.parse import quote

from topoflow.browse.find import dataset_in
from topoflow.browse.words import when
from topoflow.report.dataset.base import MANIFEST, Dataset
from topoflow.report.dataset.page import page
from topoflow.report.dataset.reading import Reader
from topoflow.report.dataset.summary import parts

KEPT = 2  # pages: one of a million points takes seconds to make


def datasets_table(root: Path, names: Sequence[str]) -> str:
    """The datasets of a folder as HTML, each with how much of it is written; nothing where there are none."""
    if not names:
        return ""
    rows = "".join(f"<tr>{_row(root, name)}</tr>" for name in names)
    titles = ("dataset", "what was run", "when", "points")
    head = "".join(f"<th>{title}</th>" for title in titles)
    found = f"<table class=runs><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    return f"<h2>Datasets of sweeps</h2><div class=wide>{found}</div>"


def _row(root: Path, name: str) -> str:
    """Return the cells of a dataset: its command, time and points, or what is wrong with it."""
    try:
        dataset = dataset_in(root, name)
        if dataset is None:
            raise ValueError("its files are not in this folder")
        written = dataset.written
        points = f"{sum(map(len, written)):,} of {dataset.points:,}"
        changed = max((dataset.folder / file).stat().st_mtime for file in _files(dataset))
    except (OSError, ValueError) as error:  # also one that is removed meanwhile
        return f"<td>{escape(name)}</td><td colspan=3>{escape(str(error))}</td>"
    link = f"<a href='/dataset/{quote(name, errors='surrogateescape')}'>{escape(name)}</a>"
    return f"<td>{link}</td><td class=command>{escape(dataset.command)}</td><td>{when(changed)}</td><td>{points}</td>"


def dataset_page(dataset: Dataset) -> str:
    """The page that `topoflow report` writes. Raises ``ValueError`` where there is nothing to read, or no DuckDB."""
    files = _files(dataset)
    return _page_of(dataset, tuple((dataset.folder / file).stat().st_mtime_ns for file in files))


@lru_cache(KEPT)
def _page_of(dataset: Dataset, changed: tuple[int, ...]) -> str:
    """Return the page of a dataset whose files were last changed at these times, ns."""
    reader = Reader(dataset)
    return page(reader, parts(reader))


def _files(dataset: Dataset) -> list[str]:
    return [MANIFEST, *(dataset.path(part[0]).name for part in dataset.written)]
