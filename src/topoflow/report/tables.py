"""``result.json``: the results of a comparison for programs, one row per world."""

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

MAX_TEXTS = 4096  # cached texts, of 1 kB each
SCALAR = json.JSONEncoder(allow_nan=False)
ENDS: dict[type, str] = {dict: "{}", list: "[]", tuple: "[]"}
# Writers of scalar values. The standard library has one in C for text only, and builds the others for each call.
WORDS: dict[type, Callable[[Any], str]] = {
    str: SCALAR.encode,
    bool: lambda value: "true" if value else "false",
    int: int.__repr__,
    float: lambda value: repr(value) if math.isfinite(value) else SCALAR.encode(value),  # raises for infinity and NaN
    type(None): lambda _: "null",
}


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


@lru_cache(MAX_TEXTS)
def _key(key: str) -> str:
    return SCALAR.encode(key)


@dataclass
class Texts:
    """A JSON writer with a cache: configurations share most of their mappings as the same objects."""

    cache: dict[tuple[int, int], tuple[object, str]] = field(
        default_factory=dict
    )  # keeps the objects, so ids are valid

    def of(self, value: object, depth: int) -> str:
        """Return the JSON of a value at that depth of indentation."""
        kind = type(value)
        if kind in WORDS:
            return WORDS[kind](value)
        if kind in ENDS and not value:
            return ENDS[kind]
        if not isinstance(value, dict):
            return self._inner(value, depth)
        key = id(value), depth
        if key not in self.cache:
            if len(self.cache) >= MAX_TEXTS:
                self.cache.clear()
            self.cache[key] = value, self._inner(value, depth)
        return self.cache[key][1]

    def _inner(self, value: Any, depth: int) -> str:
        """Return the JSON of a container that is not empty; the standard library's indented writer is slow."""
        indent = "  " * depth
        if isinstance(value, list | tuple):
            inner = f",\n{indent}  ".join([self.of(item, depth + 1) for item in value])
            return f"[\n{indent}  {inner}\n{indent}]"
        if isinstance(value, dict) and all(type(key) is str for key in value):
            return self.mapping({key: self.of(item, depth + 1) for key, item in value.items()}, depth)
        return json.dumps(value, indent=2, allow_nan=False).replace("\n", "\n" + indent)

    def mapping(self, parts: dict[str, str], depth: int) -> str:
        """Return the JSON of a mapping whose values are JSON."""
        if not parts:
            return "{}"
        indent = "  " * (depth + 1)
        inner = ",\n".join([f"{indent}{_key(key)}: {text}" for key, text in parts.items()])
        return f"{{\n{inner}\n{'  ' * depth}}}"

    def row(self, row: dict[str, Any], depth: int) -> str:
        """Return the JSON of a row of a result."""
        config = {key: self.of(value, depth + 2) for key, value in row["config"].items()}
        parts = {key: self.of(value, depth + 1) for key, value in row.items() if key not in ("overrides", "config")}
        overrides = {key: self.of(value, depth + 2) for key, value in row["overrides"].items()}
        parts |= {"overrides": self.mapping(overrides, depth + 1), "config": self.mapping(config, depth + 1)}
        return self.mapping(parts, depth)


def write_result(report: Report, path: Path, texts: Texts | None = None) -> None:
    """Write ``result.json``; ``texts`` caches the parts that several results have in common."""
    texts, content = texts or Texts(), result(report)
    rows: Any = content["rows"]
    parts = {key: "" if key == "rows" else texts.of(value, 1) for key, value in content.items()}
    parts["rows"] = "[\n" + ",\n".join(f"    {texts.row(row, 2)}" for row in rows) + "\n  ]"
    write_text(str(path), texts.mapping(parts, 0) + "\n")
