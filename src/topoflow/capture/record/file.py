"""The file of one rank, appended while its job runs: ``DIR/rank3.jsonl``; after a restart ``DIR/rank3.restart1.jsonl``.

A thread of its own writes the rows, five times a second. The script never waits for a disk, and no failure here reaches
it: recording then ends, with one line on the standard error. What was written before a kill stays readable
(``topoflow.capture.formats.recording``). Ranks do not wait for each other: readers bring their files together.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import orjson

from topoflow.files import LARGEST_FILE
from topoflow.printable import one_line

FORMAT = "topoflow-recording"
VERSION = 1
NAME = re.compile(r"rank\d+(\.restart\d+)?\.jsonl")
WRITE_INTERVAL = 0.2  # s
ROWS_OF_WRITE = 256  # rows that begin a write: more would leave the cache and start Python's garbage collector
LOOK_INTERVAL = 0.001  # s between looks at communications that have not ended
LAST_WRITE = 2.0  # s that the end of a script waits for the last write, at most
MAX_WAITING_ROWS = 100_000  # rows, or KB of them, that a disk has not taken yet: 50 to 100 MB
Row = dict[str, Any]


class Event:
    """The row of an event. ``written`` is set before it is written: what comes later is a row of its own."""

    __slots__ = ("position", "row", "written")

    def __init__(self, position: int, row: Row) -> None:
        self.position = position
        self.row = row
        self.written = False


class RecordSource(Protocol):
    """The recorder, as the writing thread sees it."""

    def look(self) -> bool:
        """Note which communications have ended; return whether others have not."""

    def state(self) -> Row:
        """The row of everything that is no event; the last one in a file counts."""


def say(text: str) -> None:
    """Write one line to the standard error, past Python's buffers: an error there must not change the exit status."""
    with suppress(OSError, ValueError, AttributeError):  # closed, full or not there: nobody to tell
        os.write(sys.stderr.fileno(), (one_line(f"topoflow.capture: {text}") + "\n").encode(errors="replace"))


def open_record(folder: Path, rank: int, restart: int, header: Row) -> RecordFile:
    """Claim the rank's file in ``folder``; ValueError when it holds anything but records of this job, OSError."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"--out: must be a folder, got the file {folder}")
    folder.mkdir(parents=True, exist_ok=True)
    if foreign := sorted(entry.name for entry in folder.iterdir() if not NAME.fullmatch(entry.name)):
        raise ValueError(f"--out: must be empty, got {folder} with {foreign[0]} in it")
    path = folder / (f"rank{rank}.restart{restart}.jsonl" if restart else f"rank{rank}.jsonl")
    try:
        return RecordFile(path, {**header, "rank": rank, "restart": restart})
    except FileExistsError:
        raise ValueError(f"--out: must be empty, got {folder} with another capture's {path.name}") from None


class RecordFile:
    """``append`` rows from any thread; ``close`` it at the end of the script. ``rows`` wait for the writing thread."""

    def __init__(self, path: Path, header: Row) -> None:
        self.path = path
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o666)
        self.rows: deque[Row | Event | bytes] = deque([header])
        self._state: Row = {}
        self._size = 0
        self._closing = False
        self._wake = threading.Event()

    def start(self, source: RecordSource, failed: Callable[[str], None]) -> None:
        """Begin to write; ``failed`` is called once with the reason, by the writing thread, if that ends early."""
        self._thread = threading.Thread(target=self._run, args=(source, failed), name="topoflow.capture", daemon=True)
        threading.Thread.start(self._thread)

    def append(self, row: Row | Event) -> None:
        """Queue a row. A disk that takes none fills the queue; ``is_stuck`` says so."""
        self.rows.append(row)
        if len(self.rows) == ROWS_OF_WRITE:
            self._wake.set()

    @property
    def is_stuck(self) -> bool:
        return len(self.rows) > MAX_WAITING_ROWS

    def wake(self) -> None:
        """There is a communication to look at."""
        self._wake.set()

    def close(self) -> str:
        """Write what is queued, in bounded time; return what went wrong, "" for nothing."""
        self._closing = True
        self._wake.set()
        self._thread.join(LAST_WRITE)
        if self._thread.is_alive():
            return f"{self.path}: the last rows are not written: the disk has not answered for {LAST_WRITE:g} s"
        try:
            is_there = os.path.samestat(os.stat(self.path), os.fstat(self._file))
        except OSError:
            is_there = False
        os.close(self._file)
        return "" if is_there else f"{self.path}: nothing is recorded: the file was removed while the job ran"

    def _run(self, source: RecordSource, failed: Callable[[str], None]) -> None:
        # Also SIGXFSZ, which a file beyond `ulimit -f` raises: blocked, write() returns the error instead.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            next_write = 0.0
            while not self._closing:
                unfinished = source.look()
                if len(self.rows) >= ROWS_OF_WRITE or time.monotonic() >= next_write:
                    self._write(source)
                    next_write = time.monotonic() + WRITE_INTERVAL
                if self._wake.wait(LOOK_INTERVAL if unfinished else WRITE_INTERVAL):
                    self._wake.clear()
                    if len(self.rows) < ROWS_OF_WRITE:
                        time.sleep(LOOK_INTERVAL)
            source.look()
            self._write(source)
        except Exception as error:
            self.rows.clear()
            failed(describe(error))

    def _write(self, source: RecordSource) -> None:
        state = source.state()
        if state != self._state:
            self._state = state
            self.append(state)
        while self.rows:  # few at a time: all that a disk does not take stay in the queue, where they are counted
            rows = [self.rows.popleft() for _ in range(min(len(self.rows), ROWS_OF_WRITE))]
            self._put(b"".join(map(_line, rows)))

    def _put(self, lines: bytes) -> None:
        """Append lines to the file. Raises ``OSError``, and ``ValueError`` beyond the largest file."""
        self._size += len(lines)
        if self._size > LARGEST_FILE:
            raise ValueError(f"it would be larger than {LARGEST_FILE} bytes, which nobody reads")
        data = memoryview(lines)
        while data:
            data = data[os.write(self._file, data) :]


def _line(row: Row | Event | bytes) -> bytes:
    if isinstance(row, bytes):
        return row
    if isinstance(row, Event):
        row.written = True
        row = row.row
    return orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)


def describe(error: BaseException) -> str:
    """An error in one line, with its place: most are the disk's, any other one is ours."""
    if isinstance(error, OSError):
        return error.strerror or str(error)
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    at = f" ({Path(place.tb_frame.f_code.co_filename).name}:{place.tb_lineno})" if place is not None else ""
    return f"{type(error).__name__}: {error}{at}"
