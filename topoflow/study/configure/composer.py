"""Composing the points of a grid: those that choose the same files of the config groups have these read only once.

Hydra reads and merges all files for every composition, a tenth of a second each, and then applies the values that were
given. Here the files are merged by Hydra once, and values are applied to a copy. Whatever is not as plain as a value
for a key that exists is left to Hydra, and so is what to say about it.

``fidelity`` is a config group whose key becomes the name of the chosen file. The settings of each of these files,
chosen or not, are in every configuration under its own name (``fluid.merge``), so that a sweep over fidelities can be
given those of some.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from topoflow.study.configure.memo import composed, options, pickled, unpickled

MOST_KEPT = 4096  # overrides, and configurations of 40 kB each; a grid may have millions of points
FIDELITY = "fidelity"  # the key and the config group

WHOLE, NAME = re.compile(r"0|-?[1-9]\d{0,17}"), re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")

Composed = tuple[DictConfig, Mapping[str, str]]  # a configuration, and the names chosen in each config group


@dataclass
class Composer:
    """Composes the file ``name``, with the overrides ``own`` of Hydra itself. Needs an initialized Hydra."""

    name: str
    own: tuple[str, ...] = ()
    of_files: dict[tuple[str, ...], bytes] = field(default_factory=dict)  # pickled, by the overrides composed by Hydra
    parsed: dict[str, Override] = field(default_factory=dict)
    values: dict[str, tuple[str, bool, Any]] = field(default_factory=dict)  # of overrides: see _value_of
    options: dict[str, list[str]] = field(default_factory=dict)  # files of a key's config group; none: it is no group

    def compose(self, overrides: Sequence[str]) -> Composed:
        """What ``hydra.compose`` gives, open to changes and without Hydra's own node. Raises what Hydra raises."""
        config = self.whole(overrides)
        choices = {str(group): str(option) for group, option in config.hydra.runtime.choices.items()}
        OmegaConf.set_readonly(config, False)
        OmegaConf.set_struct(config, False)
        config.pop("hydra")
        return config, choices

    def whole(self, overrides: Sequence[str]) -> DictConfig:
        """What ``hydra.compose`` gives with Hydra's own node, whose list of overrides lacks the plain values."""
        parsed = [self.parsed_override(each) for each in overrides]
        of_hydra = [self._is_of_hydra(each) for each in parsed]
        plain = [each for each, is_of_hydra in zip(parsed, of_hydra, strict=True) if not is_of_hydra]
        files = tuple(text for text, is_of_hydra in zip(overrides, of_hydra, strict=True) if is_of_hydra)
        changed = [each.key_or_group for each, is_of_hydra in zip(parsed, of_hydra, strict=True) if is_of_hydra]
        if any(_are_related(each.key_or_group, key) for each in plain for key in changed if self._options(key) == []):
            return self._composed(tuple(overrides))  # in their order
        config = self._composed(files)
        try:
            for each in plain:
                OmegaConf.update(config, each.key_or_group, each.value(), merge=True)
        except OmegaConfBaseException:
            composed(self.name, [*self.own, *overrides])  # raises it in Hydra's words
            raise
        return config

    def split(self, overrides: Sequence[str]) -> tuple[tuple[str, ...], list[str], list[Any]]:
        """What is the same in points of one template; the keys that have plain values, and these values.

        The same are all overrides, but of plain values their keys alone. Where keys are related to what is added or
        removed, values are the same too: their order counts.
        """
        same, keys, values, others = [], [], [], []
        for text in overrides:
            if text not in self.values:
                if len(self.values) >= MOST_KEPT:
                    self.values.clear()
                self.values[text] = self._value_of(text)
            key, is_plain, value = self.values[text]
            same.append(key if is_plain else text)
            if is_plain:
                keys.append(key)
                values.append(value)
            elif self._options(key) == []:
                others.append(key)
        if any(_are_related(key, other) for key in keys for other in others):
            return tuple(overrides), [], []
        return tuple(same), keys, values

    def _value_of(self, text: str) -> tuple[str, bool, Any]:
        """The key of an override, and whether it gives that a number or a text, which is third then."""
        key, _, value = text.partition("=")
        if WHOLE.fullmatch(value) and NAME.fullmatch(key) and self._options(key) == []:
            return key, True, int(value)  # what the parser takes 0.4 ms for
        parsed = self.parsed_override(text)
        if self._is_of_hydra(parsed):
            return parsed.key_or_group, False, None
        found = parsed.value()
        is_text = isinstance(found, str) and "${" not in found and found != "???"
        return parsed.key_or_group, is_text or isinstance(found, int | float | None), found

    def key_of(self, text: str) -> str:
        """The key or the group of an override."""
        key = text.partition("=")[0]
        return key if "=" in text and NAME.fullmatch(key) else self.parsed_override(text).key_or_group

    def parsed_override(self, text: str) -> Override:
        """One override, parsed once."""
        if text not in self.parsed:
            if len(self.parsed) >= MOST_KEPT:
                self.parsed.clear()
            (self.parsed[text],) = OverridesParser.create().parse_overrides([text])
        return self.parsed[text]

    def _is_of_hydra(self, override: Override) -> bool:
        """Whether it chooses a file, or more than a value for a key that exists."""
        options = self._options(override.key_or_group)
        _check_option(override, options)
        return (
            override.is_hydra_override()
            or override.is_delete()
            or override.is_add()
            or override.is_force_add()
            or override.package is not None
            or bool(options and not isinstance(override.value(), dict))
        )

    def _options(self, group: str) -> list[str]:
        if group not in self.options:
            self.options[group] = options(group, self.name, self.own)
        return self.options[group]

    def _composed(self, overrides: tuple[str, ...]) -> DictConfig:
        """A copy of what Hydra makes of ``overrides``: closed to keys that it has not, with Hydra's own node."""
        if overrides not in self.of_files:
            if len(self.of_files) >= MOST_KEPT:
                self.of_files.clear()
            self.of_files[overrides] = pickled(self.name, [*self.own, *overrides])
        return unpickled(self.of_files[overrides])


def _are_related(one: str, other: str) -> bool:
    """Whether one of two keys is the other, or within it."""
    return f"{one}.".startswith(f"{other}.") or f"{other}.".startswith(f"{one}.")


def _check_option(override: Override, known: Sequence[str]) -> None:
    """Raise ``ValueError`` where a config group of files ``known`` is to be none of these and no mapping of its keys.

    An empty ``known``: the key is not a group.
    """
    group, value = override.key_or_group, override.value()
    if known and not override.is_delete() and not isinstance(value, str | dict):
        raise ValueError(f"{group}: must be one of {', '.join(known)}, got {override.get_value_element_as_str()}")


def settings_of(config: DictConfig, choices: Mapping[str, str], overrides: Sequence[str]) -> list[str]:
    """Make ``fidelity`` of a configuration the name of the chosen file; returns the names that have settings.

    Raises ``ValueError`` for settings that are given as ``fidelity.KEY`` and would be ignored.
    """
    names = [group.partition("@")[2] for group in choices if group.startswith(f"{FIDELITY}@")]
    chosen = choices.get(FIDELITY)
    if chosen is not None:
        if chosen in names:
            _check_settings(chosen, overrides)
        else:  # a file in a folder of the user
            names.append(chosen)
            config[chosen] = config[FIDELITY]
        config[FIDELITY] = chosen
    return [name for name in names if name in config]


def _check_settings(chosen: str, overrides: Sequence[str]) -> None:
    for override in overrides:
        key, _, value = override.lstrip("+~").partition("=")
        if key.startswith(f"{FIDELITY}.") or (key == FIDELITY and value.lstrip().startswith("{")):
            raise ValueError(
                f"{key}: settings of a fidelity must have its name, as {chosen}.KEY=VALUE, got {override!r}"
            )
