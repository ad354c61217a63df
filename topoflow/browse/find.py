"""The runs of a folder: in it, or in folders of it, as those of multiruns are."""

from __future__ import annotations

import os
from pathlib import Path

from topoflow.browse.run import Run, run_at

HERE = "."  # the name of a run that is the folder itself


def runs_of(root: Path) -> list[Run]:
    """All runs, the latest first. Folders that a run made, hidden ones and links are not looked into."""
    found = []
    for place, folders, _ in os.walk(root):
        folder = Path(place)
        run = run_at(folder, folder.relative_to(root).as_posix())
        if run is not None:
            found.append(run)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if run is not None and folder != root:
            folders.clear()
    return sorted(found, key=lambda run: (-run.changed, run.name))


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
