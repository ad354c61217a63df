"""``result.json``: the results of a comparison for programs, one row per world."""

from __future__ import annotations

from pathlib import Path

from topoflow import __version__
from topoflow.files import write_bytes
from topoflow.json_lines import json_text
from topoflow.report.answer import fits, notes, recommended
from topoflow.report.base import Report


def result(report: Report) -> dict[str, object]:
    """Return the content of ``result.json`` in SI units; missing values are null."""
    rows = [
        {
            **vars(outcome.row),
            "overrides": dict(outcome.settings.swept),
            "config": dict(outcome.settings.config),
        }
        for outcome in report.outcomes
    ]
    content: dict[str, object] = {
        "version": __version__,
        "command": report.command,
        "left_out": list(report.left_out),
        "notes": notes(report),
        "recommended": [recommended(job)[0].row.world for job in report.jobs if fits(job)],
        "rows": rows,
    }
    return {**content, "failures": failures(report)} if report.failures else {**content}


def failures(report: Report) -> list[dict[str, object]]:
    """Return a record per world and distinct failure."""
    return [
        {"world": outcome.settings.world, **record}
        for outcome in report.outcomes
        for failures in outcome.failures
        for record in failures.records()
    ]


def write_result(report: Report, path: Path) -> None:
    """Write ``result.json``. Raise ``ValueError`` for a number that JSON does not have."""
    write_bytes(str(path), json_text(result(report)))
