"""JSON by orjson, with the errors of the standard library: one value with indentation, or many rows as lines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from math import isfinite
from typing import Any

import orjson

ROWS = 200  # rows of a part: its objects stay in the processor's cache
INDENTED = orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS | orjson.OPT_APPEND_NEWLINE
STRICT = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_SUBCLASS
CHECKED = partial(json.dumps, allow_nan=False, separators=(",", ":"))


def json_lines(rows: Iterable[Any], comma: bytes = b"") -> Iterator[bytes]:
    """Yield parts of UTF-8 lines; each line but the last ends with ``comma``, which makes them the inside of an array.

    The JSON equals that of ``json.dumps(row, allow_nan=False)``, with the same errors, except that ``UUID`` and
    ``Enum`` are written. Only a newline ends a line: U+2028 and similar characters are written unescaped.
    """
    rows = iter(rows)
    part = list(islice(rows, ROWS))
    while part:
        following = list(islice(rows, ROWS))
        yield _joined(part, comma + b"\n") + (comma if following else b"") + b"\n"
        part = following


def _joined(rows: Sequence[Any], between: bytes) -> bytes:
    try:
        text = between.join([orjson.dumps(row, option=STRICT) for row in rows])
    except orjson.JSONEncodeError:  # lone surrogates, keys that are no text, dataclasses, dates, subclasses
        pass
    else:
        if b"null" not in text:  # orjson writes NaN and infinity as null, too
            return text
    return between.join(CHECKED(row).encode() for row in rows)


def json_text(value: Any) -> bytes:
    """Return the JSON of a value, with indentation. Raise ``ValueError`` for NaN and infinity."""
    _check_finite(value, set())
    try:
        return orjson.dumps(value, option=STRICT | INDENTED)
    except orjson.JSONEncodeError:  # as in ``_joined``
        return json.dumps(value, indent=2, allow_nan=False).encode() + b"\n"


def _check_finite(value: Any, checked: set[int]) -> None:
    """Raise ``ValueError`` for NaN and infinity, which orjson writes as null.

    ``checked`` are identities of containers, as many rows share the values of one configuration.
    """
    if id(value) in checked:
        return
    if isinstance(value, dict):
        checked.add(id(value))
        value = value.values()
    elif not isinstance(value, list | tuple):
        if isinstance(value, float) and not isfinite(value):
            raise ValueError(f"JSON numbers must be finite, got {value}")
        return
    for item in value:
        _check_finite(item, checked)
