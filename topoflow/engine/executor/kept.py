"""Answers on disk, so that nothing is computed twice: a file for each piece of work, of arrays alone.

    FOLDER/5be1....npz     "keys": ["ab3...", ...], "0/start": [...], "0/finish": [...], "1/start": ...

A key is a digest of all that an answer depends on, topoflow's own code included.
"""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from topoflow import npz
from topoflow.digest import digest
from topoflow.engine.executor.base import Arrays
from topoflow.engine.executor.packing import numbered, of_number

FOREIGN = (ValueError, KeyError, TypeError, IndexError, zipfile.BadZipFile)  # what another file raises


class Kept:
    """The answers in a folder; None: none, and none is added."""

    def __init__(self, folder: Path | None) -> None:
        """Raises ``ValueError`` for a file that is not as it was written."""
        self.folder = folder
        self._file: dict[str, tuple[Path, int]] = {}  # of each key: the file, and which of its answers
        for path in sorted(folder.glob("*.npz")) if folder is not None and folder.is_dir() else ():
            self._index(path, _read(path)["keys"].tolist())

    def find(self, keys: Sequence[str | None]) -> dict[int, Arrays]:
        """What is there of the answers with these keys, by their numbers."""
        files: dict[Path, list[tuple[int, int]]] = {}
        for number, key in enumerate(keys):
            if key in self._file:
                path, place = self._file[key]
                files.setdefault(path, []).append((number, place))
        found: dict[int, Arrays] = {}
        for path, places in files.items():
            if path.exists():
                arrays = _read(path)
                found |= {number: of_number(arrays, place) for number, place in places}
        return found

    def add(self, keys: Sequence[str | None], answers: Sequence[Arrays]) -> None:
        """Keep the answers of a piece of work that have keys; they are on disk when this returns."""
        named = [(key, each) for key, each in zip(keys, answers, strict=True) if key is not None]
        if self.folder is None or not named:
            return
        own = [key for key, _ in named]
        path = self.folder / f"{digest(own)}.npz"
        arrays: dict[str, Any] = {"keys": np.array(own), **numbered(dict(enumerate(each for _, each in named)))}
        npz.write(path, arrays, compressed=False)
        self._index(path, own)

    def _index(self, path: Path, keys: Sequence[str]) -> None:
        self._file |= {key: (path, place) for place, key in enumerate(keys)}


def _read(path: Path) -> Arrays:
    try:
        arrays = npz.read(path)
        arrays["keys"].tolist()
    except FOREIGN as error:
        raise ValueError(f"{path}: must be answers as they were written, got {error}; delete it") from error
    return arrays
