"""Digests: objects with equal content have equal digests, whatever file they were read from.

A digest identifies the objects that were built, not the paths of their files, so it changes when a file changes.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping, Set
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from pathlib import Path, PurePath
from typing import Any

import numpy as np

PROGRAM = (".py", ".so", ".pyd")  # files that results depend on; a YAML file counts through the objects built from it


class ContentHashed:
    """An immutable object that is identified by its class and the arguments of its constructor."""

    constructor_arguments: list[object]

    def __new__(cls, *arguments: Any, **named: Any) -> Any:
        instance = super().__new__(cls)
        # The order of a mapping may count, so two that differ in it are different.
        values = [*arguments, *sorted(named.items())]
        instance.constructor_arguments = [[*value.items()] if isinstance(value, Mapping) else value for value in values]
        return instance


@cache
def program(folder: Path = Path(__file__).parent) -> str:
    """Return the SHA-256 of topoflow's modules, including the compiled one: their names and contents.

    It serves as a version that changes when a developer edits a file. It takes 10 ms, once per process. It covers all
    modules: a list of those that a result depends on would have to be maintained, and an error in it would return
    stale results.
    """
    return _contents(folder, PROGRAM)


@cache
def sources(folder: Path = Path(__file__).parent) -> str:
    """Return the same digest of the Python modules only, which is equal on machines with other processors or GPUs."""
    return _contents(folder, PROGRAM[:1])


def _contents(folder: Path, kinds: tuple[str, ...]) -> str:
    files = [path for path in folder.rglob("*") if path.suffix in kinds and path.is_file()]
    file_of = {path.relative_to(folder).as_posix(): path for path in files}
    contents = [f"{name} {hashlib.sha256(path.read_bytes()).hexdigest()}" for name, path in sorted(file_of.items())]
    return hashlib.sha256("\n".join(contents).encode()).hexdigest()


def digest(value: object) -> str:
    """Return the SHA-256 of plain values, arrays, dataclasses and containers of these.

    A dataclass counts by its class and the fields that take part in comparisons. The state of other objects that are
    not ``ContentHashed`` cannot be known: a value that holds one equals nothing, not even itself.
    """
    try:
        text = json.dumps(_keyed(value), default=_plain, sort_keys=True)
    except (TypeError, ValueError):  # not plain, a key that is not, or a circle
        text = uuid.uuid4().hex
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: Any) -> object:
    """Convert a value that JSON cannot represent, one level deep. Raises ``TypeError`` for an unknown type."""
    if is_dataclass(value) and not isinstance(value, type):
        inner = {name: getattr(value, name) for name in _compared(type(value))}
        return [_name(type(value)), {name: _keyed(item) for name, item in inner.items()}]
    if isinstance(value, np.ndarray) and value.dtype != object:
        return [str(value.dtype), value.shape, hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()]
    if isinstance(value, ContentHashed):
        return [_name(type(value)), value.constructor_arguments]
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return _keyed(dict(value))
    if isinstance(value, Set):
        return ["set", *sorted(map(digest, value))]
    if isinstance(value, Enum):
        return [_name(type(value)), value.name]
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, bytes):
        return ["bytes", value.hex()]
    if isinstance(value, type):
        return _name(value)
    raise TypeError(f"{type(value).__name__} is not plain")


@cache
def _compared(kind: type) -> tuple[str, ...]:
    """Return the names of the fields of a dataclass that take part in comparisons."""
    return tuple(field.name for field in fields(kind) if field.compare)


def _keyed(value: Any) -> object:
    """Return a mapping with keys other than strings as sorted pairs, since JSON keys are text."""
    if not isinstance(value, dict):
        return value
    if all(isinstance(key, str) for key in value):
        return {key: _keyed(item) for key, item in value.items()}
    return sorted([digest(key), _keyed(item)] for key, item in value.items())


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
