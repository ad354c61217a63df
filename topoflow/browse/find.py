"""The runs and datasets of a folder: in it, or in folders of it, as those of multiruns are."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from topoflow.browse.run import Run, run_at
from topoflow.report.dataset.base import MANIFEST, SUFFIX, Dataset

HERE = "."  # the name of a run that is the folder itself


@dataclass(frozen=True)
class Found:
    """What a folder has."""

    runs: list[Run]  # the latest first
    datasets: list[str]  # names, in their order


def found_in(root: Path) -> Found:
    """All runs and datasets. Folders of runs and of datasets, hidden ones and links are not looked into."""
    runs, datasets = [], []
    for place, folders, files in os.walk(root):
        folder = Path(place)
        name = folder.relative_to(root).as_posix()
        run = run_at(folder, name)
        if run is not None:
            runs.append(run)
        own_name = os.path.realpath(root) if folder == root else place
        if own_name.endswith(SUFFIX) and MANIFEST in files:
            datasets.append(name)
            folders.clear()
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if run is not None and folder != root:
            folders.clear()
    return Found(sorted(runs, key=lambda run: (-run.changed, run.name)), sorted(datasets))


def dataset_in(root: Path, name: str) -> Dataset | None:
    """The dataset of this name, None where there is none, or what it says of itself lies elsewhere.

    Raises ``ValueError`` for one that is damaged.
    """
    folder = inside(root, name)
    if folder is None or not folder.name.endswith(SUFFIX) or inside(root, f"{name}/{MANIFEST}") is None:
        return None
    return Dataset.open(folder)


def lies_in(root: Path, dataset: Dataset) -> bool:
    """Whether all of its files are in ``root``: a link may lead a reader elsewhere."""
    base = Path(os.path.realpath(root))
    paths = (os.path.realpath(dataset.path(part[0])) for part in dataset.written)
    return all(Path(path).is_relative_to(base) for path in paths)


def inside(root: Path, name: str) -> Path | None:
    """The file or folder of this name in ``root``; None where there is none, it is hidden, or it lies elsewhere.

    ``..``, absolute names and links that lead out of ``root`` lie elsewhere.
    """
    parts = [part for part in name.split("/") if part not in ("", HERE)]
    if "\0" in name or any(part.startswith(".") for part in parts):
        return None
    base = Path(os.path.realpath(root))
    path = Path(os.path.realpath(base.joinpath(*parts)))
    return path if path.is_relative_to(base) and path.exists() else None
