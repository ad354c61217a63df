"""Failed parts of networks that follow a schedule: their settings, and checks of the remaining network.

Shapes: N nodes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def numbers(field: str, value: object) -> tuple[int, ...]:
    """Return the whole numbers that ``field`` lists. Raises ``ValueError`` for anything else."""
    checked = []
    for item in _items(field, value):
        if not isinstance(item, int) or isinstance(item, bool):
            raise ValueError(f"{field}: must have whole numbers, got {item!r}")
        checked.append(item)
    return tuple(checked)


def pairs(field: str, value: object) -> tuple[tuple[int, int], ...]:
    """Return the pairs of whole numbers that ``field`` lists. Raises ``ValueError`` for anything else."""
    checked = []
    for item in _items(field, value):
        pair = numbers(field, item)
        if len(pair) != 2:
            raise ValueError(f"{field}: must have pairs of numbers, got {list(pair)}")
        checked.append((pair[0], pair[1]))
    return tuple(checked)


def check_parts(field: str, parts: Sequence[tuple[int, ...]], limits: tuple[int, ...]) -> None:
    """Raise ``ValueError`` for parts that do not exist or are named twice."""
    for part in parts:
        for number, limit in zip(part, limits, strict=True):
            if not 0 <= number < limit:
                raise ValueError(f"{field}: must be within 0..{limit - 1}, got {number}")
    if len(set(parts)) < len(parts):
        raise ValueError(f"{field}: must differ, got {list(parts)}")


def check_reach(fabric: str, joined: NDArray[np.bool_], failed: Sequence[int]) -> None:
    """Raise ``ValueError`` unless every working rack reaches every other with at most one detour.

    ``joined`` is [N, N], ``failed`` are racks.
    """
    direct = joined.astype(np.float32)
    cut = (direct + direct @ direct == 0) & ~np.eye(len(joined), dtype=bool)
    nodes = list(failed)
    cut[nodes] = cut[:, nodes] = False
    if cut.any():
        source, target = np.argwhere(cut)[0]
        rule = "must leave every two racks a slot or a detour by one"
        raise ValueError(f"{fabric}.failed: {rule}, got none from rack {source} to rack {target}")


def _items(field: str, value: object) -> Sequence[object]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise ValueError(f"{field}: must be a list, got {value!r}")
    return value
