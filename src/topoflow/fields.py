"""Fields: of frozen dataclasses, and checks of those of input files.

Traces, worlds, links, plans and measured kernels share the checks. An error is one line with file, place, field,
requirement and value.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

LARGEST_INTEGER = 2**63 - 1
LARGEST_WORLD = 2**17  # ranks of a job; the largest have 10^5 GPUs
LARGEST_RANK = LARGEST_WORLD - 1
MOST_ITERATIONS = 2**20  # in one trace; recordings have tens


T = TypeVar("T")


class Deferred:
    """A frozen dataclass, some fields of which may be made when they are first read: that of ``make_NAME``."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            make = vars(self).get(f"make_{name}")
            if make is None:
                raise AttributeError(f"{type(self).__name__} has no {name}")
            vars(self)[name] = make()
            return vars(self)[name]

    def __getstate__(self) -> dict[str, Any]:
        """Return what pickle writes: fields instead of what makes them."""
        for name in [name for name in vars(self) if name.startswith("make_")]:
            getattr(self, name.removeprefix("make_"))
        return {name: value for name, value in vars(self).items() if not name.startswith("make_")}


def with_fields(value: T, without: Iterable[str] = (), **fields: Any) -> T:
    """Return a frozen dataclass with other values of ``fields``, without the checks of ``dataclasses.replace``.

    It keeps what the dataclass has cached, but what is ``without``.
    """
    other, values = object.__new__(type(value)), vars(value) | fields
    for name in without:
        values.pop(name, None)
    object.__setattr__(other, "__dict__", values)
    return other


def decode(name: str, data: bytes) -> str:
    """Decode UTF-8 bytes; the error names the first invalid byte."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{name}: must be UTF-8, got byte 0x{data[error.start]:02x} at {error.start}") from error


def parse_json(
    place: str, text: str | bytes, *, unique: bool = False, constants: bool = False, bounded: bool = False
) -> Any:
    """Parse JSON; an error is one line with the place: ``trace.json: must be JSON, got ... line 3 column 7``.

    JSON takes the last value of a repeated key; with ``unique`` a repetition is an error. With ``constants``, NaN and
    Infinity are accepted as numbers, so that a later check of the fields can name the field. With ``bounded``, a number
    beyond the range of a float is an error.
    """
    if isinstance(text, bytes):
        text = decode(place, text)
    try:
        return json.loads(
            text,
            parse_constant=None if constants else _refuse_constant,
            parse_int=_bounded_int if bounded else None,
            parse_float=_bounded_float if bounded else None,
            object_pairs_hook=_refuse_repetition if unique else None,
        )
    except RecursionError:
        raise ValueError(f"{place}: must be JSON of a sane depth, got too many nested brackets") from None
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{place}: must be JSON, got {error.msg} at line {error.lineno} column {error.colno}"
        ) from error
    except ValueError as error:  # NaN, Infinity, a key given twice, or an integer of thousands of digits
        raise ValueError(f"{place}: must be JSON, got {error}") from error


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant}, which JSON does not have")


def _bounded_int(text: str) -> int:
    if len(text) > sys.float_info.max_10_exp:
        raise ValueError(f"a whole number of {len(text)} digits")
    return int(text)


def _bounded_float(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise ValueError(f"the number {text[:20]}, which is beyond a float")
    return value


def _refuse_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(pairs)
    if len(unique) < len(pairs):
        count = Counter(key for key, _ in pairs)
        raise ValueError(f"{next(key for key in count if count[key] > 1)[:40]!r} twice")
    return unique


@dataclass(frozen=True)
class Fields:
    """One JSON object of an input file; each getter checks its field and names the place in the error.

    ``place`` ends with its separator, so that messages read ``trace.json: traceEvents[12].dur: must be a number,
    got 'x'`` or ``trace.jsonl:3: op: must be given``.
    """

    place: str
    values: Mapping[str, Any]

    @classmethod
    def of(cls, place: str, value: Any) -> Fields:
        """Return the fields of ``value``. Raises ``ValueError`` unless it is an object."""
        if not isinstance(value, dict):
            raise ValueError(f"{place.rstrip(': .')}: must be an object, got {shorten(value)}")
        return cls(place, value)

    def fail(self, field: str, rule: str) -> NoReturn:
        """Raise the ``ValueError`` for ``field``, which breaks ``rule``."""
        got = shorten(self.values[field]) if field in self.values else "nothing"
        raise ValueError(f"{self.place}{field}: {rule}, got {got}")

    def has(self, field: str) -> bool:
        """Return whether the field is given and not null."""
        return self.values.get(field) is not None

    def require(self, field: str) -> Any:
        """Return the value of a required field, unchecked."""
        if field not in self.values:
            self.fail(field, "must be given")
        return self.values[field]

    def integer(self, field: str, lowest: int = 0, highest: int = LARGEST_INTEGER) -> int:
        """Return a whole number within lowest..highest."""
        value = self.require(field)
        if type(value) is not int or not lowest <= value <= highest:
            self.fail(field, f"must be a whole number within {lowest}..{highest}")
        return value

    def number(self, field: str) -> float:
        """Return a finite number."""
        value = self.require(field)
        if type(value) not in (int, float) or abs(value) > LARGEST_INTEGER or not isfinite(value):
            self.fail(field, "must be a number")
        return float(value)

    def text(self, field: str) -> str:
        """Return a string."""
        value = self.require(field)
        if not isinstance(value, str):
            self.fail(field, "must be a string")
        return value

    def boolean(self, field: str) -> bool:
        """Return a boolean."""
        value = self.require(field)
        if not isinstance(value, bool):
            self.fail(field, "must be true or false")
        return value

    def items(self, field: str) -> list[Any]:
        """Return a list."""
        value = self.require(field)
        if not isinstance(value, list):
            self.fail(field, "must be a list")
        return value

    def integers(self, field: str, lowest: int = 0, highest: int = LARGEST_INTEGER) -> tuple[int, ...]:
        """Return a list of whole numbers within lowest..highest as a tuple."""
        values = self.items(field)
        if not all(type(value) is int and lowest <= value <= highest for value in values):
            self.fail(field, f"must be a list of whole numbers within {lowest}..{highest}")
        return tuple(values)

    def numbers(self, field: str) -> tuple[float, ...]:
        """Return a list of numbers as a tuple."""
        values = self.items(field)
        return tuple(Fields(self.place, {field: value}).number(field) for value in values)

    def texts(self, field: str) -> tuple[str, ...]:
        """Return a list of strings as a tuple."""
        values = self.items(field)
        if not all(isinstance(value, str) for value in values):
            self.fail(field, "must be a list of strings")
        return tuple(values)


def number(place: str, value: object) -> float:
    """Return a number as a float, which may be infinite or NaN. Raises ``ValueError`` for booleans and others."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{place}: must be a number, got {shorten(value)}")
    try:
        return float(value)
    except OverflowError as error:
        raise ValueError(f"{place}: must be finite, got {shorten(value)}") from error


def name_of(place: str, value: object) -> str:
    """Return a name given as a string or a whole number; 7 and "7" are the same name."""
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise ValueError(f"{place}: must be a name or a whole number, got {shorten(value)}")
    name = str(value)
    if not name.isprintable():
        raise ValueError(f"{place}: must be printable, got {ascii(name)[:60]}")
    return name


def shorten(value: object) -> str:
    """Return a value for a message: one line of at most 60 characters, whatever a damaged file holds."""
    if isinstance(value, int) and abs(value) > 10**60:
        return f"a whole number of {value.bit_length()} bits"
    try:
        text = f"{len(value)} values" if isinstance(value, list | dict) and len(value) > 20 else repr(value)
    except RecursionError:
        return "values within values without end"
    return text if len(text) <= 60 else text[:57] + "..."
