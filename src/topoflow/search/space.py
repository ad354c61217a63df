"""Spaces: what a search may do with a strategy on one network (TopoOpt 4.1, the Comp x Comm plane)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from topoflow.engine.base import Run
from topoflow.fabric.base import Fabric
from topoflow.search import spread
from topoflow.search.listed import Listed, check_listed
from topoflow.search.memory import Budget, budget
from topoflow.search.moves import moves
from topoflow.search.placements import Choices, choices
from topoflow.search.problem import Effort, Problem, Settings
from topoflow.search.screen import screen
from topoflow.search.tempering import Numbers, Tell, Tempering, Walk, fastest, shares
from topoflow.search.walk_laws import check_walk
from topoflow.strategy.base import Strategy
from topoflow.strategy.data_parallel import DataParallel
from topoflow.strategy.hybrid import Hybrid
from topoflow.strategy.placement import Placement
from topoflow.traffic.lower import lower
from topoflow.workload.base import LayerGraph, layer_graph


class Space(Protocol):
    """Strategies of one job."""

    @property
    def stages(self) -> tuple[int, ...]:
        """Steps of a round in each stage of a search; 0: nothing that takes steps."""

    def start(self) -> Strategy:
        """Where a search begins. Raises ``ValueError`` where nothing fits in memory."""

    def others(self) -> list[Strategy]:
        """What else it begins with: strategies that fit, other than the start."""

    def check(self, strategy: Strategy, walk: Walk | None) -> None:
        """Raise ``ValueError`` with field, law and value for what a search here cannot have found or reached."""

    def explore(
        self, fabric: Fabric, present: Strategy, effort: Effort, walk: Walk | None, tell: Tell, run: Run
    ) -> list[Strategy]:
        """The best of what was found from the ``present`` strategy on, by screening on ``fabric``, the best first.

        ``tell`` is called after every few steps; ``walk`` is the last one before an interruption of this round, None:
        begin. ``run`` says where chains walk.
        """


@dataclass(frozen=True)
class Fixed:
    """One strategy, so that only the network is searched: that of a recorded job, whose layers are not known."""

    problem: Problem
    stages = (0,)

    def start(self) -> Strategy:
        """Raises ``ValueError`` for a job that sends nothing: then all networks are equally good."""
        demand = lower(self.problem.workload, self.problem.start).demand()
        if not (demand.bytes.any() or any(demand.all_reduce.values())):
            name = self.problem.workload.name
            raise ValueError(f"workload: must send something between servers, got nothing by {name}")
        return self.problem.start

    def others(self) -> list[Strategy]:
        return []

    def check(self, strategy: Strategy, walk: Walk | None) -> None:
        check_listed(strategy, walk, [self.problem.start])

    def explore(
        self, fabric: Fabric, present: Strategy, effort: Effort, walk: Walk | None, tell: Tell, run: Run
    ) -> list[Strategy]:
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

    @property
    def stages(self) -> tuple[int, ...]:
        return self.settings.stages if self.choices.count > 1 else (0,)

    def start(self) -> Placement:
        given = self._state(self.given)
        fitting = self.budget.closest(given)
        return self.given if (fitting == given).all() else self._strategy(fitting)

    def others(self) -> list[Strategy]:
        """Those of other fabrics, and those of both rules that need no choice: data parallel and hybrid."""
        start = self._state(self.start())
        states = {self._state(other).tobytes(): other for other in (*rules(self.problem), *self.problem.others)}
        return [
            other
            for state, other in states.items()
            if state != start.tobytes() and self.budget.fits(self.budget.used(self._state(other)[None]))[0]
        ]

    def check(self, strategy: Strategy, walk: Walk | None) -> None:
        layers = [layer.name for layer in self.workload.layers]
        known = self.choices.number
        if not isinstance(strategy, Placement) or strategy.servers != self.choices.servers:
            raise ValueError(f"must place layers on {self.choices.servers} servers, got {strategy.name!r}")
        if sorted(strategy.placement) != sorted(layers) or not known.keys() >= set(strategy.placement.values()):
            raise ValueError(f"must place the {len(layers)} layers of {self.workload.name} on sets of the search")
        if walk is not None:
            check_walk(walk, self.settings, len(layers), self.choices.count)

    def explore(
        self, fabric: Fabric, present: Strategy, effort: Effort, walk: Walk | None, tell: Tell, run: Run
    ) -> list[Strategy]:
        assert isinstance(present, Placement)
        if effort.steps == 0:
            return []
        here = self._state(present)
        tempering = self.tempering(fabric, effort.round, run)
        first = self.first(here, effort.round)
        reached = tempering.begin(first, self.settings.kept) if walk is None else walk
        if run.workers is None or self.settings.ladders == 1:
            stretches = tempering.walk(reached, effort.steps)
        else:
            stretches = spread.walk(self, fabric, effort.round, reached, effort.steps, run, run.workers)
        for stretch in stretches:
            tell(stretch)
            reached = stretch.walk
        found = [state for state in fastest(reached, self.settings.kept) if (state != here).any()]
        return [self._strategy(state) for state in found[: self.settings.decide]]

    def tempering(self, fabric: Fabric, round: int, run: Run) -> Tempering:
        """The walk of a round on a network, where ``run`` says."""
        return Tempering(
            screen(self.problem, fabric, self.choices, run),
            self.budget,
            moves(self.workload, self.choices),
            shares(self.settings.acceptance, self.settings.chains),
            self.problem.seed,
            round,
            self.settings.patience,
        )

    def first(self, here: Numbers, round: int) -> Numbers:
        """[A, C, Y] where chains begin: at the present strategy, in the first round also at those of other fabrics.

        Ladders take turns: where there are as many states, or a multiple, all chains of a ladder begin at one.
        """
        others = [self._state(other) for other in self.problem.others] if round == 0 else []
        fitting = [state for state in others if self.budget.fits(self.budget.used(state[None]))[0]]
        states, ladders, chains = np.array([here, *fitting]), self.settings.ladders, self.settings.chains
        turn = np.arange(ladders)[:, None] + ladders * np.arange(chains)
        found: Numbers = states[turn % len(states)].astype(np.int32)
        return found

    def _state(self, strategy: Strategy) -> Numbers:
        assert isinstance(strategy, Placement)
        return self.choices.placement(self.workload, strategy)

    def _strategy(self, state: Numbers) -> Placement:
        return self.choices.strategy(self.workload, state, self.given)


def rules(problem: Problem) -> list[Placement]:
    """The strategies that need no choice, with the buckets of the start."""
    start = problem.start
    assert isinstance(start, Placement)
    buckets = {"bucket_bytes": start.bucket_bytes, "first_bucket_bytes": start.first_bucket_bytes}
    return [
        rule.place(problem.workload, problem.servers) for rule in (DataParallel(**buckets), Hybrid(None, **buckets))
    ]


def space(problem: Problem, settings: Settings) -> Space:
    """Placements are too many to be listed; of any other kind of strategy, all that ``alternatives`` lists."""
    if isinstance(problem.start, Placement):
        workload = layer_graph(problem.workload)
        known = [problem.start, *rules(problem), *(each for each in problem.others if isinstance(each, Placement))]
        placed = choices(problem.servers, [holders for each in known for holders in each.placement.values()])
        return Placements(problem, settings, workload, problem.start, placed, budget(workload, placed))
    options = problem.start.alternatives(problem.workload)
    return Listed(problem, settings, tuple(options)) if options else Fixed(problem)
