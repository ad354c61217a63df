"""The progress file of a run, ``progress.jsonl``, which is in the run's folder until the result is written.

A run that was killed leaves the file. A run that has finished, or that wrote no other file, removes it. Each line is
a JSON object; a line that was cut off is ignored:

    {"format": "topoflow progress 1", "verb": "search", "command": "topoflow search ..", "began": 1764633600.0, ..}
    {"at": 1764633601.5, "stage": "topoopt", "values": {"progress": 0.25, "best": 0.2}}
    {"at": 1764633609.0, "rows": [{"world": "torus", "iteration_time": 0.2}]}
    {"at": 1764633610.0, "end": "stopped"}

A run that continues another appends to its file. The process holds a lock on the file while it lives, so a reader can
tell a working run from a killed one.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
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
SHARE = 1000  # the interval is at least this fraction of the time so far: a run of 10 hours writes some 5,000 lines
ATTEMPTS, PAUSE = 100, 0.05  # s; a reader has the lock for microseconds
FRESH = 60.0  # s; on a file system without locks, a process that wrote within this time is taken to be alive

Line = dict[str, Any]


@dataclass
class ProgressLog:
    """The progress file of one run, written as a log of the observed events (``track.base.Log``)."""

    path: Path
    where: str = ""  # empty: users are not pointed to this file
    _file: BinaryIO = field(init=False)
    _before: frozenset[tuple[object, ...]] = field(init=False)
    _earlier: bytes = field(init=False)  # content of the file that an interrupted run left
    _began: float = field(init=False)
    _stage: str = ""
    _values: dict[str, float] = field(default_factory=dict)  # not written yet
    _written: float = 0.0  # time of the last write, s since 1970

    @classmethod
    def begin(cls, folder: Path, **about: Any) -> ProgressLog:
        """Begin the file of ``folder``, or continue that of the same ``command``. Raises ``OSError``."""
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
        try:
            log._write({"format": FORMAT, "began": log._began, **about})
        except OSError:  # a full disk: an empty file would keep the folder of a run that wrote nothing
            with suppress(OSError):  # it flushes again
                log._file.close()
            if not log.path.stat().st_size:
                log.path.unlink()
            raise
        return log

    def record(self, step: int, values: Mapping[str, float]) -> None:
        """Record values of a stage, named ``STAGE/NAME``; values that follow a line too soon go into the next line."""
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
        """Record rows of the result before it is written."""
        self._flush()
        self._write({"at": time.time(), "rows": [dict(row) for row in rows]})

    def record_results(self, results: object) -> None:
        """Do nothing: the result has its own files."""

    def end(self, failed: bool) -> None:
        """Remove the file, but keep it if a failed run wrote others; restore it if a failed run wrote none."""
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
    """Return all files of a folder except the progress file, with the status that reveals a change."""
    statuses = ((path, path.lstat()) for path in folder.rglob("*") if path.name != NAME and not path.is_dir())
    return frozenset((path, status.st_ino, status.st_size, status.st_mtime_ns) for path, status in statuses)


def _lock(file: BinaryIO) -> None:
    for remaining in reversed(range(ATTEMPTS)):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not remaining:
                raise
            time.sleep(PAUSE)
        except OSError:  # a file system without locks
            return
        else:
            return


@dataclass(frozen=True)
class ProgressFile:
    """The content of a progress file; ``lines`` are those of all runs that continued each other."""

    lines: Sequence[Line]
    lives: bool  # the process that writes it still runs
    changed: float  # time of the last change, s since 1970

    @property
    def about(self) -> Line:
        """Return the first line of the last run."""
        return next(line for line in reversed(self.lines) if line.get("format") == FORMAT)

    @property
    def command(self) -> str:
        return str(self.about.get("command", ""))

    @property
    def is_finished(self) -> bool:
        """Return whether the run was killed after its result was complete."""
        return self.lines[-1].get("end") == "finished"

    @cached_property
    def stage(self) -> str:
        """Return the name of the last stage that began; "" before the first."""
        return next((str(line["stage"]) for line in reversed(self.lines) if "stage" in line), "")

    @cached_property
    def rows(self) -> list[Line]:
        """Return the rows of the result; empty before they are known."""
        return next((_objects(line["rows"]) for line in reversed(self._last) if "rows" in line), [])

    @cached_property
    def values(self) -> list[tuple[float, str, Mapping[str, float]]]:
        """Return (working time of all runs until then in s, stage, numbers by name) per line of values."""
        history, earlier, worked, began = list[tuple[float, str, Mapping[str, float]]](), 0.0, 0.0, 0.0
        for line in self.lines:
            if line.get("format") == FORMAT:
                earlier, began = earlier + worked, float(line["began"])
            elif _is_number(line.get("at")) and isinstance(values := line.get("values"), dict):
                worked = max(0.0, float(line["at"]) - began)
                numbers = {str(key): float(value) for key, value in values.items() if _is_number(value)}
                history.append((earlier + worked, str(line.get("stage", "")), numbers))
        return history

    @property
    def share(self) -> float | None:
        """Return the completed share of the last stage, within 0..1; None where it is unknown."""
        of_stage = (values for _, stage, values in reversed(self.values) if stage == self.stage)
        return next((values["progress"] for values in of_stage if "progress" in values), None)

    @property
    def _last(self) -> list[Line]:
        """Return the lines of the last run."""
        begins = [number for number, line in enumerate(self.lines) if line.get("format") == FORMAT]
        return list(self.lines[begins[-1] :])


def read(folder: Path) -> ProgressFile | None:
    """Return the progress file of a folder; None if there is none or it is not ours. Raises ``OSError``."""
    path = folder / NAME
    try:
        content, lives, changed = read_bytes(path), _lives(path), os.stat(path).st_mtime
    except (FileNotFoundError, NotADirectoryError, ValueError):  # the file may be removed while it is read
        return None
    lines = [line for text in content.splitlines() if (line := _line(text)) is not None]
    begins = [line for line in lines if line.get("format") == FORMAT]
    if not begins or not all(_is_number(line.get("began")) for line in begins):
        return None
    return ProgressFile(lines, lives, changed)


def _lives(path: Path) -> bool:
    """Return whether the process that writes the file still runs."""
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return time.time() - os.fstat(file.fileno()).st_mtime < FRESH
    return False


def _line(text: bytes) -> Line | None:
    """Return the parsed line; None if it was cut off or damaged."""
    try:
        line = parse_json(NAME, text, constants=True, bounded=True)
    except ValueError:
        return None
    return line if isinstance(line, dict) else None


def _objects(value: object) -> list[Line]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
