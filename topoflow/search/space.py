"""Spaces: what a search may do with a strategy on one network (TopoOpt 4.1, the Comp x Comm plane)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from topoflow.fabric.base import Fabric
from topoflow.search.listed import Listed
from topoflow.search.memory import Budget, budget
from topoflow.search.placements import Choices, choices
from topoflow.search.problem import Problem, Settings
from topoflow.search.screen import screen
from topoflow.search.tempering import Numbers
from topoflow.search.tempering import Tell, Tempering, Walk, fastest
from topoflow.strategy.base import Strategy
from topoflow.strategy.placement import Placement
from topoflow.traffic.lower import lower
from topoflow.workload.base import LayerGraph, layer_graph


class Space(Protocol):
    """Strategies of one job."""

    def start(self) -> Strategy:
        """Where a search begins. Raises ``ValueError`` where nothing fits in memory."""

    def explore(self, fabric: Fabric, present: Strategy, round: int, walk: Walk | None, tell: Tell) -> list[Strategy]:
        """The best of what was found from the ``present`` strategy on, by screening on ``fabric``, the best first.

        ``tell`` is called with every step; ``walk`` is the last one before an interruption of this round, None: begin.
        """


@dataclass(frozen=True)
class Fixed:
    """One strategy, so that only the network is searched: that of a recorded job, whose layers are not known."""

    problem: Problem

    def start(self) -> Strategy:
        """Raises ``ValueError`` for a job that sends nothing: then all networks are equally good."""
        demand = lower(self.problem.workload, self.problem.start).demand()
        if not (demand.bytes.any() or any(demand.all_reduce.values())):
            name = self.problem.workload.name
            raise ValueError(f"workload: must send something between servers, got nothing by {name}")
        return self.problem.start

    def explore(self, fabric: Fabric, present: Strategy, round: int, walk: Walk | None, tell: Tell) -> list[Strategy]:
        return []


@dataclass(frozen=True)
class Placements:
    """Every layer on one of many sets of servers: tempered Metropolis chains."""

    problem: Problem
    settings: Settings
    workload: LayerGraph
    given: Placement
    choices: Choices
    budget: Budget

    def start(self) -> Placement:
        given = self.choices.placement(self.workload, self.given)
        fitting = self.budget.closest(given)
        return self.given if (fitting == given).all() else self._strategy(fitting)

    def explore(self, fabric: Fabric, present: Strategy, round: int, walk: Walk | None, tell: Tell) -> list[Strategy]:
        assert isinstance(present, Placement)
        if self.choices.count == 1:
            return []
        states = screen(self.problem, fabric, self.choices)
        here = self.choices.placement(self.workload, present)
        reached = begin(states, here, self.settings.chains) if walk is None else walk
        unit = float(states.chains(here[None]).energy[0])  # temperatures are relative to this
        temperature = unit * ladder(self.settings.coldest, self.settings.hottest, self.settings.chains)
        tempering = Tempering(states, self.budget, temperature, self.problem.seed, round)
        for reached in tempering.walk(reached, self.settings.steps):  # noqa: B020 the first is where it begins
            tell(reached)
        found = [state for state in fastest(reached, self.settings.decide + 1) if (state != here).any()]
        return [self._strategy(state) for state in found[: self.settings.decide]]

    def _strategy(self, state: Numbers) -> Placement:
        return self.choices.strategy(self.workload, state, self.given)


def space(problem: Problem, settings: Settings) -> Space:
    """Placements are too many to be listed; of any other kind of strategy, all that ``alternatives`` lists."""
    if isinstance(problem.start, Placement):
        workload = layer_graph(problem.workload)
        placed = choices(problem.servers, problem.start.placement.values())
        return Placements(problem, settings, workload, problem.start, placed, budget(workload, placed))
    options = problem.start.alternatives(problem.workload)
    return Listed(problem, settings, tuple(options)) if options else Fixed(problem)
