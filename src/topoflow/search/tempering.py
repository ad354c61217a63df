"""Metropolis chains over placements, side by side, at ladders of temperatures that fit themselves: parallel tempering.

Ladders do not see each other. On each, every step proposes another placement for every chain
(``topoflow.search.moves``). Of energy E, the time of an iteration as far as screening knows it, a proposal E' that
fits in memory is accepted with probability

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

Random numbers are counted, not drawn in turn: Philox with the key (seed, round) at the counter (block of steps,
ladder), so that they depend neither on threads nor on where a search was stopped.

A kernel walks (``csrc/screen/ladder.h``), on a CPU or a GPU; both take the same steps, to the bit.
``tests/twins/tempering.py`` is the same in plain Python.

Source: descent to the best of some neighbours, Aarts and Lenstra, "Local Search in Combinatorial Optimization", 1997,
chapter 1. FlexFlow's search (Jia, Zaharia and Aiken, MLSys 2019, section 6), which TopoOpt 4.1 uses; Earl and Deem,
"Parallel tempering: theory, applications, and new perspectives", Phys. Chem. Chem. Phys. 7, 2005. First temperatures:
Kirkpatrick, Gelatt and Vecchi, "Optimization by simulated annealing", Science 220, 1983 (those that accept a share),
as Ben-Ameur computes them ("Computing the initial temperature of simulated annealing", Computational Optimization and
Applications 29, 2004). Corrections: Robbins and Monro's, as in Andrieu and Thoms, "A tutorial on adaptive MCMC",
Statistics and Computing 18, 2008, algorithm 4; exponents between 1/2 and 1 converge.

Shapes: A ladders, C chains of each, Y layers, D states that are kept, S steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from topoflow.engine.screen.contention import Contention
from topoflow.engine.screen.ladders import SLICE, Ladders, Log
from topoflow.search.memory import Budget
from topoflow.search.moves import JOINS, STAYS, TRADES, Moves

Numbers = NDArray[np.int32]
Seconds = NDArray[np.float64]

SAME = 1e-9  # states whose energies differ relatively by no more are taken for one, as servers are often alike


@dataclass(frozen=True)
class Walk:
    """All chains between two steps of a round: what a search must know to continue."""

    step: int  # steps done
    placement: Numbers  # [A, C, Y]
    energy: Seconds  # [A, C] s
    rung: Numbers  # [A, C] on the ladder, 0 is the coldest
    temperature: Seconds  # [A, C] s, of every rung, ascending
    slower: Numbers  # [A, C] slower proposals that were accepted so far, on every rung
    best_placement: Numbers  # [A, D, Y] the fastest states so far in this round, of different energies ...
    best: Seconds  # [A, D] ... which are these, ascending; inf: not yet that many
    stuck: Numbers  # [A] steps of a descent in a row that found nothing faster; ``patience``: it has ended


@dataclass(frozen=True)
class Stretch:
    """Some steps of all ladders: where they led, and what was found after each."""

    walk: Walk
    best: Seconds  # [S] s, the least so far in this round
    coldest: Seconds  # [S] s, the least of the chains at the lowest temperatures
    accepted: NDArray[np.int64]  # [S] proposals; of a descent at most one


@dataclass(frozen=True)
class Walked:
    """Some ladders after some steps, and what each found at every step."""

    walk: Walk
    log: Log


Tell = Callable[[Stretch], None]


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
        """Chains at the states ``placement`` [A, C, Y], which fit, the fastest on the coldest rung; ``keep`` is D.

        A descent begins at the fastest of its ladder.
        """
        ladders = self.ladders()
        ladders.begin(placement, keep)
        return Walk(step=0, **ladders.read())

    def walk(self, start: Walk, steps: int) -> Iterator[Stretch]:
        """The chains after every few steps, until ``steps`` are done; a walk resumed from any of them is the same.

        Ctrl-C ends it between two steps.
        """
        for ladders, end, log in self._advance(start, steps):
            yield stretch(Walk(step=end, **ladders.read()), log)

    def walked(self, start: Walk, steps: int, first: int) -> Walked:
        """Ladders from number ``first`` on after ``steps`` steps, and what each found at every step."""
        *_, (ladders, end, _) = advanced = [*self._advance(start, steps, first)]
        return Walked(Walk(step=end, **ladders.read()), joined([log for *_, log in advanced], axis=1))

    def _advance(self, start: Walk, steps: int, first: int = 0) -> Iterator[tuple[Ladders, int, Log]]:
        """After every few steps: the ladders, the step, and what was found."""
        if start.step >= steps:
            return
        ladders = self.ladders(first)
        ladders.resume({name: value for name, value in vars(start).items() if name != "step"})
        for step in range(start.step, steps, SLICE):
            end = min(step + SLICE, steps)
            yield ladders, end, ladders.advance(step, end)

    def ladders(self, first: int = 0) -> Ladders:
        """Where the chains are while they walk; ``first`` is the number of the first of these ladders."""
        settings: dict[str, Any] = {
            "seed": self.seed,
            "round": self.round,
            "patience": self.patience,
            "trades": TRADES,
            "stays": STAYS,
            "joins": JOINS,
            "memory": self.budget.memory,
            "binds": self.budget.binds,
        }
        return Ladders(self.model, self.moves.tables() | self.budget.tables(), self.share, settings, first)


def stretch(walk: Walk, log: Log) -> Stretch:
    """What all ladders found together."""
    return Stretch(
        walk,
        best=log.best.min(axis=0),
        coldest=log.coldest.min(axis=0),
        accepted=log.accepted.sum(axis=0, dtype=np.int64),
    )


def joined(logs: Sequence[Log], axis: int) -> Log:
    """Logs of several ladders (axis 0) or of several steps (axis 1) as one."""
    columns = {each.name: np.concatenate([getattr(log, each.name) for log in logs], axis) for each in fields(Log)}
    return Log(**columns)


def shares(acceptance: Sequence[float], chains: int) -> Seconds:
    """[C] what each rung accepts of what is slower, a geometric sequence; a single chain is the coldest."""
    return cast(
        "Seconds", np.geomspace(acceptance[0], acceptance[1], chains) if chains > 1 else np.array([acceptance[0]])
    )


def fastest(walk: Walk, count: int) -> list[Numbers]:
    """Up to ``count`` of the states that all ladders kept, of different energies, the fastest first."""
    energies, states = walk.best.ravel(), walk.best_placement.reshape(-1, walk.placement.shape[-1])
    found: list[int] = []
    for row in np.argsort(energies, kind="stable").tolist():
        if np.isfinite(energies[row]) and not (found and energies[row] <= energies[found[-1]] * (1 + SAME)):
            found.append(row)
    return [states[row] for row in found[:count]]
