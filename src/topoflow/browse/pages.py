"""Pages of runs, made of the pieces of ``report.html``: those of a folder, one run, two next to each other.

A page of a server loads scripts from it and looks for news; the page of one run as a file has all inside.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from topoflow.browse.pair import compared, differences
from topoflow.browse.run import MARK, REPORT, Record, Run, problem
from topoflow.browse.words import how_to_continue, missing, search_lines, state_line, when
from topoflow.report.draw.colours import FABRICS, fabric_colours
from topoflow.report.page.bokeh import scripts
from topoflow.report.page.data import as_script
from topoflow.report.page.template import fill, own, paragraphs, table
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
HOME = "<p><a href='/'>All runs</a></p>"


def list_page(root: Path, listed: Mapping[str, Any]) -> str:
    """Return the runs of a folder, to be sorted, filtered, opened, and two of them compared; and its datasets."""
    titles = ("run", "what was run", "when", "best network", "iteration time", "state")
    head = "".join(f"<th>{title}</th>" for title in titles)
    content = (
        "<p id=state aria-live=polite></p>"
        "<p class=controls><label>Runs with <input id=filter type=search placeholder='search dlrm'></label> "
        "<span id=filtered aria-live=polite></span></p>"
        "<form id=two action='/pair'><p class=controls><button id=compare type=submit>Compare two</button> "
        "<span id=marked aria-live=polite></span></p>"
        f"<div class=wide><table id=runs class='runs sortable'><thead><tr>{head}</tr></thead>"
        "<tbody></tbody></table></div></form>"
        "<p>The best network is the fastest of those that the run recommends. A run that was cut off can be "
        "opened, too: its page says what is missing, and how to continue.</p>"
        "<div id=datasets></div>"
    )
    return _page(f"Runs in {root}", content, listed, top="")


def run_page(run: Run, served: bool) -> str:
    """Return the page of one run; as one file unless it is ``served``."""
    title = run.folder.resolve().name if run.name == "." else run.name
    problems: list[str] = []
    asked = "".join(_part(make, run, problems) or "" for make in (_command, _configuration))
    data = _run_data(run, served, problems)
    content = (
        f"<p class=answer id=state aria-live=polite>{escape(data['state'])}</p>"
        f"<div id=now>{data['html']}</div>{_curves() if data['steps'] else ''}{asked}"
    )
    return _page(title, content, data, top=HOME if served else MARK, served=served)


def run_data(run: Run, served: bool) -> dict[str, Any]:
    """Return what the page of a run that works replaces."""
    return _run_data(run, served, [])


def _run_data(run: Run, served: bool, problems: list[str]) -> dict[str, Any]:
    parts = (_what_is_missing, _again, _checkpoints, _results, *([_report_link] if served else []))
    html = "".join(_part(make, run, problems) or "" for make in parts)
    works = served and _part(lambda run: run.state == "running", run, problems)
    data = {
        "state": _part(state_line, run, problems) or "This run cannot be shown as a whole.",
        "live": f"/live/{_quoted(run)}" if works else None,
        "colours": list(FABRICS.values())[:3],
        "steps": _part(_steps, run, problems),
    }
    return {**data, "html": paragraphs(f"Not shown: {each}" for each in problems) + html}


def _part(make: Callable[[Run], T], run: Run, problems: list[str]) -> T | None:
    """Return a part of a page; None, and one more of ``problems``, where the run is too damaged for it."""
    try:
        return make(run)
    except Exception as error:  # whatever a damaged file makes a reader raise: other parts are shown
        if problem(error) not in problems:
            problems.append(problem(error))
        return None


def _quoted(run: Run) -> str:
    """Return the name of a run as a part of an address."""
    return quote(run.name, errors="surrogateescape")


def _what_is_missing(run: Run) -> str:
    return paragraphs(missing(run))


def _again(run: Run) -> str:
    again = how_to_continue(run)
    return f"{paragraphs([again])}<pre tabindex=0>{escape(run.again)}</pre>" if again else ""


def _report_link(run: Run) -> str:
    of = "" if run.state == "finished" else " of an earlier run"
    return f"<p><a href='/files/{_quoted(run)}/{REPORT}'>Open report.html</a>{of}</p>" if run.has_report else ""


def _checkpoints(run: Run) -> str:
    titles = ("folder", "rounds", "proposals", "state")
    lines = search_lines(run.searches)
    return f"<h2>Checkpoints</h2>{table(titles, lines, 'plain')}" if lines else ""


def _results(run: Run) -> str:
    so_far = "" if run.state == "finished" else " so far"
    return f"<h2>What was found{so_far}</h2>{_rows(run.rows)}" if run.rows else ""


def _command(run: Run) -> str:
    return f"<h2>Command</h2><pre tabindex=0>{escape(run.command or '-')}</pre>"


def _rows(rows: Sequence[Record]) -> str:
    """Numbers, and words, of rows of any verb; columns that all lack are left out."""
    first = rows[0]
    known = next((columns for columns in (COMPARED, SEARCHED) if columns[0] in first), None)
    keys = [
        key
        for key in known or dict.fromkeys(key for row in rows for key in row)
        if any(_is_plain(row.get(key)) for row in rows)
    ]
    texts = {key for key in keys if any(isinstance(row.get(key), str) for row in rows)}
    head = "".join(f"<th{' class=word' * (key in texts)}>{escape(TITLES.get(key) or words(key))}</th>" for key in keys)
    body = "".join(f"<tr>{''.join(_cell(key, row.get(key)) for key in keys)}</tr>" for row in rows[:MAX_ROWS])
    more = paragraphs([f"The first {MAX_ROWS:,} of {len(rows):,} rows."] if len(rows) > MAX_ROWS else [])
    found = f"<table class=sortable><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f"<div class=wide>{found}</div>{more}"


def _is_plain(value: object) -> bool:
    return isinstance(value, str | int | float)


def _cell(key: str, value: object) -> str:
    """A cell in a person's units, with the number to sort by."""
    if not _is_plain(value):
        return "<td data-value=''>-</td>"
    unit = "s" if key.endswith(("time", "bound")) else "USD" if key == "cost_usd" else ""
    if isinstance(value, str):
        return f"<td class=word>{escape(value)}</td>"
    text = shown(float(value) if unit and isinstance(value, int | float) else value, unit)
    number = f" data-value='{value!r}'" if isinstance(value, int | float) and not isinstance(value, bool) else ""
    return f"<td{number}>{escape(text)}</td>"


def _configuration(run: Run) -> str:
    if not run.configs:
        return ""
    text = escape(json.dumps(merged(run.configs[:MAX_ROWS]), indent=2, default=str))
    about = "Configuration; what differs between worlds is a list"
    return f"<details><summary>{about}</summary><pre tabindex=0>{text}</pre></details>"


def _curves() -> str:
    """The places of the curves of a search."""
    curves = {
        "search-time": "The best time so far, as simulated; the least of the round and the coldest chain, as screened.",
        "search-acceptance": "The share of proposals that were accepted, in the round so far.",
        "search-rate": "Evaluations per second, while strategies are explored.",
    }
    return "<h2>How the search goes</h2>" + "".join(_figure(name, text) for name, text in curves.items())


def _figure(name: str, text: str) -> str:
    """The place of a chart, with what it shows."""
    text = escape(text)
    return f"<figure><div id={name} role=img aria-label='{text}'></div><figcaption>{text}</figcaption></figure>"


def _steps(run: Run) -> dict[str, list[Any]] | None:
    """Return the curves of a search in columns: ms, percent; None for another run.

    Where nothing is explored there is no rate. None breaks a line between searches.
    """
    if not run.found_by_search or run.progress is None:
        return None
    points = [each for each in run.progress.values if "time" in each[2]]
    points = points[:: max(1, -(-len(points) // MAX_STEPS))]
    found: dict[str, list[Any]] = {key: [] for key in STEPS}
    last = ""
    for at, stage, values in points:
        if last not in ("", stage):
            for column in found.values():
                column.append(None)
        last = stage
        found["at"].append(_scaled(round(at, 2)))
        found["stage"].append(stage)
        found["round"].append(int(values.get("round", 0)) + 1)
        for key in ("time", "best", "current"):
            found[key].append(_scaled(values.get(key), 1e3))
        explores = values.get("rate", 0.0) > 0
        found["acceptance"].append(_scaled(values.get("acceptance", 0.0), 100) if explores else None)
        found["rate"].append(values["rate"] if explores else None)
    return found


def _scaled(value: float | None, factor: float = 1.0) -> float | None:
    """Return ``factor * value``; None where a damaged value is too large to be drawn."""
    return None if value is None or abs(value) > LARGEST_DRAWN else factor * value


def pair_page(first: Run, second: Run) -> str:
    """Return two runs next to each other, or why they cannot be compared."""
    try:
        return _pair_page(first, second)
    except Exception as error:  # whatever a damaged run makes a reader raise
        return message_page("Two runs", f"They cannot be compared: {problem(error)}")


def _pair_page(first: Run, second: Run) -> str:
    runs, pairs = (first, second), compared(first, second)
    names = [run.name for run in runs]
    colours = fabric_colours(pair.fabric for pair in pairs)
    data = {
        "names": names,
        "pair": [{"fabric": each.fabric, "times": each.times, "colour": colours[each.fabric]} for each in pairs],
    }
    about = table(("", *names), [(key, *texts) for key, texts in _about(runs).items()], "text")
    times_of, costs_of = ([f"{name}: {what}" for name in names] for what in ("time", "cost"))
    titles = ("network", *times_of, "second over first", *costs_of)
    rows = [
        (
            each.fabric,
            *("-" if time is None else human(time, "s") for time in each.times),
            "-" if each.ratio is None else f"{each.ratio:.3f}x",
            *(_cost(row) for row in (each.first, each.second)),
        )
        for each in pairs
    ]
    times = table(titles, rows, "plain") if rows else paragraphs(["Neither run has an iteration time of a network."])
    keys = differences(first, second)
    differ = table(("key", *names), keys, "text") if keys else paragraphs(["Their configurations are equal."])
    chart = _figure("pair", "The fastest world of each network in each run; the second run is paler.")
    content = f"{about}<h2>Iteration time</h2>{times}{chart if rows else ''}<h2>What was asked otherwise</h2>{differ}"
    return _page("Two runs", content, data, top=HOME)


def _about(runs: Sequence[Run]) -> Mapping[str, list[str]]:
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
    return _page(title, paragraphs([text], "answer"), {}, top=HOME)


def _page(title: str, content: str, data: Mapping[str, Any], top: str, served: bool = True) -> str:
    names = ("bokeh", *OWN_SCRIPTS)
    loaded = "".join(f"<script src='/scripts/{name}.js'></script>\n" for name in names)
    return fill(
        "runs.html",
        title=escape(title),
        head='<link rel="icon" href="data:,">\n',
        top=top,
        content=content,
        data=as_script(dict(data)),
        scripts=loaded if served else scripts() + own(*OWN_SCRIPTS),
    )
