"""A figure as a folder: ``result.json``, ``rows.csv``, pictures, and ``report.html``, which shows the pictures."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from topoflow import __version__
from topoflow.report.files import result_in, whole_folder
from topoflow.report.page.elements import Cell, page
from topoflow.study.figures.base import Figure, FigurePicture, Heading, Row, words
from topoflow.units import human

MAX_CHART = 300_000  # B of the numbers of one picture: the page stays below 3 MB
MAX_ROWS = 1000  # on the page


def write(
    drawn: Figure, rows: Sequence[Row], command: str, out: Path, others: Mapping[str, bytes] | None = None
) -> None:
    """Write all files into the folder ``out``, or none; ``rows`` are those of all points.

    ``others`` are more files, by name. Pictures of an earlier figure that this one does not have are removed.
    """
    pictures = drawn.draw(rows)
    summary = drawn.summary(rows)
    files = [picture.file for picture in pictures]
    with whole_folder(out, _earlier_pictures(out)) as folder:
        (folder / "result.json").write_bytes(result(drawn, rows, command, files))
        (folder / "rows.csv").write_text(table(rows), encoding="utf-8", newline="")
        for name, content in (others or {}).items():
            (folder / name).write_bytes(content)
        for picture in pictures:
            (folder / picture.file).write_bytes(picture.png)
        (folder / "report.html").write_text(figure_page(drawn, pictures, rows, summary, command), encoding="utf-8")


def _earlier_pictures(out: Path) -> list[str]:
    """Return the names of pictures that an earlier run wrote into ``out``."""
    names = result_in(out).get("pictures")
    return [name for name in map(str, names) if Path(name).name == name] if isinstance(names, list) else []


def result(drawn: Figure, rows: Sequence[Row], command: str, pictures: Sequence[str] = ()) -> bytes:
    """``result.json``: the summary, all rows, and the names of the pictures."""
    content = {
        "version": __version__,
        "command": command,
        "title": drawn.title,
        "source": drawn.source,
        "pictures": [*pictures],
        "summary": [dict(row) for row in drawn.summary(rows)],
        "rows": [dict(row) for row in rows],
    }
    return (json.dumps(content, indent=1, allow_nan=False) + "\n").encode()


def columns(rows: Sequence[Row]) -> list[str]:
    """The keys of all rows, in the order of their first occurrence."""
    return list(dict.fromkeys(key for row in rows for key in row))


def table(rows: Sequence[Row]) -> str:
    """Return CSV of RFC 4180 with line feeds only; a row that lacks a key has an empty field."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns(rows), restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def figure_page(
    drawn: Figure, pictures: Sequence[FigurePicture], rows: Sequence[Row], summary: Sequence[Row], command: str
) -> str:
    """Return HTML with all pictures and rows inside, which needs no other file and no network."""
    drawings = [_drawing(f"chart{number}", picture) for number, picture in enumerate(pictures)]
    return page(
        "figure.html",
        {"charts": [{"id": drawing["name"], "panels": drawing["panels"]} for drawing in drawings if drawing["panels"]]},
        ("table", "figure", "draw", "figures"),
        title=drawn.title,
        source=drawn.source,
        pictures=drawings,
        summary=_table(summary, {key: heading(drawn, key) for key in columns(summary)}),
        rows=_table(rows[:MAX_ROWS], {key: Heading(key) for key in columns(rows)}),
        count=len(rows),
        command=command,
    )


def drawable(picture: FigurePicture) -> bool:
    """Say if the page draws a picture: it has lines or bars, and is not too large."""
    return picture.panels is not None and len(json.dumps(picture.panels)) <= MAX_CHART


def _drawing(name: str, picture: FigurePicture) -> dict[str, Any]:
    """Return what the template shows of a picture: panels that a script draws, else its PNG."""
    panels = picture.panels if drawable(picture) else None
    return {
        "name": name,
        "title": "",
        "caption": picture.caption,
        "file": picture.file,
        "image": picture.png,
        "panels": panels,
    }


def _table(rows: Sequence[Row], headings: Mapping[str, Heading]) -> dict[str, Any]:
    """Return the titles and the cells of a table, numbers as such."""
    cells = [[_cell(row.get(key), heading.unit) for key, heading in headings.items()] for row in rows]
    return {"head": [heading.text for heading in headings.values()], "rows": cells}


def _cell(value: object, unit: str) -> Cell:
    text = shown(value, unit)
    return (text, float(value)) if isinstance(value, int | float) else (text, None) if value is None else text


def heading(drawn: Figure, key: str) -> Heading:
    return drawn.headings.get(key, Heading(words(key)))


def headed(drawn: Figure, summary: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Return the titles of the summary's columns, and its rows as text with units."""
    headings = {key: heading(drawn, key) for key in columns(summary)}
    rows = [[shown(row.get(key), column.unit) for key, column in headings.items()] for row in summary]
    return [column.text for column in headings.values()], rows


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
