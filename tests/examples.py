"""How much of a law a run tries: ``TOPOFLOW_EXAMPLES`` times as much as a usual run; ten times as much every night."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from hypothesis import settings

Value = TypeVar("Value")
FACTOR = float(os.environ.get("TOPOFLOW_EXAMPLES", "1"))
USUAL = 1 / 3  # of the examples that a hypothesis test states
FEW = 8  # examples, which are not made fewer


def examples(count: int) -> int:
    """Return the number of examples where a usual run has ``count``."""
    return max(1, round(count * FACTOR))


def some(values: Iterable[Value], count: int) -> Sequence[Value]:
    """Return ``examples(count)`` of the values, spread evenly over them, the first with them."""
    values = list(values)
    wanted = min(examples(count), len(values))
    return [values[index * len(values) // wanted] for index in range(wanted)]


def draw_fewer(items: Iterable[Any]) -> None:
    """Let the hypothesis tests among the collected ``items`` draw a part of the examples that they state."""
    for test in {id(item.obj): item.obj for item in items if hasattr(item, "obj")}.values():
        stated = getattr(test, "_hypothesis_internal_use_settings", None)
        if stated is not None:
            count = max(min(stated.max_examples, FEW), round(stated.max_examples * FACTOR * USUAL))
            test._hypothesis_internal_use_settings = settings(stated, max_examples=count)
