"""Template: a configuration whose values are changed in place, so that what does not depend on them is resolved once.

Points of a grid that choose the same files differ in the plain values of a few keys. A template is the configuration of
one of them: for the next its values are set, and only interpolations that may read these are resolved again.

    bandwidth_gbps=25 -> fabric.bandwidth: ${gbps:${bandwidth_gbps}}       workload.gpu: ${gpu} stays as it was
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from omegaconf import DictConfig, OmegaConf

PURE = ("gbps", "us", "mib", "circuits_for", "oc.env")  # resolvers whose values depend on what is given to them alone
REFERENCE = re.compile(r"\$\{(\w[\w.]*)\}")  # to a key, from the top
CALL = re.compile(rf"\$\{{(?:{'|'.join(map(re.escape, PURE))}):[^${{}}]*\}}")

Path = tuple[Any, ...]  # keys, and numbers of elements of lists, from the top


class Template:
    """``config`` with the values of ``keys`` open to changes; it is changed by them. ``of`` says whether it can be."""

    def __init__(self, config: DictConfig, keys: Sequence[str]) -> None:
        self.config = config
        self.paths: list[Path] = [tuple(key.split(".")) for key in keys]
        self._parents = [_parent(config, path) for path in self.paths]
        self._values: list[Any] = [None] * len(keys)  # that were set last
        self._base: dict[str, Any] | None = None
        self._dynamic: list[tuple[Path, Any]] = []

    @classmethod
    def of(cls, config: DictConfig, keys: Sequence[str]) -> Template | None:
        """None where a key is no value at a place of its own: in what an interpolation gives, or a mapping."""
        try:
            return cls(config, keys)
        except LookupError:
            return None

    def set(self, values: Sequence[Any]) -> None:
        """Give each of the keys its value, the last of a key that is there twice."""
        are_single = len(set(self.paths)) == len(self.paths)
        for number, (parent, path, value) in enumerate(zip(self._parents, self.paths, values, strict=True)):
            if value is None or value is not self._values[number] or not are_single:
                parent[path[-1]] = self._values[number] = value

    @property
    def changed(self) -> dict[Path, Any]:
        """The values of the keys, by where they are."""
        return {path: parent[path[-1]] for path, parent in zip(self.paths, self._parents, strict=True)}

    def resolved(self) -> dict[str, Any]:
        """All values as plain Python, now. What has not changed is shared with what was returned before.

        Raises what OmegaConf raises for a value that cannot be resolved.
        """
        if self._base is None:
            self._base = {str(key): resolved(self.config[key]) for key in self.config}
            self._dynamic = [(path, _parent(self.config, path)) for path in self._depending()]
            return self._base
        found, own = dict(self._base), {()}
        for path, parent in (*zip(self.paths, self._parents, strict=True), *self._dynamic):
            _put(found, own, path, resolved(parent[path[-1]]))
        return found

    def _depending(self) -> list[Path]:
        """Where interpolations are that may read a value of the keys, or something else that changes."""
        reads = {path: _reads(text) for path, text in _interpolations(OmegaConf.to_container(self.config))}
        changing, before = list(self.paths), 0
        while before < len(changing):
            before = len(changing)
            changing += [
                path
                for path, keys in reads.items()
                if path not in changing
                and (keys is None or any(_are_related(key, other) for key in keys for other in changing))
            ]
        return changing[len(self.paths) :]


def resolved(value: Any) -> Any:
    """A value of a configuration as plain Python."""
    is_container = OmegaConf.is_config(value)
    return OmegaConf.to_container(value, resolve=True, throw_on_missing=True) if is_container else value


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


def _interpolations(value: Any, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """(where, text) of all within a plain value."""
    if isinstance(value, str) and "${" in value:
        yield path, value
    items = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for key, each in items:
        yield from _interpolations(each, (*path, key))


def _reads(text: str) -> list[Path] | None:
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
