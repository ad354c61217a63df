"""A figure as a folder: ``result.json``, ``rows.csv``, pictures, and ``report.html``, which shows the pictures."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from topoflow import __version__
from topoflow.report.files import whole_folder
from topoflow.report.page.template import figure, fill
from topoflow.report.page.template import table as numbers
from topoflow.study.figures.base import Figure, Heading, Picture, Row, words
from topoflow.units import human


def write(
    drawn: Figure, rows: Sequence[Row], command: str, out: Path, others: Mapping[str, bytes] | None = None
) -> None:
    """Write all files into the folder ``out``, or none; ``rows`` are those of all points.

    ``others`` are more files, by name.
    """
    pictures = drawn.draw(rows)
    summary = drawn.summary(rows)
    with whole_folder(out) as folder:
        (folder / "result.json").write_bytes(result(drawn, rows, command))
        (folder / "rows.csv").write_text(table(rows), encoding="utf-8", newline="")
        for name, content in (others or {}).items():
            (folder / name).write_bytes(content)
        for picture in pictures:
            (folder / picture.file).write_bytes(picture.png)
        (folder / "report.html").write_text(page(drawn, pictures, summary, command), encoding="utf-8")


def result(drawn: Figure, rows: Sequence[Row], command: str) -> bytes:
    """``result.json``: the summary and all rows."""
    content = {
        "version": __version__,
        "command": command,
        "title": drawn.title,
        "source": drawn.source,
        "summary": [dict(row) for row in drawn.summary(rows)],
        "rows": [dict(row) for row in rows],
    }
    return (json.dumps(content, indent=1, allow_nan=False) + "\n").encode()


def columns(rows: Sequence[Row]) -> list[str]:
    """The keys of all rows, in the order of their first occurrence."""
    return list(dict.fromkeys(key for row in rows for key in row))


def table(rows: Sequence[Row]) -> str:
    """CSV of RFC 4180, but with line feeds only; a row that lacks a key has an empty field."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns(rows), restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def page(drawn: Figure, pictures: Sequence[Picture], summary: Sequence[Row], command: str) -> str:
    """HTML with all pictures inside, which needs no other file and no network."""
    return fill(
        "figure.html",
        title=escape(drawn.title),
        source=escape(drawn.source),
        pictures="".join(figure(picture.caption, picture.png) for picture in pictures),
        summary=numbers(*headed(drawn, summary), style="plain"),
        command=escape(command),
    )


def headed(drawn: Figure, summary: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Titles of the summary's columns, and its rows as text with units."""
    headings = {key: drawn.headings.get(key, Heading(words(key))) for key in columns(summary)}
    rows = [[shown(row.get(key), heading.unit) for key, heading in headings.items()] for row in summary]
    return [heading.text for heading in headings.values()], rows


def shown(value: object, unit: str = "") -> str:
    """A value as text, in its unit."""
    if not isinstance(value, float):
        return "" if value is None else str(value)
    if unit in ("B", "s"):
        return human(value, unit)
    if unit == "USD":
        return f"{value:,.0f} USD"
    if unit == "x":
        return f"{value:.2f}x"
    return f"{100 * value:.3g} %" if unit == "%" else f"{value:.4g}"
