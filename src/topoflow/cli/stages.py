"""The terminal as an observer of long work: which stage, how large it is, and how far."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from itertools import chain, repeat
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column

from topoflow.printable import one_line
from topoflow.units import counted, human

T = TypeVar("T", bound="Terminal")


def _seconds_from(variable: str, default: float) -> float:
    """Return a time from the environment; raise ``ValueError`` where it is no number."""
    text = os.environ.get(variable, "")
    try:
        return float(text or default)
    except ValueError:
        raise ValueError(f"{variable}: must be seconds, got {text!r}") from None


# s until work says what it does, on stderr that is no terminal
MAX_SILENCE = _seconds_from("TOPOFLOW_MAX_SILENCE", 1.0)
REPEAT_INTERVAL = 60.0  # s between later lines


class Terminal:
    """A progress bar per stage on stderr, shown within ``with``.

    Where stderr is no terminal, a line says what is done and how large it is if the work takes longer than
    ``MAX_SILENCE``, a line each further stage that has a size, and a line each minute how far it is.

    with Terminal() as terminal:
        terminal.stage("simulating")
        terminal.size("12 worlds of up to 61,440 tasks")
        terminal.advance(3, 12)  # 3 of 12
    """

    _announces = False  # whether the work has taken longer than MAX_SILENCE

    def __init__(self, *columns: ProgressColumn) -> None:
        console = Console(stderr=True)
        usual = (
            TextColumn("{task.description:<11}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[size]}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis")),
        )
        self._progress = Progress(*(columns or usual), console=console, transient=True, disable=not console.is_terminal)
        self._stage = TaskID(0)
        self._name = self._size = self._said = ""
        self._share = 0.0
        self._ended = threading.Event()

    def __enter__(self: T) -> T:
        if self._progress.disable:
            threading.Thread(target=self._watch, daemon=True).start()
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._progress.stop()

    def stage(self, name: str) -> None:
        """Begin a bar."""
        self._stage = self._progress.add_task(name, total=None, size="")
        self._begin(name)

    def size(self, text: str) -> None:
        """Show ``text`` behind the bar of the present stage."""
        self._size = text
        self._progress.update(self._stage, size=text)
        self._announce()

    def advance(self, done: float, total: int) -> None:
        """Fill the bar of the present stage up to ``done`` of ``total``."""
        self._share = done / total if total else 0.0
        self._progress.update(self._stage, completed=done, total=total or None)

    def note(self, text: str) -> None:
        """Print a line above the bars, on stderr that is no terminal, too."""
        self._progress.console.print(one_line(text), markup=False, highlight=False, soft_wrap=True)

    def record(self, **values: float | str) -> None:
        """Ignore the numbers: of most work only the progress is shown."""

    def _begin(self, name: str) -> None:
        self._name, self._size, self._share = name, "", 0.0

    def _announce(self) -> None:
        """Print the stage and its size, once, if the work takes long."""
        line = f"{self._name}: {self._size}"
        if self._announces and self._size and line != self._said:
            self._said = line
            self.note(line)

    def _watch(self) -> None:
        for interval in chain([MAX_SILENCE], repeat(REPEAT_INTERVAL)):
            if self._ended.wait(interval):
                return
            if self._announces and self._share:
                self.note(f"{self._name}: {self._share:.0%} done")
            self._announces = True
            self._announce()


def size_of(paths: Sequence[Path]) -> str:
    """Return the number and size of files, and of the files directly in folders."""
    files = [file for path in paths for file in (path.iterdir() if path.is_dir() else [path]) if file.is_file()]
    return f"{counted(len(files), 'file')}, {human(sum(file.stat().st_size for file in files), 'B')}"
