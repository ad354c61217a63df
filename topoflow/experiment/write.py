"""A figure as a folder: ``result.json``, ``rows.csv``, pictures, and ``report.html`` with all of them."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from html import escape
from pathlib import Path

from topoflow import __version__
from topoflow.experiment.base import Experiment, Picture, Row
from topoflow.report.files import whole_folder
from topoflow.report.page import figure, fill
from topoflow.report.page import table as numbers


def write(experiment: Experiment, rows: Sequence[Row], command: str, out: Path) -> None:
    """Write everything into the folder ``out``: all of it or none; ``rows`` are those of all points, whole."""
    pictures = experiment.draw(rows)
    summary = experiment.summary(rows)
    result = {
        "version": __version__,
        "command": command,
        "title": experiment.title,
        "source": experiment.source,
        "summary": [dict(row) for row in summary],
        "rows": [dict(row) for row in rows],
    }
    with whole_folder(out) as folder:
        (folder / "result.json").write_text(json.dumps(result, indent=1, allow_nan=False) + "\n", encoding="utf-8")
        (folder / "rows.csv").write_text(table(rows), encoding="utf-8", newline="")
        for picture in pictures:
            (folder / picture.file).write_bytes(picture.png)
        (folder / "report.html").write_text(page(experiment, pictures, summary, command), encoding="utf-8")


def columns(rows: Sequence[Row]) -> list[str]:
    """The keys of all rows, in the order in which they are first seen."""
    return list(dict.fromkeys(key for row in rows for key in row))


def table(rows: Sequence[Row]) -> str:
    """CSV as RFC 4180 has it, with line feeds; a row without a value has an empty field."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns(rows), restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def page(experiment: Experiment, pictures: Sequence[Picture], summary: Sequence[Row], command: str) -> str:
    """One file that opens without a network."""
    keys = columns(summary)
    return fill(
        "figure.html",
        title=escape(experiment.title),
        source=escape(experiment.source),
        pictures="".join(figure(picture.caption, picture.png) for picture in pictures),
        summary=numbers(keys, [[shown(row.get(key)) for key in keys] for row in summary]),
        command=escape(command),
    )


def shown(value: object) -> str:
    """A value for a person."""
    if isinstance(value, float):
        return f"{value:.4g}"
    return "" if value is None else str(value)
