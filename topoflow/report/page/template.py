"""``report.html``: one file that opens without a network, for a reader who has never seen topoflow."""

from __future__ import annotations

import base64
import json
import string
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib import resources
from typing import TypeVar

from topoflow import __version__
from topoflow.case import failures
from topoflow.case.rows import COLUMNS
from topoflow.report import packets
from topoflow.report.answer import answers, memory_notes, notes
from topoflow.report.base import Report
from topoflow.report.draw.pictures import PICTURES, Picture
from topoflow.report.terminal import cells, setting

T = TypeVar("T")


def page(report: Report, images: Mapping[str, bytes]) -> str:
    """The whole page; ``images`` are PNG files by name."""
    return fill(
        "report.html",
        worlds=str(len(report.outcomes)),
        answers=paragraphs(answers(report), "answer") + paragraphs([*memory_notes(report), *notes(report)]),
        tables=_tables(report),
        left_out=paragraphs(f"Left out: {reason}" for reason in report.left_out),
        pictures=gallery(PICTURES, images),
        glossary="".join(f"<dt>{escape(name)}</dt><dd>{escape(meaning)}</dd>" for name, meaning in COLUMNS.items()),
        prices=escape(", ".join(sorted({outcome.settings.prices for outcome in report.outcomes}))),
        command=escape(report.command),
        config=escape(json.dumps(dict(report.outcomes[0].settings.config), indent=2)),
        first=escape(report.outcomes[0].settings.world),
    )


def fill(template: str, **parts: str) -> str:
    """A page made of the template of this name, in which every ``$part`` is HTML."""
    folder = resources.files("topoflow.report.page")
    style = folder.joinpath("style.html").read_text("utf-8")
    page = string.Template(folder.joinpath(template).read_text("utf-8"))
    return page.substitute(parts, style=style, version=escape(__version__))


def table(head: Sequence[str], rows: Iterable[Sequence[str]], style: str = "numbers") -> str:
    """Text in rows and columns, scrolled where the window is too narrow.

    "numbers" have the best in the first row, "plain" ones have not, "text" is read from the left.
    """
    titles = "".join(f"<th>{escape(title)}</th>" for title in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(text)}</td>" for text in row) + "</tr>" for row in rows)
    return f"<div class=wide><table class={style}><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table></div>"


def paragraphs(texts: Iterable[str], style: str = "") -> str:
    """A paragraph of each text."""
    opened = f"<p class={style}>" if style else "<p>"
    return "".join(f"{opened}{escape(text)}</p>" for text in texts)


def gallery(pictures: Iterable[Picture[T]], images: Mapping[str, bytes]) -> str:
    """Those of the pictures that were drawn, each with its title and what to see in it."""
    return "".join(
        figure(picture.caption, images[picture.file], picture.title) for picture in pictures if picture.file in images
    )


def figure(caption: str, image: bytes, title: str = "") -> str:
    """A PNG with its title, if it has one, and caption."""
    heading = f"<h3>{escape(title)}</h3>" if title else ""
    data = base64.b64encode(image).decode("ascii")
    return (
        f"<figure>{heading}<img alt='{escape(title or caption)}' src='data:image/png;base64,{data}'>"
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )


def _tables(report: Report) -> str:
    parts = []
    for job in report.jobs:
        columns = cells(report, job)
        best = job[0].row.iteration_time
        rows = [[cell.text(outcome, best) for cell in columns] for outcome in job]
        parts.append(f"<h3>{escape(setting(job))}</h3>{table([cell.title for cell in columns], rows)}")
    if seen := packets.lines(report):
        parts.append(f"<h3>What packets and ports saw</h3>{table(packets.COLUMNS, seen, 'plain')}")
        parts.append(paragraphs([packets.ABOUT]))
    if report.failures:
        rows = [list(one.cells(network)) for network, one in report.failures]
        fewer = any(one.what == "server" for _, one in report.failures)
        parts.append(f"<h3>When one fiber or server fails</h3>{table(failures.COLUMNS, rows, 'plain')}")
        parts.append(paragraphs([failures.FEWER_SAMPLES] if fewer else []))
    return "".join(parts)
