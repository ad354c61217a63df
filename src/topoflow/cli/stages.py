"""The terminal as an observer of long work: which stage, and how far."""

from __future__ import annotations

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
)

T = TypeVar("T", bound="Terminal")


class Terminal:
    """A progress bar per stage on stderr, shown within ``with``; silent when stderr is no terminal.

    with Terminal() as terminal:
        terminal.stage("simulating")
        terminal.advance(3, 12)  # 3 of 12
    """

    def __init__(self, *columns: ProgressColumn) -> None:
        console = Console(stderr=True)
        usual = (
            TextColumn("{task.description:<11}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        self._progress = Progress(*(columns or usual), console=console, transient=True, disable=not console.is_terminal)
        self._stage = TaskID(0)

    def __enter__(self: T) -> T:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def stage(self, name: str) -> None:
        """Begin a bar."""
        self._stage = self._progress.add_task(name, total=None)

    def advance(self, done: float, total: int) -> None:
        """Fill the bar of the present stage up to ``done`` of ``total``."""
        self._progress.update(self._stage, completed=done, total=total)

    def note(self, text: str) -> None:
        """Print a line above the bars, on stderr that is no terminal, too."""
        self._progress.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def record(self, **values: float | str) -> None:
        """Ignore the numbers: of most work only the progress is shown."""
