"""Where tables are printed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from topoflow.printable import printable

WIDTH = 200  # characters


class Output(Console):
    """A console for text of files: brackets in it are no markup, escapes in it do not reach the terminal.

    A file or a pipe has no width to fit into: tables get ``WIDTH``. Its reader may leave, as `head` does: ``main`` then
    ends without a complaint.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, **options)
        if not self.is_terminal:
            self.width = WIDTH

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """What is printed, piece by piece; colours are the styles of the pieces, not in their text."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else printable(text), style, control)

    def on_broken_pipe(self) -> NoReturn:
        raise BrokenPipeError
