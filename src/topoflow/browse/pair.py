"""Two runs next to each other: iteration times by fabric, and what differs between their configurations."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from topoflow.browse.run import Record, RunFolder
from topoflow.study.tracked import merged

NAMES = ("fabric", "series", "cluster")  # keys that say what a row is of, the first that it has
IGNORED_KEYS = ("out", "resume")  # differ between any two runs, and change no result


@dataclass(frozen=True)
class Compared:
    """The fastest row of a fabric, or of a series of a figure, in each of two runs; None where one has none."""

    fabric: str
    first: Record | None
    second: Record | None

    @property
    def times(self) -> tuple[float | None, float | None]:
        """Iteration times, s."""
        return _time(self.first), _time(self.second)

    @property
    def ratio(self) -> float | None:
        """The time of the second run over that of the first."""
        first, second = self.times
        return None if not first or second is None else second / first


def compared(first: RunFolder, second: RunFolder) -> list[Compared]:
    """A pair for every fabric of either run, in the order of the first."""
    sides = _fastest(first), _fastest(second)
    return [Compared(name, *(side.get(name) for side in sides)) for name in dict.fromkeys([*sides[0], *sides[1]])]


def differences(first: RunFolder, second: RunFolder) -> list[tuple[str, str, str]]:
    """Return (key, first value, second value) of every key that differs; several values of a run are a list."""
    sides = [dict(_flat(merged(run.configs))) for run in (first, second)]
    rows = []
    for key in sorted(sides[0].keys() | sides[1].keys()):
        values = [json.dumps(side[key], default=str) if key in side else "-" for side in sides]
        if values[0] != values[1] and key not in IGNORED_KEYS:
            rows.append((key, *values))
    return [(key, left, right) for key, left, right in rows]


def _fastest(run: RunFolder) -> dict[str, Record]:
    fastest: dict[str, Record] = {}
    for row in run.rows:
        name = next((str(row[key]) for key in NAMES if key in row), None)
        time = _time(row)
        if name is not None and time is not None:
            before = _time(fastest.get(name))
            if before is None or time < before:
                fastest[name] = row
    return fastest


def _time(row: Record | None) -> float | None:
    value = None if row is None else row.get("iteration_time")
    return float(value) if isinstance(value, int | float) else None


def _flat(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The values of nested mappings, by their keys with dots."""
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
