"""A point of a sweep: its values, and how it is named in tables and errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from topoflow.track import trackers

FIDELITY = "fidelity"  # the key and the config group
EXECUTOR = "executor"
OPTIONAL_GROUPS = (*trackers(), "study", EXECUTOR)  # no result depends on them


@dataclass(frozen=True)
class Point:
    """One point of a grid: its values as plain Python, and the names chosen in each config group."""

    swept: Mapping[str, str]  # what differs between the points: key -> value as typed
    choices: Mapping[str, str]  # "fabric" -> "fat_tree"
    config: Mapping[str, Any]
    by_default: frozenset[str] = frozenset()  # keys that the configuration sweeps, not the arguments
    objects: Mapping[str, Any] = field(default_factory=dict)  # made in Python, by group
    alike: Any = field(default=None, compare=False, repr=False)  # the same for points that differ in speeds alone


def distinct(points: Iterable[Point]) -> list[Point]:
    """Return one of the points of each that differ in speeds alone."""
    return [*{id(point if point.alike is None else point.alike): point for point in points}.values()]


@contextmanager
def at_point(point: Point) -> Iterator[None]:
    """Add to a ``ValueError`` which of several points it is about, by the values that the arguments sweep."""
    try:
        yield
    except ValueError as error:
        swept = ",".join(f"{key}={value}" for key, value in point.swept.items() if key not in point.by_default)
        if not swept or str(error).startswith(f"{swept}: "):
            raise
        raise ValueError(f"{error} (at {swept})") from error


def unique_names(points: Sequence[Point]) -> list[str]:
    """Return a name for every point, its swept values: ``fabric=fat_tree,bandwidth_gbps=25``; numbered if repeated."""
    names = [
        ",".join(f"{key}={value}" for key, value in point.swept.items()) or point.choices["fabric"] for point in points
    ]
    return numbered(names)


def numbered(names: Sequence[str]) -> list[str]:
    """Return ``names``, with a number where one repeats: ``a``, ``a (2)``."""
    if len({*names}) == len(names):
        return [*names]
    seen: Counter[str] = Counter()
    unique = []
    for name in names:
        seen[name] += 1
        unique.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return unique
