"""The table for a terminal, and the same cells for the page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from topoflow.case import failures
from topoflow.case.base import Result
from topoflow.report.answer import answers, memory_notes, notes, place, recommended
from topoflow.report.base import Report
from topoflow.report.output import text_table
from topoflow.units import counted, human

MAX_ROWS = 60  # rows of a printed table
MAX_TABLES = 16  # printed; a sweep of 10,000 points can have 1,000 jobs


@dataclass(frozen=True)
class Cell:
    """A column of the printed table."""

    title: str
    text: Callable[[Result, float], str]  # (world, fastest time of its job) -> printed text
    right: bool = True
    spare: int = 0  # in a narrow terminal, columns with higher values are left out first; 0 is always shown
    field: str = ""  # the field of ``ResultRow`` that a page sorts by; "": by the text


def cells(report: Report, job: tuple[Result, ...]) -> list[Cell]:
    """Return the columns: the fabric, other differences between the worlds of a job, then the numbers.

    A narrow terminal leaves out columns that explain before those that decide: step time, price, memory that is short.
    """
    swept = [key for key in report.swept if key != "fabric"]
    swept = [key for key in swept if len({outcome.settings.swept.get(key) for outcome in job}) > 1]
    fit = all(outcome.fits for outcome in job)  # else memory decides
    return [
        Cell("fabric", lambda outcome, _: outcome.settings.fabric, right=False),
        *map(_swept_cell, swept),
        *[Cell("fidelity", lambda outcome, _: outcome.settings.fidelity, right=False)] * (len(_fidelities(job)) > 1),
        Cell("iteration time", lambda outcome, _: human(outcome.row.iteration_time, "s"), field="iteration_time"),
        *[Cell("recorded", lambda outcome, _: _seconds(outcome.recorded_time), spare=3, field="recorded_time")]
        * any(outcome.recorded_time for outcome in job),
        Cell("vs fastest", lambda outcome, best: _ratio(outcome, best), spare=1, field="iteration_time"),
        Cell("computing", lambda outcome, _: _seconds(outcome.row.compute_time), spare=4, field="compute_time"),
        *[Cell("waiting for host", lambda outcome, _: _seconds(outcome.row.host_time), spare=4, field="host_time")]
        * any(outcome.row.host_time for outcome in job),
        Cell("exposed comm.", lambda outcome, _: _seconds(outcome.row.network_time), field="network_time"),
        Cell("bandwidth tax", lambda outcome, _: f"{outcome.row.bandwidth_tax:.2f}", spare=9, field="bandwidth_tax"),
        Cell("mean path", lambda outcome, _: f"{outcome.row.path_length_mean:.2f}", spare=10, field="path_length_mean"),
        Cell("cost", lambda outcome, _: "-" if outcome.cost is None else f"${outcome.cost:,.0f}", field="cost_usd"),
        *_use_cells(job),
        Cell("power", lambda outcome, _: _watts(outcome.power), spare=8, field="power_w"),
        *[Cell("GPU memory", lambda outcome, _: _memory(outcome), spare=2 * fit, field="memory_per_gpu")]
        * any(outcome.memory for outcome in job),
        *_rate_cells(job),
    ]


def _use_cells(job: tuple[Result, ...]) -> list[Cell]:
    """Return the columns of a run of weeks on nodes: its goodput, and the cost of tokens, else of a step."""
    rows = [outcome.row for outcome in job]
    goodput = Cell("goodput", lambda out, _: _percent(out.row.goodput), spare=3, field="goodput")
    step = Cell("cost per step", lambda out, _: _dollars(out.row.usd_per_step), spare=1, field="usd_per_step")
    name, field = "cost per M tokens", "usd_per_million_tokens"
    tokens = Cell(name, lambda out, _: _dollars(out.row.usd_per_million_tokens), spare=1, field=field)
    if any(row.usd_per_million_tokens is not None for row in rows):
        step = tokens
    return [
        *[goodput] * any(row.goodput is not None for row in rows),
        *[step] * any(row.usd_per_step is not None for row in rows),
    ]


def _rate_cells(job: tuple[Result, ...]) -> list[Cell]:
    """Return the columns of training throughput, if the job's workload defines it."""
    samples = Cell("samples/s", lambda out, _: _count(out.row.samples_per_second), spare=7, field="samples_per_second")
    tokens = Cell("tokens/s", lambda out, _: _count(out.row.tokens_per_second), spare=6, field="tokens_per_second")
    share = Cell("MFU", lambda out, _: _percent(out.row.mfu), spare=5, field="mfu")
    return [
        *[samples] * any(outcome.row.samples_per_second for outcome in job),
        *[tokens] * any(outcome.row.tokens_per_second for outcome in job),
        *[share] * any(outcome.row.mfu for outcome in job),
    ]


def _count(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _dollars(value: float | None) -> str:
    return "-" if value is None else f"${value:,.4g}"


def _watts(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f} W"


def _seconds(value: float | None) -> str:
    return "-" if value is None else human(value, "s")


def _memory(outcome: Result) -> str:
    if outcome.memory is None:
        return "-"
    if outcome.fits:
        return human(outcome.memory, "B")
    return f"{outcome.memory / 1e9:.4g} of {outcome.gpu_memory / 1e9:.4g} GB"


def _ratio(outcome: Result, best: float) -> str:
    return f"{outcome.row.iteration_time / best:.2f}x" if best else "1.00x"


def _swept_cell(key: str) -> Cell:
    return Cell(key, lambda outcome, _: outcome.settings.swept.get(key, ""))


def _fidelities(job: tuple[Result, ...]) -> list[str]:
    """Return the fidelities of a job's worlds."""
    return sorted({outcome.settings.fidelity for outcome in job})


def setting(report: Report, job: tuple[Result, ...]) -> str:
    """Return a line with the common settings of a job's worlds."""
    rows = [outcome.row for outcome in job]
    parts = [place(report, job[0])]
    strategies = sorted({row.strategy for row in rows})
    if len(strategies) == 1:
        parts.append(f"strategy {strategies[0]}")
    degrees, bandwidths = {row.degree for row in rows}, {row.bandwidth for row in rows}
    if len(degrees) == len(bandwidths) == 1:
        degree = degrees.pop()
        interfaces = f"{counted(degree, 'interface')} of {human(bandwidths.pop() * 8, 'b/s')}"
        parts.append(f"{interfaces}{' each' if degree > 1 else ''}")
    bounded = job[0].settings.lower_bound_of
    parts.append(f"lower bound of {bounded}" if bounded else f"{' and '.join(_fidelities(job))} simulation")
    return ", ".join(parts)


def _table(report: Report, job: tuple[Result, ...], columns: Sequence[Cell]) -> Table:
    best, recommendation = job[0].row.iteration_time, recommended(job)[0]
    table = Table(title=Text(setting(report, job)), box=SIMPLE_HEAD, title_style="bold", title_justify="left")
    for cell in columns:
        table.add_column(cell.title, justify="right" if cell.right else "left", no_wrap=not cell.right)
    for outcome in job[:MAX_ROWS]:
        style = "green" if outcome is recommendation and outcome.fits else "" if outcome.fits else "red"
        table.add_row(*(Text(cell.text(outcome, best)) for cell in columns), style=style)
    return table


def width(table: Table, console: Console) -> int:
    """Return the width of the table in characters if no cell is shortened."""
    return Measurement.get(console, console.options.update(max_width=10_000), table).maximum


def _failures(report: Report, titles: Sequence[str]) -> Table:
    """Return the table of single failures, a row per network."""
    shown = [failures.COLUMNS.index(title) for title in titles]
    rows = [of_world.cells(network) for network, of_world in report.failures]
    left = ("network", "what fails", "which is")
    return text_table(
        titles, [[row[cell] for cell in shown] for row in rows], title="When one fiber or server fails", left=left
    )


def _show_failures(report: Report, console: Console) -> None:
    titles = list(failures.COLUMNS)
    for spare in ("95th percentile", "single failures", "what fails", "which is"):
        if width(_failures(report, titles), console) > console.width:
            titles.remove(spare)
    console.print(_failures(report, titles))
    if any(of_world.what == "server" for _, of_world in report.failures):
        console.print(Text(failures.FEWER_SAMPLES))


def show(report: Report, console: Console) -> None:
    """Print one table per job, fastest first, and the answer below them."""
    for job in report.jobs[:MAX_TABLES]:
        columns, left_out = cells(report, job), list[str]()
        while width(_table(report, job, columns), console) > console.width and any(cell.spare for cell in columns):
            last = max(columns, key=lambda cell: cell.spare)
            columns.remove(last)
            left_out.append(last.title)
        console.print(_table(report, job, columns))
        if left_out:
            console.print(f"The terminal is too narrow for {', '.join(left_out)}; result.json has them (out=DIR).")
        if len(job) > MAX_ROWS:
            console.print(f"The fastest {MAX_ROWS} of {len(job)} worlds; result.json has all (out=DIR).")
    if len(report.jobs) > MAX_TABLES:
        console.print(f"The first {MAX_TABLES} of {len(report.jobs)} jobs; result.json has all (out=DIR).")
    for answer in answers(report):
        console.print(Text(answer))
    for note in (*memory_notes(report), *notes(report)):
        console.print(Text(note))
    if report.failures:
        _show_failures(report, console)
    for reason in report.left_out:
        console.print(Text(f"left out: {reason}"))
