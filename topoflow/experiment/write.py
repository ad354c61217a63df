"""A figure as a folder: ``result.json``, ``rows.csv``, pictures, and ``report.html`` with all of them."""

from __future__ import annotations

import base64
import csv
import io
import json
from collections.abc import Sequence
from html import escape
from pathlib import Path

from topoflow import __version__
from topoflow.experiment.base import Experiment, Picture, Row
from topoflow.report.files import whole_folder

PAGE = """\
<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
  body {{ font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 1200px; margin: 2em auto; padding: 0 1em; }}
  img {{ max-width: 100%; height: auto; }}
  table {{ border-collapse: collapse; font-size: .9em; }}
  th, td {{ padding: .3em .5em; text-align: right; border-bottom: 1px solid #e5e5e5; white-space: nowrap; }}
  pre {{ background: #f6f6f6; padding: .8em; overflow-x: auto; font-size: .85em; }}
</style></head><body>
<h1>{title}</h1>
<p>After {source}.</p>
{pictures}
<h2>In numbers</h2>
{summary}
<p>All numbers, in SI units, are in <code>result.json</code> and <code>rows.csv</code> beside this file.</p>
<pre>{command}</pre>
</body></html>
"""


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
    head = "".join(f"<th>{escape(key)}</th>" for key in keys)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(shown(row.get(key)))}</td>" for key in keys) + "</tr>" for row in summary
    )
    return PAGE.format(
        title=escape(experiment.title),
        source=escape(experiment.source),
        pictures="".join(map(_figure, pictures)),
        summary=f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>",
        command=escape(command),
    )


def shown(value: object) -> str:
    """A value for a person."""
    if isinstance(value, float):
        return f"{value:.4g}"
    return "" if value is None else str(value)


def _figure(picture: Picture) -> str:
    data = base64.b64encode(picture.png).decode("ascii")
    caption = escape(picture.caption)
    return (
        f"<figure><img alt='{caption}' src='data:image/png;base64,{data}'><figcaption>{caption}</figcaption></figure>"
    )
