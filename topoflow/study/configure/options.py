"""Options: the files of a config group. Hydra, which reads them, takes longer to import than they take to list."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path


def options(group: str) -> list[str]:
    """The names of the files of ``configs/GROUP``, sorted."""
    package = find_spec("topoflow.configs")  # which is not imported: it imports Hydra
    assert package is not None
    folders = package.submodule_search_locations or []
    return sorted(path.stem for folder in folders for path in Path(folder).glob(f"{group}/*.yaml"))
