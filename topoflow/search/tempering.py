"""Metropolis chains over placements, side by side, at a ladder of temperatures that fits itself: parallel tempering.

Every step proposes another placement for every chain (``topoflow.search.moves``). Of energy E, the time of an iteration
as far as screening knows it, a proposal E' that fits in memory is accepted with probability

    min(1, q'/q exp((E - E') / T))          q'/q: how much likelier it is to be proposed back than there

so that a chain visits a state with probability ~ exp(-E / T). Then neighbours on the ladder swap their temperatures,
even pairs after even steps and odd after odd, with probability

    min(1, exp((1/T - 1/T') (E - E')))

which keeps the joint distribution and lets a state found by a hot chain cool down.

A walk can begin with a descent: all chains are at one state, each proposes another, and all go to the fastest of these.
Of some thousand states that one move leads to, few are faster, and chains that look for them together find them sooner
than each alone. It ends where ``patience`` steps in a row find nothing faster.

No temperature is given: each rung has a share of the slower proposals that it is to accept, from ``acceptance[0]`` on
the coldest to ``acceptance[1]`` on the hottest, in a geometric sequence. It begins where as large a share would be
accepted of ``SAMPLED`` proposals of each chain, and after each slower proposal that fits is corrected by

    log T += (1 + n)^-0.6 (share - accepted)          accepted: 1 or 0; n: how many were so far, on the rung

So temperatures have the scale of the steps there are, whatever the job, and follow it as chains cool down; their
corrections vanish, so chains still visit states as above in the limit.

Source: descent to the best of some neighbours, Aarts and Lenstra, "Local Search in Combinatorial Optimization", 1997,
chapter 1. FlexFlow's search (Jia, Zaharia and Aiken, MLSys 2019, section 6), which TopoOpt 4.1 uses; Earl and Deem,
"Parallel tempering: theory, applications, and new perspectives", Phys. Chem. Chem. Phys. 7, 2005. First temperatures:
Kirkpatrick, Gelatt and Vecchi, "Optimization by simulated annealing", Science 220, 1983 (those that accept a share),
as Ben-Ameur computes them ("Computing the initial temperature of simulated annealing", Computational Optimization and
Applications 29, 2004). Corrections: Robbins and Monro's, as in Andrieu and Thoms, "A tutorial on adaptive MCMC",
Statistics and Computing 18, 2008, algorithm 4; exponents between 1/2 and 1 converge.

Shapes: C chains, Y layers, n servers, D states that are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from topoflow.engine.screen.contention import Contention
from topoflow.engine.screen.strategy_chains import Chains
from topoflow.search.memory import Budget, Bytes
from topoflow.search.moves import BLOCK, Draws, Moves

Numbers = NDArray[np.int32]
Seconds = NDArray[np.float64]
Mask = NDArray[np.bool_]

SAMPLED = 4  # proposals of each chain from which the first temperatures are computed
NEVER = 2**40  # a step that no walk reaches, from which they are drawn
DECAY = 0.6  # of corrections, see above
SAME = 1e-9  # states whose energies differ relatively by no more are taken for one, as servers are often alike
COLDEST = 1e-12  # relative to the energy: no temperature is lower


@dataclass(frozen=True)
class Walk:
    """All chains between two steps of a round: what a search must know to continue."""

    step: int  # steps done
    placement: Numbers  # [C, Y]
    energy: Seconds  # [C] s
    rung: Numbers  # [C] on the ladder, 0 is the coldest
    temperature: Seconds  # [C] s, of every rung, ascending
    slower: Numbers  # [C] slower proposals that were accepted so far, on every rung
    best_placement: Numbers  # [D, Y] the fastest states so far in this round, of different energies ...
    best: Seconds  # [D] ... which are these, ascending; inf: not yet that many
    accepted: int = 0  # proposals in the last step
    stuck: int = 0  # steps of a descent in a row that found nothing faster; ``patience``: it has ended

    @property
    def coldest(self) -> float:
        """s, of the chain at the lowest temperature."""
        return float(self.energy[self.rung.argmin()])


Tell = Callable[[Walk], None]


@dataclass(frozen=True)
class Tempering:
    """The walk of one round."""

    model: Contention
    budget: Budget
    moves: Moves
    share: Seconds  # [C] of slower proposals that are accepted, by rung
    seed: int
    round: int
    patience: int = 0  # steps in a row that find nothing faster before a descent ends; 0: there is none

    def begin(self, placement: Numbers, keep: int) -> Walk:
        """Chains at the states ``placement`` [C, Y], which fit, the fastest on the coldest rung; ``keep`` is D.

        A descent begins at the fastest of them.
        """
        chains = self.model.chains(placement)
        energy, count = chains.makespan, len(placement)
        placed = np.zeros((keep, placement.shape[1]), np.int32)
        best, states = kept(np.full(keep, np.inf), placed, energy, placement)
        if self.patience:
            fastest = np.full(count, energy.argmin())
            placement, energy = placement[fastest], energy[fastest]
            chains = self.model.chains(placement)
        return Walk(
            step=0,
            placement=placement,
            energy=energy,
            rung=np.argsort(np.argsort(energy, kind="stable")).astype(np.int32),
            temperature=self._first(chains, placement, energy),
            slower=np.zeros(count, np.int32),
            best_placement=states,
            best=best,
        )

    def _first(self, chains: Chains, placement: Numbers, energy: Seconds) -> Seconds:
        """[C] temperatures at which each rung would accept its share of what chains first propose that is slower."""
        drawn, used = self.moves.draw(self.seed, self.round, NEVER, len(placement)), self.budget.used(placement)
        steps = []
        for step in range(SAMPLED):
            proposal = self.moves.propose(placement, drawn.step(step))
            fits = self.budget.fits(self.budget.moved(used, proposal))
            found = chains.propose(proposal.target, np.where(fits, np.inf, -1.0)) - energy
            steps.append(found[fits & (found > 0)])
        return first_temperatures(np.concatenate(steps), self.share, float(energy.min()))

    def walk(self, start: Walk, steps: int) -> Iterator[Walk]:
        """The chains after every step, until ``steps`` are done; a walk resumed from any of them is the same."""
        chains, used = self.model.chains(start.placement), self.budget.used(start.placement)
        walk, count = start, len(start.rung)
        drawn = self.moves.draw(self.seed, self.round, start.step, count)
        for step in range(start.step, steps):
            if step % BLOCK == 0:
                drawn = self.moves.draw(self.seed, self.round, step, count)
            walk, used = self._step(chains, used, walk, drawn.step(step))
            yield walk

    def _step(self, chains: Chains, used: Bytes, walk: Walk, drawn: Draws) -> tuple[Walk, Bytes]:
        """The walk one step on, and the memory in use [C, n] then."""
        descends = walk.stuck < self.patience
        return (self._descend if descends else self._accept)(chains, used, walk, drawn)

    def _descend(self, chains: Chains, used: Bytes, walk: Walk, drawn: Draws) -> tuple[Walk, Bytes]:
        """All chains are at one state, and go to the fastest that they propose, if it is faster."""
        proposal = self.moves.propose(walk.placement, drawn)
        filled = self.budget.moved(used, proposal)
        moves = self.budget.fits(filled) & (proposal.one != proposal.other)
        proposed = chains.propose(proposal.target, np.where(moves, walk.energy, -1.0))
        faster = moves & (proposed < walk.energy)
        if not faster.any():
            arrived = replace(walk, step=walk.step + 1, accepted=0, stuck=walk.stuck + 1)
            if arrived.stuck == self.patience:  # temperatures have the scale of the steps from here on
                arrived = replace(arrived, temperature=self._first(chains, walk.placement, walk.energy))
            return arrived, used
        taken = np.full(len(faster), np.where(faster, proposed, np.inf).argmin())
        placement = proposal.target[taken]
        chains.propose(placement)
        chains.accept(np.full(len(faster), True))
        best, states = kept(walk.best, walk.best_placement, proposed[faster], proposal.target[faster])
        arrived = replace(
            walk,
            step=walk.step + 1,
            placement=placement,
            energy=proposed[taken],
            best_placement=states,
            best=best,
            accepted=1,
            stuck=0,
        )
        return arrived, filled[taken]

    def _accept(self, chains: Chains, used: Bytes, walk: Walk, drawn: Draws) -> tuple[Walk, Bytes]:
        """Propose and accept: the walk one step on, and the memory in use [C, n] then."""
        proposal = self.moves.propose(walk.placement, drawn)
        filled, target = self.budget.moved(used, proposal), proposal.target
        moves = self.budget.fits(filled) & (proposal.one != proposal.other)
        above = walk.temperature[walk.rung] * (proposal.ratio - drawn.accept)
        limit = walk.energy + above  # the highest that is accepted
        proposed = chains.propose(target, np.where(moves, limit, -1.0))
        accepted = moves & (proposed <= limit)
        chains.accept(accepted)
        slower = moves & (proposed > walk.energy)
        energy = np.where(accepted, proposed, walk.energy)
        placement = np.where(accepted[:, None], target, walk.placement)
        best, states = walk.best, walk.best_placement
        if (energy[accepted] < best[-1]).any():
            best, states = kept(best, states, energy[accepted], placement[accepted])
        rung, temperature = walk.rung, walk.temperature
        corrected, count = self._correct(temperature, walk.slower, rung[slower], accepted[slower])
        arrived = Walk(
            step=walk.step + 1,
            placement=placement,
            energy=energy,
            rung=swap(rung, energy, temperature, walk.step % 2, drawn.swap),
            temperature=corrected,
            slower=count,
            best_placement=states,
            best=best,
            accepted=int(accepted.sum()),
            stuck=walk.stuck,
        )
        return arrived, np.where(accepted[:, None], filled, used)

    def _correct(self, temperature: Seconds, count: Numbers, rung: Numbers, accepted: Mask) -> tuple[Seconds, Numbers]:
        """``temperature`` [C] and ``count`` [C] after a slower proposal on each ``rung``, ``accepted`` or not."""
        log = np.log(temperature)
        log[rung] += (1.0 + count[rung]) ** -DECAY * (self.share[rung] - accepted)
        counted = count.copy()
        counted[rung] += accepted
        return cast("Seconds", np.maximum.accumulate(np.exp(log))), counted


def shares(acceptance: Sequence[float], chains: int) -> Seconds:
    """[C] what each rung accepts of what is slower, a geometric sequence; a single chain is the coldest."""
    return cast(
        "Seconds", np.geomspace(acceptance[0], acceptance[1], chains) if chains > 1 else np.array([acceptance[0]])
    )


def first_temperatures(steps: Seconds, share: Seconds, energy: float) -> Seconds:
    """[C] temperatures T (s) at which the mean of exp(-step / T) is each ``share`` [C], ascending as they are.

    ``steps`` (s) are positive; without any, temperatures are ``COLDEST`` of ``energy`` (s).
    """
    low, high = np.full(len(share), np.log(COLDEST * energy)), np.full(len(share), np.log(energy / COLDEST))
    for _ in range(64 if len(steps) else 0):  # halves the interval: to the last bit
        middle = (low + high) / 2
        accepts = np.exp(-steps[:, None] / np.exp(middle)).mean(axis=0)
        low, high = np.where(accepts < share, middle, low), np.where(accepts < share, high, middle)
    return cast("Seconds", np.maximum.accumulate(np.exp(low)))


def swap(rung: Numbers, energy: Seconds, temperature: Seconds, first: int, chance: Seconds) -> Numbers:
    """[C] the rungs after neighbours (``first``, ``first`` + 1), (``first`` + 2, ...), ... have swapped or not."""
    at = np.argsort(rung)  # the chain on every rung
    low = np.arange(first, len(rung) - 1, 2)
    cold, hot = at[low], at[low + 1]
    colder = 1 / temperature[low] - 1 / temperature[low + 1]
    swaps = chance[low] < np.exp(np.minimum(colder * (energy[cold] - energy[hot]), 0.0))
    swapped: Numbers = rung.copy()
    swapped[cold[swaps]], swapped[hot[swaps]] = rung[hot[swaps]], rung[cold[swaps]]
    return swapped


def kept(best: Seconds, states: Numbers, energy: Seconds, placement: Numbers) -> tuple[Seconds, Numbers]:
    """The D fastest of states that were kept, ``best`` [D] and ``states`` [D, Y], and of others; one of each energy."""
    energies, placements = np.concatenate([best, energy]), np.concatenate([states, placement])
    order = np.argsort(energies, kind="stable")
    energies, placements = energies[order], placements[order]
    again = energies[1:] <= energies[:-1] * (1 + SAME)  # inf <= inf: rows that are empty count once, and are filled
    new = np.append(True, ~again)
    found, rows = energies[new][: len(best)], placements[new][: len(best)]
    empty = len(best) - len(found)
    return np.pad(found, (0, empty), constant_values=np.inf), np.pad(rows, ((0, empty), (0, 0)))


def fastest(walk: Walk) -> list[Numbers]:
    """The states that were kept, the fastest first."""
    return [state for state, energy in zip(walk.best_placement, walk.best, strict=True) if np.isfinite(energy)]
