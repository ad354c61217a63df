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

Random numbers are counted, not drawn in turn: Philox with the key (seed, round) at the counter (block of steps), so
that they depend neither on threads nor on where a search was stopped.

Shapes: B steps of a block, C chains, Y layers, K choices, G degrees.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from topoflow.search.placements import Choices
from topoflow.workload.base import LayerGraph

Numbers = NDArray[np.int32]
Index = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

BLOCK = 64  # steps whose numbers are drawn together
TRADES = 0.125  # share of proposals that are trades
STAYS = 0.5  # share of choices with as many servers
JOINS = 0.25  # share of other proposals that take the choice of a layer next to the run, where there is one


class Draws(NamedTuple):
    """What is drawn for B steps, whatever the states are."""

    layer: Index  # [B, C] whose choice is a
    members: Mask  # [B, C, Y] the set
    mate: Index  # [B, C] the other layer ...
    joins: Floats  # [B, C] ... the probability that b is its choice ...
    takes: Mask  # [B, C] ... and whether it is
    stays: Mask  # [B, C] whether b otherwise has as many servers as a, where there are others
    degree: Floats  # [B, C] in [0, 1), draws its degree
    place: Floats  # [B, C] in [0, 1), draws it among those of a degree
    accept: Floats  # [B, C] log of a number in (0, 1]
    swap: Floats  # [B, C] in [0, 1)

    def step(self, step: int) -> Draws:
        """[C] of one step, by its number in the round."""
        return Draws(*(drawn[step % BLOCK] for drawn in self))


class Proposal(NamedTuple):
    """Other placements of C chains."""

    one: Numbers  # [C] a
    other: Numbers  # [C] b
    moved: Index  # [C, Y] 1 where a layer goes from a to b, -1 where from b to a
    target: Numbers  # [C, Y] the placements
    ratio: Floats  # [C] log of how much likelier the way back is than the way there


@dataclass(frozen=True)
class Moves:
    """What may be proposed for one job."""

    order: Index  # [K] the choices, by degree
    degree: Index  # [K] which of the degrees each has
    place: Index  # [K] where it is among those of the same
    first: Index  # [G] of each degree, where its choices begin in ``order`` ...
    count: Index  # [G] ... and how many there are
    likely: Floats  # [G, G] the probability of a choice of one degree where a has another, if none is joined
    neighbours: tuple[Index, Index, Index]  # layers that each reads or is read by; [Y] the first of each; how many

    @property
    def layers(self) -> int:
        return len(self.neighbours[1])

    def draw(self, seed: int, round: int, step: int, chains: int) -> Draws:
        """The numbers of the block of steps that ``step`` is in, whatever was drawn before."""
        random = np.random.Generator(np.random.Philox(key=[seed, round], counter=[0, 0, step // BLOCK, 0]))
        where, length, offset, end, other, kind, takes, stays, degree, place, accept, swap = random.random(
            (12, BLOCK, chains)
        )
        layer = _whole(where, self.layers)
        first, last = self._run(layer, length, offset)
        near, begin, count = self.neighbours
        at = np.where(end < 0.5, first, last)
        mate = near[begin[at] + _whole(other, count[at])]
        joins = np.where((mate < first) | (mate > last), JOINS, 0.0)
        trades = kind < TRADES
        mate = np.where(trades, _whole(other, self.layers), mate)
        joins = np.where(trades, 1.0, joins)
        every = np.arange(self.layers)
        run = (every >= first[..., None]) & (every <= last[..., None])
        pair = (every == layer[..., None]) | (every == mate[..., None])
        members = np.where(trades[..., None], pair, run)
        accepts = np.log1p(-accept)
        return Draws(layer, members, mate, joins, takes < joins, stays < STAYS, degree, place, accepts, swap)

    def propose(self, placement: Numbers, drawn: Draws) -> Proposal:
        """Of the states ``placement`` [C, Y]; ``drawn`` is of one step."""
        every = np.arange(len(placement))
        a, mates = placement[every, drawn.layer], placement[every, drawn.mate]
        b = np.where(drawn.takes, mates, self._choice(a, drawn)).astype(np.int32)
        is_a = drawn.members & (placement == a[:, None])
        is_b = drawn.members & (placement == b[:, None])
        moved = is_a.astype(np.int64) - is_b
        target = np.where(is_a, b[:, None], np.where(is_b, a[:, None], placement))
        one, other, joins = self.degree[a], self.degree[b], drawn.joins
        there = (1 - joins) * self.likely[one, other] + joins * (mates == b)
        back = (1 - joins) * self.likely[other, one] + joins * (mates == a)
        of_a, of_b = is_a.sum(axis=1), is_b.sum(axis=1)
        return Proposal(a, b, moved, target, np.log((of_a * back + of_b * there) / (of_a * there + of_b * back)))

    def _run(self, layer: Index, length: Floats, offset: Floats) -> tuple[Index, Index]:
        """The first and the last layer of runs that have ``layer`` at any place, equally likely."""
        sizes = max(int(np.ceil(np.log2(self.layers))), 1)  # 2, 4, .., all layers
        size = 1 << np.minimum(np.floor(-np.log2(1 - length)).astype(np.int64), sizes)  # half of those that are left
        first = layer - _whole(offset, size)
        return np.maximum(first, 0), np.minimum(first + size, self.layers) - 1

    def _choice(self, a: Numbers, drawn: Draws) -> Index:
        """[C] choices other than ``a`` [C]."""
        own = self.degree[a]
        same = drawn.stays & (self.count[own] > 1)
        other = _whole(drawn.degree, len(self.count) - 1)
        degree = np.where(same, own, other + (other >= own))
        place = _whole(drawn.place, self.count[degree] - same)
        found: Index = self.order[self.first[degree] + place + (same & (place >= self.place[a]))]
        return found


def _whole(number: Floats, count: int | Index) -> Index:
    """0 .. ``count`` - 1 from a number in [0, 1)."""
    found: Index = np.floor(number * count).astype(np.int64)
    return found


def moves(workload: LayerGraph, choices: Choices) -> Moves:
    """Those of a job whose layers have at least two ``choices``."""
    degrees = np.array([len(holders) for holders in choices.holders])
    _, degree, count = np.unique(degrees, return_inverse=True, return_counts=True)
    order, first = np.argsort(degree, kind="stable"), np.cumsum(count) - count
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order)) - first[degree[order]]
    near = _neighbours(workload)
    counts = np.array([len(row) for row in near])
    links = (np.concatenate(near), np.cumsum(counts) - counts, counts)
    return Moves(order, degree, place, first, count, _likely(count), links)


def _likely(count: Index) -> Floats:
    """[G, G] see ``Moves``, for ``count`` [G] choices of every degree."""
    stays = np.where(count > 1, STAYS, 0.0)
    likely = np.outer((1 - stays) / max(len(count) - 1, 1), 1 / count)
    np.fill_diagonal(likely, stays / np.maximum(count - 1, 1))
    return likely


def _neighbours(workload: LayerGraph) -> list[Index]:
    """The layers that each reads or is read by; itself where there is none."""
    number = {layer.name: index for index, layer in enumerate(workload.layers)}
    near: list[list[int]] = [[] for _ in number]
    for index, layer in enumerate(workload.layers):
        for earlier in layer.after:
            near[index].append(number[earlier])
            near[number[earlier]].append(index)
    return [np.array(row or [index], np.int64) for index, row in enumerate(near)]
