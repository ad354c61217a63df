"""Joining: pairs of servers between parts of a network that no ring joins."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from topoflow.fabric.topoopt.matching import Matcher
from topoflow.fabric.topoopt.port_shares import take
from topoflow.fabric.wiring import Cable


def join(spare: list[int], part: NDArray[np.int64], matcher: Matcher) -> list[Cable]:
    """Return pairs of servers with ``spare`` ports, each between the two parts with the most bytes per pair.

    Parts that are not connected yet come first. In both parts, the servers with the most remaining demand are taken.
    The search ends when parts with demand between them have no free ports.
    """
    pairs: list[Cable] = []
    inside = np.equal.outer(part, np.arange(len(part))).astype(np.float64)  # [servers, parts]
    between = inside.T @ matcher.demand @ inside  # [parts, parts] bytes, both directions
    joins = np.zeros_like(between)
    joined = part.copy()
    while (pair := _neediest(between / (1 + joins), part, joined, matcher, np.array(spare) > 0)) is not None:
        pairs.append(pair)
        take(spare, pair)
        matcher.have([pair])
        first, second = part[list(pair)]
        joins[[first, second], [second, first]] += 1
        joined[joined == joined[pair[0]]] = joined[pair[1]]
    return pairs


def _neediest(
    per_pair: NDArray[np.float64],
    part: NDArray[np.int64],
    joined: NDArray[np.int64],
    matcher: Matcher,
    able: NDArray[np.bool_],
) -> Cable | None:
    need = np.where(np.outer(able, able) & np.not_equal.outer(part, part), per_pair[np.ix_(part, part)], 0.0)
    unconnected = np.where(np.not_equal.outer(joined, joined), need, 0.0)
    need = unconnected if unconnected.any() else need
    if not need.any():
        return None
    best = np.where(need == need.max(), matcher.demand, -1.0)
    i, j = np.unravel_index(np.argmax(best), best.shape)
    return min(int(i), int(j)), max(int(i), int(j))
