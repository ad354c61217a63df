"""Composing the points of a grid: those that choose the same files of the config groups have these read only once.

Hydra reads and merges all files for every composition, a tenth of a second each, and then applies the values that were
given. Both are Hydra's own here; only what the files make is kept between points.

``fidelity`` is a key whose value is one of ``configs/fidelity``. The settings of each of these, chosen or not, are in
every configuration under its own name (``fluid.merge``), so that a sweep over fidelities can be given those of some.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hydra import compose
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from omegaconf import DictConfig, OmegaConf

from topoflow.study.configure.options import options

FIDELITY = "fidelity"  # the key and the config group

Composed = tuple[DictConfig, Mapping[str, str]]  # a configuration, and the names chosen in each config group


@dataclass
class Composer:
    """Composes the file ``name``. Needs an initialized Hydra."""

    name: str
    of_files: dict[tuple[str, ...], Composed] = field(default_factory=dict)  # by the overrides that choose files

    def compose(self, overrides: Sequence[str]) -> Composed:
        """What ``hydra.compose`` gives, open to changes and without Hydra's own node. Raises what Hydra raises."""
        loader = GlobalHydra.instance().config_loader()
        assert isinstance(loader, ConfigLoaderImpl)
        files: list[str] = []
        values: list[Override] = []
        for text, override in zip(overrides, OverridesParser.create(loader).parse_overrides([*overrides]), strict=True):
            _check_option(override, loader.repository.get_group_options(override.key_or_group))
            if override.is_hydra_override() or (
                override.key_or_group != FIDELITY
                and loader.repository.group_exists(override.key_or_group)
                and not isinstance(override.value(), dict)
            ):
                files.append(text)
            else:
                values.append(override)
        of_files, choices = self._chosen(tuple(files))
        config = copy.deepcopy(of_files)
        ConfigLoaderImpl._apply_overrides_to_config(values, config)
        OmegaConf.set_readonly(config, False)
        OmegaConf.set_struct(config, False)
        return config, choices

    def _chosen(self, files: tuple[str, ...]) -> Composed:
        """The configuration before any value is given, closed to keys that it has not."""
        if files not in self.of_files:
            config = composed(self.name, files)
            choices = {str(group): str(option) for group, option in config.hydra.runtime.choices.items()}
            OmegaConf.set_struct(config, False)
            config.pop("hydra")
            OmegaConf.set_struct(config, True)
            self.of_files[files] = config, choices
        return self.of_files[files]


def _check_option(override: Override, known: Sequence[str]) -> None:
    """Raise ``ValueError`` where a config group of files ``known`` is to be none of these and no mapping of its keys.

    An empty ``known``: the key is not a group.
    """
    group, value = override.key_or_group, override.value()
    if known and not override.is_delete() and not isinstance(value, str | dict):
        raise ValueError(f"{group}: must be one of {', '.join(known)}, got {override.get_value_element_as_str()}")


def composed(name: str, files: Sequence[str]) -> DictConfig:
    """The configuration ``name`` with those ``files``, Hydra's node and, if it is a verb's, fidelities' settings."""
    settings = [f"+{FIDELITY}@{each}={each}" for each in options(FIDELITY) if "/" not in name]
    try:
        return compose(name, overrides=[*files, *settings], return_hydra_config=True)
    except ValueError as error:
        if type(error) is ValueError:  # Hydra's own, of an option that is no name, says no more than that
            raise ValueError(f"{' '.join(files)}: {error}") from error
        raise
