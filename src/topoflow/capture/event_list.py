"""A JSON object whose list ``traceEvents`` is most of the file: the list is decoded in pieces, the rest at once.

A piece ends where an event may end (``},``). If it ends within an event, its brackets do not match, and the next such
place is taken: what can be decoded as a list is one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import orjson

LIST = re.compile(rb'"traceEvents"\s*:\s*\[')
PIECE_BYTES = 2**17  # B; a piece takes eight times as much when it is decoded
MAX_AROUND = 2**20  # B before the list, and after it
MAX_TRIES = 256  # places where the list, or a piece, may end


@dataclass(frozen=True)
class EventList:
    """The list is ``data[start:end]`` without its brackets; ``document`` is the object with an empty list."""

    document: Mapping[str, Any]
    data: bytes
    start: int
    end: int

    def __iter__(self) -> Iterator[Any]:
        """Yield the events; ValueError if they are no JSON, or too deep or large for a fast decoder."""
        at = self.start
        while at < self.end:
            events, at = self._piece(at)
            yield from events

    def _piece(self, start: int) -> tuple[list[Any], int]:
        stop = start + PIECE_BYTES
        for _ in range(MAX_TRIES):
            stop = self.data.find(b"},", stop, self.end) + 1 or self.end
            try:
                return orjson.loads(b"[%b]" % self.data[start:stop]), stop + 1
            except orjson.JSONDecodeError:
                if stop == self.end:
                    raise
        raise orjson.JSONDecodeError("a piece without an end", "", start)


def event_list(data: bytes) -> EventList | None:
    """Return the list of events of a JSON object; None if it has none, or none that is found at once.

    The list ends at the first bracket from which on the object is whole: brackets of events leave their braces open.
    """
    begin = LIST.search(data)
    if begin is None or begin.end() > MAX_AROUND:
        return None
    head, end, found = data[: begin.end()].removeprefix(b"\xef\xbb\xbf"), len(data), None
    for _ in range(MAX_TRIES):
        end = data.rfind(b"]", max(begin.end(), len(data) - MAX_AROUND), end)
        if end < 0:
            break
        with suppress(orjson.JSONDecodeError):
            found = EventList(orjson.loads(head + data[end:]), data, begin.end(), end)
    return found if found is not None and found.document.get("traceEvents") == [] else None
