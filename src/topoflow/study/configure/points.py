"""Compose the points of a sweep from ``key=value`` arguments.

``fidelity`` is a config group whose key becomes the name of the chosen file. The settings of each of these files,
chosen or not, are in every configuration under its own name (``fluid.merge``), so that a sweep over fidelities can give
settings for some of them.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from topoflow.fields import with_fields
from topoflow.study.configure.build import build
from topoflow.study.configure.errors import is_of_libraries, one_line
from topoflow.study.configure.keys import SPEEDS, check_speed
from topoflow.study.configure.nodes import has_measured_kernels, with_node
from topoflow.study.configure.point import FIDELITY, OPTIONAL_GROUPS, Point
from topoflow.study.configure.sources import INITIALIZED, Composed, Sources
from topoflow.study.configure.tree import MISSING, UNRESOLVED, ConfigTree, Path, Reference
from topoflow.study.configure.user_object import described, name_of
from topoflow.workload.efficiency import MEASURED

MAX_COMPOSITIONS = 64  # kept, of 1 MB each; a grid over many files uses each for a few points only
MAX_PARSED = 4096  # overrides kept; a grid may have millions of points

NUMBER = re.compile(r"(0|-?[1-9]\d{0,17})(\.\d+)?", re.ASCII)  # read as Hydra reads it, which takes 1 ms
NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)
WORD = re.compile(r"[A-Za-z_/][\w./-]*", re.ASCII)
CONSTANTS = {"null": None, "true": True, "false": False}
RESERVED = (*CONSTANTS, "inf", "nan")  # that Hydra reads as something else than text

Check = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True)
class Argument:
    """A parsed override. ``is_value``: it gives an existing key a plain value, as far as its text tells."""

    key: str
    is_value: bool
    is_option: bool  # it chooses a file of a config group
    value: Any
    text: str

    @cached_property
    def path(self) -> Path:
        return tuple(self.key.split("."))

    @cached_property
    def form(self) -> tuple[str, bool]:
        """Return what the composition depends on: a plain value counts by its key alone."""
        return (self.key if self.is_value else self.text), self.is_value


@dataclass(frozen=True)
class Composition:
    """A configuration that Hydra composed of ``overrides``; points that choose the same files share it."""

    overrides: tuple[str, ...]  # that Hydra composed
    tree: ConfigTree
    choices: Mapping[str, str]
    fidelities: tuple[str, ...]  # names that have settings
    sound: dict[str, Any] = field(default_factory=dict)  # the last values of groups that could be built

    def check_groups(self, point: Point, names: Iterable[str]) -> None:
        """Raise ``ValueError`` where one of the groups ``names`` of a point cannot be built."""
        for name in names:
            if name in point.config and point.config[name] is not self.sound.get(name, self):
                build(point, name)
                self.sound[name] = point.config[name]


@dataclass(frozen=True, eq=False)
class AnySpeed:
    """A point that was checked, of which others differ in the values of ``SPEEDS`` alone."""

    point: Point
    references: Sequence[Reference]  # from ``fabric`` to these values

    def at(self, speeds: Mapping[str, str], swept: Mapping[str, str]) -> Point | None:
        """Return the point with these ``speeds``, by what it is named. None: they are no numbers, or wrong."""
        values = {**self.point.config, "fabric": {**self.point.config["fabric"]}}
        try:
            for key, text in speeds.items():
                values[key] = _speed(key, text)
            for reference in self.references:
                values["fabric"][reference.path[1]] = reference.value(values)
        except UNRESOLVED:
            return None
        return with_fields(self.point, swept=swept, config=values, alike=self)


@dataclass
class PointComposer:
    """Composes the points of the configuration ``name``.

    ``check`` gets the values at the top of each configuration; it raises ``ValueError`` for a wrong one.
    """

    name: str
    check: Check
    sources: Sources = INITIALIZED
    _compositions: dict[tuple[str, ...], Composition] = field(default_factory=dict)  # by their overrides
    _shared: dict[tuple[tuple[str, bool], ...], Composition] = field(default_factory=dict)  # by their forms
    alike: dict[Hashable, AnySpeed] = field(default_factory=dict)  # by overrides, or what stands for them
    _parsed: dict[str, Argument] = field(default_factory=dict)
    _groups: dict[str, list[str]] = field(default_factory=dict)

    def compose(self, overrides: Sequence[str], point: Point) -> Point:
        """Return ``point`` with the values and choices of ``overrides``. Raise ``ValueError`` in one line."""
        speeds = {key: text for key, _, text in (one.partition("=") for one in overrides) if key in SPEEDS}
        others = (*[one for one in overrides if one.partition("=")[0] not in SPEEDS], *speeds)
        if others in self.alike and not point.objects and (known := self.alike[others].at(speeds, point.swept)):
            return known
        with one_line(overrides, self.name, self.sources):
            composition, changes = self.composition(with_node(overrides, point.objects, self._options("gpu")))
            for group, value in point.objects.items():
                if group not in (FIDELITY, *composition.choices):
                    raise ValueError(f"{group}: must be text, a number or a list of these, got {type(value).__name__}")
                if group == "gpu":  # which workloads refer to
                    changes[(group,)] = described(value)
            try:
                values = composition.tree.with_values(changes)
                if has_measured_kernels(values, overrides, point.objects):
                    values = composition.tree.with_values({**changes, ("efficiency",): MEASURED})
            except Exception as error:
                if isinstance(error, ValueError) or is_of_libraries(error):  # the check may know better what is wrong
                    self._check(composition, composition.tree.with_interpolations(changes))
                raise
            self._check(composition, values)
        composed = _with_objects(point, composition, values)
        references = composition.tree.computed_of([(key,) for key in speeds], changes)
        if references is None or point.objects or not isinstance(values.get("fabric"), dict):
            return composed
        if any(one.path[0] != "fabric" or len(one.path) > 2 for one in references):
            return composed
        if len(self.alike) >= MAX_PARSED:
            self.alike.clear()
        self.alike[others] = AnySpeed(composed, references)
        return dataclasses.replace(composed, alike=self.alike[others])

    def composition(self, overrides: Sequence[str]) -> tuple[Composition, dict[Path, Any]]:
        """Return the composition of the files that ``overrides`` choose, and the values that they change in it.

        Hydra composes everything that is more than a plain value for a key that exists. Raises what Hydra raises.
        """
        arguments = [self.argument(text) for text in overrides]
        form = tuple([one.form for one in arguments])
        if form in self._shared:
            return self._shared[form], {one.path: one.value for one in arguments if one.is_value}
        by_hydra = tuple(text for text, one in zip(overrides, arguments, strict=True) if not one.is_value)
        values = [one for one in arguments if one.is_value]
        others = [one.key for one in arguments if not one.is_value and not one.is_option]
        if not any(_is_related(one.key, other) for one in values for other in others):  # whose order counts
            composition = self._composed(by_hydra)
            if all(composition.tree.has_value(one.path) for one in values):
                self._shared[form] = composition
                return composition, {one.path: one.value for one in values}
        return self._composed(tuple(overrides)), {}

    def argument(self, text: str) -> Argument:
        """Return one override, parsed once. Raises what Hydra raises, and ``ValueError`` for a file that cannot be."""
        if text not in self._parsed:
            if len(self._parsed) >= MAX_PARSED:
                self._parsed.clear()
            self._parsed[text] = self._parse(text)
        return self._parsed[text]

    def _parse(self, text: str) -> Argument:
        key, _, digits = text.partition("=")
        if NAME.fullmatch(key):
            options = self._options(key)
            if NUMBER.fullmatch(digits) and not options:
                return Argument(key, True, False, _number(digits), text)
            if digits in CONSTANTS and not options:
                return Argument(key, True, False, CONSTANTS[digits], text)
            if is_word(digits):
                return Argument(key, not options, bool(options), digits, text)
        from hydra.core.override_parser.overrides_parser import OverridesParser

        (override,) = OverridesParser.create().parse_overrides([text])
        key, value = override.key_or_group, override.value()
        options = self._options(key)
        if options and not override.is_delete() and not isinstance(value, str | dict):
            got = override.get_value_element_as_str()
            raise ValueError(f"{key}: must be one of {', '.join(options)}, got {got}")
        is_set = not (override.is_delete() or override.is_add() or override.is_force_add() or override.package)
        is_option = bool(options) and not isinstance(value, dict)
        return Argument(key, is_set and not is_option and _is_plain(value), is_option, value, text)

    def _options(self, group: str) -> list[str]:
        """Return the files of a config group; none if ``group`` is no group."""
        if group not in self._groups:
            self._groups[group] = self.sources.options(group, self.name)
        return self._groups[group]

    def _composed(self, overrides: tuple[str, ...]) -> Composition:
        """Return the configuration of the files and values that ``overrides`` choose."""
        if overrides not in self._compositions:
            whole = self.sources.composed(self.name, overrides)
            fidelities = _name_fidelity(whole, overrides)
            if len(self._compositions) >= MAX_COMPOSITIONS:
                self._compositions.clear()
                self._shared.clear()
            tree = ConfigTree(whole.values, whole.config)
            self._compositions[overrides] = Composition(overrides, tree, whole.choices, fidelities)
        return self._compositions[overrides]

    def _check(self, composition: Composition, values: Mapping[str, Any]) -> None:
        self.check(_without(values, (*composition.fidelities, *OPTIONAL_GROUPS)))


@lru_cache(maxsize=MAX_PARSED)
def _speed(key: str, text: str) -> int | float:
    """Return the value of one of ``SPEEDS``. Raise ``ValueError`` where it is wrong, or not plainly a number."""
    if not NUMBER.fullmatch(text):
        raise ValueError(text)
    value = _number(text)
    check_speed(key, value)
    return value


def _number(text: str) -> int | float:
    return float(text) if "." in text else int(text)


def _without(values: Mapping[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    """Return ``values`` but those of ``keys``."""
    left = dict(values)
    for key in keys:
        left.pop(key, None)
    return left


def is_word(text: str) -> bool:
    """Return whether Hydra reads a value as the text that it is."""
    return WORD.fullmatch(text) is not None and text.lower() not in RESERVED


def _is_plain(value: Any) -> bool:
    """Return whether a value is a number, a text that is taken as it is, or a list of these."""
    if isinstance(value, list):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, int | float) or _is_literal(value)


def _is_literal(value: object) -> bool:
    return isinstance(value, str) and "${" not in value and value != MISSING


def _is_related(one: str, other: str) -> bool:
    """Return whether one of two keys is the other, or is within it."""
    return f"{one}.".startswith(f"{other}.") or f"{other}.".startswith(f"{one}.")


def _name_fidelity(whole: Composed, overrides: Sequence[str]) -> tuple[str, ...]:
    """Make ``fidelity`` of a configuration the name of the chosen file; return the names that have settings.

    Raises ``ValueError`` for settings that are given as ``fidelity.KEY`` and would be ignored.
    """
    choices = whole.choices
    names = [group.partition("@")[2] for group in choices if group.startswith(f"{FIDELITY}@")]
    chosen = choices.get(FIDELITY)
    if chosen is not None:
        if chosen in names:
            _check_settings(chosen, overrides)
        else:  # a file in a folder of the user
            names.append(chosen)
            for config in whole.forms:
                config[chosen] = config[FIDELITY]
        for config in whole.forms:
            config[FIDELITY] = chosen
    return tuple(name for name in names if name in whole.values)


def _check_settings(chosen: str, overrides: Sequence[str]) -> None:
    for override in overrides:
        key, _, value = override.lstrip("+~").partition("=")
        if key.startswith(f"{FIDELITY}.") or (key == FIDELITY and value.lstrip().startswith("{")):
            raise ValueError(
                f"{key}: settings of a fidelity must have its name, as {chosen}.KEY=VALUE, got {override!r}"
            )


def _with_objects(point: Point, composition: Composition, values: dict[str, Any]) -> Point:
    """Return ``point`` with its choices and values, the objects of Python in place of the files of their groups.

    Optional groups and the settings of all fidelities must be sound; those of fidelities that are not chosen are left
    out.
    """
    composed = Point(point.swept, composition.choices, values, point.by_default, point.objects)
    composition.check_groups(composed, OPTIONAL_GROUPS)
    if FIDELITY in values:
        chosen = values[FIDELITY]
        if chosen not in composition.fidelities and FIDELITY not in point.objects:
            raise ValueError(f"{FIDELITY}: must be one of {', '.join(composition.fidelities)}, got {chosen!r}")
        composition.check_groups(composed, composition.fidelities)
        values = _without(values, [name for name in composition.fidelities if name != chosen])
    if not point.objects:
        return Point(point.swept, composition.choices, values, point.by_default)
    names = {group: name_of(value) for group, value in point.objects.items()}
    values |= {group: described(value) for group, value in point.objects.items()}
    if FIDELITY in names:
        values[FIDELITY] = names[FIDELITY]
    return dataclasses.replace(composed, choices={**composition.choices, **names}, config=values)
