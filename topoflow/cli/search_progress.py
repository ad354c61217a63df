"""How a search goes, on a terminal: the round, how far, the best time and, while it explores, how quickly."""

from __future__ import annotations

from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.table import Column

from topoflow.cli.stages import Bars
from topoflow.search import alternate
from topoflow.units import human


class Searches(Bars):
    """A line per search, within 80 letters; where that leaves too few for its name, the name takes several."""

    def __init__(self) -> None:
        super().__init__(
            TextColumn("{task.description}", table_column=Column(overflow="fold")),
            BarColumn(bar_width=5),
            TextColumn("{task.fields[told]}"),
            TimeElapsedColumn(),
        )

    def search(self, name: str) -> alternate.Tell:
        """Begin a search; the result is what to call with its progress."""
        task = self._progress.add_task(name, total=None, told="")

        def tell(at: alternate.Progress) -> None:
            self._progress.update(task, description=name, completed=at.step, total=at.steps, told=told(at))

        return tell


def told(at: alternate.Progress) -> str:
    """The round and the best time; what is proposed has a speed only while strategies are explored."""
    best = f"best {human(at.time, 's')}"
    if at.stage != "exploring":
        return f"round {at.round + 1}, {at.stage}, {best}"
    return f"round {at.round + 1}, {best}, {at.rate:,.0f} evals/s, {at.acceptance:.0%} accepted"
