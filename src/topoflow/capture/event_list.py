"""A JSON object whose list ``traceEvents`` is most of the file: the list is read in columns, the rest is decoded."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import orjson

from topoflow import _C

NO_CORRELATION = _C.NO_CORRELATION
LIST = re.compile(rb'"traceEvents"\s*:\s*\[')
MAX_AROUND = 2**20  # B before the list, and after it
MAX_TRIES = 256  # places where the list may end
UTF8_BYTES = 2**20  # that are checked at once


@dataclass(frozen=True)
class EventList:
    """The list is ``data[start:end]`` without its brackets; ``document`` is the object with an empty list."""

    document: Mapping[str, Any]
    data: bytes
    start: int
    end: int

    def columns(self, matters: Callable[[bytes, bytes], bool]) -> Mapping[str, Any]:
        """Return the complete events whose category and name matter, in arrays: see ``csrc/events/events.h``.

        ``matters`` is asked once for each pair, as JSON. Raises ``orjson.JSONDecodeError`` if the list is no JSON.
        """
        arrays = _C.read_events(self.data, self.start, self.end, matters) if self._is_utf8() else None
        if arrays is None:
            raise orjson.JSONDecodeError("the list is no JSON", "", self.start)
        return arrays

    def _is_utf8(self) -> bool:
        if self.data.isascii():
            return True
        decoder = codecs.getincrementaldecoder("utf-8")()
        with suppress(UnicodeDecodeError):
            for at in range(0, len(self.data), UTF8_BYTES):
                decoder.decode(self.data[at : at + UTF8_BYTES], at + UTF8_BYTES >= len(self.data))
            return True
        return False


def event_list(data: bytes) -> EventList | None:
    """Return the list of events of a JSON object; None if it has none, or none that is found at once.

    The list ends at the first bracket from which on the object is whole: brackets of events leave their braces open.
    """
    begin = LIST.search(data)
    if begin is None or begin.end() > MAX_AROUND:
        return None
    head, end, events = data[: begin.end()].removeprefix(b"\xef\xbb\xbf"), len(data), None
    for _ in range(MAX_TRIES):
        end = data.rfind(b"]", max(begin.end(), len(data) - MAX_AROUND), end)
        if end < 0:
            break
        with suppress(orjson.JSONDecodeError):
            events = EventList(orjson.loads(head + data[end:]), data, begin.end(), end)
    return events if events is not None and events.document.get("traceEvents") == [] else None
