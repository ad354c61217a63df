"""What a walk from a file must be: an array of another shape or range would be read out of bounds by the kernels.

Shapes: C chains, Y layers, D states that are kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topoflow.fields import shorten
from topoflow.search.problem import Settings
from topoflow.search.tempering import Walk


def check_walk(walk: Walk, settings: Settings, layers: int, choices: int) -> None:
    """Raise ``ValueError`` with field, law and value unless ``walk`` is of a search with these ``settings`` over
    placements of ``layers`` on one of ``choices`` sets of servers."""
    chains, keep = settings.chains, settings.kept
    for field, highest in (("step", settings.steps), ("accepted", chains), ("stuck", settings.patience)):
        value = getattr(walk, field)
        if type(value) is not int or not 0 <= value <= highest:
            raise ValueError(f"walk.{field}: must be a whole number within 0..{highest}, got {shorten(value)}")
    states = (np.int32, (chains, layers)), (np.int32, (keep, layers))
    kinds = {"placement": states[0], "best_placement": states[1], "best": (np.float64, (keep,))}
    kinds |= dict.fromkeys(("energy", "temperature"), (np.float64, (chains,)))
    kinds |= dict.fromkeys(("rung", "slower"), (np.int32, (chains,)))
    for field, (kind, shape) in kinds.items():
        _check_kind(f"walk.{field}", getattr(walk, field), kind, shape)
    for field, law, holds in _laws(walk, chains, choices):
        if not holds:
            raise ValueError(f"walk.{field}: must be {law}, got {shorten(getattr(walk, field).ravel().tolist())}")


def _check_kind(where: str, array: NDArray[Any], kind: type, shape: tuple[int, ...]) -> None:
    if array.dtype != kind or array.shape != shape:
        law = f"must be {np.dtype(kind)} {list(shape)}"
        raise ValueError(f"{where}: {law}, got {array.dtype} {list(array.shape)}")


def _laws(walk: Walk, chains: int, choices: int) -> Iterator[tuple[str, str, bool]]:
    """Field, what it must be, and whether it is."""
    for field in ("placement", "best_placement"):
        state = getattr(walk, field)
        yield field, f"choices within 0..{choices - 1}", bool(((state >= 0) & (state < choices)).all())
    for field in ("energy", "temperature"):
        seconds = getattr(walk, field)
        yield field, "positive and finite", bool(((seconds > 0) & np.isfinite(seconds)).all())
    yield "temperature", "ascending", bool((np.diff(walk.temperature) >= 0).all())
    yield "best", "positive and ascending", bool((walk.best > 0).all() and (walk.best[1:] >= walk.best[:-1]).all())
    yield "rung", f"each of 0..{chains - 1} once", sorted(walk.rung.tolist()) == list(range(chains))
    yield "slower", "at least 0", bool((walk.slower >= 0).all())
