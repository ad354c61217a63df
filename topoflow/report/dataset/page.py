"""A dataset as one page: what it says, and an explorer over a sample whose law is stated."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from topoflow.report.dataset.base import SWEPT
from topoflow.report.dataset.reading import Reader, Values
from topoflow.report.dataset.summary import MOST_JOBS, Part, command_of, state, text
from topoflow.report.draw.style import KINDS, OTHER_KIND, fabric_looks, kind_colour
from topoflow.report.page.bokeh import scripts
from topoflow.report.page.data import MEASURES, Plain, as_script
from topoflow.report.page.template import fill, own, paragraphs, table
from topoflow.units import human

MOST_POINTS = 1500  # of the explorer; the page stays below 3 MB
MOST_CHOICES = 24  # of an axis with names; more would not be read


def page(reader: Reader, parts: Sequence[Part]) -> str:
    """The whole page."""
    rows, rule = _sample(reader, parts)
    tables = [
        f"<h3>{escape(each.title)}</h3>{table(each.head, each.rows, 'plain')}" for part in parts for each in part.tables
    ]
    return fill(
        "dataset.html",
        title="what a sweep found",
        name=escape(reader.dataset.folder.name),
        state=paragraphs(state(reader)),
        tables="".join(tables),
        law=escape(rule),
        data=as_script(_data(reader, rows, {row["point"] for part in parts for row in part.front})),
        scripts=scripts() + own("table", "report", "figure", "draw", "charts"),
        command=escape(reader.dataset.command),
    )


def _sample(reader: Reader, parts: Sequence[Part]) -> tuple[list[Values], str]:
    """The rows of the explorer, and what they are."""
    worlds = sum(job["worlds"] for job in reader.jobs)
    front = [row["point"] for part in parts for row in part.front]
    kept = reader.rows(front[:MOST_POINTS])
    there = {row["point"] for row in kept}
    drawn = [row for row in reader.sample(MOST_POINTS) if row["point"] not in there][: MOST_POINTS - len(kept)]
    whole = "all" if len(kept) == len(front) else f"{len(kept):,}"
    of = f" of the {MOST_JOBS} largest jobs" if len(reader.jobs) > MOST_JOBS else ""
    rule = (
        f"The explorer shows {len(kept) + len(drawn):,} of {worlds:,} worlds: {whole} of the front{of}, and others "
        "drawn by the numbers of their points alone, each as likely as any other."
    )
    return sorted([*kept, *drawn], key=lambda row: float(row["iteration_time"])), rule


def _data(reader: Reader, rows: Sequence[Values], front: set[int]) -> Plain:
    looks = fabric_looks(sorted({row["fabric"] for row in rows}))
    jobs: dict[str, int] = {}
    return {
        "fabrics": {name: look.colour for name, look in looks.items()},
        "kinds": {kind: kind_colour(kind) for kind in ("compute", *KINDS)} | {"other": OTHER_KIND},
        "rows": [_row(reader, row, front, jobs) for row in rows],
        "common": {},
        "measures": [{"key": key, "label": label} for key, label in MEASURES.items()],
        "factors": _factors(reader, rows),
    }


def _row(reader: Reader, row: Values, front: set[int], jobs: dict[str, int]) -> Plain:
    swept = {key: text(row[f"{SWEPT}{key}"]) for key in reader.dataset.keys}
    label = ", ".join(f"{key}={value}" for key, value in swept.items())
    return {
        "id": f"point-{row['point']}",
        "world": f"point {row['point']:,}",
        "label": label,
        "fabric": row["fabric"],
        "time": row["iteration_time"],
        "compute": row["compute_time"],
        "cost": row["cost_usd"],
        "on_front": row["point"] in front,
        "job": jobs.setdefault(repr([row[key] for key in reader.job]), len(jobs)),
        "values": {key: row[key] for key in MEASURES},
        "swept": swept,
        "own": {"command": command_of(reader, row)},
    }


def _factors(reader: Reader, rows: Sequence[Values]) -> list[Plain]:
    """The axes of the parallel coordinates: the keys that differ, then time and price."""
    found: list[Plain] = []
    for key in reader.dataset.keys:
        values = sorted({row[f"{SWEPT}{key}"] for row in rows})
        if 1 < len(values) <= MOST_CHOICES:
            found.append({"key": key, "label": key, "choices": list(map(text, values))})
    for key, unit in (("iteration_time", "s"), ("cost_usd", "$")):
        numbers = [row[key] for row in rows if row[key] is not None]
        if numbers:
            low, high = min(numbers), max(numbers)
            texts = {"low_text": human(low, unit), "high_text": human(high, unit)}
            found.append({"key": key, "label": MEASURES[key], "low": low, "high": high, **texts})
    return found
