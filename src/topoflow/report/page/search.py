"""The page of a search: the network, the timeline of its servers, traffic before and after, and the history."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from topoflow.report.draw.history import BEST, CURRENT, MAX_POINTS, SIMULATED
from topoflow.report.draw.pictures import draw_all
from topoflow.report.draw.search_pictures import PICTURES
from topoflow.report.files import whole_folder
from topoflow.report.page.bokeh import scripts
from topoflow.report.page.data import (
    TIMELINE_BYTES,
    as_script,
    fitting,
    kind_colours,
    network,
    networks_fitting,
    timeline,
    without_time,
)
from topoflow.report.page.template import ABOUT, fill, gallery, own, paragraphs, place, table
from topoflow.report.search_history import History
from topoflow.report.search_report import SearchReport, Switch
from topoflow.units import human

ROUNDS = ("round", "proposals so far", "best so far", "coldest at its end", "hottest at its end", "network")
TEMPERATURES = (
    "Coldest and hottest are temperatures: a chain at temperature T accepts a proposal that is slower by T with a "
    "probability of 37 % (1 / e). They fit themselves, so that each chain accepts a given share of slower proposals."
)
HISTORY = (
    "Thin: the time of the coldest chain, as an estimate screens it. Thick: the best of the round so far. Dashes: what "
    "was simulated at the end of a round; diamonds: the start, and the best after each round, simulated. Lines break "
    "between rounds, whose networks may differ. Every second round of a network without switches may be screened on "
    "an ideal switch, where steps are quicker than those simulated."
)


def write_search(report: SearchReport, out: Path, tick: Callable[[int, int], None]) -> None:
    """Write ``report.html`` and its pictures into the folder ``out``, all of them or none; other files are kept.

    ``tick`` is called with (number of finished pictures, total).
    """
    images = draw_all(PICTURES, report, lambda done: tick(done, len(PICTURES)))
    with whole_folder(out) as folder:
        for name, image in images.items():
            (folder / name).write_bytes(image)
        (folder / "report.html").write_text(page(report, images), encoding="utf-8")


def page(report: SearchReport, images: Mapping[str, bytes]) -> str:
    """Return the HTML page; ``images`` are PNG files by name."""
    data = search_data(report)
    circuits = "\n".join(_line(number, switch) for number, switch in enumerate(report.circuits))
    return fill(
        "search.html",
        title=escape(report.title),
        answer=paragraphs([report.answer], "answer") + paragraphs(report.notes),
        numbers=table(("", "before", "found"), report.numbers),
        strategy=table(("layers", "where"), report.strategy, "text"),
        orders=table(("servers", "orders"), report.orders, "text") if report.orders else paragraphs([_nothing(report)]),
        interactive=_interactive(report, data),
        pictures=gallery((picture for picture in PICTURES if not picture.interactive), images),
        data=as_script(data),
        scripts=scripts() + own("table", "figure", "draw", "search", "levels", "network", "timeline"),
        went=paragraphs([report.went]) + _rounds(report.history),
        circuits=circuits or "This network has no optical switches.",
        command=escape(report.command),
    )


def search_data(report: SearchReport) -> dict[str, Any]:
    """Return all data that the scripts of the page draw."""
    ends = {"found": report.after, "before": report.before}
    networks = [{"label": name, **network(result)} for name, result in ends.items() if result.fabric.links]
    timelines = [{"label": name, **timeline(result)} for name, result in ends.items()]
    return {
        "kinds": kind_colours(),
        "timelines": fitting(timelines, TIMELINE_BYTES, "tasks"),
        "networks": networks_fitting(networks),
        "history": _history(report.history),
    }


def _history(history: History) -> dict[str, Any]:
    """Return columns of at most ``MAX_POINTS`` steps with a gap after each round, and the simulated candidates."""
    steps = len(history.proposals)
    thin = np.unique(np.linspace(0, steps - 1, min(steps, MAX_POINTS)).astype(int)) if steps else np.zeros(0, int)
    gaps = np.flatnonzero(np.diff(history.round[thin])) + 1
    columns = {name: getattr(history, name)[thin] for name in ("proposals", "best", "current", "acceptance", "rate")}
    ends, rounds = history.ends, history.rounds
    simulated = [(end, number, time) for number, end in enumerate(ends) for time in rounds[number].simulated]
    topologies = ["of the start", *("new" if finished.new_topology else "kept" for finished in rounds)]
    return {
        "steps": {name: _plain(np.insert(values, gaps, np.nan)) for name, values in columns.items()}
        | {"round": _plain(np.insert(history.round[thin] + 1, gaps, np.nan))},
        "simulated": {
            "proposals": [float(end) for end, _, _ in simulated],
            "round": [number + 1 for _, number, _ in simulated],
            "time": _plain(np.array([time for _, _, time in simulated])),
        },
        "best": {
            "proposals": [0.0, *ends.tolist()],
            "round": list(range(len(rounds) + 1)),
            "time": _plain(np.array([history.start, *(finished.time for finished in rounds)])),
            "topology": topologies,
        },
        "colours": {"best": BEST, "current": CURRENT, "simulated": SIMULATED},
    }


def _plain(values: np.ndarray[Any, np.dtype[np.float64]]) -> list[float | None]:
    return [float(f"{value:.6g}") if np.isfinite(value) else None for value in values.tolist()]


def _interactive(report: SearchReport, data: dict[str, Any]) -> str:
    """Return the places of the charts, each with its title and caption."""
    text = {picture.file: picture for picture in PICTURES}
    parts = []
    if data["networks"]:
        about = " ".join(filter(None, (ABOUT["network"], without_time(data["networks"]))))
        parts.append(place("network", text["topology.png"].title, about, "topology.png"))
    if data["timelines"]:
        parts.append(place("timeline", "What every server does during the step", ABOUT["timeline"]))
    if report.history.searched:
        history = text["history.png"]
        parts.append(place("history", history.title, HISTORY, history.file))
    if len(report.history.proposals):
        parts.append(place("acceptance", "What was accepted", ABOUT["acceptance"]))
    return "".join(parts)


def _rounds(history: History) -> str:
    """Return a table of the rounds, with their final temperatures."""
    rows = [
        (
            str(number),
            f"{end:,.0f}",
            human(finished.time, "s"),
            *([human(finished.temperatures[rung], "s") for rung in (0, -1)] if finished.temperatures else ["-", "-"]),
            "new" if finished.new_topology else "kept",
        )
        for number, (end, finished) in enumerate(zip(history.ends.tolist(), history.rounds, strict=True), 1)
    ]
    return table(ROUNDS, rows, "plain") + paragraphs([TEMPERATURES]) if rows else ""


def _nothing(report: SearchReport) -> str:
    return "Nothing." if report.after.all_reduces else "Nothing: no servers all-reduce with each other."


def _line(number: int, switch: Switch) -> str:
    joined = ", ".join(f"{source} to {target}" for source, target in enumerate(switch) if target is not None)
    return f"switch {number}: {joined}"
