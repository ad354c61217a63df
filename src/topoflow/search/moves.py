"""Moves: what chains propose, and how much likelier each is proposed than taken back.

    exchange a and b     layers of a set that chose a choose b now, and those that chose b choose a

The set is a run of consecutive layers: one half of the time, two a quarter, four an eighth, .., as a few layers that
follow each other are often faster together where none is by itself, since what they send each other stays on a server.
Now and then it is two layers anywhere, which trade places. One layer of the set is drawn evenly: a is its choice. b has
as many servers, or another degree, both equally likely where there is one; all other degrees are equally likely, and
all sets of a degree. Or b is the choice of another layer: of one that an end of the run reads or is read by, or of the
partner of a trade.

An exchange undoes itself, so the same set leads back, if with another probability of a and b. Metropolis acceptance
with the ratio of both as a factor keeps every state as likely as its energy says (Hastings, "Monte Carlo sampling
methods using Markov chains and their applications", Biometrika 57, 1970).

The kernel that proposes is ``csrc/screen/proposal.h``; ``tests/twins/tempering.py`` is the same in plain Python.

Shapes: Y layers, K choices, B degrees, M neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from topoflow.arrays import offsets
from topoflow.search.placements import Choices
from topoflow.workload.base import LayerGraph

Numbers = NDArray[np.int32]
Floats = NDArray[np.float64]

TRADES = 0.125  # share of proposals that are trades
STAYS = 0.5  # share of choices with as many servers
JOINS = 0.25  # share of other proposals that take the choice of a layer next to the run, where there is one


@dataclass(frozen=True)
class Moves:
    """What may be proposed for one job."""

    order: Numbers  # [K] the choices, by degree
    degree: Numbers  # [K] which of the degrees each has
    place: Numbers  # [K] where it is among those of the same
    first: Numbers  # [B] of each degree, where its choices begin in ``order`` ...
    count: Numbers  # [B] ... and how many there are
    likely: Floats  # [B, B] the probability of a choice of one degree where a has another, if none is joined
    near: tuple[Numbers, ...]  # of each of Y layers, those that it reads or is read by

    @property
    def layers(self) -> int:
        return len(self.near)

    def tables(self) -> dict[str, NDArray[np.generic]]:
        """The arrays of ``Moves`` in ``csrc/screen/walk.h``."""
        return {
            **{name: getattr(self, name) for name in ("order", "degree", "place", "first", "count")},
            "likely": self.likely.ravel(),
            "near_offsets": offsets(len(row) for row in self.near),
            "near": np.concatenate(self.near),
        }


def moves(workload: LayerGraph, choices: Choices) -> Moves:
    """Those of a job whose layers have at least two ``choices``."""
    degrees = np.array([len(holders) for holders in choices.holders])
    _, degree, count = np.unique(degrees, return_inverse=True, return_counts=True)
    order, first = np.argsort(degree, kind="stable"), np.cumsum(count) - count
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order)) - first[degree[order]]
    return Moves(
        order=order.astype(np.int32),
        degree=degree.astype(np.int32),
        place=place.astype(np.int32),
        first=first.astype(np.int32),
        count=count.astype(np.int32),
        likely=_likely(count),
        near=_neighbours(workload),
    )


def _likely(count: NDArray[np.int64]) -> Floats:
    """[B, B] see ``Moves``, for ``count`` [B] choices of every degree."""
    stays = np.where(count > 1, STAYS, 0.0)
    likely = np.outer((1 - stays) / max(len(count) - 1, 1), 1 / count)
    np.fill_diagonal(likely, stays / np.maximum(count - 1, 1))
    return likely


def _neighbours(workload: LayerGraph) -> tuple[Numbers, ...]:
    """The layers that each reads or is read by; itself where there is none."""
    number = {layer.name: index for index, layer in enumerate(workload.layers)}
    near: list[list[int]] = [[] for _ in number]
    for index, layer in enumerate(workload.layers):
        for earlier in layer.after:
            near[index].append(number[earlier])
            near[number[earlier]].append(index)
    return tuple(np.array(row or [index], np.int32) for index, row in enumerate(near))
