"""Output: a console for tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from topoflow.printable import printable

WIDTH = 200  # characters


class Output(Console):
    """A console for text from files: brackets are no markup, and escape sequences do not reach the terminal.

    A file or a pipe has no width: tables get ``WIDTH``. If its reader closes it, as `head` does, ``main`` ends without
    an error message.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, **options)
        if not self.is_terminal:
            self.width = WIDTH

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the printed segments without control characters; colours are styles of the segments."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else printable(text), style, control)

    def on_broken_pipe(self) -> NoReturn:
        raise BrokenPipeError
