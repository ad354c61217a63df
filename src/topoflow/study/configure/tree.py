"""The tree of values of a run: composed by Hydra once for each choice of files, then changed value by value.

A sweep has many points that differ in plain values only. Composing one takes Hydra a fifth of a second, changing a
value of a tree some microseconds: the values that depend on it are computed again, and all others are shared.

    bandwidth_gbps=25 -> fabric.bandwidth: ${gbps:${bandwidth_gbps}}       workload.gpu: ${gpu} stays as it was
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from topoflow.collectives.algorithm import circuits_for
from topoflow.study.configure.errors import is_of_libraries
from topoflow.units import gbps, mib, us

if TYPE_CHECKING:
    from omegaconf import DictConfig

Path = tuple[str, ...]  # keys from the top

MISSING = "???"  # of a value that must be given
RESOLVERS: dict[str | None, Callable[[Any], Any]] = {
    None: lambda value: value,
    **{resolver.__name__: resolver for resolver in (gbps, us, mib, circuits_for)},
}
KEY = r"\$\{(\w+(?:\.\w+)*)\}"
INTERPOLATION = re.compile(rf"{KEY}|\$\{{({'|'.join(filter(None, RESOLVERS))}):{KEY}\}}")
UNRESOLVED = (ValueError, TypeError, LookupError, ArithmeticError)
NUMBER = re.compile(rf"\$\{{(?:{'|'.join(filter(None, RESOLVERS))}):[\d.]+\}}")  # the same in every point


@dataclass(frozen=True)
class Reference:
    """A value that is another value of the tree, or one of ``RESOLVERS`` of it."""

    path: Path
    source: Path
    resolver: str | None

    def value(self, tree: Mapping[str, Any]) -> Any:
        """Return the value, where ``tree`` has that of the source."""
        return RESOLVERS[self.resolver](at(tree, self.source))


class ConfigTree:
    """The values of one choice of files, interpolations as text.

    ``config`` is what Hydra composed, without Hydra's own node; None: the values are those of files, without types.
    """

    def __init__(self, plain: dict[str, Any], config: DictConfig | None = None) -> None:
        self.plain: Any = plain
        self._composed = config
        self._base: dict[str, Any] | None = None
        self._references: list[Reference] | None = []  # each after those that it reads; None: some are not so plain
        self._missing = [path for path, value in leaves(self.plain) if value == MISSING]
        self._has_value: dict[Path, bool] = {}
        self._affected: dict[tuple[Path, ...], list[Reference]] = {}  # by the paths of what is changed

    @cached_property
    def _config(self) -> DictConfig:
        if self._composed is not None:
            return self._composed
        from omegaconf import OmegaConf

        import topoflow.configs  # noqa: F401  registers the resolvers

        config: DictConfig = OmegaConf.create(self.plain)
        return config

    def has_value(self, path: Path) -> bool:
        """Return whether ``path`` has an untyped value of its own: no mapping, and not within an interpolation."""
        if path not in self._has_value:
            self._has_value[path] = self._finds_value(path)
        return self._has_value[path]

    def _finds_value(self, path: Path) -> bool:
        if self._composed is None:
            values = self.plain
            for key in path:
                if not isinstance(values, dict) or key not in values:
                    return False
                values = values[key]
            return not isinstance(values, dict)
        from omegaconf import AnyNode, DictConfig, ListConfig, OmegaConf

        config: Any = self._composed
        for key in path[:-1]:
            if not isinstance(config, DictConfig) or key not in config or OmegaConf.is_interpolation(config, key):
                return False
            config = config._get_node(key)
        if not isinstance(config, DictConfig) or path[-1] not in config:
            return False
        node: Any = config._get_node(path[-1])
        return type(node) is AnyNode or (isinstance(node, ListConfig) and node._metadata.element_type is Any)

    def with_values(self, changes: Mapping[Path, Any]) -> dict[str, Any]:
        """Return all values as plain Python, with ``changes``. What did not change is shared between calls.

        Raises what OmegaConf raises for a value that is missing or cannot be computed.
        """
        if self._base is None:
            self._prepare()
        if self._references is None or self._base is None:
            return self._by_omegaconf(changes)
        for path in self._missing:
            if path not in changes:
                return self._by_omegaconf(changes)
        values: dict[str, Any] = dict(self._base)
        copied: set[tuple[Any, ...]] = {()}
        for path, value in changes.items():
            _put(values, copied, path, value)
        try:
            for reference in self._affected_by(tuple(changes)):
                _put(values, copied, reference.path, reference.value(values))
        except UNRESOLVED:  # OmegaConf says which key it is
            return self._by_omegaconf(changes)
        return values

    def computed_of(self, changed: Sequence[Path], changes: Mapping[Path, Any]) -> list[Reference] | None:
        """Return the references that depend on the values at ``changed``, in their order, where ``changes`` are made.

        None: they are not known.
        """
        if self._references is None or not all(path in changes for path in changed):
            return None
        affected = self._affected_by(tuple(changed))
        return [one for one in affected if not any(_overlap(one.path, path) for path in changes)]

    def with_interpolations(self, changes: Mapping[Path, Any]) -> dict[str, Any]:
        """Return all values with ``changes``, and interpolations as text."""
        values, copied = dict(self.plain), {()}
        for path, value in changes.items():
            _put(values, copied, path, value)
        return values

    def config(self, changes: Mapping[Path, Any]) -> DictConfig:
        """Return the configuration with ``changes``, as a copy for the caller."""
        from omegaconf import OmegaConf

        config = deepcopy(self._config)
        for path, value in changes.items():
            OmegaConf.update(config, ".".join(path), value, merge=False)
        return config

    def _by_omegaconf(self, changes: Mapping[Path, Any]) -> dict[str, Any]:
        config = self.config(changes)
        return {str(key): plain(config[key]) for key in config}

    def _prepare(self) -> None:
        """Find what is computed from what, if all interpolations are as plain as ``Reference``."""
        texts = [(path, value) for path, value in leaves(self.plain) if isinstance(value, str) and "${" in value]
        matches = {path: INTERPOLATION.fullmatch(text) for path, text in texts if not NUMBER.fullmatch(text)}
        if None in matches.values():
            self._references = None
            return
        waiting = [
            Reference(path, tuple((match[1] or match[3]).split(".")), match[2])
            for path, match in matches.items()
            if match is not None
        ]
        ordered: list[Reference] = []
        while ready := [one for one in waiting if not any(_overlap(one.source, other.path) for other in waiting)]:
            ordered += ready
            waiting = [one for one in waiting if one not in ready]
        if waiting:  # they refer to each other
            self._references = None
            return
        base, numbers = deepcopy(self.plain), [path for path, _ in texts if path not in matches]
        try:
            for path in numbers:
                _set(base, path, _number(at(base, path)))
            for reference in ordered:
                _set(base, reference.path, reference.value(base))
        except UNRESOLVED:  # a value that it refers to is missing, or wrong
            self._references = None
            return
        is_missing = any(at(base, reference.path) == MISSING for reference in ordered)
        is_same = self._composed is None or _same(base, _resolved(self._composed))
        self._references, self._base = None if is_missing or not is_same else ordered, base

    def _affected_by(self, changed: tuple[Path, ...]) -> list[Reference]:
        """Return the references to compute again, in their order; a reference that is itself changed is none."""
        if changed not in self._affected:
            paths, affected = [*changed], []
            for reference in self._references or ():
                is_changed = any(_overlap(reference.path, path) for path in changed)
                if not is_changed and any(_overlap(reference.source, path) for path in paths):
                    affected.append(reference)
                    paths.append(reference.path)
            self._affected[changed] = affected
        return self._affected[changed]


def plain(value: Any) -> Any:
    """Return a value of a configuration as plain Python, resolved. Raises what OmegaConf raises."""
    from omegaconf import OmegaConf

    if not OmegaConf.is_config(value):
        return value
    return OmegaConf.to_container(value, resolve=True, throw_on_missing=True)


def at(values: Any, path: Sequence[Any]) -> Any:
    """Return what nested mappings have at ``path``."""
    for key in path:
        values = values[key]
    return values


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield (path, value) of everything in nested mappings and lists that is neither."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if items is None:
        yield path, value
        return
    for key, item in items:
        yield from leaves(item, (*path, key))


def _same(one: Any, other: Any) -> bool:
    """Return whether two trees have equal values of equal types: 1 is not 1.0."""
    return repr(one) == repr(other)


def _resolved(config: DictConfig) -> Any:
    """Return all values of a configuration; None where one of them cannot be computed."""
    from omegaconf import OmegaConf

    try:
        return OmegaConf.to_container(config, resolve=True)
    except Exception as error:
        if isinstance(error, UNRESOLVED) or is_of_libraries(error):
            return None
        raise


def _overlap(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Return whether one of two paths is the other, or leads into it."""
    return all(a == b for a, b in zip(one, other, strict=False))


def _set(tree: Any, path: Sequence[Any], value: Any) -> None:
    at(tree, path[:-1])[path[-1]] = value


def _number(text: str) -> Any:
    """Return the value of ``${us:0.03}``."""
    resolver, _, number = text[2:-1].partition(":")
    return RESOLVERS[resolver](float(number) if "." in number else int(number))


def _put(tree: Any, copied: set[tuple[Any, ...]], path: tuple[Any, ...], value: Any) -> None:
    """Set a value of ``tree``; copy the mappings on the way to it, unless ``copied`` has them, and add them there."""
    for depth, key in enumerate(path[:-1], 1):
        if path[:depth] not in copied:
            copied.add(path[:depth])
            tree[key] = tree[key].copy()
        tree = tree[key]
    tree[path[-1]] = value
