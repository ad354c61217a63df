"""The page of a dataset: its summary, and an explorer over a sample whose selection is stated."""

from __future__ import annotations

from collections.abc import Sequence

from topoflow.report.dataset.base import SWEPT
from topoflow.report.dataset.reading import Reader, Values
from topoflow.report.dataset.summary import MAX_JOBS, JobSummary, command_of, state, text
from topoflow.report.draw.style import KINDS, OTHER_KIND, fabric_looks, kind_colour
from topoflow.report.page.data import MEASURES, Plain, axes_of_numbers
from topoflow.report.page.elements import page

MAX_POINTS = 1500  # of the explorer; the page stays below 3 MB
MAX_CHOICES = 24  # of an axis with names; more would not be readable


def dataset_page(reader: Reader, parts: Sequence[JobSummary]) -> str:
    """Return the HTML page."""
    rows, rule = _sample(reader, parts)
    return page(
        "dataset.html",
        _data(reader, rows, {row["point"] for part in parts for row in part.front}),
        ("table", "report", "figure", "draw", "charts"),
        title="what a sweep found",
        name=reader.dataset.folder.name,
        state=state(reader),
        tables=[shown for part in parts for shown in part.tables],
        rule=rule,
        command=reader.dataset.command,
    )


def _sample(reader: Reader, parts: Sequence[JobSummary]) -> tuple[list[Values], str]:
    """Return the rows of the explorer, and a sentence about their selection."""
    worlds = sum(job["worlds"] for job in reader.jobs)
    front = [row["point"] for part in parts for row in part.front]
    front_rows = reader.rows(front[:MAX_POINTS])
    on_front = {row["point"] for row in front_rows}
    sample = [row for row in reader.sample(MAX_POINTS) if row["point"] not in on_front]
    drawn = sample[: MAX_POINTS - len(front_rows)]
    count = "all" if len(front_rows) == len(front) else f"{len(front_rows):,}"
    jobs = f" of the {MAX_JOBS} largest jobs" if len(reader.jobs) > MAX_JOBS else ""
    shown = len(front_rows) + len(drawn)
    rule = (
        f"The explorer shows {shown:,} of {worlds:,} worlds: {count} of the front{jobs}, and others "
        "drawn by the numbers of their points alone, each as likely as any other."
    )
    return sorted([*front_rows, *drawn], key=lambda row: float(row["iteration_time"])), rule


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
        "host": row.get("host_time"),
        "cost": row["cost_usd"],
        "on_front": row["point"] in front,
        "job": jobs.setdefault(repr([row[key] for key in reader.job]), len(jobs)),
        "values": {key: row[key] for key in MEASURES},
        "swept": swept,
        "own": {"command": command_of(reader, row)},
    }


def _factors(reader: Reader, rows: Sequence[Values]) -> list[Plain]:
    """Return the axes of the parallel coordinates: the keys that differ, then time and price."""
    axes: list[Plain] = []
    for key in reader.dataset.keys:
        values = sorted({row[f"{SWEPT}{key}"] for row in rows})
        if 1 < len(values) <= MAX_CHOICES:
            axes.append({"key": key, "label": key, "choices": list(map(text, values))})
    return axes + axes_of_numbers(rows)
