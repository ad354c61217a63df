"""What Hydra composes of files of packages, kept for the process: these are code, and stay what they were imported as.

A composition takes Hydra a fifth of a second, and a command asks for the same ones again: for the defaults of its grid,
for its points, and for a hint where a key is wrong. Where a folder of the user is searched, whose files may change, or
a setting of Hydra itself is given, nothing is kept. What a program adds to Hydra's ``ConfigStore`` counts at once.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from hydra import compose
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.utils import JobRuntime
from hydra.version import VersionBase
from omegaconf import DictConfig

MOST_KEPT = 512  # compositions, of 40 kB each
OF_PROCESS = ("pkg", "structured")  # schemes of sources whose files or objects are code

PLAIN = (ValueError, TypeError, AssertionError)  # of Hydra and OmegaConf, for an option that is no name, a key in null

Answer = TypeVar("Answer")


@dataclass
class Memo:
    """Answers of Hydra, by all that they depend on but the folder where a program runs, which Hydra notes in its node.

    The ``ConfigStore`` held ``stored`` for all of them.
    """

    answers: dict[Hashable, Any] = field(default_factory=dict)
    stored: list[object] = field(default_factory=list)

    def get(self, overrides: Sequence[str], key: Hashable, make: Callable[[], Answer]) -> Answer:
        """What ``make`` gives for ``overrides`` and ``key``, made again only where it may differ."""
        sources = GlobalHydra.instance().config_loader().get_sources()
        if any(source.scheme() not in OF_PROCESS for source in sources) or any(map(_is_of_hydra, overrides)):
            return make()
        stored = [*_nodes(ConfigStore.instance().repo)]
        if len(self.answers) >= MOST_KEPT or [*map(id, stored)] != [*map(id, self.stored)]:
            self.answers.clear()
            self.stored = stored
        runtime = (JobRuntime.instance().get("name"), VersionBase.instance().getbase())
        place = (key, *overrides), tuple(map(repr, sources)), runtime
        if place not in self.answers:
            self.answers[place] = make()
        found: Answer = self.answers[place]
        return found


MEMO = Memo()


def composed(name: str, overrides: Sequence[str]) -> DictConfig:
    """The configuration ``name`` with those ``overrides`` and Hydra's own node: a copy that may be changed."""
    return unpickled(pickled(name, overrides))


def pickled(name: str, overrides: Sequence[str]) -> bytes:
    """``composed``, for ``unpickled``."""
    return MEMO.get(overrides, name, lambda: pickle.dumps(_composed(name, overrides)))


def unpickled(content: bytes) -> DictConfig:
    """A copy of a configuration, as if it was composed here: the program may run in another folder now."""
    config: DictConfig = pickle.loads(content)  # bytes of this process; copy.deepcopy takes 12 ms where this takes 2.4
    config.hydra.runtime.cwd = os.getcwd()
    return config


def options(group: str, name: str, own: Sequence[str] = ()) -> list[str]:
    """The files of a config group for the configuration ``name``, with the overrides ``own`` of Hydra itself.

    None, where ``group`` is no group.
    """
    loader = GlobalHydra.instance().config_loader()
    found = MEMO.get(own, (group, name), lambda: loader.get_group_options(group, config_name=name, overrides=[*own]))
    return [*found]


def _composed(name: str, overrides: Sequence[str]) -> DictConfig:
    try:
        return compose(name, overrides=[*overrides], return_hydra_config=True)
    except PLAIN as error:
        if type(error) in PLAIN:  # not one of their own classes, which name the key
            raise ValueError(f"{' '.join(overrides)}: {error}") from error
        raise


def _is_of_hydra(override: str) -> bool:
    return override.lstrip("+~").startswith("hydra")


def _nodes(stored: Mapping[str, Any]) -> Iterator[object]:
    for node in stored.values():
        if isinstance(node, dict):
            yield from _nodes(node)
        else:
            yield node
