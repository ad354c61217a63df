"""The search path of Hydra: configurations of topoflow, and folders of the user and of papers with the same groups.

mine/gpu/mygpu.yaml      topoflow compare --config-dir mine gpu=mygpu
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from typing import ClassVar

from hydra import initialize_config_module
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.global_hydra import GlobalHydra
from hydra.core.plugins import Plugins
from hydra.core.utils import JobRuntime
from hydra.plugins.search_path_plugin import SearchPathPlugin
from hydra.version import VersionBase

PACKAGE = "topoflow.configs"
VERSION_BASE = "1.3"


class AddedSources(SearchPathPlugin):
    """The ``sources`` that Hydra searches after the configurations of topoflow, as it does for ``--config-dir``."""

    sources: ClassVar[tuple[str, ...]] = ()

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        for source in self.sources:
            search_path.append("command-line", source)


@contextmanager
def initialized(folders: Sequence[str] = (), packages: Sequence[str] = ()) -> Iterator[None]:
    """Set up a Hydra that reads topoflow's configurations, ``folders`` and ``packages``; the caller's is set aside.

    Raises ``ValueError`` for a folder that is not there.
    """
    for folder in folders:
        if not os.path.isdir(folder):
            raise ValueError(f"--config-dir: must be a folder, got {folder!r}")
    Plugins.instance().register(AddedSources)
    added = *(f"file://{os.path.abspath(folder)}" for folder in folders), *(f"pkg://{name}" for name in packages)
    before, AddedSources.sources = AddedSources.sources, added
    try:
        with _aside(), initialize_config_module(PACKAGE, version_base=VERSION_BASE):
            yield
    finally:
        AddedSources.sources = before


@contextmanager
def _aside() -> Iterator[None]:
    """What Hydra keeps for the process is that of the caller again when the block ends."""
    hydra, name = GlobalHydra.instance().hydra, JobRuntime.instance().get("name")
    base = copy(VersionBase.instance())
    GlobalHydra.instance().clear()
    try:
        yield
    finally:
        GlobalHydra.instance().hydra = hydra
        JobRuntime.instance().set("name", name)
        VersionBase.set_instance(base)
