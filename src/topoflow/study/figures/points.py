"""Points that are done: a line of JSON for each, appended when it is done, so that nothing is computed twice.

    {"id": "5be1...", "point": {"series": "TopoOpt", ...}, "rows": [{"iteration_time": 0.2, ...}], "checksum": "c0..."}

The id is a digest of all that the point was computed from, so that another value, other content of a file, or changed
code of topoflow make it another point. The checksum is of the rest of the line.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from topoflow.digest import digest, program
from topoflow.files import naming, read_bytes, to_disk, write_atomically
from topoflow.study.figures.base import Row


def identity(content: Mapping[str, object]) -> str:
    """The digest of what a point is computed from, and of the program that computes it."""
    return digest([program(), content])


class PointFile:
    """The points of one file. A line that was cut off as the program was stopped does not count."""

    def __init__(self, path: Path) -> None:
        """Raises ``ValueError`` with file and line for one that is whole and not a point, or not as it was written."""
        self.path = path
        self._rows: dict[str, list[Row]] = {}
        if path.exists():
            self._read(read_bytes(path))

    def _read(self, content: bytes) -> None:
        *lines, cut = content.split(b"\n")
        for number, line in enumerate(lines, start=1):
            point, _, rows = _point(f"{self.path}:{number}", line)
            self._rows[point] = rows
        if cut:
            write_atomically(self.path, b"".join(line + b"\n" for line in lines))

    def __contains__(self, point: str) -> bool:
        return point in self._rows

    def __getitem__(self, point: str) -> Sequence[Row]:
        return self._rows[point]

    def add(self, point: str, what: Row, rows: Sequence[Row]) -> None:
        """Store the rows of a point; they are on disk when this returns."""
        self._rows[point] = list(rows)
        record: dict[str, Any] = {"id": point, "point": dict(what), "rows": [dict(row) for row in rows]}
        record["checksum"] = digest(record)
        line = json.dumps(record, allow_nan=False).encode() + b"\n"
        with naming(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab") as file:
                file.write(line)
                to_disk(file)


def look(path: Path) -> list[Row]:
    """Return all rows of a file that another process may be writing, each with the values of its point.

    Raises ``ValueError`` as ``PointFile`` does, ``OSError``.
    """
    all_rows: list[Row] = []
    for number, line in enumerate(read_bytes(path).split(b"\n")[:-1], start=1):
        _, label, rows = _point(f"{path}:{number}", line)
        all_rows += [{**label, **row} for row in rows]
    return all_rows


def _point(place: str, line: bytes) -> tuple[str, Row, list[Row]]:
    """Return the id, the values and the rows of the point of a line."""
    try:
        record = json.loads(line)
        checksum, point, label, rows = record.pop("checksum"), record["id"], record["point"], list(record["rows"])
        if not isinstance(point, str) or not all(isinstance(item, dict) for item in (label, *rows)):
            raise TypeError
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        got = ascii(line[:60].decode(errors="replace"))
        raise ValueError(f"{place}: must be a point as JSON, got {got}; give another out or delete it") from error
    if checksum != digest(record):
        raise ValueError(f"{place}: must be a point as it was written, got a line that was changed; delete the line")
    return point, label, rows
