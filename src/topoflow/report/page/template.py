"""``report.html``: one file that needs no network connection, for readers who do not know topoflow."""

from __future__ import annotations

import base64
import json
import string
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib import resources
from typing import TypeAlias, TypeVar

from topoflow import __version__
from topoflow.case import failures
from topoflow.case.base import Result
from topoflow.case.rows import COLUMNS
from topoflow.report import packets, terminal
from topoflow.report.answer import answers, memory_notes, notes, recommended
from topoflow.report.base import Report
from topoflow.report.draw.pictures import PICTURES, Picture
from topoflow.report.draw.style import fabric_looks
from topoflow.report.page.bokeh import scripts
from topoflow.report.page.data import Plain, as_script, left_out, page_data, row_id
from topoflow.report.terminal import cells, setting

T = TypeVar("T")
Cell: TypeAlias = str | tuple[str, float | None]

SCRIPTS = ("table", "report", "figure", "draw", "charts", "levels", "network", "queues", "timeline")

ABOUT = {
    "bars": "One bar per world, the fastest 60. Grey is computation on the busiest server; the colour, one per fabric, "
    "is when that server does not compute. A click shows the world's configuration.",
    "timeline": "Time runs to the right. By server, each has a lane for computing and one per kind of communication; "
    "by kind, each kind has a band with a row per server. Every task that ran is drawn: those that are too close for "
    "the screen as one rectangle, until you zoom in. Drag to move, zoom with the wheel or a box (chosen at the right), "
    "point at a task to see what it waited for.",
    "queues": "A row per port, those with the most first; time runs to the right. A cell is the most in its interval: "
    "of the buffer at the end of the link, or where packets may be lost of the port's own queue. Point at one to see "
    "how much. What stays full has more coming than can go on. queues.parquet has up to 64 ports of each world.",
    "acceptance": "The share of proposals that chains accepted. Temperatures (table of rounds) fit themselves to it.",
    "network": "A line is a link, red where much of what it could carry is used: in the whole step, or in the part of "
    "it that Time chooses. A transfer's bytes are spread evenly over the time in which it flows: where it was slow and "
    "then quick, a part may show more than 100 %. A torus and a HyperX are grids, a dragonfly and a Slim "
    "Fly their groups, other switches are in tiers above the servers, other servers on a circle by their numbers.",
}
PICTURE_BYTES = 300_000  # of a picture in place of a chart: the page stays below 3 MB
ELSEWHERE = {"timeline": "trace.json has the same for https://ui.perfetto.dev."}
CONTROLS = {
    "timeline": "<p class=controls><label>World <select id=timeline-world></select></label> "
    "<label>Rows <select id=timeline-rows><option value=server>by server<option value=kind>by kind of task</select>"
    "</label> "
    "<span id=timeline-count aria-live=polite></span></p>",
    "network": "<p class=controls><label>Network <select id=network-world></select></label> "
    "<label>Time <input id=network-time type=range min=0 max=0 value=0></label> "
    "<output id=network-part for=network-time></output> <span id=network-scale></span></p>",
    "queues": "<p class=controls><label>World <select id=queues-world></select></label> "
    "<span id=queues-scale></span></p>",
}


def page(report: Report, images: Mapping[str, bytes]) -> str:
    """Return the HTML page; ``images`` are PNG files by name."""
    data = page_data(report)
    return fill(
        "report.html",
        title="which network runs this job how fast, and at what price",
        worlds=str(len(report.outcomes)),
        answers=paragraphs(answers(report), "answer") + paragraphs([*memory_notes(report), *notes(report)]),
        tables=_tables(report),
        left_out=paragraphs(f"Left out: {reason}" for reason in report.left_out),
        interactive=_interactive(report, data, images),
        pictures=gallery((picture for picture in PICTURES if not picture.interactive), images),
        data=as_script(data),
        scripts=scripts() + own(*SCRIPTS),
        glossary="".join(f"<dt>{escape(name)}</dt><dd>{escape(meaning)}</dd>" for name, meaning in COLUMNS.items()),
        prices=escape(", ".join(sorted({outcome.settings.prices for outcome in report.outcomes}))),
        command=escape(report.command),
        config=escape(json.dumps(dict(report.outcomes[0].settings.config), indent=2)),
        first=escape(report.outcomes[0].settings.world),
    )


def fill(template: str, *, title: str, data: str, scripts: str, head: str = "", **parts: str) -> str:
    """Return a page from the template of this name; every ``$part`` is HTML, ``head`` is for the page's head."""
    folder = resources.files("topoflow.report.page")

    def filled(file: str, /, **values: str) -> str:
        return string.Template(folder.joinpath(file).read_text("utf-8")).substitute(values)

    return filled(
        "frame.html",
        title=title,
        head=head,
        style=f"<style>\n{folder.joinpath('style.css').read_text('utf-8')}</style>",
        body=filled(template, title=title, **parts).removesuffix("\n"),
        version=escape(__version__),
        data=data,
        scripts=scripts,
    )


def own(*names: str) -> str:
    """Return the page's own scripts in this order as HTML."""
    return "".join(f"<script>\n{own_script(name)}</script>\n" for name in names)


def own_script(name: str) -> str:
    """Return the text of one of the page's own scripts."""
    return resources.files("topoflow.report.page").joinpath(f"{name}.js").read_text("utf-8")


def _interactive(report: Report, data: Plain, images: Mapping[str, bytes]) -> str:
    """Return the charts that scripts draw, each with its title, its caption, and what it leaves out.

    If the data of a chart do not fit in the page, its picture is shown instead.
    """
    omitted = left_out(report, data)
    charts = {
        "iteration_time.png": ("bars", data["rows"]),
        "timeline.png": ("timeline", data["timelines"]),
        "topology.png": ("network", data["networks"]),
        "ports_queues.png": ("queues", data["queues"]),
    }
    parts = []
    for picture in PICTURES:
        if not picture.interactive or picture.file not in charts or not picture.needs(report):
            continue
        name, drawn = charts[picture.file]
        image = b"" if drawn else images.get(picture.file, b"")
        if 0 < len(image) <= PICTURE_BYTES:
            instead = f"This is {picture.file} in place of a chart."
            caption = " ".join(filter(None, (picture.caption, ELSEWHERE.get(name), instead, omitted.get(name))))
            parts.append(figure(caption, image, picture.title))
        else:
            caption = " ".join(filter(None, (ABOUT[name], ELSEWHERE.get(name), omitted.get(name))))
            parts.append(place(name, picture.title, caption, picture.file))
    return "".join(parts)


def place(name: str, title: str, caption: str, file: str = "") -> str:
    """Return the element where a script draws the chart ``name``, with controls and a reference to its picture."""
    picture = f" As a picture: <code>{escape(file)}</code> next to this file." if file else ""
    return (
        f"<figure><h3>{escape(title)}</h3>{CONTROLS.get(name, '')}<div id={name} role=img aria-label='{escape(title)}'>"
        f"</div><figcaption>{escape(caption)}{picture}</figcaption></figure>"
    )


def table(head: Sequence[str], rows: Iterable[Sequence[Cell]], style: str = "numbers") -> str:
    """Return a table of text, which scrolls in a narrow window.

    The style "numbers" highlights the first row as the best, "plain" does not, "text" is aligned to the left;
    "sortable" tables are sorted by a click on a title. A cell is text, or text and the number to sort it by.
    """
    titles = "".join(f"<th>{escape(title)}</th>" for title in head)
    body = "".join("<tr>" + "".join(map(_cell, row)) + "</tr>" for row in rows)
    return f"<div class=wide><table class='{style}'><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table></div>"


def _cell(cell: Cell) -> str:
    if isinstance(cell, str):
        return f"<td>{escape(cell)}</td>"
    text, value = cell
    return f"<td data-value='{'' if value is None else value}'>{escape(text)}</td>"


def paragraphs(texts: Iterable[str], style: str = "") -> str:
    """Return a paragraph for each text."""
    opened = f"<p class={style}>" if style else "<p>"
    return "".join(f"{opened}{escape(text)}</p>" for text in texts)


def gallery(pictures: Iterable[Picture[T]], images: Mapping[str, bytes]) -> str:
    """Return the pictures that were drawn, each with its title and caption."""
    return "".join(
        figure(picture.caption, images[picture.file], picture.title) for picture in pictures if picture.file in images
    )


def figure(caption: str, image: bytes, title: str = "") -> str:
    """Return a PNG with its caption and, if it has one, its title."""
    heading = f"<h3>{escape(title)}</h3>" if title else ""
    data = base64.b64encode(image).decode("ascii")
    return (
        f"<figure>{heading}<img alt='{escape(title or caption)}' src='data:image/png;base64,{data}'>"
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )


def _row(report: Report, outcome: Result, best: float, choice: Result, columns: Sequence[terminal.Cell]) -> str:
    """Return a row of the table with an id for links, SI numbers to sort by, and the colour of the fabric."""
    colour = fabric_looks(report.fabrics)[outcome.settings.fabric].colour
    parts = []
    for number, cell in enumerate(columns):
        value = getattr(outcome.row, cell.field) if cell.field else ""
        sort = f" data-value='{'' if value is None else value}'" if cell.field else ""
        text = escape(cell.text(outcome, best))
        if not number:
            link = f"<a href='#{row_id(report, outcome)}'>{text}</a>"
            text = f"<span class=chip style='background:{colour}'></span>{link}"
        parts.append(f"<td{sort}>{text}</td>")
    style = " class=best" if outcome is choice else ""
    return f"<tr id={row_id(report, outcome)}{style}>{''.join(parts)}</tr>"


def _tables(report: Report) -> str:
    parts = []
    for job in report.jobs:
        columns = cells(report, job)
        best, choice = job[0].row.iteration_time, recommended(job)[0]
        titles = "".join(f"<th>{escape(cell.title).replace('_', '_<wbr>')}</th>" for cell in columns)
        body = "".join(_row(report, outcome, best, choice, columns) for outcome in job)
        parts.append(
            f"<h3>{escape(setting(report, job))}</h3><div class=wide><table class='numbers sortable'>"
            f"<thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table></div>"
        )
    if lines := packets.lines(report):
        parts.append(f"<h3>What packets and ports saw</h3>{table(packets.columns(report), lines, 'plain')}")
        parts.append(paragraphs([packets.ABOUT]))
    if report.failures:
        rows = [list(of_world.cells(network)) for network, of_world in report.failures]
        fewer = any(of_world.what == "server" for _, of_world in report.failures)
        parts.append(f"<h3>When one fiber or server fails</h3>{table(failures.COLUMNS, rows, 'plain')}")
        parts.append(paragraphs([failures.FEWER_SAMPLES] if fewer else []))
    return "".join(parts)
