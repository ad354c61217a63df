"""Simulated annealing over placements, which a search explores by parallel tempering: the peer of ``search_gap``.

All else of the search is the same. Chains are alone, and cooled together, geometrically, from a temperature at which
half of the slower first proposals would be accepted to one at which a millionth would.

Source: Kirkpatrick, Gelatt and Vecchi, "Optimization by simulated annealing", Science 220, 1983.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topoflow.engine.base import Floats
from topoflow.engine.screen.contention import Contention
from topoflow.fabric.base import Fabric
from topoflow.search.memory import Budget
from topoflow.search.moves import BLOCK, Moves, moves
from topoflow.search.problem import Problem, Settings
from topoflow.search.screen import screen
from topoflow.search.space import Placements, space
from topoflow.search.tempering import Numbers, Tell, Walk, first_temperatures, kept
from topoflow.strategy.base import Strategy


@dataclass(frozen=True)
class Annealed(Placements):
    """Placements explored by simulated annealing."""

    times: int  # as many proposals

    CHAINS = 64
    SHARES = (1e-6, 0.5)

    @classmethod
    def of(cls, problem: Problem, times: int) -> Annealed:
        placed = space(problem, Settings())
        assert isinstance(placed, Placements)
        return cls(**vars(placed), times=times)

    def explore(self, fabric: Fabric, present: Strategy, round: int, walk: Walk | None, tell: Tell) -> list[Strategy]:
        model, proposed = screen(self.problem, fabric, self.choices), moves(self.workload, self.choices)
        here = self._state(present)
        chains = Annealing(model, self.budget, proposed, np.tile(here, (self.CHAINS, 1)), self.problem.seed, round)
        steps = -(-self.times * self.settings.proposals // self.CHAINS)
        states = chains.anneal(steps, np.array(self.SHARES), self.settings.kept)
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
        chains, used = self.model.chains(self.placement), self.budget.used(self.placement)
        energy = chains.makespan
        best, states = kept(
            np.full(keep, np.inf), np.zeros((keep, self.placement.shape[1]), np.int32), energy, self.placement
        )
        cold, hot = np.inf, 0.0
        for step in range(steps):
            if step % BLOCK == 0:
                drawn = self.moves.draw(self.seed, self.round, step, len(energy))
            now = drawn.step(step)
            proposal = self.moves.propose(self.placement, now)
            filled = self.budget.moved(used, proposal)
            may = self.budget.fits(filled) & (proposal.one != proposal.other)
            if step == 0:
                slower = chains.propose(proposal.target, np.where(may, np.inf, -1.0)) - energy
                cold, hot = first_temperatures(slower[may & (slower > 0)], share, float(energy.min()))
            limit = energy + hot * (cold / hot) ** (step / steps) * (proposal.ratio - now.accept)
            found = chains.propose(proposal.target, np.where(may, limit, -1.0))
            accepted = may & (found <= limit)
            chains.accept(accepted)
            energy = np.where(accepted, found, energy)
            self.placement = np.where(accepted[:, None], proposal.target, self.placement)
            used = np.where(accepted[:, None], filled, used)
            if (energy[accepted] < best[-1]).any():
                best, states = kept(best, states, energy[accepted], self.placement[accepted])
        return [state for state, of in zip(states, best, strict=True) if np.isfinite(of)]
