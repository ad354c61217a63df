"""``report.html``: one file that opens without a network, for a reader who has never seen topoflow."""

from __future__ import annotations

import base64
import json
import string
from collections.abc import Mapping
from html import escape
from importlib import resources

from topoflow import __version__
from topoflow.report.answer import answers
from topoflow.report.base import Report
from topoflow.report.pictures import PICTURES, Picture
from topoflow.report.rows import COLUMNS
from topoflow.report.terminal import cells, setting


def page(report: Report, images: Mapping[str, bytes]) -> str:
    """The whole page; ``images`` are PNG files by name."""
    template = string.Template(resources.files("topoflow.report").joinpath("report.html").read_text("utf-8"))
    return template.substitute(
        version=escape(__version__),
        worlds=len(report.outcomes),
        answers="".join(f"<p class=answer>{escape(answer)}</p>" for answer in answers(report)),
        tables=_tables(report),
        left_out="".join(f"<p>Left out: {escape(reason)}</p>" for reason in report.left_out),
        pictures="".join(_picture(picture, images[picture.file]) for picture in PICTURES if picture.file in images),
        glossary="".join(f"<dt>{escape(name)}</dt><dd>{escape(meaning)}</dd>" for name, meaning in COLUMNS.items()),
        prices=escape(", ".join(sorted({outcome.settings.prices for outcome in report.outcomes}))),
        command=escape(report.command),
        config=escape(json.dumps(dict(report.outcomes[0].settings.config), indent=2)),
        first=escape(report.outcomes[0].settings.world),
    )


def _tables(report: Report) -> str:
    parts = []
    for job in report.jobs:
        columns = cells(report, job)
        best = job[0].row.iteration_time
        head = "".join(f"<th>{escape(cell.title)}</th>" for cell in columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(cell.text(outcome, best))}</td>" for cell in columns) + "</tr>"
            for outcome in job
        )
        parts.append(
            f"<h3>{escape(setting(job))}</h3>"
            f"<div class=wide><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
        )
    return "".join(parts)


def _picture(picture: Picture, image: bytes) -> str:
    data = base64.b64encode(image).decode("ascii")
    return (
        f"<figure><h3>{escape(picture.title)}</h3>"
        f"<img alt='{escape(picture.title)}' src='data:image/png;base64,{data}'>"
        f"<figcaption>{escape(picture.caption)}</figcaption></figure>"
    )
