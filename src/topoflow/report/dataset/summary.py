"""What a dataset says, for a terminal and for a page: sentences and tables of text."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from topoflow.report.dataset.base import SWEPT
from topoflow.report.dataset.reading import QUANTILES, Factor, Reader, Values
from topoflow.units import human

MOST_JOBS = 4  # shown
MOST_VALUES = 12  # of a factor, shown
MOST_FRONT = 24  # rows of a front, shown


@dataclass(frozen=True)
class Table:
    """A title, the names of columns, and rows."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Part:
    """What is said of one job. ``front`` is all of it."""

    front: Sequence[Values]
    tables: Sequence[Table]


def state(reader: Reader) -> list[str]:
    """How much of the sweep is there, and what is missing."""
    dataset, counts = reader.dataset, reader.counts
    found = [f"{counts['rows']:,} of the {dataset.points:,} points of the sweep are written."]
    if reader.damaged:
        found.append(f"Left out as damaged: {', '.join(reader.damaged)}. The command below writes these files again.")
    if counts["rows"] < dataset.points:
        found.append(
            f"Incomplete: the front and the best are those of what is there. It is continued by {dataset.command}"
        )
    if counts["errors"]:
        found.append(f"{counts['errors']:,} points cannot be built; of one: {counts['error']}")
    if len(reader.jobs) > MOST_JOBS:
        found.append(f"Shown are the {MOST_JOBS} of {len(reader.jobs):,} different jobs with most worlds.")
    return found


def parts(reader: Reader) -> list[Part]:
    """The jobs with most worlds."""
    return [_part(reader, job) for job in reader.jobs[:MOST_JOBS]]


def _part(reader: Reader, job: Values) -> Part:
    name = ", ".join(f"{key.removeprefix(SWEPT)}={job[key]}" for key in reader.job)
    front, keys = reader.front(job), reader.dataset.keys
    limit = f" (the {MOST_FRONT} fastest of {len(front)})" if len(front) > MOST_FRONT else ""
    tables = [
        Table(
            f"Front of time and price: {name}, {job['worlds']:,} worlds{limit}",
            ("point", "step", "price", "power", *keys),
            [_world(row, keys) for row in front[-MOST_FRONT:]],
        ),
        Table(
            "Steps: the shares of all worlds that take at most",
            [f"{share:.0%}" for share in QUANTILES],
            [[human(each, "s") for each in reader.quantiles(job)]],
        ),
        *(_factor(factor) for factor in reader.factors(job, MOST_VALUES)),
    ]
    return Part(front, tables)


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


def _factor(factor: Factor) -> Table:
    limit = f", the best {len(factor.best)} of {factor.count:,} values" if factor.count > len(factor.best) else ""
    rows = [
        [
            text(each["value"]),
            f"{each['worlds']:,}",
            human(each["least"], "s"),
            human(each["median"], "s"),
            f"{each['point']:,}",
        ]
        for each in factor.best
    ]
    return Table(f"{factor.key}{limit}", ("value", "worlds", "least", "median (about)", "point of the least"), rows)


def text(value: object) -> str:
    """A value of a key as it is typed; all numbers are kept as floats."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() and abs(value) < 1e15 else str(value)


def command_of(reader: Reader, row: Values) -> str:
    """The command that simulates the world of a row alone."""
    given = [word for word in shlex.split(reader.dataset.command) if not word.startswith("out=")]
    keys = {key: text(row[f"{SWEPT}{key}"]) for key in reader.dataset.keys}
    others = [word for word in given if word.lstrip("+").partition("=")[0] not in keys]
    return shlex.join([*others, *(f"{key}={value}" for key, value in keys.items())])
