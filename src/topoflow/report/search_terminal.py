"""The terminal output of ``topoflow search``."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from topoflow.report.search_report import SearchReport, quickest
from topoflow.units import human


def show(report: SearchReport, console: Console) -> None:
    """Print the numbers, the strategy and the orders of all-reduces, and the answer below them."""
    console.print(Text(report.title, style="bold"))
    console.print(_table(("", "before", "found"), report.numbers, right=True))
    console.print(_table(("layers", "where"), report.strategy))
    if report.orders:
        console.print(_table(("servers of an all-reduce", "orders"), report.orders))
    for note in report.notes:
        console.print(Text(note))
    console.print(Text(report.answer))
    console.print(Text(report.went))


def show_all(reports: Mapping[str, SearchReport], winners: Collection[str], console: Console) -> None:
    """Print the chosen searches in full and, if there are several, a line for each search, the quickest first."""
    order = quickest(reports)
    for name in order:
        if name in winners:
            show(reports[name], console)
    if len(reports) == 1:
        return
    table = Table("search", "before", "found", "price", "", box=SIMPLE_HEAD)
    for name in order:
        before, after = reports[name].before, reports[name].after
        price = "-" if after.cost is None else f"${after.cost:,.0f}"
        times = human(before.iteration_time, "s"), human(after.iteration_time, "s")
        table.add_row(name, *times, price, "chosen" if name in winners else "")
    console.print(table)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], right: bool = False) -> Table:
    table = Table(box=SIMPLE_HEAD)
    for number, title in enumerate(head):
        table.add_column(title, justify="right" if right and number else "left")
    for row in rows:
        table.add_row(*map(Text, row))
    return table
