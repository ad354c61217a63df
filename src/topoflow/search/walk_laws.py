"""Checks of a walk from a file, since kernels would read arrays of other shapes or ranges out of bounds.

Shapes: A ladders, C chains per ladder, Y layers, D stored states.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topoflow.fields import shorten
from topoflow.search.problem import SearchSettings
from topoflow.search.tempering import Walk


def check_walk(walk: Walk, settings: SearchSettings, layers: int, choices: int) -> None:
    """Raise ``ValueError`` with field, rule and value for a walk that does not match the search.

    The search has ``settings`` and places ``layers`` on one of ``choices`` sets of servers each.
    """
    chains, keep = settings.chains, settings.kept_states
    if type(walk.step) is not int or not 0 <= walk.step <= settings.stages[-1]:
        rule = f"must be a whole number within 0..{settings.stages[-1]}"
        raise ValueError(f"walk.step: {rule}, got {shorten(walk.step)}")
    kinds: dict[str, tuple[type, tuple[int, ...]]] = {
        "placement": (np.int32, (chains, layers)),
        "best_placement": (np.int32, (keep, layers)),
        "best": (np.float64, (keep,)),
        "stuck": (np.int32, ()),
    }
    kinds |= dict.fromkeys(("energy", "temperature"), (np.float64, (chains,)))
    kinds |= dict.fromkeys(("rung", "slower"), (np.int32, (chains,)))
    for field, (kind, shape) in kinds.items():
        _check_kind(f"walk.{field}", getattr(walk, field), kind, (settings.ladders, *shape))
    for field, rule, holds in _laws(walk, settings, choices):
        if not holds:
            raise ValueError(f"walk.{field}: must be {rule}, got {shorten(getattr(walk, field).ravel().tolist())}")


def _check_kind(where: str, array: NDArray[Any], kind: type, shape: tuple[int, ...]) -> None:
    if array.dtype != kind or array.shape != shape:
        rule = f"must be {np.dtype(kind)} {list(shape)}"
        raise ValueError(f"{where}: {rule}, got {array.dtype} {list(array.shape)}")


def _laws(walk: Walk, settings: SearchSettings, choices: int) -> Iterator[tuple[str, str, bool]]:
    """Yield (field, rule, whether the rule holds)."""
    chains = settings.chains
    for field in ("placement", "best_placement"):
        state = getattr(walk, field)
        yield field, f"choices within 0..{choices - 1}", bool(((state >= 0) & (state < choices)).all())
    for field in ("energy", "temperature"):
        seconds = getattr(walk, field)
        yield field, "positive and finite", bool(((seconds > 0) & np.isfinite(seconds)).all())
    yield "temperature", "ascending", bool((np.diff(walk.temperature) >= 0).all())
    best = walk.best
    yield "best", "positive and ascending", bool((best > 0).all() and (best[:, 1:] >= best[:, :-1]).all())
    yield "rung", f"each of 0..{chains - 1} once", bool((np.sort(walk.rung) == np.arange(chains)).all())
    yield "slower", "at least 0", bool((walk.slower >= 0).all())
    yield "stuck", f"within 0..{settings.patience}", bool(((walk.stuck >= 0) & (walk.stuck <= settings.patience)).all())
