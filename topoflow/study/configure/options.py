"""Options: the files of a config group. Hydra, which reads them, takes longer to import than they take to list."""

from __future__ import annotations

from importlib import resources


def options(group: str) -> list[str]:
    """The names of the files of ``configs/GROUP``, sorted."""
    files = resources.files("topoflow.configs").joinpath(group).iterdir()
    return sorted(file.name.removesuffix(".yaml") for file in files if file.name.endswith(".yaml"))
