"""Where a verb prints its tables."""

from __future__ import annotations

from typing import NoReturn

from rich.console import Console


class Output(Console):
    """A console whose reader may leave, as `head` does: ``main`` then ends without a complaint."""

    def on_broken_pipe(self) -> NoReturn:
        raise BrokenPipeError
