"""How a search goes, on a terminal: the round, how far, the best time, evaluations per second, acceptance."""

from __future__ import annotations

from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn

from topoflow.cli.stages import Bars
from topoflow.search import alternate
from topoflow.units import human


class Searches(Bars):
    """A line per search."""

    def __init__(self) -> None:
        super().__init__(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TextColumn("{task.fields[told]}"),
            TimeElapsedColumn(),
        )

    def search(self, name: str) -> alternate.Tell:
        """Begin a search; the result is what to call with its progress."""
        task = self._progress.add_task(name, total=None, told="")

        def tell(at: alternate.Progress) -> None:
            self._progress.update(
                task,
                description=f"{name}: round {at.round + 1}, {at.stage}",
                completed=at.step,
                total=at.steps,
                told=f"best {human(at.time, 's')}, screened {human(at.best, 's')}, "
                f"{at.rate:,.0f} evaluations/s, {at.acceptance:.0%} accepted",
            )

        return tell
