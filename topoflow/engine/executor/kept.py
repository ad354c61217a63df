"""Answers on disk, so that nothing is computed twice: a file for each piece of work, as ``answers`` has it.

    FOLDER/5be1....answers

A key is a digest of all that an answer depends on, topoflow's own code included. Workers that see the folder write
these files themselves, so that the process that asks need not; they know it by a file that this process has put there.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from topoflow.digest import digest
from topoflow.engine.executor import answers
from topoflow.engine.executor.answers import Content
from topoflow.engine.executor.base import Arrays
from topoflow.files import naming

SUFFIX = ".answers"


class Kept:
    """The answers in a folder; None: none, and none is added."""

    def __init__(self, folder: Path | None) -> None:
        """Raises ``ValueError`` for a file that is not as it was written."""
        self.folder = folder
        self._file: dict[str, tuple[Path, int]] = {}  # of each key: the file, and which of its answers
        for path in sorted(folder.glob(f"*{SUFFIX}")) if folder is not None and folder.is_dir() else ():
            keys = enumerate(answers.keys_of(answers.read(path)))
            self._file |= {key: (path, place) for place, key in keys if key is not None}

    def find(self, keys: Sequence[str | None]) -> Iterator[tuple[int, Arrays]]:
        """The numbers of the keys that have answers, and these: a file after the other, so that one is in memory."""
        files: dict[Path, list[tuple[int, int]]] = {}
        for number, key in enumerate(keys):
            if key is not None and key in self._file:
                path, place = self._file[key]
                files.setdefault(path, []).append((number, place))
        for path, places in files.items():
            if path.exists():
                there = answers.parted(answers.read(path))
                yield from ((number, there[place]) for number, place in places)

    def add(self, keys: Sequence[str | None], content: Content) -> None:
        """Keep the answers of a piece of work, if one has a key; they are on disk when this returns."""
        if self.folder is not None and any(keys):
            answers.write(_path(self.folder, keys), content)

    @contextmanager
    def shared(self) -> Iterator[Path | None]:
        """A file by which a worker knows that it sees the folder; None: there is no folder."""
        if self.folder is None:
            yield None
            return
        path = self.folder.absolute() / f".{uuid.uuid4().hex}.shared"
        with naming(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)


def add_there(shared: Path | None, keys: Sequence[str | None], content: Content) -> str | None:
    """The same as ``Kept.add``, by a worker. The name of the file; None: it cannot, and the process that asks does."""
    if shared is None or not any(keys):
        return None
    path = _path(shared.parent, keys)
    try:
        if not shared.exists():
            return None
        answers.write(path, content)
    except OSError:
        return None
    return path.name


def _path(folder: Path, keys: Sequence[str | None]) -> Path:
    return folder / f"{digest(list(keys))}{SUFFIX}"
