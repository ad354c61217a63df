"""Template: a configuration whose values are changed in place, so that what does not depend on them is resolved once.

Points of a grid that choose the same files differ in the plain values of a few keys. A template is the configuration of
one of them: for the next its values are set, and only interpolations that may read these are resolved again.

    bandwidth_gbps=25 -> fabric.bandwidth: ${gbps:${bandwidth_gbps}}       workload.gpu: ${gpu} stays as it was
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from topoflow.units import gbps, mib, us

PURE = ("gbps", "us", "mib", "circuits_for", "oc.env")  # resolvers whose values depend on what is given to them alone
REFERENCE = re.compile(r"\$\{(\w[\w.]*)\}")  # to a key, from the top
CALL = re.compile(rf"\$\{{(?:{'|'.join(map(re.escape, PURE))}):[^${{}}]*\}}")

UNITS = {each.__name__: each for each in (gbps, us, mib)}
CONVERTED = re.compile(rf"\$\{{({'|'.join(UNITS)}):(\$\{{\w[\w.]*\}})\}}")  # a unit of a reference

Path = tuple[Any, ...]  # keys, and numbers of elements of lists, from the top


@dataclass(frozen=True)
class Computed:
    """A reference to a plain value, or a unit of one, which OmegaConf takes a millisecond to parse each time."""

    reads: Path
    convert: Callable[[Any], Any] | None

    @classmethod
    def of(cls, text: str, values: Mapping[str, Any]) -> Computed | None:
        """None for what is more than that; ``values`` are all that there are."""
        converted = CONVERTED.fullmatch(text)
        reference = REFERENCE.fullmatch(text if converted is None else converted[2])
        if reference is None:
            return None
        found = cls(tuple(reference[1].split(".")), None if converted is None else UNITS[converted[1]])
        try:
            return None if isinstance(at(values, found.reads), dict | list) else found
        except (LookupError, TypeError):  # through a list, or what was made in Python
            return None

    def __call__(self, values: Mapping[str, Any]) -> Any:
        value = at(values, self.reads)
        return value if self.convert is None else self.convert(value)


class Template:
    """``config`` with the values of ``keys`` open to changes; it is changed by them. ``of`` says whether it can be."""

    def __init__(self, config: DictConfig, keys: Sequence[str]) -> None:
        self._config = config
        self.paths: list[Path] = [tuple(key.split(".")) for key in keys]
        self._parents = [_parent(config, path) for path in self.paths]
        self._given: list[Any] = [parent[path[-1]] for parent, path in zip(self._parents, self.paths, strict=True)]
        self._written: list[Any] = [None] * len(keys)  # of these, what ``config`` has
        self._are_untyped = all(map(_is_untyped, self._parents, self.paths))
        self._base: dict[str, Any] | None = None
        self._dynamic: list[tuple[Path, Any]] = []
        self._computed: list[tuple[Path, Computed]] = []

    @classmethod
    def of(cls, config: DictConfig, keys: Sequence[str]) -> Template | None:
        """None where a key is no value at a place of its own: in what an interpolation gives, or a mapping."""
        try:
            return cls(config, keys)
        except LookupError:
            return None

    @property
    def config(self) -> DictConfig:
        """With the values that were set last."""
        self._write()
        return self._config

    def set(self, values: Sequence[Any]) -> None:
        """Give each of the keys its value, the last of a key that is there twice."""
        self._given = [*values]
        if not self._are_untyped:
            self._write()  # which raises what is wrong with them

    def _write(self) -> None:
        """Writing to a configuration of OmegaConf takes longer than all else, so it waits until somebody reads it."""
        are_single = len(set(self.paths)) == len(self.paths)
        for number, (parent, path, value) in enumerate(zip(self._parents, self.paths, self._given, strict=True)):
            if value is None or value is not self._written[number] or not are_single:
                parent[path[-1]] = self._written[number] = value

    @property
    def changed(self) -> dict[Path, Any]:
        """The values of the keys, by where they are."""
        if self._are_untyped:
            return dict(zip(self.paths, self._given, strict=True))
        return {path: parent[path[-1]] for path, parent in zip(self.paths, self._parents, strict=True)}

    def resolved(self) -> dict[str, Any]:
        """All values as plain Python, now. What has not changed is shared with what was returned before.

        Raises what OmegaConf raises for a value that cannot be resolved, and what a resolver does.
        """
        if self._base is None:
            base = {str(key): resolved(self.config[key]) for key in self.config}
            self._computed, others = self._sorted(self._depending(), base)
            self._dynamic = [(path, _parent(self._config, path)) for path in others]
            self._base = base
            return base
        found, own = dict(self._base), {()}
        for path, value in self.changed.items():
            _put(found, own, path, value)
        if self._dynamic:
            self._write()
            for path, parent in self._dynamic:
                _put(found, own, path, resolved(parent[path[-1]]))
        for path, computed in self._computed:
            _put(found, own, path, computed(found))
        return found

    def _sorted(self, depending: list[Path], base: dict[str, Any]) -> tuple[list[tuple[Path, Computed]], list[Path]]:
        """Of the interpolations at these places, those that can be computed here, each after what it reads; the rest.

        Here are those that OmegaConf gives the same value of the same type as in ``base``.
        """
        plain: Any = OmegaConf.to_container(self._config)
        parsed = {path: Computed.of(at(plain, path), base) for path in depending}
        here = {path: each for path, each in parsed.items() if each and _same(each(base), at(base, path))}
        found: list[tuple[Path, Computed]] = []
        while ready := [path for path, each in here.items() if each.reads not in here]:
            found += [(path, here.pop(path)) for path in ready]
        return found, [path for path in depending if path not in dict(found)]

    def _depending(self) -> list[Path]:
        """Where interpolations are that may read a value of the keys, or something else that changes."""
        read = {path: reads(text) for path, text in interpolations(OmegaConf.to_container(self._config))}
        changing, before = list(self.paths), 0
        while before < len(changing):
            before = len(changing)
            changing += [
                path
                for path, keys in read.items()
                if path not in changing
                and (keys is None or any(_are_related(key, other) for key in keys for other in changing))
            ]
        return changing[len(self.paths) :]


def resolved(value: Any) -> Any:
    """A value of a configuration as plain Python."""
    is_container = OmegaConf.is_config(value)
    return OmegaConf.to_container(value, resolve=True, throw_on_missing=True) if is_container else value


def at(values: Any, path: Path) -> Any:
    """What plain values have at ``path``."""
    for name in path:
        values = values[name]
    return values


def _same(one: Any, other: Any) -> bool:
    """Also of the same type: 1 is not 1.0."""
    return type(one) is type(other) and bool(one == other)


def _is_untyped(parent: Any, path: Path) -> bool:
    """Whether what is at the end of ``path`` holds any plain value as it is, as all that YAML files have does."""
    key, before = path[-1], parent[path[-1]]
    try:
        for value in ("text", 0.5, 7, True, None):
            parent[key] = value
            if not _same(parent[key], value):
                return False
    except OmegaConfBaseException:
        return False
    finally:
        parent[key] = before
    return True


def _parent(config: Any, path: Path) -> Any:
    """What has the last of ``path``. Raises ``LookupError`` where that is a mapping, or not there in the files."""
    for name in path[:-1]:
        if not OmegaConf.is_config(config) or OmegaConf.is_interpolation(config, name):
            raise LookupError(name)
        config = config[name]
    name = path[-1]
    if not OmegaConf.is_config(config) or (OmegaConf.is_dict(config) and name not in config):
        raise LookupError(name)
    if not OmegaConf.is_interpolation(config, name) and OmegaConf.is_config(config[name]):
        raise LookupError(name)
    return config


def interpolations(value: Any, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """(where, text) of all within a plain value."""
    if isinstance(value, str) and "${" in value:
        yield path, value
    items = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for key, each in items:
        yield from interpolations(each, (*path, key))


def reads(text: str) -> list[Path] | None:
    """The keys that an interpolation reads; None where that is not plain, or depends on more than keys."""
    keys = REFERENCE.findall(text)
    rest = CALL.sub("", REFERENCE.sub("", text))
    return None if "$" in rest else [tuple(key.split(".")) for key in keys]


def _are_related(one: Path, other: Path) -> bool:
    """Whether one of two is the other, or within it."""
    return all(str(a) == str(b) for a, b in zip(one, other, strict=False))


def _put(tree: Any, own: set[Path], path: Path, value: Any) -> None:
    """Set a value in ``tree``, a copy of whose part at each of ``own`` has been made; others are copied first."""
    for depth, name in enumerate(path[:-1], 1):
        if path[:depth] not in own:
            own.add(path[:depth])
            tree[name] = tree[name].copy()
        tree = tree[name]
    tree[path[-1]] = value
