"""Parts of networks that follow a schedule which do not work: what settings name, and what is left without them.

Shapes: N nodes, W nodes that work, S servers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def numbers(field: str, value: object) -> tuple[int, ...]:
    """The whole numbers that ``field`` lists. Raises ``ValueError`` for anything else."""
    found = []
    for each in _items(field, value):
        if not isinstance(each, int) or isinstance(each, bool):
            raise ValueError(f"{field}: must have whole numbers, got {each!r}")
        found.append(each)
    return tuple(found)


def pairs(field: str, value: object) -> tuple[tuple[int, int], ...]:
    """The pairs of whole numbers that ``field`` lists. Raises ``ValueError`` for anything else."""
    found = []
    for each in _items(field, value):
        pair = numbers(field, each)
        if len(pair) != 2:
            raise ValueError(f"{field}: must have pairs of numbers, got {list(pair)}")
        found.append((pair[0], pair[1]))
    return tuple(found)


def check_parts(field: str, parts: Sequence[tuple[int, ...]], limits: tuple[int, ...]) -> None:
    """Raises ``ValueError`` for parts that there are not, and for those that are named twice."""
    for part in parts:
        for each, limit in zip(part, limits, strict=True):
            if not 0 <= each < limit:
                raise ValueError(f"{field}: must be within 0..{limit - 1}, got {each}")
    if len(set(parts)) < len(parts):
        raise ValueError(f"{field}: must differ, got {list(parts)}")


def check_reach(fabric: str, joined: NDArray[np.bool_], failed: Sequence[int]) -> None:
    """Every rack that works must reach every other, by one detour at most. ``joined``: [N, N], ``failed``: racks."""
    direct = joined.astype(np.float32)
    cut = (direct + direct @ direct == 0) & ~np.eye(len(joined), dtype=bool)
    nodes = list(failed)
    cut[nodes] = cut[:, nodes] = False
    if cut.any():
        source, target = np.argwhere(cut)[0]
        rule = "must leave every two racks a slot or a detour by one"
        raise ValueError(f"{fabric}.failed: {rule}, got none from rack {source} to rack {target}")


def nodes_of(servers: int, servers_per_node: int, nodes: int, failed: Sequence[int]) -> NDArray[np.int32]:
    """[S] the node of each server: those of a node follow those of the one before; a node that failed has none."""
    works = np.setdiff1d(np.arange(nodes), list(failed))
    found: NDArray[np.int32] = works[np.arange(servers) // servers_per_node].astype(np.int32)
    return found


def shares(joined: NDArray[np.bool_], failed: Sequence[int]) -> NDArray[np.float64]:
    """[W, 2] of the slots of each node that works, those in which it sends to another, and receives."""
    works = np.ones(len(joined), bool)
    works[list(failed)] = False
    counts = np.stack([joined.sum(axis=1), joined.sum(axis=0)], axis=1)[works]
    found: NDArray[np.float64] = counts / (len(joined) - 1)
    return found


def _items(field: str, value: object) -> Sequence[object]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise ValueError(f"{field}: must be a list, got {value!r}")
    return value
