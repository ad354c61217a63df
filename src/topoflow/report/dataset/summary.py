"""The summary of a dataset as sentences and tables, for a terminal and for a page."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from topoflow.report.dataset.base import SWEPT
from topoflow.report.dataset.reading import QUANTILES, Factor, Reader, Values
from topoflow.units import human

MAX_JOBS = 4  # that are shown
MAX_VALUES = 12  # of a factor that are shown
MAX_FRONT = 24  # rows of a front that are shown


@dataclass(frozen=True)
class TextTable:
    """A table of text: a title, the names of columns, and rows."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class JobSummary:
    """The summary of one job; ``front`` has all rows of its front."""

    front: Sequence[Values]
    tables: Sequence[TextTable]


def state(reader: Reader) -> list[str]:
    """Return sentences about how much of the sweep is written and what is missing."""
    dataset, counts = reader.dataset, reader.counts
    lines = [f"{counts['rows']:,} of the {dataset.points:,} points of the sweep are written."]
    if reader.damaged:
        lines.append(f"Left out as damaged: {', '.join(reader.damaged)}. The command below writes these files again.")
    if counts["rows"] < dataset.points:
        lines.append(
            f"Incomplete: the front and the best are those of what is there. It is continued by {dataset.command}"
        )
    if counts["errors"]:
        lines.append(f"{counts['errors']:,} points cannot be built; of one: {counts['error']}")
    if len(reader.jobs) > MAX_JOBS:
        lines.append(f"Shown are the {MAX_JOBS} of {len(reader.jobs):,} different jobs with most worlds.")
    return lines


def parts(reader: Reader) -> list[JobSummary]:
    """Return the summaries of the jobs with the most worlds."""
    return [_part(reader, job) for job in reader.jobs[:MAX_JOBS]]


def _part(reader: Reader, job: Values) -> JobSummary:
    name = ", ".join(f"{key.removeprefix(SWEPT)}={job[key]}" for key in reader.job)
    front, keys = reader.front(job), reader.dataset.keys
    limit = f" (the {MAX_FRONT} fastest of {len(front)})" if len(front) > MAX_FRONT else ""
    tables = [
        TextTable(
            f"Front of time and price: {name}, {job['worlds']:,} worlds{limit}",
            ("point", "step", "price", "power", *keys),
            [_world(row, keys) for row in front[-MAX_FRONT:]],
        ),
        TextTable(
            "Steps: the shares of all worlds that take at most",
            [f"{share:.0%}" for share in QUANTILES],
            [[human(seconds, "s") for seconds in reader.quantiles(job)]],
        ),
        *(_factor(factor) for factor in reader.factors(job, MAX_VALUES)),
    ]
    return JobSummary(front, tables)


def _world(row: Values, keys: Sequence[str]) -> list[str]:
    power = row["power_w"]
    swept = [text(row[f"{SWEPT}{key}"]) for key in keys]
    return [
        f"{row['point']:,}",
        human(row["iteration_time"], "s"),
        f"${row['cost_usd']:,.0f}",
        "-" if power is None else f"{power:,.0f} W",
        *swept,
    ]


def _factor(factor: Factor) -> TextTable:
    limit = f", the best {len(factor.best)} of {factor.count:,} values" if factor.count > len(factor.best) else ""
    rows = [
        [
            text(value["value"]),
            f"{value['worlds']:,}",
            human(value["least"], "s"),
            human(value["median"], "s"),
            f"{value['point']:,}",
        ]
        for value in factor.best
    ]
    return TextTable(f"{factor.key}{limit}", ("value", "worlds", "least", "median (about)", "point of the least"), rows)


def text(value: object) -> str:
    """Return a value of a key as it is typed; datasets store all numbers as floats."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() and abs(value) < 1e15 else str(value)


def command_of(reader: Reader, row: Values) -> str:
    """Return the command that simulates the world of a row alone."""
    words = [word for word in shlex.split(reader.dataset.command) if not word.startswith("out=")]
    keys = {key: text(row[f"{SWEPT}{key}"]) for key in reader.dataset.keys}
    other_words = [word for word in words if word.lstrip("+").partition("=")[0] not in keys]
    return shlex.join([*other_words, *(f"{key}={value}" for key, value in keys.items())])
