"""Progress of long work on a terminal: which stage, and how far."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn

B = TypeVar("B", bound="Bars")


class Bars:
    """Progress bars on stderr, shown within ``with``; silent when stderr is no terminal."""

    def __init__(self, *columns: ProgressColumn) -> None:
        console = Console(stderr=True)
        self._progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)

    def __enter__(self: B) -> B:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()


class Stages(Bars):
    """A bar per stage.

    with Stages() as stages:
        tick = stages.stage("simulating")
        tick(3, 12)  # 3 of 12
    """

    def __init__(self) -> None:
        super().__init__(TextColumn("{task.description:<11}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())

    def stage(self, name: str) -> Callable[[int, int], None]:
        """Begin a stage; call the result with (done, total)."""
        task = self._progress.add_task(name, total=None)
        return lambda done, total: self._progress.update(task, completed=done, total=total)
