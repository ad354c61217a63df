"""Check the sweeps that Hydra reads: values, or one range, choice or glob, with few enough points to list them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from hydra.core.override_parser.types import ChoiceSweep, Glob, IntervalSweep, Override, RangeSweep, Sweep

from topoflow.study.configure.sweeps import MOST_POINTS, check_total


def check_sweeps(overrides: Sequence[Override], most: int = MOST_POINTS) -> None:
    """Raise ``ValueError`` for a sweep within another, one of Hydra's optimizers, or more than ``most`` points."""
    for override in overrides:
        value = override.value()
        inner = value.list if isinstance(value, ChoiceSweep) else value if isinstance(value, list | dict) else None
        if has_sweep(inner) or isinstance(value, IntervalSweep):
            raise nested(override.key_or_group, (override.input_line or "").partition("=")[2])
    check_count(overrides, most)


def check_count(overrides: Sequence[Override], most: int = MOST_POINTS) -> None:
    """Raise ``ValueError`` for a sweep of more than ``most`` points. Its values are not listed for that."""
    count: dict[str, float] = {}  # of values, by key: the last override of a key is the one that counts
    for override in overrides:
        value, key = override.value(), override.get_key_element()
        count[key] = len(value.list) if isinstance(value, ChoiceSweep) else 1.0
        if isinstance(value, RangeSweep) and value.step:
            count[key] = max(1.0, (float(value.stop or 0) - float(value.start or 0)) / float(value.step))
    check_total(prod(count.values()), most)


def has_sweep(value: Any) -> bool:
    """Return whether a value is a sweep, or a list or a mapping that holds one."""
    if isinstance(value, list | dict):
        return any(map(has_sweep, value.values() if isinstance(value, dict) else value))
    return isinstance(value, Sweep | Glob)


def nested(key: str, value: str) -> ValueError:
    """The error of a value that is no sweep of this kind."""
    return ValueError(f"{key}: must be values, or one choice, range or glob that is in no other, got {value!r}")
