"""Dataclasses as plain arrays, without what whoever reads them has already.

A timeline is packed against its world: where circuits changed it has another one, and only what differs counts.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType
from typing import Any, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray

from topoflow.engine.executor.base import Arrays

NONE = np.zeros((0, 0, 0), np.bool_)  # None, where what is there already is something


def pack(value: object, known: object, where: str = "") -> dict[str, NDArray[Any]]:
    """The fields of a dataclass, those of others in it as ``field.inner``; without those that are ``known``'s own.

    Raises ``TypeError`` for a field that is neither plain nor an array.
    """
    found: dict[str, NDArray[Any]] = {}
    for each in _fields(value):
        own, there, name = getattr(value, each), getattr(known, each, None), f"{where}{each}"
        if own is there:
            continue
        if is_dataclass(own):
            found |= pack(own, there if type(there) is type(own) else None, f"{name}.")
        elif own is None:
            found[name] = NONE
        else:
            found[name] = _array(name, own)
    return found


def unpack(kind: type, known: object, arrays: Arrays, where: str = "") -> Any:
    """A ``kind`` as it was packed with the same ``known``."""
    hints, values = _hints(kind), {}
    for each in _fields(kind):
        name, there = f"{where}{each}", getattr(known, each, None)
        if name in arrays:
            values[each] = _value(arrays[name], hints[each])
        elif any(key.startswith(f"{name}.") for key in arrays):
            inner = type(there) if is_dataclass(there) else _dataclass(hints[each])
            values[each] = unpack(inner, there, arrays, f"{name}.")
        else:
            values[each] = there
    return kind(**values)


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _fields(value: Any) -> list[str]:
    return [each.name for each in fields(value) if each.init]


def _array(name: str, value: object) -> NDArray[Any]:
    array = np.asarray(value)
    if array.dtype == object:
        raise TypeError(f"{name}: must be plain, got {type(value).__name__}")
    return array


def _value(array: NDArray[Any], hint: object) -> Any:
    """A number where the field is one, else the array."""
    if array.shape == NONE.shape and array.dtype == NONE.dtype:
        return None
    return array.item() if array.shape == () and hint in (int, float, bool, str) else array


def _dataclass(hint: object) -> type:
    """The dataclass of a field that may be None."""
    kinds = [each for each in (hint, *get_args(hint)) if isinstance(each, type) and each is not NoneType]
    return next(each for each in kinds if is_dataclass(each))
