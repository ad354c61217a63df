"""Parallel tempering: Metropolis chains over placements at ladders of temperatures, which adapt.

Ladders are independent. On each, every step proposes another placement for every chain (``topoflow.search.moves``).
Energies are estimated iteration times. From energy E, a proposal of energy E' that fits in memory is accepted with
probability

    min(1, q'/q exp((E - E') / T))          q'/q: probability of the reverse proposal over that of the proposal

so that a chain visits a state with probability ~ exp(-E / T). Then neighbours on the ladder swap their temperatures,
even pairs after even steps and odd after odd, with probability

    min(1, exp((1/T - 1/T') (E - E')))

which keeps the joint distribution and lets a state found by a hot chain cool down.

A walk can begin with a descent: all chains are at one state, each proposes another, and all go to the fastest of these.
Of the thousands of states that are one move away, few are faster; chains that search them together find one sooner than
a single chain. The descent ends when ``patience`` steps in a row find nothing faster.

Temperatures are not parameters: each rung has a target share of accepted slower proposals, from ``acceptance[0]`` on
the coldest to ``acceptance[1]`` on the hottest, in a geometric sequence. The initial temperature gives this share for
``SAMPLED`` proposals of each chain. After each slower proposal that fits, it is corrected by

    log T += (1 + n)^-0.6 (share - accepted)          accepted: 1 or 0; n: number of such proposals on the rung so far

So temperatures have the scale of a job's energy differences, and follow it as chains cool down. The corrections vanish,
so the distribution above holds in the limit.

Random numbers are counter-based: Philox with the key (seed, round) at the counter (block of steps, ladder). They depend
neither on threads nor on interruptions of a search.

The kernel is ``csrc/screen/ladder.h``; a CPU and a GPU take the same steps, to the bit. ``tests/twins/tempering.py`` is
the same in plain Python.

Source: descent to the best of some neighbours, Aarts and Lenstra, "Local Search in Combinatorial Optimization", 1997,
chapter 1. FlexFlow's search (Jia, Zaharia and Aiken, MLSys 2019, section 6), which TopoOpt 4.1 uses; Earl and Deem,
"Parallel tempering: theory, applications, and new perspectives", Phys. Chem. Chem. Phys. 7, 2005. First temperatures:
Kirkpatrick, Gelatt and Vecchi, "Optimization by simulated annealing", Science 220, 1983 (those that accept a share),
as Ben-Ameur computes them ("Computing the initial temperature of simulated annealing", Computational Optimization and
Applications 29, 2004). Corrections: Robbins and Monro's, as in Andrieu and Thoms, "A tutorial on adaptive MCMC",
Statistics and Computing 18, 2008, algorithm 4; exponents between 1/2 and 1 converge.

Shapes: A ladders, C chains per ladder, Y layers, D stored states, S steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from topoflow.engine.screen.contention import Contention
from topoflow.engine.screen.ladders import SLICE, LadderLog, Ladders
from topoflow.search.memory import Budget
from topoflow.search.moves import JOINS, STAYS, TRADES, Moves

Numbers = NDArray[np.int32]
Seconds = NDArray[np.float64]

SAME = 1e-9  # relative difference of energies up to which states count as equal, since servers are often equivalent


@dataclass(frozen=True)
class Walk:
    """The state of all chains between two steps of a round, from which a search can continue."""

    step: int  # steps done
    placement: Numbers  # [A, C, Y]
    energy: Seconds  # [A, C] s
    rung: Numbers  # [A, C] rung of each chain; 0 is the coldest
    temperature: Seconds  # [A, C] s, of every rung, ascending
    slower: Numbers  # [A, C] slower proposals that were accepted so far, on every rung
    best_placement: Numbers  # [A, D, Y] the fastest states so far in this round, with different energies
    best: Seconds  # [A, D] s, their energies, ascending; inf: fewer states so far
    stuck: Numbers  # [A] consecutive steps of a descent without improvement; at ``patience`` it has ended


@dataclass(frozen=True)
class Stretch:
    """Some steps of all ladders: the state at the end, and the best energies after each step."""

    walk: Walk
    best: Seconds  # [S] s, the least so far in this round
    coldest: Seconds  # [S] s, the least of the chains at the lowest temperatures
    accepted: NDArray[np.int64]  # [S] accepted proposals; at most one in a descent


@dataclass(frozen=True)
class Walked:
    """The state of some ladders after some steps, and the log of each."""

    walk: Walk
    log: LadderLog


Tell = Callable[[Stretch], None]


@dataclass(frozen=True)
class Tempering:
    """The walk of one round."""

    model: Contention
    budget: Budget
    moves: Moves
    share: Seconds  # [C] target share of accepted slower proposals, by rung
    seed: int
    round: int
    patience: int = 0  # consecutive steps without improvement that end a descent; 0: no descent

    def begin(self, placement: Numbers, keep: int) -> Walk:
        """Return a walk at the states ``placement`` [A, C, Y], which fit, the fastest on the coldest rung.

        ``keep`` is D. A descent begins at the fastest state of its ladder.
        """
        ladders = self.ladders()
        ladders.begin(placement, keep)
        return Walk(step=0, **ladders.read())

    def walk(self, start: Walk, steps: int) -> Iterator[Stretch]:
        """Yield the chains after every few steps, until ``steps`` are done; a resumed walk is the same.

        Ctrl-C ends the walk between two steps.
        """
        for ladders, end, log in self._advance(start, steps):
            yield stretch(Walk(step=end, **ladders.read()), log)

    def walked(self, start: Walk, steps: int, first: int) -> Walked:
        """Return the ladders from number ``first`` on after ``steps`` steps, with their logs."""
        *_, (ladders, end, _) = advanced = [*self._advance(start, steps, first)]
        return Walked(Walk(step=end, **ladders.read()), joined([log for *_, log in advanced], axis=1))

    def _advance(self, start: Walk, steps: int, first: int = 0) -> Iterator[tuple[Ladders, int, LadderLog]]:
        """Yield, after every few steps, the ladders, the step, and the log."""
        if start.step >= steps:
            return
        ladders = self.ladders(first)
        ladders.resume({name: value for name, value in vars(start).items() if name != "step"})
        for step in range(start.step, steps, SLICE):
            end = min(step + SLICE, steps)
            yield ladders, end, ladders.advance(step, end)

    def ladders(self, first: int = 0) -> Ladders:
        """Return ladders that can walk; ``first`` is the number of the first one."""
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


def stretch(walk: Walk, log: LadderLog) -> Stretch:
    """Combine the logs of all ladders."""
    return Stretch(
        walk,
        best=log.best.min(axis=0),
        coldest=log.coldest.min(axis=0),
        accepted=log.accepted.sum(axis=0, dtype=np.int64),
    )


def joined(logs: Sequence[LadderLog], axis: int) -> LadderLog:
    """Concatenate logs of several ladders (axis 0) or of several steps (axis 1)."""
    names = [column.name for column in fields(LadderLog)]
    return LadderLog(**{name: np.concatenate([getattr(log, name) for log in logs], axis) for name in names})


def shares(acceptance: Sequence[float], chains: int) -> Seconds:
    """Return [C] the target acceptance of each rung, a geometric sequence; a single chain is the coldest."""
    return cast(
        "Seconds", np.geomspace(acceptance[0], acceptance[1], chains) if chains > 1 else np.array([acceptance[0]])
    )


def fastest(walk: Walk, count: int) -> list[Numbers]:
    """Return up to ``count`` of the states that all ladders stored, with different energies, the fastest first."""
    energies, states = walk.best.ravel(), walk.best_placement.reshape(-1, walk.placement.shape[-1])
    rows: list[int] = []
    for row in np.argsort(energies, kind="stable").tolist():
        if np.isfinite(energies[row]) and not (rows and energies[row] <= energies[rows[-1]] * (1 + SAME)):
            rows.append(row)
    return [states[row] for row in rows[:count]]
