"""Spaces: what a search may do with a strategy on one network (TopoOpt 4.1, the Comp x Comm plane)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from topoflow.fabric.base import Fabric
from topoflow.search.degrees import degrees
from topoflow.search.divisions import divisions
from topoflow.search.memory import Budget, budget
from topoflow.search.placements import Choices, choices
from topoflow.search.problem import Problem, Settings
from topoflow.search.screen import Numbers, screen
from topoflow.search.tempering import Tell, Tempering, Walk, begin, fastest, ladder
from topoflow.strategy.base import Strategy


class Space(Protocol):
    """Strategies of one job."""

    def start(self) -> Strategy:
        """Where a search begins. Raises ``ValueError`` where nothing fits in memory."""

    def explore(self, fabric: Fabric, present: Strategy, round: int, walk: Walk | None, tell: Tell) -> list[Strategy]:
        """The best of what was found from the ``present`` strategy on, by screening on ``fabric``, the best first.

        ``tell`` is called with every step; ``walk`` is the last one told when this round was left, None: begin.
        """


@dataclass(frozen=True)
class Fixed:
    """One strategy: that of a recorded job, whose layers are not known."""

    strategy: Strategy

    def start(self) -> Strategy:
        return self.strategy

    def explore(self, fabric: Fabric, present: Strategy, round: int, walk: Walk | None, tell: Tell) -> list[Strategy]:
        return []


@dataclass(frozen=True)
class Placements:
    """Every layer on one of many sets of servers: tempered Metropolis chains."""

    problem: Problem
    settings: Settings
    choices: Choices
    budget: Budget

    def start(self) -> Strategy:
        given = self.choices.placement(self.problem.workload, self.problem.start)
        fitting = self.budget.closest(given)
        return self.problem.start if (fitting == given).all() else self._strategy(fitting)

    def explore(self, fabric: Fabric, present: Strategy, round: int, walk: Walk | None, tell: Tell) -> list[Strategy]:
        if self.choices.count == 1:
            return []
        states = screen(self.problem, fabric, self.choices)
        here = self.choices.placement(self.problem.workload, present)
        reached = begin(states, here, self.settings.chains) if walk is None else walk
        unit = float(states.chains(here[None]).energy[0])  # temperatures are relative to this
        temperature = unit * ladder(self.settings.coldest, self.settings.hottest, self.settings.chains)
        tempering = Tempering(states, self.budget, temperature, self.problem.seed, round)
        for reached in tempering.walk(reached, self.settings.steps):  # noqa: B020 the first is where it begins
            tell(reached)
        found = [state for state in fastest(reached, self.settings.decide + 1) if (state != here).any()]
        return [self._strategy(state) for state in found[: self.settings.decide]]

    def _strategy(self, state: Numbers) -> Strategy:
        return self.choices.strategy(self.problem.workload, state, self.problem.start)


def space(problem: Problem, settings: Settings) -> Space:
    """The space of a problem: what its start is one of."""
    if problem.workload.trace is not None:
        return Fixed(problem.start)
    if problem.start.grid is not None:
        return degrees(problem, settings)
    if problem.start.shards is not None:
        return divisions(problem, settings)
    placed = choices(problem.servers, problem.start.placement.values())
    return Placements(problem, settings, placed, budget(problem.workload, placed))
