"""Moves: the proposals of chains, and the probability of each relative to that of its reverse.

    exchange a and b     layers of a set with the choice a get b, and those with b get a

The set is a run of consecutive layers: one layer with probability 1/2, two with 1/4, four with 1/8, and so on. Moving a
few consecutive layers together is often faster where moving one is not, since traffic between them stays on a server.
Sometimes the set is two arbitrary layers, which trade places. One layer of the set is drawn uniformly; a is its choice.
b has the same number of servers, or another degree, with equal probability if both exist; all other degrees, and all
sets of a degree, are equally likely. Or b is the choice of another layer: of one that an end of the run reads or is
read by, or of the partner of a trade.

An exchange is its own inverse, so the same set leads back, though with another probability of a and b. Metropolis
acceptance with the ratio of both as a factor gives every state the probability of its energy (Hastings, "Monte Carlo
sampling methods using Markov chains and their applications", Biometrika 57, 1970).

The kernel is ``csrc/screen/proposal.h``; ``tests/twins/tempering.py`` is the same in plain Python.

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
STAYS = 0.5  # share of proposals that keep the number of servers
JOINS = 0.25  # share of proposals other than trades that take the choice of a layer next to the run, if there is one


@dataclass(frozen=True)
class Moves:
    """The possible proposals for one job."""

    order: Numbers  # [K] the choices, by degree
    degree: Numbers  # [K] index of the choice's degree
    place: Numbers  # [K] position among the choices of this degree
    first: Numbers  # [B] start of each degree's choices in ``order``
    count: Numbers  # [B] number of each degree's choices
    likely: Floats  # [B, B] probability of each choice of degree b if a has degree a, without a join
    near: tuple[Numbers, ...]  # [Y] the layers that each layer reads or is read by

    @property
    def layers(self) -> int:
        return len(self.near)

    def tables(self) -> dict[str, NDArray[np.generic]]:
        """Return the arrays of ``Moves`` in ``csrc/screen/walk.h``."""
        return {
            **{name: getattr(self, name) for name in ("order", "degree", "place", "first", "count")},
            "likely": self.likely.ravel(),
            "near_offsets": offsets(len(row) for row in self.near),
            "near": np.concatenate(self.near),
        }


def moves(workload: LayerGraph, choices: Choices) -> Moves:
    """Return the moves of a job whose layers have at least two ``choices``."""
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
    """Return ``Moves.likely`` [B, B] for ``count`` [B] choices of every degree."""
    stays = np.where(count > 1, STAYS, 0.0)
    likely = np.outer((1 - stays) / max(len(count) - 1, 1), 1 / count)
    np.fill_diagonal(likely, stays / np.maximum(count - 1, 1))
    return likely


def _neighbours(workload: LayerGraph) -> tuple[Numbers, ...]:
    """Return the layers that each layer reads or is read by; the layer itself if there is none."""
    number = {layer.name: index for index, layer in enumerate(workload.layers)}
    near: list[list[int]] = [[] for _ in number]
    for index, layer in enumerate(workload.layers):
        for earlier in layer.after:
            near[index].append(number[earlier])
            near[number[earlier]].append(index)
    return tuple(np.array(row or [index], np.int32) for index, row in enumerate(near))
