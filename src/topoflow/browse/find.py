"""The runs and datasets of a folder: in it, or in folders of it, as those of multiruns are."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from topoflow.browse.run import RunFolder, State, problem, run_at
from topoflow.report.dataset.base import MANIFEST, SUFFIX, Dataset

HERE = "."  # the name of a run that is the folder itself


@dataclass(frozen=True)
class Listed:
    """A run in the list: its command, time and state, or why it cannot be shown."""

    name: str
    what: str = ""  # command, or verb
    changed: float = 0.0  # s since 1970
    best: str = ""
    time: float | None = None
    state: State | Literal["unreadable"] = "unreadable"
    problem: str = ""

    @classmethod
    def of(cls, run: RunFolder) -> Listed:
        """Read a run; whatever a damaged one makes a reader raise is its ``problem``, and other runs are shown."""
        try:
            return cls(run.name, run.command or run.verb, run.changed, run.best, run.time, run.state)
        except Exception as error:
            return cls(run.name, problem=problem(error))


@dataclass(frozen=True)
class FolderContents:
    """The runs and datasets of a folder."""

    runs: list[Listed]  # the latest first
    datasets: list[str]  # names, in their order


def found_in(root: Path) -> FolderContents:
    """Return all runs and datasets. Folders of runs and of datasets, hidden ones and links are not looked into."""
    runs, datasets, closed = list[Listed](), list[str](), list[OSError]()
    for place, folders, files in os.walk(root, onerror=closed.append):
        folder = Path(place)
        name = folder.relative_to(root).as_posix()
        run = run_at(folder, name, root)
        listed = None if run is None else Listed.of(run)
        if listed is not None and (not listed.problem or folder.exists()):  # else it was removed meanwhile
            runs.append(listed)
        own_name = os.path.realpath(root) if folder == root else place
        if own_name.endswith(SUFFIX) and MANIFEST in files:
            datasets.append(name)
            folders.clear()
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if run is not None and folder != root:
            folders.clear()
    for error in closed:
        if not isinstance(error, FileNotFoundError):  # a folder that was removed meanwhile
            runs.append(Listed(Path(error.filename).relative_to(root).as_posix(), problem=problem(error)))
    return FolderContents(sorted(runs, key=lambda run: (-run.changed, run.name)), sorted(datasets))


def dataset_in(root: Path, name: str) -> Dataset | None:
    """The dataset of this name, None where there is none, or what it says of itself lies elsewhere.

    Raises ``ValueError`` for one that is damaged.
    """
    folder = inside(root, name)
    if folder is None or not folder.name.endswith(SUFFIX) or inside(root, f"{name}/{MANIFEST}") is None:
        return None
    return Dataset.open(folder)


def lies_in(root: Path, dataset: Dataset) -> bool:
    """Return whether all files of a dataset are in ``root``: a link may lead a reader elsewhere."""
    base = Path(os.path.realpath(root))
    paths = (os.path.realpath(dataset.path(part[0])) for part in dataset.written)
    return all(Path(path).is_relative_to(base) for path in paths)


def inside(root: Path, name: str) -> Path | None:
    """Return the file or folder of this name in ``root``; None where there is none, it is hidden, or lies elsewhere.

    ``..``, absolute names and links that lead out of ``root`` lie elsewhere.
    """
    parts = [part for part in name.split("/") if part not in ("", HERE)]
    if "\0" in name or any(part.startswith(".") for part in parts):
        return None
    base = Path(os.path.realpath(root))
    path = Path(os.path.realpath(base.joinpath(*parts)))
    try:
        return path if path.is_relative_to(base) and path.exists() else None
    except OSError:  # a name that is too long, or a folder that is closed to this user
        return None
