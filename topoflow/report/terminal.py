"""The table for a terminal, and the same cells for the page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from topoflow.report.answer import answers, place
from topoflow.report.base import Outcome, Report
from topoflow.units import human

MOST = 60  # rows of a table that a person reads


@dataclass(frozen=True)
class Cell:
    """One column of the printed table."""

    title: str
    text: Callable[[Outcome, float], str]  # (world, fastest time of its job) -> what is printed
    right: bool = True


def cells(report: Report, job: tuple[Outcome, ...]) -> list[Cell]:
    """The columns: the fabric, what else differs between the worlds of a job, then the numbers."""
    swept = [key for key in report.swept if key != "fabric"]
    swept = [key for key in swept if len({outcome.settings.swept.get(key) for outcome in job}) > 1]
    return [
        Cell("fabric", lambda outcome, _: outcome.settings.fabric, right=False),
        *map(_swept_cell, swept),
        Cell("iteration time", lambda outcome, _: human(outcome.row.iteration_time, "s")),
        Cell("vs fastest", lambda outcome, best: f"{outcome.row.iteration_time / best:.2f}x" if best else "1.00x"),
        Cell("computing", lambda outcome, _: human(outcome.row.compute_time, "s")),
        Cell("network adds", lambda outcome, _: human(outcome.row.network_time, "s")),
        Cell("bandwidth tax", lambda outcome, _: f"{outcome.row.bandwidth_tax:.2f}"),
        Cell("mean path", lambda outcome, _: f"{outcome.row.path_length_mean:.2f}"),
        Cell("cost", lambda outcome, _: "-" if outcome.cost is None else f"${outcome.cost:,.0f}"),
        Cell("power", lambda outcome, _: "-" if outcome.power is None else f"{outcome.power:,.0f} W"),
    ]


def _swept_cell(key: str) -> Cell:
    return Cell(key, lambda outcome, _: outcome.settings.swept.get(key, ""))


def setting(job: tuple[Outcome, ...]) -> str:
    """What all worlds of a job have in common, in a line."""
    rows = [outcome.row for outcome in job]
    parts = [place(rows[0])]
    strategies = sorted({row.strategy for row in rows})
    if len(strategies) == 1:
        parts.append(f"strategy {strategies[0]}")
    degrees, bandwidths = {row.degree for row in rows}, {row.bandwidth for row in rows}
    if len(degrees) == len(bandwidths) == 1:
        parts.append(f"{degrees.pop()} interfaces of {human(bandwidths.pop() * 8, 'b/s')} each")
    parts.append(f"{rows[0].fidelity} simulation")
    return ", ".join(parts)


def show(report: Report, console: Console) -> None:
    """Print one table per job, fastest first, and the answer under them."""
    for job in report.jobs:
        columns = cells(report, job)
        best = job[0].row.iteration_time
        table = Table(title=Text(setting(job)), box=SIMPLE_HEAD, title_style="bold", title_justify="left")
        for cell in columns:
            table.add_column(cell.title, justify="right" if cell.right else "left", no_wrap=not cell.right)
        for outcome in job[:MOST]:
            style = "green" if outcome is job[0] else ""
            table.add_row(*(Text(cell.text(outcome, best)) for cell in columns), style=style)
        console.print(table)
        if len(job) > MOST:
            console.print(f"The fastest {MOST} of {len(job)} worlds; result.json has all (out=DIR).")
    for answer in answers(report):
        console.print(Text(answer))
    for reason in report.left_out:
        console.print(Text(f"left out: {reason}"))
