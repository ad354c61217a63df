"""The page of several searches of one command: their results, and the Pareto-optimal ones."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from matplotlib.figure import Figure

from topoflow.fabric.prices import front
from topoflow.report.draw import pareto
from topoflow.report.draw.colours import fabric_colours
from topoflow.report.draw.network.topology import MAX_PANELS, Drawn, draw_networks
from topoflow.report.draw.pareto import PricedPlan
from topoflow.report.draw.pictures import Picture, draw_all
from topoflow.report.files import whole_folder
from topoflow.report.page.elements import Cell, Drawing, drawn, page
from topoflow.report.search_report import SearchReport, quickest
from topoflow.units import human

ABOUT = (
    "One point per search, in the colour of its fabric, for its own best strategy and network. The line joins those "
    "that no other beats in both time and price. A click opens the search."
)
Reports = Mapping[str, SearchReport]  # name of a search -> its report


def points(reports: Reports) -> tuple[PricedPlan, ...]:
    """Return time and price of every search whose network has a price."""
    results = ((name, report.after) for name, report in reports.items())
    return tuple(
        PricedPlan(name, result.iteration_time, result.cost) for name, result in results if result.cost is not None
    )


def write_searches(
    reports: Reports, folders: Mapping[str, str], chosen: Collection[str], out: Path, tick: Callable[[int, int], None]
) -> None:
    """Write an overview ``report.html`` and its pictures into ``out``; ``folders`` of the searches are relative to it.

    ``chosen`` are the best searches by the objective. ``tick`` is called with (number of finished pictures, total).
    """
    images = draw_all(PICTURES, reports, lambda done: tick(done, len(PICTURES)))
    with whole_folder(out) as folder:
        for name, image in images.items():
            (folder / name).write_bytes(image)
        (folder / "report.html").write_text(_page(reports, folders, chosen, images), encoding="utf-8")


def _page(reports: Reports, folders: Mapping[str, str], chosen: Collection[str], images: Mapping[str, bytes]) -> str:
    names = quickest(reports)
    return page(
        "searches.html",
        _data(reports, folders),
        ("table", "figure", "draw", "searches"),
        title="what the searches found",
        chosen=[name for name in names if name in chosen],
        head=("search", "training step", "at the start", "lower bound of fluid", "price", "power", ""),
        rows=[_row(name, reports[name], name in chosen) for name in names],
        links=[_link(name, f"{folders[name]}/report.html", reports[name]) for name in names],
        charts=[Drawing("front", PICTURES[0].title, ABOUT, PICTURES[0].file)] if points(reports) else [],
        pictures=drawn(PICTURES[1:], images),
        command=next(iter(reports.values())).command,
    )


def _data(reports: Reports, folders: Mapping[str, str]) -> dict[str, Any]:
    """Return the data that the script of the page draws: the searches whose network has a price."""
    shown = points(reports)
    best = set(front([point.price for point in shown], [point.time for point in shown]))
    fabrics = {name: report.after.settings.fabric for name, report in reports.items()}
    return {
        "fabrics": fabric_colours(fabrics.values()),
        "searches": [
            {
                "name": point.name,
                "time": point.time,
                "price": point.price,
                "fabric": fabrics[point.name],
                "on_front": number in best,
                "page": quote(f"{folders[point.name]}/report.html"),
            }
            for number, point in enumerate(shown)
        ],
    }


def _link(name: str, page: str, report: SearchReport) -> dict[str, str]:
    return {"name": name, "page": page, "text": " ".join([*report.notes, report.answer])}


def _row(name: str, report: SearchReport, chosen: bool) -> tuple[Cell, ...]:
    cost, power = report.after.cost, report.after.power
    return (
        name,
        (human(report.after.iteration_time, "s"), report.after.iteration_time),
        (human(report.before.iteration_time, "s"), report.before.iteration_time),
        (human(report.bound, "s"), report.bound),
        ("-", None) if cost is None else (f"${cost:,.0f}", cost),
        ("-", None) if power is None else (f"{power:,.0f} W", power),
        "chosen" if chosen else "",
    )


def _draw_networks(reports: Reports) -> Figure:
    """Draw the networks of the quickest searches side by side."""
    shown = [(name, reports[name].after) for name in quickest(reports)[:MAX_PANELS]]
    drawn = [Drawn(name, result.fabric, result.timeline.link_bytes) for name, result in shown]
    limit = "" if len(drawn) == len(reports) else f" (the {len(drawn)} quickest of {len(reports)})"
    return draw_networks(f"The networks that were found{limit}", drawn)


PICTURES: tuple[Picture[Reports], ...] = (
    Picture(
        "front.png",
        "What the speed costs",
        "One point per search, for its own best strategy and network. The line joins those that no other beats in both "
        "time and price.",
        lambda reports: pareto.draw(points(reports)),
        needs=lambda reports: bool(points(reports)),
    ),
    Picture(
        "topology.png",
        "The networks",
        "Each as its search left it. The wider a line, the more it carries in one step; its colour says what it is.",
        _draw_networks,
    ),
)
