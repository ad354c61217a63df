"""Simulated annealing over placements, which a search explores by parallel tempering: the peer of ``search_gap``.

All else of the search is the same. Chains are alone, and cooled together, geometrically, from a temperature at which
half of the slower first proposals would be accepted to one at which a millionth would.

Source: Kirkpatrick, Gelatt and Vecchi, "Optimization by simulated annealing", Science 220, 1983.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[3]))  # for tests.twins
from tests.twins.tempering import BestStates, draw, first_temperatures, keep_best, propose
from topoflow.engine.base import Floats, Run
from topoflow.engine.screen.contention import Contention
from topoflow.fabric.base import Fabric
from topoflow.search.memory import Budget
from topoflow.search.moves import Moves, moves
from topoflow.search.problem import Effort, Problem, SearchSettings
from topoflow.search.screen import screen
from topoflow.search.space import PlacementSpace, space
from topoflow.search.tempering import Numbers, Tell, Walk
from topoflow.strategy.base import Strategy


@dataclass(frozen=True)
class Annealed(PlacementSpace):
    """Placements explored by simulated annealing."""

    times: int  # as many proposals

    CHAINS = 64
    SHARES = (1e-6, 0.5)

    @classmethod
    def of(cls, problem: Problem, times: int) -> Annealed:
        placed = space(problem, SearchSettings())
        assert isinstance(placed, PlacementSpace)
        return cls(**vars(placed), times=times)

    @property
    def stages(self) -> tuple[int, ...]:
        """One: annealing is the same at each."""
        return super().stages[-1:]

    def explore(
        self, fabric: Fabric, present: Strategy, effort: Effort, walk: Walk | None, tell: Tell, run: Run
    ) -> list[Strategy]:
        model, proposed = screen(self.problem, fabric, self.choices, run), moves(self.workload, self.choices)
        here = self._state(present)
        chains = Annealing(
            model, self.budget, proposed, np.tile(here, (self.CHAINS, 1)), self.problem.seed, effort.round
        )
        steps = -(-self.times * self.settings.proposals // self.CHAINS)
        states = chains.anneal(steps, np.array(self.SHARES), self.settings.kept_states)
        return [self._strategy(state) for state in states if (state != here).any()][: self.settings.decide]


@dataclass
class Annealing:
    """Chains that begin at ``placement`` [C, Y] and are cooled together, each alone."""

    model: Contention
    budget: Budget
    moves: Moves
    placement: Numbers
    seed: int
    round: int

    def anneal(self, steps: int, share: Floats, keep: int) -> list[Numbers]:
        """The fastest states by the estimate, of different energies."""
        energy, best = self.model.makespans(self.placement), BestStates()
        for state, seconds in zip(self.placement, energy.tolist(), strict=True):
            best = keep_best(best, seconds, state, keep)
        cold, hot = np.inf, 0.0
        for step in range(steps):
            random_numbers = draw(self.seed, self.round, 0, step, len(energy))
            proposals = [propose(self.moves, *pair) for pair in zip(self.placement, random_numbers, strict=True)]
            target = np.array([proposal.target for proposal in proposals])
            makespans = self.model.makespans(target)
            may = self.budget.fits(self.budget.used(target)) & (target != self.placement).any(axis=1)
            if step == 0:
                slower = makespans - energy
                cold, hot = first_temperatures(slower[may & (slower > 0)], share, float(energy.min()))
            chance = np.array([proposal.ratio for proposal in proposals]) - np.log1p(
                [-numbers.accept for numbers in random_numbers]
            )
            accepted = may & (makespans <= energy + hot * (cold / hot) ** (step / steps) * chance)
            energy = np.where(accepted, makespans, energy)
            self.placement = np.where(accepted[:, None], target, self.placement)
            for chain in np.flatnonzero(accepted).tolist():
                best = keep_best(best, float(energy[chain]), self.placement[chain], keep)
        return [np.array(state, np.int32) for _, state in best]
