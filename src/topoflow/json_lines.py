"""JSON of many rows, one to a line: what is in memory of it does not grow with the file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any

import orjson

ROWS = 200  # of a part: what is made of them stays in the cache
STRICT = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_SUBCLASS
CHECKED = partial(json.dumps, allow_nan=False, separators=(",", ":"))


def json_lines(rows: Iterable[Any], comma: bytes = b"") -> Iterator[bytes]:
    """Lines of UTF-8, some at a time; each but the last ends with ``comma``, which makes them the inside of an array.

    Reads as what ``json.dumps(row, allow_nan=False)`` writes, and raises the same errors, but for ``UUID`` and
    ``Enum``, which are written. Only a newline ends a line: U+2028 and its like are written as they are.
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
        if b"null" not in text:  # orjson's word for NaN and infinity, too
            return text
    return between.join(CHECKED(row).encode() for row in rows)
