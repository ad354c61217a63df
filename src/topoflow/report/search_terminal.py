"""The terminal output of ``topoflow search``."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from rich.console import Console
from rich.text import Text

from topoflow.report.output import text_table
from topoflow.report.search_report import SearchReport, quickest
from topoflow.units import human


def show(report: SearchReport, console: Console) -> None:
    """Print the numbers, the strategy and the orders of all-reduces, and the answer below them."""
    console.print(Text(report.title, style="bold"))
    console.print(text_table(("", "before", "found"), report.numbers, left=("",)))
    console.print(text_table(("layers", "where"), report.strategy, left=("layers", "where")))
    if report.orders:
        head = ("servers of an all-reduce", "orders")
        console.print(text_table(head, report.orders, left=head))
    for note in report.notes:
        console.print(Text(note))
    console.print(Text(report.answer))
    console.print(Text(report.effort))


def show_all(reports: Mapping[str, SearchReport], winners: Collection[str], console: Console) -> None:
    """Print the chosen searches in full and, if there are several, a line for each search, the quickest first."""
    order = quickest(reports)
    for name in order:
        if name in winners:
            show(reports[name], console)
    if len(reports) == 1:
        return
    head = ("search", "before", "found", "price", "")
    rows = [_row(name, reports[name], name in winners) for name in order]
    console.print(text_table(head, rows, left=head))


def _row(name: str, report: SearchReport, is_chosen: bool) -> tuple[str, ...]:
    before, after = report.before, report.after
    price = "-" if after.cost is None else f"${after.cost:,.0f}"
    times = human(before.iteration_time, "s"), human(after.iteration_time, "s")
    return (name, *times, price, "chosen" if is_chosen else "")
