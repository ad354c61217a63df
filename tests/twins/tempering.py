"""The walk of one ladder in plain Python: the oracle of the tests, written for the reader. ``tempering`` states it.

Shapes: C chains, Y layers, D states that are kept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from topoflow.engine.base import Floats
from topoflow.search.moves import JOINS, STAYS, TRADES, Moves
from topoflow.search.tempering import SAME, Numbers, Tempering

BLOCK = 64  # steps whose numbers are drawn together
SAMPLED = 4  # proposals of each chain from which the first temperatures are computed
NEVER = 2**40  # a step that no walk reaches, from which they are drawn
DECAY = 0.6  # of corrections
COLDEST = 1e-12  # relative to the energy: no temperature is lower


class Drawn(NamedTuple):
    """The random numbers of a chain in a step, each in [0, 1)."""

    where: float  # the layer whose choice is a
    length: float  # of the run
    offset: float  # of the layer in it
    end: float  # of the run at which the mate is looked for
    other: float  # the mate
    kind: float  # a trade, or a run
    takes: float  # whether b is the choice of the mate
    stays: float  # whether b otherwise has as many servers as a
    degree: float  # of b, if not
    place: float  # of b among those of its degree
    accept: float
    swap: float


def draw(seed: int, round: int, ladder: int, step: int, chains: int) -> list[Drawn]:
    """Draw the numbers of each chain."""
    random = np.random.Generator(np.random.Philox(key=[seed, round], counter=[0, 0, step // BLOCK, ladder]))
    numbers = random.random((len(Drawn._fields), BLOCK, chains))[:, step % BLOCK]
    return [Drawn(*column) for column in numbers.T.tolist()]


class Chosen(NamedTuple):
    """The choices that do not depend on the state."""

    layer: int  # whose choice is a
    members: range | tuple[int, ...]  # layers of the run, or of the trade
    mate: int  # the other layer ...
    joins: float  # ... and the probability that b is its choice


def choose(moves: Moves, numbers: Drawn) -> Chosen:
    """The layers that may move."""
    layer = math.floor(numbers.where * moves.layers)
    if numbers.kind < TRADES:
        mate = math.floor(numbers.other * moves.layers)
        return Chosen(layer, tuple({layer, mate}), mate, 1.0)
    longest = 2 ** max(math.ceil(math.log2(moves.layers)), 1)
    size = min(2 ** math.floor(-math.log2(1 - numbers.length)), longest)  # 1 for a half, 2 for a quarter, ..
    begin = layer - math.floor(numbers.offset * size)
    run = range(max(begin, 0), min(begin + size, moves.layers))
    near = moves.near[run[0] if numbers.end < 0.5 else run[-1]]
    mate = int(near[math.floor(numbers.other * len(near))])
    return Chosen(layer, run, mate, 0.0 if mate in run else JOINS)


class Proposal(NamedTuple):
    """Another placement."""

    one: int  # a
    other: int  # b
    target: Numbers  # [Y]
    ratio: float  # log of the probability of the reverse proposal over that of this one


def propose(moves: Moves, placement: Numbers, numbers: Drawn) -> Proposal:
    """Return the proposal of a chain at ``placement`` [Y]."""
    chosen = choose(moves, numbers)
    a, mates = int(placement[chosen.layer]), int(placement[chosen.mate])
    b = mates if numbers.takes < chosen.joins else other_choice(moves, a, numbers)
    target = placement.copy()
    for layer in chosen.members:
        target[layer] = {a: b, b: a}.get(int(placement[layer]), placement[layer])
    return Proposal(a, b, target, 0.0 if a == b else ratio(moves, placement, chosen, a, b))


def other_choice(moves: Moves, a: int, numbers: Drawn) -> int:
    """A choice other than ``a``."""
    current_degree = int(moves.degree[a])
    keeps_degree = numbers.stays < STAYS and moves.count[current_degree] > 1
    degree = math.floor(numbers.degree * (len(moves.count) - 1))
    degree = current_degree if keeps_degree else degree + (degree >= current_degree)
    place = math.floor(numbers.place * (moves.count[degree] - keeps_degree))
    return int(moves.order[moves.first[degree] + place + (keeps_degree and place >= moves.place[a])])


def ratio(moves: Moves, placement: Numbers, chosen: Chosen, a: int, b: int) -> float:
    """The log of how much likelier the exchange of ``a`` and ``b`` is to be taken back than made."""

    def likely(one: int, other: int) -> float:
        joined = chosen.joins * (placement[chosen.mate] == other)
        return float((1 - chosen.joins) * moves.likely[moves.degree[one], moves.degree[other]] + joined)

    of_a, of_b = (sum(int(placement[layer] == choice) for layer in chosen.members) for choice in (a, b))
    there, back = likely(a, b), likely(b, a)  # a mate outside of the set keeps its choice; in it, joins is 0 or 1
    return math.log((of_a * back + of_b * there) / (of_a * there + of_b * back))


@dataclass
class Reference:
    """One ladder of a walk, from ``placement`` [C, Y] on; ``keep`` is D. Fields are as in ``Walk``."""

    walk: Tempering
    ladder: int
    placement: Numbers
    keep: int

    def __post_init__(self) -> None:
        self.energy = self.walk.model.makespans(self.placement)
        self.chains, self.step = len(self.placement), 0
        self.best: list[tuple[float, list[int]]] = []
        for energy, state in zip(self.energy.tolist(), self.placement, strict=True):
            self._keep(energy, state)
        if self.walk.patience:
            self._gather(self.placement[self.energy.argmin()], float(self.energy.min()))
        self.stuck = 0
        self.rung = np.argsort(np.argsort(self.energy, kind="stable"))
        self.slower = np.zeros(self.chains, np.int64)
        self.temperature = self._first_temperatures()

    def advance(self) -> int:
        """Take a step. Returns how many proposals were accepted."""
        accepted = self._descend() if self.stuck < self.walk.patience else self._temper()
        self.step += 1
        return accepted

    def _propose(self, step: int) -> tuple[list[Drawn], list[Proposal], Floats]:
        """Return the draws and proposals of a step, and energies [C]; inf: it does not fit, or is no other state."""
        walk = self.walk
        random_numbers = draw(walk.seed, walk.round, self.ladder, step, self.chains)
        proposals = [propose(walk.moves, *pair) for pair in zip(self.placement, random_numbers, strict=True)]
        targets = np.array([proposal.target for proposal in proposals])
        moves = walk.budget.fits(walk.budget.used(targets)) & [proposal.one != proposal.other for proposal in proposals]
        return random_numbers, proposals, np.where(moves, walk.model.makespans(targets), np.inf)

    def _descend(self) -> int:
        _, proposals, energies = self._propose(self.step)
        if energies.min() < self.energy[0]:
            for energy, proposal in zip(energies.tolist(), proposals, strict=True):
                if energy < self.energy[0]:
                    self._keep(energy, proposal.target)
            self._gather(proposals[energies.argmin()].target, float(energies.min()))
            self.stuck = 0
            return 1
        self.stuck += 1
        if self.stuck == self.walk.patience:
            self.temperature = self._first_temperatures()
        return 0

    def _temper(self) -> int:
        random_numbers, proposals, energies = self._propose(self.step)
        temperature, before = self.temperature.copy(), self.energy.copy()
        accepted = np.zeros(self.chains, np.bool_)
        for chain, (numbers, proposal) in enumerate(zip(random_numbers, proposals, strict=True)):
            above = self.temperature[self.rung[chain]] * (proposal.ratio - math.log1p(-numbers.accept))
            accepted[chain] = energies[chain] <= before[chain] + above
            if accepted[chain]:
                self.placement[chain], self.energy[chain] = proposal.target, energies[chain]
                self._keep(float(energies[chain]), proposal.target)
        for chain in np.flatnonzero(np.isfinite(energies) & (energies > before)).tolist():
            rung = self.rung[chain]
            weight = (1.0 + self.slower[rung]) ** -DECAY
            self.temperature[rung] *= math.exp(weight * (self.walk.share[rung] - accepted[chain]))
            self.slower[rung] += accepted[chain]
        self.temperature = np.maximum.accumulate(self.temperature)
        self._swap(temperature, [numbers.swap for numbers in random_numbers])
        return int(accepted.sum())

    def _swap(self, temperature: Floats, chance: list[float]) -> None:
        """Neighbours swap, even pairs after even steps and odd after odd."""
        at = np.argsort(self.rung)  # the chain on every rung
        for low in range(self.step % 2, self.chains - 1, 2):
            cold, hot = at[low], at[low + 1]
            colder = 1 / temperature[low] - 1 / temperature[low + 1]
            if chance[low] < math.exp(min(colder * (self.energy[cold] - self.energy[hot]), 0.0)):
                self.rung[cold], self.rung[hot] = low + 1, low

    def _first_temperatures(self) -> Floats:
        """[C] temperatures at which each rung would accept its share of what chains first propose that is slower."""
        slower = [self._propose(NEVER + step)[2] - self.energy for step in range(SAMPLED)]
        steps = np.concatenate(slower)
        return first_temperatures(steps[np.isfinite(steps) & (steps > 0)], self.walk.share, float(self.energy.min()))

    def _gather(self, placement: Numbers, energy: float) -> None:
        self.placement, self.energy = np.tile(placement, (self.chains, 1)), np.full(self.chains, energy)

    def _keep(self, energy: float, state: Numbers) -> None:
        self.best = keep_best(self.best, energy, state, self.keep)


def first_temperatures(steps: Floats, share: Floats, energy: float) -> Floats:
    """[C] temperatures T (s) at which the mean of exp(-step / T) is each ``share`` [C], ascending as they are.

    ``steps`` (s) are positive; without any, temperatures are ``COLDEST`` of ``energy`` (s).
    """
    low, high = np.full(len(share), np.log(COLDEST * energy)), np.full(len(share), np.log(energy / COLDEST))
    for _ in range(64 if len(steps) else 0):  # halves the interval: to the last bit
        middle = (low + high) / 2
        accepts = np.exp(-steps[:, None] / np.exp(middle)).mean(axis=0)
        low, high = np.where(accepts < share, middle, low), np.where(accepts < share, high, middle)
    temperatures: Floats = np.maximum.accumulate(np.exp(low))
    return temperatures


BestStates = list[tuple[float, list[int]]]  # energies, ascending, and their states


def keep_best(best: BestStates, energy: float, state: Numbers, count: int) -> BestStates:
    """Return the fastest ``count`` of the best states and another one; of equal ones the first."""
    below = [entry for entry in best if entry[0] <= energy]
    above = best[len(below) :]
    if below and energy <= below[-1][0] * (1 + SAME):
        return best
    if above and above[0][0] <= energy * (1 + SAME):
        above = above[1:]
    return [*below, (energy, state.tolist()), *above][:count]
