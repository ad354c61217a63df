"""Digests: what has the same content has the same one, whatever file it was read from.

An id of what was built, not of the paths that it was built from, is another one as soon as a file has changed.
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

PROGRAM = (".py", ".so", ".pyd")  # what answers depend on; YAML files count by what is built of them


class Made:
    """What its class and the arguments of its constructor decide, as nobody changes it afterwards."""

    made_of: list[object]

    def __new__(cls, *arguments: Any, **named: Any) -> Any:
        made = super().__new__(cls)
        # The order of a mapping may count, so two that differ in it are different.
        given = [*arguments, *sorted(named.items())]
        made.made_of = [[*each.items()] if isinstance(each, Mapping) else each for each in given]
        return made


@cache
def program(folder: Path = Path(__file__).parent) -> str:
    """SHA-256 of the names and contents of topoflow's modules, also of its compiled one: a version that a developer
    changes by editing a file. 10 ms, once.

    What any module computes counts as what all compute: to know better which ones an answer needs would be a list to
    keep, and a wrong list gives old answers.
    """
    return _contents(folder, PROGRAM)


@cache
def sources(folder: Path = Path(__file__).parent) -> str:
    """The same of the modules in Python alone, which machines with other processors or GPUs have in common."""
    return _contents(folder, PROGRAM[:1])


def _contents(folder: Path, kinds: tuple[str, ...]) -> str:
    files = [path for path in folder.rglob("*") if path.suffix in kinds and path.is_file()]
    found = {path.relative_to(folder).as_posix(): path for path in files}
    contents = [f"{name} {hashlib.sha256(path.read_bytes()).hexdigest()}" for name, path in sorted(found.items())]
    return hashlib.sha256("\n".join(contents).encode()).hexdigest()


def digest(value: object) -> str:
    """SHA-256 of plain values, arrays, dataclasses (their class, and the fields that count where they are compared) and
    whatever holds these.

    Other objects, made in Python and not ``Made``, have a state that cannot be known: what holds one equals nothing,
    not even itself.
    """
    try:
        text = json.dumps(_keyed(value), default=_plain, sort_keys=True)
    except (TypeError, ValueError):  # not plain, a key that is not, or a circle
        text = uuid.uuid4().hex
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: Any) -> object:
    """What JSON does not have, one level deep."""
    if is_dataclass(value) and not isinstance(value, type):
        inner = {each.name: getattr(value, each.name) for each in fields(value) if each.compare}
        return [_name(type(value)), {name: _keyed(each) for name, each in inner.items()}]
    if isinstance(value, np.ndarray) and value.dtype != object:
        return [str(value.dtype), value.shape, hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()]
    if isinstance(value, Made):
        return [_name(type(value)), value.made_of]
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


def _keyed(value: Any) -> object:
    """A mapping whose keys are tuples, say of servers, as pairs: JSON has text for keys."""
    if not isinstance(value, dict):
        return value
    if all(isinstance(key, str) for key in value):
        return {key: _keyed(each) for key, each in value.items()}
    return sorted([digest(key), _keyed(each)] for key, each in value.items())


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
