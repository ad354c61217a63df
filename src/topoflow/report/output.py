"""Output: a console, and the tables of text that are printed to it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, NoReturn

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

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


def text_table(
    head: Sequence[str], rows: Iterable[Sequence[str]], *, title: str = "", left: Collection[str] = ()
) -> Table:
    """Return a table of text. The columns named in ``left`` are aligned to the left, the others to the right."""
    table = Table(title=Text(title) if title else None, box=SIMPLE_HEAD, title_style="bold", title_justify="left")
    for name in head:
        table.add_column(name, justify="left" if name in left else "right")
    for row in rows:
        table.add_row(*map(Text, row))
    return table
