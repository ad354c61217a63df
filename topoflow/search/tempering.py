"""Metropolis chains over placements, side by side, at a ladder of temperatures: parallel tempering.

Every step proposes, for every chain, another choice for one layer, all of both equally likely. Of energy E, the time of
an iteration as far as screening knows it, a proposal E' that fits in memory is accepted with probability

    min(1, exp((E - E') / T))

so that a chain visits a state with probability ~ exp(-E / T). Then neighbours on the ladder swap their temperatures,
even pairs after even steps and odd after odd, with probability

    min(1, exp((1/T - 1/T') (E - E')))

which keeps the joint distribution and lets a state found by a hot chain cool down.

Source: FlexFlow's search (Jia, Zaharia and Aiken, MLSys 2019, section 6), which TopoOpt 4.1 uses; Earl and Deem,
"Parallel tempering: theory, applications, and new perspectives", Phys. Chem. Chem. Phys. 7, 2005.

Random numbers are counted, not drawn in turn: Philox with the key (seed, round) at the counter (step), so that they
depend neither on threads nor on where a search was stopped. Shapes: C chains, Y layers, K choices, n servers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from topoflow.search.memory import Budget
from topoflow.search.screen import Chains, Screen

Numbers = NDArray[np.int32]
Seconds = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Walk:
    """All chains between two steps of a round: what a search must know to continue."""

    step: int  # steps done
    placement: Numbers  # [C, Y]
    energy: Seconds  # [C] s
    rung: Numbers  # [C] on the ladder, 0 is the coldest
    best_placement: Numbers  # [C, Y] the fastest state that each chain has seen in this round
    best: Seconds  # [C] its energy
    accepted: int = 0  # proposals in the last step

    @property
    def coldest(self) -> float:
        """s, of the chain at the lowest temperature."""
        return float(self.energy[self.rung.argmin()])


Tell = Callable[[Walk], None]


@dataclass(frozen=True)
class Draw:
    """The random numbers of one step."""

    layer: Numbers  # [C]
    choice: Numbers  # [C] 0 .. K-2, of those that are not the present one
    accept: Seconds  # [C] in [0, 1)
    swap: Seconds  # [C] in [0, 1)


def draw(seed: int, round: int, step: int, *, chains: int, layers: int, choices: int) -> Draw:
    """The numbers of one ``step``, whatever was drawn before."""
    random = np.random.Generator(np.random.Philox(key=[seed, round], counter=[0, 0, step, 0]))
    return Draw(
        layer=random.integers(layers, size=chains, dtype=np.int32),
        choice=random.integers(choices - 1, size=chains, dtype=np.int32),
        accept=random.random(chains),
        swap=random.random(chains),
    )


def ladder(coldest: float, hottest: float, chains: int) -> Seconds:
    """[C] temperatures, a geometric sequence; a single chain is the coldest."""
    return cast("Seconds", np.geomspace(coldest, hottest, chains) if chains > 1 else np.array([coldest]))


def begin(screen: Screen, placement: Numbers, chains: int) -> Walk:
    """All chains at one ``placement`` [Y]."""
    everywhere = np.tile(placement, (chains, 1)).astype(np.int32)
    energy = np.repeat(screen.chains(everywhere[:1]).energy, chains)
    return Walk(0, everywhere, energy, np.arange(chains, dtype=np.int32), everywhere, energy)


@dataclass(frozen=True)
class Tempering:
    """The walk of one round."""

    screen: Screen
    budget: Budget
    temperature: Seconds  # [C] of every rung, ascending, s
    seed: int
    round: int

    def walk(self, start: Walk, steps: int) -> Iterator[Walk]:
        """The chains after every step, until ``steps`` are done; a walk resumed from any of them is the same."""
        chains, used = self.screen.chains(start.placement), self.budget.used(start.placement)
        layers, choices = self.budget.need.shape
        walk = replace(start, energy=chains.energy)
        for step in range(start.step, steps):
            numbers = draw(self.seed, self.round, step, chains=len(walk.rung), layers=layers, choices=choices)
            accepted, used = self._metropolis(chains, used, walk, numbers)
            walk = self._arrive(chains, walk, accepted, numbers)
            yield walk

    def _metropolis(
        self, chains: Chains, used: NDArray[np.int64], walk: Walk, draw: Draw
    ) -> tuple[Mask, NDArray[np.int64]]:
        """Propose and accept: which chains [C] moved, and the memory in use [C, n] then."""
        present = walk.placement[np.arange(len(walk.rung)), draw.layer]
        choice = draw.choice + (draw.choice >= present)
        filled = self.budget.moved(used, draw.layer, present, choice)
        fits = self.budget.fits(filled)
        with np.errstate(divide="ignore"):
            limit = walk.energy - self.temperature[walk.rung] * np.log(draw.accept)  # the highest that is accepted
        proposed = chains.propose(draw.layer, np.where(fits, choice, present).astype(np.int32), limit)
        accepted = fits & (proposed <= limit)
        chains.accept(accepted)
        return accepted, np.where(accepted[:, None], filled, used)

    def _arrive(self, chains: Chains, walk: Walk, accepted: Mask, draw: Draw) -> Walk:
        """The walk one step on."""
        placement, energy = chains.placement, chains.energy
        better = energy < walk.best
        return Walk(
            step=walk.step + 1,
            placement=placement,
            energy=energy,
            rung=self.swap(walk.rung, energy, walk.step % 2, draw.swap),
            best_placement=np.where(better[:, None], placement, walk.best_placement),
            best=np.where(better, energy, walk.best),
            accepted=int(accepted.sum()),
        )

    def swap(self, rung: Numbers, energy: Seconds, first: int, chance: Seconds) -> Numbers:
        """[C] the rungs after neighbours (``first``, ``first`` + 1), (``first`` + 2, ...), ... have swapped or not."""
        at = np.argsort(rung)  # the chain on every rung
        low = np.arange(first, len(rung) - 1, 2)
        cold, hot = at[low], at[low + 1]
        colder = 1 / self.temperature[low] - 1 / self.temperature[low + 1]
        swaps = chance[low] < np.exp(np.minimum(colder * (energy[cold] - energy[hot]), 0.0))
        swapped: Numbers = rung.copy()
        swapped[cold[swaps]], swapped[hot[swaps]] = rung[hot[swaps]], rung[cold[swaps]]
        return swapped


def fastest(walk: Walk, count: int) -> list[Numbers]:
    """At most ``count`` different states, the fastest first, of those that each chain liked best."""
    found: dict[bytes, Numbers] = {}
    for chain in np.argsort(walk.best, kind="stable").tolist():
        found.setdefault(walk.best_placement[chain].tobytes(), walk.best_placement[chain])
    return list(found.values())[:count]
