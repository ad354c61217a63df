"""``report.html``: one file that needs no network connection, for readers who do not know topoflow."""

from __future__ import annotations

import json
from collections.abc import Mapping

from topoflow.case import failures
from topoflow.case.base import Result
from topoflow.case.rows import COLUMNS
from topoflow.report import packets, terminal
from topoflow.report.answer import answers, memory_notes, notes, recommended
from topoflow.report.base import Report
from topoflow.report.draw.pictures import PICTURES
from topoflow.report.draw.style import fabric_looks
from topoflow.report.page.data import Plain, left_out, page_data, row_id
from topoflow.report.page.elements import Drawing, drawn, page
from topoflow.report.terminal import cells, setting

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


def report_page(report: Report, images: Mapping[str, bytes]) -> str:
    """Return the HTML page; ``images`` are PNG files by name."""
    data = page_data(report)
    return page(
        "report.html",
        data,
        SCRIPTS,
        title="which network runs this job how fast, and at what price",
        worlds=len(report.outcomes),
        answers=answers(report),
        notes=[*memory_notes(report), *notes(report)],
        jobs=[_job(report, job) for job in report.jobs],
        packets=_packets(report),
        failures=_failures(report),
        left_out=report.left_out,
        charts=_charts(report, data, images),
        pictures=drawn((picture for picture in PICTURES if not picture.interactive), images),
        glossary=COLUMNS.items(),
        prices=", ".join(sorted({outcome.settings.prices for outcome in report.outcomes})),
        command=report.command,
        config=json.dumps(dict(report.outcomes[0].settings.config), indent=2),
        first=report.outcomes[0].settings.world,
    )


def _charts(report: Report, data: Plain, images: Mapping[str, bytes]) -> list[Drawing]:
    """Return the charts that scripts draw, each with what it leaves out; a picture where its data are too many."""
    omitted = left_out(report, data)
    charts = {
        "iteration_time.png": ("bars", data["rows"]),
        "timeline.png": ("timeline", data["timelines"]),
        "topology.png": ("network", data["networks"]),
        "ports_queues.png": ("queues", data["queues"]),
    }
    drawings = []
    for picture in PICTURES:
        if not picture.interactive or picture.file not in charts or not picture.needs(report):
            continue
        name, chart_data = charts[picture.file]
        image = b"" if chart_data else images.get(picture.file, b"")
        ends = (ELSEWHERE.get(name), omitted.get(name))
        if 0 < len(image) <= PICTURE_BYTES:
            instead = f"This is {picture.file} in place of a chart."
            caption = " ".join(filter(None, (picture.caption, ends[0], instead, ends[1])))
            drawings.append(Drawing(name, picture.title, caption, image=image))
        else:
            caption = " ".join(filter(None, (ABOUT[name], *ends)))
            drawings.append(Drawing(name, picture.title, caption, picture.file))
    return drawings


def _job(report: Report, job: tuple[Result, ...]) -> Plain:
    """Return the table of a job: each row has an id for links and the colour of its fabric."""
    columns, looks = cells(report, job), fabric_looks(report.fabrics)
    best, choice = job[0].row.iteration_time, recommended(job)[0]
    rows = [
        {
            "id": row_id(report, outcome),
            "best": outcome is choice,
            "colour": looks[outcome.settings.fabric].colour,
            "cells": [(cell.text(outcome, best), _sorted_by(outcome, cell)) for cell in columns],
        }
        for outcome in job
    ]
    return {"setting": setting(report, job), "titles": [cell.title for cell in columns], "rows": rows}


def _sorted_by(outcome: Result, cell: terminal.Cell) -> object:
    """Return the SI number that a cell is sorted by, "" where the outcome has none; None for a text."""
    if not cell.field:
        return None
    value = getattr(outcome.row, cell.field)
    return "" if value is None else value


def _packets(report: Report) -> Plain | None:
    rows = packets.lines(report)
    return {"head": packets.columns(report), "rows": rows, "about": packets.ABOUT} if rows else None


def _failures(report: Report) -> Plain | None:
    if not report.failures:
        return None
    fewer = any(of_world.what == "server" for _, of_world in report.failures)
    rows = [list(of_world.cells(network)) for network, of_world in report.failures]
    return {"head": failures.COLUMNS, "rows": rows, "notes": [failures.FEWER_SAMPLES] if fewer else []}
