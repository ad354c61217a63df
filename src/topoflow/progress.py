"""``progress.jsonl``: how far a run is, in its folder until its result is there.

A run that was killed leaves the file; one that is finished, or that left nothing else behind, removes it. Lines are
JSON objects, each whole or absent:

    {"format": "topoflow progress 1", "verb": "search", "command": "topoflow search ..", "began": 1764633600.0, ..}
    {"at": 1764633601.5, "stage": "topoopt", "values": {"progress": 0.25, "best": 0.2}}
    {"at": 1764633609.0, "rows": [{"world": "torus", "iteration_time": 0.2}]}
    {"at": 1764633610.0, "end": "stopped"}

A run that continues another appends to its file. The file is locked as long as its process lives, which is how a
reader knows a run that works from one that was killed.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import Any, BinaryIO

from topoflow.fields import parse_json
from topoflow.files import naming, read_bytes, write_atomically

NAME = "progress.jsonl"
FORMAT = "topoflow progress 1"
LEAST_INTERVAL = 0.5  # s between lines of values
SHARE = 1000  # a line is written after this part of the time since the beginning: 10 hours are some 5,000 lines
ATTEMPTS, PAUSE = 100, 0.05  # s; a reader has the lock for microseconds
FRESH = 60.0  # s; on a file system without locks, who wrote within this time is taken to live

Line = dict[str, Any]


@dataclass
class ProgressLog:
    """The file of one run, as a log of what its observer sees (``track.base.Log``)."""

    path: Path
    where: str = ""  # a person is not sent there
    _file: BinaryIO = field(init=False)
    _before: frozenset[tuple[object, ...]] = field(init=False)
    _earlier: bytes = field(init=False)  # the file of a run that was cut off
    _began: float = field(init=False)
    _stage: str = ""
    _values: dict[str, float] = field(default_factory=dict)  # that are not written yet
    _written: float = 0.0  # when, by the clock

    @classmethod
    def begin(cls, folder: Path, **about: Any) -> ProgressLog:
        """Begin the file of ``folder``, or go on in that of the same ``command``. Raises ``OSError``."""
        log, earlier = cls(folder / NAME), read(folder)
        log._before, log._began = _files(folder), time.time()
        with naming(log.path):
            log._file = log.path.open("ab")
            _lock(log._file)
            log._earlier = log.path.read_bytes()
            if earlier is None or earlier.command != about.get("command"):
                log._file.truncate(0)
            elif not log._earlier.endswith(b"\n"):  # its last line was cut off
                log._file.write(b"\n")
        log._write({"format": FORMAT, "began": log._began, **about})
        return log

    def record(self, step: int, values: Mapping[str, float]) -> None:
        """Numbers of a stage, as ``STAGE/NAME``; what comes too soon after a line is written with the next."""
        for key, value in values.items():
            stage, _, name = key.rpartition("/")
            if stage != self._stage:
                self._flush()
                self._stage, self._written = stage, 0.0
            self._values[name] = value
        now = time.time()
        if now - self._written >= max(LEAST_INTERVAL, (now - self._began) / SHARE):
            self._flush()

    def rows(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Rows of the result, which are known before it is written."""
        self._flush()
        self._write({"at": time.time(), "rows": [dict(row) for row in rows]})

    def found(self, found: object) -> None:
        """The result has files of its own."""

    def end(self, failed: bool) -> None:
        """Remove the file, unless a run that failed left something; one that left nothing leaves the file as it was."""
        try:
            self._flush()
            self._write({"at": time.time(), "end": "stopped" if failed else "finished"})
            nothing_new = failed and _files(self.path.parent) == self._before
            if nothing_new and self._earlier:
                write_atomically(self.path, self._earlier)
            elif nothing_new or not failed:
                self.path.unlink(missing_ok=True)
        finally:
            self._file.close()

    def _flush(self) -> None:
        if self._values:
            now = time.time()
            self._write({"at": now, "stage": self._stage, "values": self._values})
            self._values, self._written = {}, now

    def _write(self, line: Line) -> None:
        with naming(self.path):
            self._file.write(json.dumps(line, default=str).encode() + b"\n")
            self._file.flush()


def _files(folder: Path) -> frozenset[tuple[object, ...]]:
    """All files of a folder but the progress, so that a change of any is seen."""
    found = ((path, path.lstat()) for path in folder.rglob("*") if path.name != NAME and not path.is_dir())
    return frozenset((path, status.st_ino, status.st_size, status.st_mtime_ns) for path, status in found)


def _lock(file: BinaryIO) -> None:
    for left in reversed(range(ATTEMPTS)):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not left:
                raise
            time.sleep(PAUSE)
        except OSError:  # a file system without locks
            return
        else:
            return


@dataclass(frozen=True)
class ProgressFile:
    """What the progress file of a folder says. ``lines`` are those of all runs that continued each other."""

    lines: Sequence[Line]
    lives: bool  # its process does
    changed: float  # s since 1970

    @property
    def about(self) -> Line:
        """The beginning of the last of the runs."""
        return next(line for line in reversed(self.lines) if line.get("format") == FORMAT)

    @property
    def command(self) -> str:
        return str(self.about.get("command", ""))

    @property
    def is_finished(self) -> bool:
        """It was killed after its result was whole."""
        return self.lines[-1].get("end") == "finished"

    @cached_property
    def stage(self) -> str:
        """The last that began, "" before any has."""
        return next((str(line["stage"]) for line in reversed(self.lines) if "stage" in line), "")

    @cached_property
    def rows(self) -> list[Line]:
        """Of the result, where they were known."""
        return next((_objects(line["rows"]) for line in reversed(self._last) if "rows" in line), [])

    @cached_property
    def values(self) -> list[tuple[float, str, Mapping[str, float]]]:
        """(s that all runs worked until then, stage, numbers by name)."""
        found, earlier, worked, began = list[tuple[float, str, Mapping[str, float]]](), 0.0, 0.0, 0.0
        for line in self.lines:
            if line.get("format") == FORMAT:
                earlier, began = earlier + worked, float(line["began"])
            elif _is_number(line.get("at")) and isinstance(values := line.get("values"), dict):
                worked = max(0.0, float(line["at"]) - began)
                numbers = {str(key): float(value) for key, value in values.items() if _is_number(value)}
                found.append((earlier + worked, str(line.get("stage", "")), numbers))
        return found

    @property
    def share(self) -> float | None:
        """How much of the last stage is done, within 0..1; None where that is unknown."""
        mine = (values for _, stage, values in reversed(self.values) if stage == self.stage)
        return next((values["progress"] for values in mine if "progress" in values), None)

    @property
    def _last(self) -> list[Line]:
        """The lines of the last of the runs."""
        begins = [number for number, line in enumerate(self.lines) if line.get("format") == FORMAT]
        return list(self.lines[begins[-1] :])


def read(folder: Path) -> ProgressFile | None:
    """What is known of the run of a folder, None without a progress file of ours. Raises ``OSError``."""
    path = folder / NAME
    try:
        content, lives, changed = read_bytes(path), _lives(path), os.stat(path).st_mtime
    except (FileNotFoundError, NotADirectoryError, ValueError):  # also one that is removed meanwhile
        return None
    lines = [line for text in content.splitlines() if (line := _line(text)) is not None]
    begins = [line for line in lines if line.get("format") == FORMAT]
    if not begins or not all(_is_number(line.get("began")) for line in begins):
        return None
    return ProgressFile(lines, lives, changed)


def _lives(path: Path) -> bool:
    """Whether the process that writes the file still runs."""
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return time.time() - os.fstat(file.fileno()).st_mtime < FRESH
    return False


def _line(text: bytes) -> Line | None:
    """Return a line, or None where it was cut off or damaged."""
    try:
        found = parse_json(NAME, text, constants=True, bounded=True)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _objects(value: object) -> list[Line]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
