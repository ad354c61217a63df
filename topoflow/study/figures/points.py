"""Points that are done: one line of JSON each, appended as soon as there are rows, so that nothing is computed twice.

    {"id": "5be1...", "point": {"series": "Fat-tree", ...}, "rows": [{"iteration_time": 0.2, ...}]}

The id is a digest of all that the point was computed from; a point whose configuration has changed is another one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from topoflow import __version__
from topoflow.study.figures.base import Row


def identity(configuration: Mapping[str, object]) -> str:
    """The digest of a point's configuration, in this version of topoflow."""
    text = json.dumps([__version__, configuration], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


class Points:
    """The points of one file. A line that was cut off as the program was stopped does not count."""

    def __init__(self, path: Path) -> None:
        """Raises ``ValueError`` with file and line for one that is whole and not a point."""
        self.path = path
        self._rows: dict[str, list[Row]] = {}
        if path.exists():
            self._read(path.read_text(encoding="utf-8", errors="replace"))

    def _read(self, text: str) -> None:
        *lines, cut = text.split("\n")
        for number, line in enumerate(lines, start=1):
            try:
                record = json.loads(line)
                self._rows[record["id"]] = list(record["rows"])
            except (ValueError, KeyError, TypeError) as error:
                raise ValueError(f"{self.path}:{number}: must be a point as JSON, got {line[:60]!r}") from error
        if cut:
            self.path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    def __contains__(self, point: str) -> bool:
        return point in self._rows

    def __getitem__(self, point: str) -> Sequence[Row]:
        return self._rows[point]

    def add(self, point: str, what: Row, rows: Sequence[Row]) -> None:
        """Store the rows of a point; they are on disk when this returns."""
        self._rows[point] = list(rows)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        record = {"id": point, "point": dict(what), "rows": [dict(row) for row in rows]}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record, allow_nan=False) + "\n")
