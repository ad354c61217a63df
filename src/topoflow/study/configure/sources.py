"""The sources of configurations: topoflow's own files, or Hydra, which is imported where it is needed.

Hydra composes a configuration in 0.2 s and takes as long to import. It is left out where only topoflow's own files are
chosen, as their names say what it would answer.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from topoflow.study.configure import options
from topoflow.study.configure.own_files import OwnFilesError, composed_of_files, default_params

if TYPE_CHECKING:
    from omegaconf import DictConfig

HYDRA = "hydra"  # Hydra's own node of a configuration
PROVIDERS = ("hydra", "topoflow")  # of nodes that Hydra's store has in any case


@dataclass(frozen=True)
class Composed:
    """The values of a configuration without Hydra's own node; interpolations are text."""

    values: dict[str, Any]
    choices: Mapping[str, str]  # "fabric" -> "fat_tree"
    config: DictConfig | None = None  # that Hydra composed; None: the values say all

    @property
    def forms(self) -> Iterator[Any]:
        """Yield the mappings that have the values."""
        yield self.values
        if self.config is not None:
            yield self.config


@dataclass(frozen=True)
class Sources:
    """The places of configurations: topoflow's own files, ``folders``, and those that settings of Hydra add."""

    folders: tuple[str, ...] | None = None  # None: those of the Hydra that is initialized already
    hydra_overrides: tuple[str, ...] = ()

    @contextmanager
    def hydra(self) -> Iterator[None]:
        """Let Hydra search these sources. Raises ``ValueError`` for a folder that does not exist."""
        if self.folders is None:
            yield
            return
        from topoflow.study.configure.composition import initialized

        with initialized(self.folders):
            yield

    def composed(self, name: str, overrides: Sequence[str]) -> Composed:
        """Return the configuration ``name`` with ``overrides``. Raises what Hydra raises."""
        if self._are_own:
            try:
                values, choices = composed_of_files(name, overrides)
            except OwnFilesError:
                pass
            else:
                values.pop(HYDRA, None)
                return Composed(values, choices)
        from omegaconf import OmegaConf

        from topoflow.study.configure.composition import composed

        with self.hydra():
            config = composed(name, [*self.hydra_overrides, *overrides])
        choices = {str(group): str(option) for group, option in config.hydra.runtime.choices.items()}
        OmegaConf.set_readonly(config, False)
        OmegaConf.set_struct(config, False)
        config.pop(HYDRA)
        plain: Any = OmegaConf.to_container(config)
        return Composed(plain, choices, config)

    def options(self, group: str, name: str) -> list[str]:
        """Return the files of a config group of the configuration ``name``; none if ``group`` is no group."""
        if self._are_own:
            return options.options(group) if re.fullmatch(r"\w+(/\w+)*", group, re.ASCII) else []
        from topoflow.study.configure.composition import group_options

        with self.hydra():
            return group_options(group, name, self.hydra_overrides)

    def default_sweep(self, name: str, added: Sequence[str]) -> Mapping[str, str]:
        """Return the values that the configuration ``name`` sweeps by default, with the files of ``added``."""
        if self._are_own and not added:
            try:
                return default_params(name)
            except OwnFilesError:
                pass
        from topoflow.study.configure.composition import composed

        with self.hydra():
            return composed(name, [*self.hydra_overrides, *added]).hydra.sweeper.params or {}

    @property
    def _are_own(self) -> bool:
        """Return whether files of the same name are topoflow's: none of a folder, of Hydra's store, of a setting."""
        return self.folders == () and not self.hydra_overrides and not _is_any_stored()


OWN = Sources(())
INITIALIZED = Sources()


def is_hydra_override(text: str) -> bool:
    """Return whether an argument is a setting of Hydra itself: ``hydra.run.dir=here``, ``hydra/launcher=basic``."""
    return re.match(r"[+~]*hydra\b", text) is not None


def _is_any_stored() -> bool:
    """Return whether a program has put configurations of its own into Hydra's store."""
    if "hydra.core.config_store" not in sys.modules:
        return False
    from hydra.core.config_store import ConfigStore

    return any(node.provider not in PROVIDERS for node in stored_nodes(ConfigStore.instance().repo))


def stored_nodes(stored: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the nodes of a repository of Hydra's store, which nests groups in groups."""
    for node in stored.values():
        if isinstance(node, dict):
            yield from stored_nodes(node)
        else:
            yield node
