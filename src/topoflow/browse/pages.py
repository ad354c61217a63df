"""Pages of runs: the runs of a folder, one run, two runs next to each other.

A page of a server loads scripts from it and asks it for changes; the page of one run as a file has all inside.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from markupsafe import Markup

from topoflow.browse.pair import compared, differences
from topoflow.browse.run import MARK, REPORT, Record, RunFolder, problem
from topoflow.browse.words import how_to_continue, missing, search_lines, state_line, when
from topoflow.report.draw.colours import FABRICS, fabric_colours
from topoflow.report.page.elements import linked_page, page, render
from topoflow.study.figures.base import words
from topoflow.study.figures.write import shown
from topoflow.study.tracked import merged
from topoflow.units import human

T = TypeVar("T")

OWN_SCRIPTS = ("table", "figure", "runs")
MAX_ROWS = 1000  # of a table
STEPS = ("at", "stage", "round", "time", "best", "current", "acceptance", "rate")  # columns of the curves
LARGEST_DRAWN = 1e300
MAX_STEPS = 2000  # of a curve: more than it has pixels
COMPARED = ("world", "fabric", "iteration_time", "network_time", "cost_usd", "power_w")  # columns of a comparison
SEARCHED = ("search", "fabric", "iteration_time", "start_time", "bound", "cost_usd", "power_w", "chosen")
TITLES = {"cost_usd": "cost", "power_w": "power [W]"}  # of columns, where the key does not say it in words
NO_MARK = Markup()


def list_page(root: Path, listed: Mapping[str, Any]) -> str:
    """Return the runs of a folder, to be sorted, filtered, opened, and two of them compared; and its datasets."""
    return _page("list.html", f"Runs in {root}", listed, home=False)


def run_page(run: RunFolder, served: bool) -> str:
    """Return the page of one run; as one file unless it is ``served``."""
    problems: list[str] = []
    command, configuration = (_part(make, run, problems) for make in (_command, _configuration))
    data = _run_data(run, served, problems)
    return _page(
        "run.html",
        run.folder.resolve().name if run.name == "." else run.name,
        data,
        home=served,
        mark=Markup("" if served else MARK),
        served=served,
        state=data["state"],
        now=data["html"],
        curves=data["steps"] is not None,
        command=command,
        configuration=configuration,
    )


def run_data(run: RunFolder, served: bool) -> dict[str, Any]:
    """Return what the page of a run that works replaces."""
    return _run_data(run, served, [])


def _run_data(run: RunFolder, served: bool, problems: list[str]) -> dict[str, Any]:
    parts = {
        "missing": _part(missing, run, problems),
        "again": _part(_again, run, problems),
        "checkpoints": _part(lambda run: search_lines(run.searches), run, problems),
        "results": _part(_results, run, problems),
        "report": _part(_report_link, run, problems) if served else None,
    }
    works = served and _part(lambda run: run.state == "running", run, problems)
    data = {
        "state": _part(state_line, run, problems) or "This run cannot be shown as a whole.",
        "live": f"/live/{_quoted(run)}" if works else None,
        "colours": list(FABRICS.values())[:3],
        "steps": _part(_steps, run, problems),
    }
    return {**data, "html": render("run_now.html", problems=problems, **parts)}


def _part(make: Callable[[RunFolder], T], run: RunFolder, problems: list[str]) -> T | None:
    """Return a part of a page; None, and one more of ``problems``, where the run is too damaged for it."""
    try:
        return make(run)
    except Exception as error:  # whatever a damaged file makes a reader raise: other parts are shown
        if problem(error) not in problems:
            problems.append(problem(error))
        return None


def _quoted(run: RunFolder) -> str:
    """Return the name of a run as a part of an address."""
    return quote(run.name, errors="surrogateescape")


def _again(run: RunFolder) -> dict[str, str] | None:
    text = how_to_continue(run)
    return {"text": text, "command": run.again} if text else None


def _report_link(run: RunFolder) -> dict[str, str] | None:
    of = "" if run.state == "finished" else " of an earlier run"
    return {"path": f"{_quoted(run)}/{REPORT}", "of": of} if run.has_report else None


def _command(run: RunFolder) -> str:
    return run.command or "-"


def _results(run: RunFolder) -> dict[str, Any] | None:
    """Return a table of the numbers and words in rows of any verb, without columns that all rows lack."""
    rows = run.rows
    if not rows:
        return None
    first = rows[0]
    known_columns = next((columns for columns in (COMPARED, SEARCHED) if columns[0] in first), None)
    keys = [
        key
        for key in known_columns or dict.fromkeys(key for row in rows for key in row)
        if any(_is_plain(row.get(key)) for row in rows)
    ]
    head = [(TITLES.get(key) or words(key), any(isinstance(row.get(key), str) for row in rows)) for key in keys]
    return {
        "so_far": "" if run.state == "finished" else " so far",
        "head": head,
        "rows": [[_cell(key, row.get(key)) for key in keys] for row in rows[:MAX_ROWS]],
        "left_out": max(0, len(rows) - MAX_ROWS),
    }


def _is_plain(value: object) -> bool:
    return isinstance(value, str | int | float)


def _cell(key: str, value: object) -> tuple[str, str | bool | None]:
    """Return a cell in a person's units, and the number to sort by: None for a word, False for true and false."""
    if isinstance(value, str):
        return value, None
    if not isinstance(value, int | float):
        return "-", ""
    unit = "s" if key.endswith(("time", "bound")) else "USD" if key == "cost_usd" else ""
    text = shown(float(value) if unit else value, unit)
    return text, False if isinstance(value, bool) else repr(value)


def _configuration(run: RunFolder) -> str:
    return json.dumps(merged(run.configs[:MAX_ROWS]), indent=2, default=str) if run.configs else ""


def _steps(run: RunFolder) -> dict[str, list[Any]] | None:
    """Return the curves of a search in columns: ms, percent; None for another run.

    Where nothing is explored there is no rate. None breaks a line between searches.
    """
    if not run.found_by_search or run.progress is None:
        return None
    points = [point for point in run.progress.values if "time" in point[2]]
    points = points[:: max(1, -(-len(points) // MAX_STEPS))]
    columns: dict[str, list[Any]] = {key: [] for key in STEPS}
    last = ""
    for at, stage, values in points:
        if last not in ("", stage):
            for column in columns.values():
                column.append(None)
        last = stage
        columns["at"].append(_scaled(round(at, 2)))
        columns["stage"].append(stage)
        columns["round"].append(int(values.get("round", 0)) + 1)
        for key in ("time", "best", "current"):
            columns[key].append(_scaled(values.get(key), 1e3))
        explores = values.get("rate", 0.0) > 0
        columns["acceptance"].append(_scaled(values.get("acceptance", 0.0), 100) if explores else None)
        columns["rate"].append(values["rate"] if explores else None)
    return columns


def _scaled(value: float | None, factor: float = 1.0) -> float | None:
    """Return ``factor * value``; None where a damaged value is too large to be drawn."""
    return None if value is None or abs(value) > LARGEST_DRAWN else factor * value


def pair_page(first: RunFolder, second: RunFolder) -> str:
    """Return two runs next to each other, or why they cannot be compared."""
    try:
        return _pair_page(first, second)
    except Exception as error:  # whatever a damaged run makes a reader raise
        return message_page("Two runs", f"They cannot be compared: {problem(error)}")


def _pair_page(first: RunFolder, second: RunFolder) -> str:
    runs, pairs = (first, second), compared(first, second)
    names = [run.name for run in runs]
    colours = fabric_colours(pair.fabric for pair in pairs)
    data = {
        "names": names,
        "pair": [{"fabric": pair.fabric, "times": pair.times, "colour": colours[pair.fabric]} for pair in pairs],
    }
    times_of, costs_of = ([f"{name}: {what}" for name in names] for what in ("time", "cost"))
    times = [
        (
            pair.fabric,
            *("-" if time is None else human(time, "s") for time in pair.times),
            "-" if pair.ratio is None else f"{pair.ratio:.3f}x",
            *(_cost(row) for row in (pair.first, pair.second)),
        )
        for pair in pairs
    ]
    return _page(
        "pair.html",
        "Two runs",
        data,
        about_head=("", *names),
        about=[(key, *texts) for key, texts in _about(runs).items()],
        times_head=("network", *times_of, "second over first", *costs_of),
        times=times,
        differences_head=("key", *names),
        differences=differences(first, second),
    )


def _about(runs: Sequence[RunFolder]) -> Mapping[str, list[str]]:
    return {
        "command": [run.command for run in runs],
        "when": [when(run.changed) for run in runs],
        "state": [run.state for run in runs],
    }


def _cost(row: Record | None) -> str:
    cost = None if row is None else row.get("cost_usd")
    return f"${cost:,.0f}" if isinstance(cost, int | float) else "-"


def message_page(title: str, text: str) -> str:
    """Return a page with one message."""
    return _page("runs.html", title, {}, texts=[text])


def _page(
    template: str,
    title: str,
    data: Mapping[str, Any],
    home: bool = True,
    mark: Markup = NO_MARK,
    served: bool = True,
    **values: Any,
) -> str:
    """Return a page; one that is ``served`` loads its scripts from the server."""
    values |= {"title": title, "home": home, "mark": mark}
    if not served:
        return page(template, dict(data), OWN_SCRIPTS, **values)
    links = "".join(f"<script src='/scripts/{name}.js'></script>\n" for name in ("bokeh", *OWN_SCRIPTS))
    return linked_page(template, dict(data), links, **values)
