"""Versions of the list of runs in a folder: a browser that shows one version is sent what changed since then."""

from __future__ import annotations

import time
from pathlib import Path
from threading import Lock
from typing import Any

from topoflow.browse.datasets import datasets_table
from topoflow.browse.find import FolderContents, found_in
from topoflow.browse.rows import list_row, summary

DATASETS, STATE = object(), object()  # parts of the list that are not rows


class Listing:
    """The rows of the list as they were last read, each with the version in which it changed.

    Requests that come while the folder is read wait for the next reading and share it.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._lock = Lock()
        self._begun = self._ended = 0  # readings of the folder
        self._first = self._version = time.time_ns()  # no version of a server that ran earlier is as high
        self._parts: dict[object, tuple[str | None, int]] = {}  # HTML by name, None: the run is gone; and its version

    def since(self, version: int) -> dict[str, Any]:
        """Return what changed since ``version``; all, as ``whole``, for a version of another server."""
        number = self._begun + 1  # of the first reading that begins from now on
        with self._lock:
            if self._ended < number:
                self._begun += 1
                self._read(found_in(self.root))
                self._ended = self._begun
            whole = not self._first <= version <= self._version
            new = {name: html for name, (html, at) in self._parts.items() if whole or at > version}
            changes = {"state": new.pop(STATE, None), "datasets": new.pop(DATASETS, None)}
            rows = [{"name": name, "html": html} for name, html in new.items() if html is not None]
            gone = [name for name, html in new.items() if html is None and not whole]
            return {**changes, "rows": rows, "gone": gone, "whole": whole, "live": f"/live?since={self._version}"}

    def _read(self, contents: FolderContents) -> None:
        """Update the parts of the page from the contents of the folder."""
        now: dict[object, str | None] = dict.fromkeys(self._parts)
        now |= {run.name: list_row(run) for run in contents.runs}
        now |= {STATE: summary(contents.runs), DATASETS: datasets_table(self.root, contents.datasets)}
        changed = {name: html for name, html in now.items() if self._parts.get(name, (None, 0))[0] != html}
        if changed:
            self._version += 1
            self._parts |= {name: (html, self._version) for name, html in changed.items()}
