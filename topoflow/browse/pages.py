"""Pages of runs, made of the pieces of ``report.html``: those of a folder, one run, two next to each other.

A page of a server loads scripts from it and looks for news; the page of one run as a file has all inside.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

from topoflow.browse.datasets import datasets_table
from topoflow.browse.find import Found
from topoflow.browse.pair import compared, differences
from topoflow.browse.run import MARK, REPORT, Record, Run
from topoflow.browse.words import how_to_continue, missing, search_lines, state_line, when
from topoflow.report.draw.colours import FABRICS, fabric_colours
from topoflow.report.page.bokeh import scripts
from topoflow.report.page.data import as_script
from topoflow.report.page.template import fill, own, paragraphs, table
from topoflow.study.figures.base import words
from topoflow.study.figures.write import shown
from topoflow.study.tracked import merged
from topoflow.units import human

OWN_SCRIPTS = ("table", "figure", "runs")
MAX_ROWS = 1000  # of a table
STEPS = ("at", "stage", "round", "time", "best", "current", "acceptance", "rate")  # columns of the curves
MAX_STEPS = 2000  # of a curve: more than it has pixels
COMPARED = ("world", "fabric", "iteration_time", "network_time", "cost_usd", "power_w")  # columns of a comparison
SEARCHED = ("search", "fabric", "iteration_time", "start_time", "bound", "cost_usd", "power_w", "chosen")
TITLES = {"cost_usd": "cost", "power_w": "power [W]"}  # of columns, where the key does not say it in words
HOME = "<p><a href='/'>All runs</a></p>"


def list_page(root: Path, found: Found) -> str:
    """The runs of a folder, to be sorted, filtered, opened, and two of them compared; its datasets, to be opened."""
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
    return _page(f"Runs in {root}", content, list_data(root, found), top="")


def list_data(root: Path, found: Found) -> dict[str, Any]:
    """A row of each run as HTML, how many there are, and the table of datasets."""
    runs = found.runs
    counts = {state: sum(run.state == state for run in runs) for state in ("running", "cut off", "finished")}
    said = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    none = "No runs yet: what topoflow writes with out= a folder of this one is listed here."
    rows = [{"name": run.name, "html": _list_row(run)} for run in runs]
    return {
        "rows": rows,
        "state": f"{len(runs)} runs: {said}." if runs else none,
        "live": "/live",
        "datasets": datasets_table(root, found.datasets),
    }


def _list_row(run: Run) -> str:
    name, time = escape(run.name), run.time
    value = "" if time is None else repr(time)
    return (
        f"<td><input type=checkbox name=run value='{name}' aria-label='mark {name}'> "
        f"<a href='/run/{quote(run.name)}'>{name}</a></td>"
        f"<td class=command>{escape(run.command or run.verb)}</td>"
        f"<td data-value='{run.changed}'>{when(run.changed)}</td>"
        f"<td>{escape(run.best)}</td><td data-value='{value}'>{'-' if time is None else human(time, 's')}</td>"
        f"<td><span class='state {run.state.replace(' ', '-')}'>{run.state}</span></td>"
    )


def run_page(run: Run, served: bool) -> str:
    """One run: what it says so far; as one file unless it is ``served``."""
    title = run.folder.resolve().name if run.name == "." else run.name
    content = (
        f"<p class=answer id=state aria-live=polite>{escape(state_line(run))}</p>"
        f"<div id=now>{_now(run, served)}</div>{_curves() if run.found_by_search else ''}"
        f"<h2>Command</h2><pre tabindex=0>{escape(run.command or '-')}</pre>{_configuration(run)}"
    )
    return _page(title, content, run_data(run, served), top=HOME if served else MARK, served=served)


def run_data(run: Run, served: bool) -> dict[str, Any]:
    """What a page of a run that works replaces."""
    live = f"/live/{quote(run.name)}" if served and run.state == "running" else None
    colours = list(FABRICS.values())[:3]
    data = {"state": state_line(run), "html": _now(run, served), "live": live, "colours": colours}
    return {**data, "steps": _steps(run) if run.found_by_search else None}


def _now(run: Run, served: bool) -> str:
    """What there is, what is missing, how to continue; then the numbers."""
    parts = [paragraphs(missing(run))]
    if again := how_to_continue(run):
        parts.append(f"{paragraphs([again])}<pre tabindex=0>{escape(run.again)}</pre>")
    if run.has_report and served:
        of = "" if run.state == "finished" else " of an earlier run"
        parts.append(f"<p><a href='/files/{quote(run.name)}/{REPORT}'>Open report.html</a>{of}</p>")
    if run.searches:
        titles = ("folder", "rounds", "proposals", "state")
        parts.append(f"<h2>Checkpoints</h2>{table(titles, search_lines(run.searches), 'plain')}")
    if run.rows:
        parts.append(f"<h2>What was found{'' if run.state == 'finished' else ' so far'}</h2>{_rows(run.rows)}")
    return "".join(parts)


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


def _steps(run: Run) -> dict[str, list[Any]]:
    """The curves in columns: ms, percent; what is not explored has no rate. None breaks a line between searches."""
    assert run.progress is not None
    points = [each for each in run.progress.values if "time" in each[2]]
    points = points[:: max(1, -(-len(points) // MAX_STEPS))]
    found: dict[str, list[Any]] = {key: [] for key in STEPS}
    last = ""
    for at, stage, values in points:
        if last not in ("", stage):
            for column in found.values():
                column.append(None)
        last = stage
        found["at"].append(round(at, 2))
        found["stage"].append(stage)
        found["round"].append(int(values.get("round", 0)) + 1)
        for key in ("time", "best", "current"):
            found[key].append(1e3 * values[key] if key in values else None)
        explores = values.get("rate", 0.0) > 0
        found["acceptance"].append(100 * values.get("acceptance", 0.0) if explores else None)
        found["rate"].append(values["rate"] if explores else None)
    return found


def pair_page(first: Run, second: Run) -> str:
    """Two runs next to each other."""
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
    """What a server says in place of a page."""
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
