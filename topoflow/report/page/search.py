"""What a search found, on a page: the network drawn, traffic before and after, and how the search went."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape
from pathlib import Path

from topoflow.report.draw.pictures import draw_all
from topoflow.report.draw.search_pictures import PICTURES
from topoflow.report.files import whole_folder
from topoflow.report.page.template import fill, gallery, paragraphs, table
from topoflow.report.search_report import SearchReport, Switch


def write_search(report: SearchReport, out: Path, tick: Callable[[int, int], None]) -> None:
    """Write ``report.html`` and its pictures into the folder ``out``: all of them or none. What else is there stays.

    ``tick`` is called with (how many pictures are done, of how many).
    """
    images = draw_all(PICTURES, report, lambda done: tick(done, len(PICTURES)))
    with whole_folder(out) as folder:
        for name, image in images.items():
            (folder / name).write_bytes(image)
        (folder / "report.html").write_text(page(report, images), encoding="utf-8")


def page(report: SearchReport, images: Mapping[str, bytes]) -> str:
    """The whole page; ``images`` are PNG files by name."""
    circuits = "\n".join(_line(number, switch) for number, switch in enumerate(report.circuits))
    return fill(
        "search.html",
        title=escape(report.title),
        answer=paragraphs([report.answer], "answer") + paragraphs(report.notes),
        numbers=table(("", "before", "found"), report.numbers),
        strategy=table(("layers", "where"), report.strategy, "text"),
        orders=table(("servers", "orders"), report.orders, "text") if report.orders else paragraphs([_nothing(report)]),
        pictures=gallery(PICTURES, images),
        went=paragraphs([report.went]),
        circuits=circuits or "This network has no optical switches.",
        command=escape(report.command),
    )


def _nothing(report: SearchReport) -> str:
    return "Nothing." if report.after.all_reduces else "Nothing: no servers all-reduce with each other."


def _line(number: int, switch: Switch) -> str:
    joined = ", ".join(f"{source} to {target}" for source, target in enumerate(switch) if target is not None)
    return f"switch {number}: {joined}"
