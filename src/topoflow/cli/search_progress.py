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
            TextColumn("{task.fields[found]}"),
            TimeElapsedColumn(),
        )

    def stage(self, name: str) -> None:
        """Begin the line of a search."""
        self._stage = self._progress.add_task(name, total=None, found="")
        self._begin(name)

    def record(self, **values: float | str) -> None:
        """Show the best that the search has found so far."""
        self._progress.update(self._stage, found=line(values))


def line(found: Mapping[str, Any]) -> str:
    """The round and the best time; proposals have a speed only while strategies are explored."""
    best = f"round {found['round'] + 1}", f"best {human(found['time'], 's')}"
    if found["activity"] != "exploring":
        return f"{best[0]}, {found['activity']}, {best[1]}"
    return f"{best[0]}, {best[1]}, {found['rate']:,.0f} evals/s, {found['acceptance']:.0%} accepted"
