"""Results of ``topoflow.search``: the plan of each search, and its results before and after."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from topoflow.api.results import printed
from topoflow.case.frame import frame
from topoflow.search.base import Plan
from topoflow.search.result import SearchResult
from topoflow.study.searches import Searched

if TYPE_CHECKING:
    from rich.console import Console


class SearchResults(Sequence[SearchResult]):
    """Results of searches, in the order of their grid. As text they are a table.

    ``found[0]`` and ``found["fabric=topoopt"]`` are a :class:`~topoflow.search.result.SearchResult`. The properties
    are those of the search that the objective chooses, of several the cheapest.
    """

    def __init__(self, searched: Searched) -> None:
        self._searched = searched

    def __len__(self) -> int:
        return len(self._searched.searches)

    def __iter__(self) -> Iterator[SearchResult]:
        return (self._searched.results[name] for name in self.names)

    def __getitem__(self, key: Any) -> Any:
        """By number or by name. Raises ``IndexError`` or ``KeyError``."""
        return list(self)[key] if isinstance(key, int | slice) else self._searched.results[key]

    @property
    def names(self) -> list[str]:
        """Return the names by which searches differ."""
        return [search.name for search in self._searched.searches]

    @property
    def chosen(self) -> list[SearchResult]:
        """The search that the objective chooses; with ``pareto`` all that nothing beats in both time and price."""
        return [self._searched.results[name] for name in self._searched.winners]

    @property
    def plan(self) -> Plan:
        """The strategy, the network, its circuits, rings and routes; ``plan.to_json()`` is plan.json."""
        return self.chosen[0].plan

    @property
    def best(self) -> Any:
        """The result of what was found."""
        return self.chosen[0].best

    @property
    def start(self) -> Any:
        """The result of what the search began with."""
        return self.chosen[0].start

    @property
    def iteration_time(self) -> float:
        """s, of what was found."""
        return self.plan.iteration_time

    def to_pandas(self) -> Any:
        """A ``pandas.DataFrame`` with a row per search, the columns of ``result.json``.

        Raises ``ImportError`` where pandas is not installed.
        """
        return frame(self._searched.rows)

    def save(self, out: str | Path) -> Path:
        """Write what ``topoflow search out=DIR`` writes into the folder ``out``; returns its ``report.html``.

        Raises ``ValueError`` where ``out`` cannot be such a folder.
        """
        from topoflow.report.files import check_folder

        check_folder(Path(out), "search")
        self._searched.write(Path(out), lambda done, total: None)
        return Path(out) / "report.html"

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>"

    def __repr__(self) -> str:
        from topoflow.report.search_terminal import show_all

        def show(console: Console) -> None:
            show_all(self._searched.reports, self._searched.winners, console)

        return printed(show)
