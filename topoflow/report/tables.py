"""``result.json``: what a program reads of a comparison, one row per world."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from topoflow import __version__
from topoflow.report.answer import notes, recommended
from topoflow.report.base import Report


def result(report: Report) -> dict[str, object]:
    """The content of ``result.json``: SI units; what there is no value for is null."""
    rows = [
        {
            **asdict(outcome.row),
            "overrides": dict(outcome.settings.swept),
            "config": dict(outcome.settings.config),
        }
        for outcome in report.outcomes
    ]
    found: dict[str, object] = {
        "version": __version__,
        "command": report.command,
        "left_out": list(report.left_out),
        "notes": notes(report),
        "recommended": [recommended(job)[0].row.world for job in report.jobs],
        "rows": rows,
    }
    return {**found, "failures": failures(report)} if report.failures else {**found}


def failures(report: Report) -> list[dict[str, object]]:
    """A record per world and failure that differs."""
    return [
        {"world": outcome.settings.world, **record}
        for outcome in report.outcomes
        for failures in outcome.failures
        for record in failures.records()
    ]


def write_result(report: Report, path: Path) -> None:
    """Write ``result.json``."""
    path.write_text(json.dumps(result(report), indent=2, allow_nan=False) + "\n", encoding="utf-8")
