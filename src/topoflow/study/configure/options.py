"""Names of the choices of a configuration, listed without Hydra, which takes longer to import."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

PAPERS = "topoflow.papers"


def options(group: str) -> list[str]:
    """Return the sorted names of the files of ``configs/GROUP``."""
    return sorted(path.stem for path in files_of("topoflow.configs", f"{group}/*.yaml"))


def experiments() -> dict[str, str]:
    """Return the published figures, sorted, with the package of the paper that has each: ``papers/ROOM/experiment``."""
    paths = sorted(files_of(PAPERS, "*/experiment/*.yaml"), key=lambda path: path.stem)
    return {path.stem: f"{PAPERS}.{path.parent.parent.name}" for path in paths}


def files_of(package: str, pattern: str) -> list[Path]:
    """Return the files of a package that is not imported: that of configurations imports Hydra."""
    spec = find_spec(package)
    assert spec is not None
    return [path for folder in spec.submodule_search_locations or [] for path in Path(folder).glob(pattern)]
