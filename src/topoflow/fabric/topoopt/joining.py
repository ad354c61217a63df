"""Joining: pairs between parts of a network that no ring joins."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from topoflow.fabric.topoopt.matching import Matcher
from topoflow.fabric.topoopt.port_shares import take
from topoflow.fabric.wiring import Cable


def join(spare: list[int], part: NDArray[np.int64], matcher: Matcher) -> list[Cable]:
    """Pairs of servers with ``spare`` ports in two parts, each for the parts with most bytes per pair between them.

    Parts that no pair joins yet, not even by way of others, come first. Of two parts' servers, those with the most
    demand left are taken. Ends when parts with demand between them have no ports left.
    """
    pairs: list[Cable] = []
    inside = np.equal.outer(part, np.arange(len(part))).astype(np.float64)  # [servers, parts]
    between = inside.T @ matcher.demand @ inside  # [parts, parts] bytes, both directions
    laid = np.zeros_like(between)
    joined = part.copy()
    while (pair := _neediest(between / (1 + laid), part, joined, matcher, np.array(spare) > 0)) is not None:
        pairs.append(pair)
        take(spare, pair)
        matcher.have([pair])
        one, other = part[list(pair)]
        laid[[one, other], [other, one]] += 1
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
    apart = np.where(np.not_equal.outer(joined, joined), need, 0.0)
    need = apart if apart.any() else need
    if not need.any():
        return None
    best = np.where(need == need.max(), matcher.demand, -1.0)
    i, j = np.unravel_index(np.argmax(best), best.shape)
    return min(int(i), int(j)), max(int(i), int(j))
