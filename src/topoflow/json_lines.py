"""Serialization of many rows as JSON lines, in constant memory."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any

import orjson

ROWS = 200  # rows of a part: its objects stay in the processor's cache
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
