"""A row of the list of runs as HTML, and the line above the list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from urllib.parse import quote

from topoflow.browse.find import Listed
from topoflow.browse.words import when
from topoflow.report.page.elements import render
from topoflow.units import human

MAX_CACHED_ROWS = 2**14  # rows


def summary(runs: Sequence[Listed]) -> str:
    """Return how many runs there are in each state."""
    counts = Counter(run.state for run in runs)
    parts = [f"{counts[state]} {state}" for state in ("running", "cut off", "finished", "unreadable") if counts[state]]
    none = "No runs yet: what topoflow writes with out= a folder of this one is listed here."
    return f"{len(runs)} runs: {', '.join(parts)}." if runs else none


@lru_cache(MAX_CACHED_ROWS)
def list_row(run: Listed) -> str:
    """Return the cells of a run; the mark to compare it is its name as in an address, which has any bytes."""
    return render(
        "list_row.html",
        run=run,
        quoted=quote(run.name, errors="surrogateescape"),
        when=when(run.changed) if run.changed else "-",
        time="-" if run.time is None else human(run.time, "s"),
    )
