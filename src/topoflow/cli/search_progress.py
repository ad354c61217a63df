"""How a search goes, on a terminal: the round, how far, the best time and, while it explores, how fast."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.table import Column

from topoflow.cli.stages import Terminal
from topoflow.units import human


class SearchTerminal(Terminal):
    """A line per search, within 80 letters; where that leaves too few for its name, the name takes several."""

    def __init__(self) -> None:
        super().__init__(
            TextColumn("{task.description}", markup=False, table_column=Column(overflow="fold")),
            BarColumn(bar_width=5),
            TextColumn("{task.fields[status]}"),
            TimeElapsedColumn(),
        )

    def stage(self, name: str) -> None:
        """Begin the line of a search."""
        self._stage = self._progress.add_task(name, total=None, status="")
        self._begin(name)

    def record(self, **values: float | str) -> None:
        """Show the best that the search has found so far."""
        self._progress.update(self._stage, status=line(values))


def line(progress: Mapping[str, Any]) -> str:
    """Return the round and the best time, and the rate of proposals while strategies are explored."""
    best = f"round {progress['round'] + 1}", f"best {human(progress['time'], 's')}"
    if progress["activity"] != "exploring":
        return f"{best[0]}, {progress['activity']}, {best[1]}"
    return f"{best[0]}, {best[1]}, {progress['rate']:,.0f} evals/s, {progress['acceptance']:.0%} accepted"
