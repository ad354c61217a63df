"""The page of a search: the network, the timeline of its servers, traffic before and after, and the history."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from topoflow.report.draw.history import BEST, CURRENT, MAX_POINTS, SIMULATED
from topoflow.report.draw.pictures import draw_all
from topoflow.report.draw.search_pictures import PICTURES
from topoflow.report.files import whole_folder
from topoflow.report.page.comparison import ABOUT
from topoflow.report.page.data import (
    TIMELINE_BYTES,
    fitting,
    kind_colours,
    network,
    networks_fitting,
    timeline,
    without_time,
)
from topoflow.report.page.elements import Drawing, drawn, page
from topoflow.report.search_report import SearchReport, Switch
from topoflow.search.history import SearchHistory
from topoflow.units import human

ROUNDS = ("round", "proposals so far", "best so far", "coldest at its end", "hottest at its end", "network")
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
        (folder / "report.html").write_text(search_page(report, images), encoding="utf-8")


def search_page(report: SearchReport, images: Mapping[str, bytes]) -> str:
    """Return the HTML page; ``images`` are PNG files by name."""
    data = search_data(report)
    return page(
        "search.html",
        data,
        ("table", "figure", "draw", "search", "levels", "network", "timeline"),
        title=report.title,
        answer=report.answer,
        notes=report.notes,
        numbers=report.numbers,
        strategy=report.strategy,
        orders=report.orders,
        all_reduces=report.after.all_reduces,
        charts=_charts(report, data),
        pictures=drawn((picture for picture in PICTURES if not picture.interactive), images),
        effort=report.effort,
        rounds_head=ROUNDS,
        rounds=_rounds(report.history),
        circuits=list(map(_line, report.circuits)),
        command=report.command,
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
        "history": _history(report),
    }


def _history(report: SearchReport) -> dict[str, Any]:
    """Return columns of at most ``MAX_POINTS`` steps with a gap after each round, and the simulated candidates."""
    history = report.history
    steps = len(history.steps)
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
            "time": _plain(np.array([report.before.iteration_time, *(finished.time for finished in rounds)])),
            "topology": topologies,
        },
        "colours": {"best": BEST, "current": CURRENT, "simulated": SIMULATED},
    }


def _plain(values: np.ndarray[Any, np.dtype[np.float64]]) -> list[float | None]:
    return [float(f"{value:.6g}") if np.isfinite(value) else None for value in values.tolist()]


def _charts(report: SearchReport, data: dict[str, Any]) -> list[Drawing]:
    """Return the charts that scripts draw."""
    pictures = {picture.file: picture for picture in PICTURES}
    charts = []
    if data["networks"]:
        about = " ".join(filter(None, (ABOUT["network"], without_time(data["networks"]))))
        charts.append(Drawing("network", pictures["topology.png"].title, about, "topology.png"))
    if data["timelines"]:
        charts.append(Drawing("timeline", "What every server does during the step", ABOUT["timeline"]))
    if report.history.searched:
        history = pictures["history.png"]
        charts.append(Drawing("history", history.title, HISTORY, history.file))
    if len(report.history.steps):
        charts.append(Drawing("acceptance", "What was accepted", ABOUT["acceptance"]))
    return charts


def _rounds(history: SearchHistory) -> list[tuple[str, ...]]:
    """Return the rows of a table of the rounds, with their final temperatures."""
    return [
        (
            str(number),
            f"{end:,.0f}",
            human(finished.time, "s"),
            *([human(finished.temperatures[rung], "s") for rung in (0, -1)] if finished.temperatures else ["-", "-"]),
            "new" if finished.new_topology else "kept",
        )
        for number, (end, finished) in enumerate(zip(history.ends.tolist(), history.rounds, strict=True), 1)
    ]


def _line(switch: Switch) -> str:
    """Return what an optical switch joins, transmitter to receiver."""
    return ", ".join(f"{source} to {target}" for source, target in enumerate(switch) if target is not None)
