"""Compose configurations with Hydra: the folders it searches, what it composes of files, and the files of a group.

mine/gpu/mygpu.yaml      topoflow compare --config-dir mine gpu=mygpu

Hydra takes 0.2 s to compose a configuration, and a command asks for the same one several times. A composition of files
that belong to packages is therefore remembered for the process. It is not remembered where a folder of the user is
searched, whose files may change.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Any, ClassVar, TypeVar

from hydra import compose, initialize_config_module
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.plugins import Plugins
from hydra.core.utils import JobRuntime
from hydra.plugins.search_path_plugin import SearchPathPlugin
from hydra.version import VersionBase
from omegaconf import DictConfig

from topoflow.study.configure.sources import stored_nodes

PACKAGE = "topoflow.configs"
VERSION_BASE = "1.3"
MAX_REMEMBERED = 512  # answers of Hydra, of 40 kB each
SEARCH_PATH = "searchpath"  # in an override that adds sources
CODE_SOURCES = ("pkg", "structured")  # schemes of Hydra's sources that stay as they were imported
# Hydra raises these themselves for an option that is no name; subclasses name the key already.
UNNAMED_ERRORS = (ValueError, TypeError, AssertionError)

Answer = TypeVar("Answer")

_answers: dict[Hashable, Any] = {}
_stored_nodes: list[object] = []  # of the ConfigStore when `_answers` were given


class AddedSources(SearchPathPlugin):
    """Adds ``sources`` to the end of Hydra's search path, as ``--config-dir`` does."""

    sources: ClassVar[tuple[str, ...]] = ()

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        for source in self.sources:
            search_path.append("command-line", source)


@contextmanager
def initialized(folders: Sequence[str] = (), packages: Sequence[str] = ()) -> Iterator[None]:
    """Let Hydra read topoflow's configurations, ``folders`` and ``packages``; restore the caller's Hydra afterwards.

    Raises ``ValueError`` for a folder that does not exist.
    """
    for folder in folders:
        if not os.path.isdir(folder):
            raise ValueError(f"--config-dir: must be a folder, got {folder!r}")
    Plugins.instance().register(AddedSources)
    added = *(f"file://{os.path.abspath(folder)}" for folder in folders), *(f"pkg://{name}" for name in packages)
    before, AddedSources.sources = AddedSources.sources, added
    try:
        with _hydra_set_aside(), initialize_config_module(PACKAGE, version_base=VERSION_BASE):
            yield
    finally:
        AddedSources.sources = before


def composed(name: str, overrides: Sequence[str]) -> DictConfig:
    """Return the configuration of file ``name`` with ``overrides`` and Hydra's own node, as a copy for the caller.

    Raises what Hydra raises. Needs an initialized Hydra.
    """
    content = _remembered(overrides, name, lambda: pickle.dumps(_compose(name, overrides)))
    config: DictConfig = pickle.loads(content)  # bytes of this process; a deep copy takes five times as long
    config.hydra.runtime.cwd = os.getcwd()
    return config


def group_options(group: str, name: str, hydra_overrides: Sequence[str] = ()) -> list[str]:
    """Return the names of a config group's files for the configuration ``name``; none if ``group`` is no group."""
    loader = GlobalHydra.instance().config_loader()
    return _remembered(
        hydra_overrides,
        (group, name),
        lambda: loader.get_group_options(group, config_name=name, overrides=[*hydra_overrides]),
    ).copy()


def _compose(name: str, overrides: Sequence[str]) -> DictConfig:
    try:
        return compose(name, overrides=[*overrides], return_hydra_config=True)
    except UNNAMED_ERRORS as error:
        if type(error) in UNNAMED_ERRORS:
            raise ValueError(f"{' '.join(overrides)}: {error}") from error
        raise


def _remembered(overrides: Sequence[str], key: Hashable, make: Callable[[], Answer]) -> Answer:
    """Return what ``make`` gives for ``key`` and ``overrides``; call it only where the answer may be a new one."""
    global _stored_nodes
    sources = GlobalHydra.instance().config_loader().get_sources()
    if any(source.scheme() not in CODE_SOURCES for source in sources) or any(SEARCH_PATH in text for text in overrides):
        return make()
    nodes = [*stored_nodes(ConfigStore.instance().repo)]
    if len(_answers) >= MAX_REMEMBERED or [*map(id, nodes)] != [*map(id, _stored_nodes)]:
        _answers.clear()
        _stored_nodes = nodes
    process = JobRuntime.instance().get("name"), VersionBase.instance().getbase(), *map(repr, sources)
    place = (key, tuple(overrides), process)
    if place not in _answers:
        _answers[place] = make()
    answer: Answer = _answers[place]
    return answer


@contextmanager
def _hydra_set_aside() -> Iterator[None]:
    """Clear what Hydra keeps for the process, and restore it when the block ends."""
    hydra, name = GlobalHydra.instance().hydra, JobRuntime.instance().get("name")
    base = copy(VersionBase.instance())
    GlobalHydra.instance().clear()
    try:
        yield
    finally:
        GlobalHydra.instance().hydra = hydra
        JobRuntime.instance().set("name", name)
        VersionBase.set_instance(base)
