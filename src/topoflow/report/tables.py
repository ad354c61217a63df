"""``result.json``: what a program reads of a comparison, one row per world."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from topoflow import __version__
from topoflow.files import write_text
from topoflow.report.answer import fits, notes, recommended
from topoflow.report.base import Report

MOST_TEXTS = 4096  # kept, of 1 kB each
SCALAR = json.JSONEncoder(allow_nan=False)
ENDS: dict[type, str] = {dict: "{}", list: "[]", tuple: "[]"}
# How values of one word are written. The writer of the standard library is in C for text, and made anew for each other.
WORDS: dict[type, Callable[[Any], str]] = {
    str: SCALAR.encode,
    bool: lambda value: "true" if value else "false",
    int: int.__repr__,
    float: lambda value: repr(value) if math.isfinite(value) else SCALAR.encode(value),  # which refuses it
    type(None): lambda _: "null",
}


def result(report: Report) -> dict[str, object]:
    """The content of ``result.json``: SI units; what there is no value for is null."""
    rows = [
        {
            **vars(outcome.row),
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
        "recommended": [recommended(job)[0].row.world for job in report.jobs if fits(job)],
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


@lru_cache(MOST_TEXTS)
def _key(key: str) -> str:
    return SCALAR.encode(key)


@dataclass
class Texts:
    """Values as JSON. Configurations share most of their mappings, the same objects, which are made text once."""

    known: dict[tuple[int, int], tuple[object, str]] = field(default_factory=dict)  # with the objects, so that ids stay

    def of(self, value: object, depth: int) -> str:
        """A value as it is written that deep in a file."""
        kind = type(value)
        if kind in WORDS:
            return WORDS[kind](value)
        if kind in ENDS and not value:
            return ENDS[kind]
        if not isinstance(value, dict):
            return self._inner(value, depth)
        key = id(value), depth
        if key not in self.known:
            if len(self.known) >= MOST_TEXTS:
                self.known.clear()
            self.known[key] = value, self._inner(value, depth)
        return self.known[key][1]

    def _inner(self, value: Any, depth: int) -> str:
        """Of what is not empty: the standard library's writer of indented text is slow, and makes all of it anew."""
        indent = "  " * depth
        if isinstance(value, list | tuple):
            inner = f",\n{indent}  ".join([self.of(each, depth + 1) for each in value])
            return f"[\n{indent}  {inner}\n{indent}]"
        if isinstance(value, dict) and all(type(key) is str for key in value):
            return self.mapping({key: self.of(each, depth + 1) for key, each in value.items()}, depth)
        return json.dumps(value, indent=2, allow_nan=False).replace("\n", "\n" + indent)

    def mapping(self, parts: dict[str, str], depth: int) -> str:
        """A mapping of texts."""
        if not parts:
            return "{}"
        indent = "  " * (depth + 1)
        inner = ",\n".join([f"{indent}{_key(key)}: {text}" for key, text in parts.items()])
        return f"{{\n{inner}\n{'  ' * depth}}}"

    def row(self, row: dict[str, Any], depth: int) -> str:
        """A row of a result."""
        config = {key: self.of(value, depth + 2) for key, value in row["config"].items()}
        parts = {key: self.of(value, depth + 1) for key, value in row.items() if key not in ("overrides", "config")}
        given = {key: self.of(value, depth + 2) for key, value in row["overrides"].items()}
        parts |= {"overrides": self.mapping(given, depth + 1), "config": self.mapping(config, depth + 1)}
        return self.mapping(parts, depth)


def write_result(report: Report, path: Path, texts: Texts | None = None) -> None:
    """Write ``result.json``. With ``texts``, what several results have in common is made text once."""
    texts, found = texts or Texts(), result(report)
    rows: Any = found["rows"]
    parts = {key: "" if key == "rows" else texts.of(value, 1) for key, value in found.items()}
    parts["rows"] = "[\n" + ",\n".join(f"    {texts.row(row, 2)}" for row in rows) + "\n  ]"
    write_text(str(path), texts.mapping(parts, 0) + "\n")
