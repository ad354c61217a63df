"""Spaces: the strategies that a search can explore on one network (TopoOpt 4.1, the Comp x Comm plane)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from topoflow.engine.base import Run
from topoflow.fabric.base import Fabric
from topoflow.search import spread
from topoflow.search.listed import ListedStrategies, check_listed
from topoflow.search.memory import Budget, budget
from topoflow.search.moves import moves
from topoflow.search.placements import Choices, choices
from topoflow.search.problem import Effort, Problem, SearchSettings
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
    """A space of strategies of one job."""

    @property
    def stages(self) -> tuple[int, ...]:
        """Return the steps of a round in each stage of a search; 0 for a space without steps."""

    def start(self) -> Strategy:
        """Return the strategy where a search begins. Raises ``ValueError`` where nothing fits in memory."""

    def others(self) -> list[Strategy]:
        """Return other initial strategies that fit."""

    def check(self, strategy: Strategy, walk: Walk | None) -> None:
        """Raise ``ValueError`` for a strategy or walk that a search in this space cannot have reached."""

    def explore(
        self, fabric: Fabric, present: Strategy, effort: Effort, walk: Walk | None, tell: Tell, run: Run
    ) -> list[Strategy]:
        """Return the best strategies by their estimates on ``fabric``, the best first.

        The walk begins at the ``present`` strategy, or continues ``walk``, the last one before an interruption of this
        round. ``tell`` is called after every few steps. ``run`` has the device.
        """


@dataclass(frozen=True)
class FixedStrategy:
    """A space of one strategy, for a recorded job whose layers are not known: only the network is searched."""

    problem: Problem
    stages = (0,)

    def start(self) -> Strategy:
        """Return the strategy. Raises ``ValueError`` for a job that sends nothing: all networks are equally good."""
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
class PlacementSpace:
    """A space of placements of layers on many sets of servers, explored by tempered Metropolis chains."""

    problem: Problem
    settings: SearchSettings
    workload: LayerGraph
    initial: Placement
    choices: Choices
    budget: Budget

    @property
    def stages(self) -> tuple[int, ...]:
        return self.settings.stages if self.choices.count > 1 else (0,)

    def start(self) -> Placement:
        state = self._state(self.initial)
        fitting = self.budget.closest(state)
        return self.initial if (fitting == state).all() else self._strategy(fitting)

    def others(self) -> list[Strategy]:
        """Return the fitting strategies of other fabrics and of the rules data parallel and hybrid."""
        start = self._state(self.start())
        states = {self._state(other).tobytes(): other for other in (*rules(self.problem), *self.problem.others)}
        return [
            other
            for state, other in states.items()
            if state != start.tobytes() and self.budget.fits(self.budget.used(self._state(other)[None]))[0]
        ]

    def check(self, strategy: Strategy, walk: Walk | None) -> None:
        layers = [layer.name for layer in self.workload.layers]
        sets = self.choices.number
        if not isinstance(strategy, Placement) or strategy.servers != self.choices.servers:
            raise ValueError(f"must place layers on {self.choices.servers} servers, got {strategy.name!r}")
        if sorted(strategy.placement) != sorted(layers) or not sets.keys() >= set(strategy.placement.values()):
            raise ValueError(f"must place the {len(layers)} layers of {self.workload.name} on sets of the search")
        if walk is not None:
            check_walk(walk, self.settings, len(layers), self.choices.count)

    def explore(
        self, fabric: Fabric, present: Strategy, effort: Effort, walk: Walk | None, tell: Tell, run: Run
    ) -> list[Strategy]:
        assert isinstance(present, Placement)
        if effort.steps == 0:
            return []
        start = self._state(present)
        tempering = self.tempering(fabric, effort.round, run)
        first = self.first(start, effort.round)
        reached = tempering.begin(first, self.settings.kept_states) if walk is None else walk
        if run.workers is None or self.settings.ladders == 1:
            stretches = tempering.walk(reached, effort.steps)
        else:
            stretches = spread.walk(self, fabric, effort.round, reached, effort.steps, run, run.workers)
        for stretch in stretches:
            tell(stretch)
            reached = stretch.walk
        states = [state for state in fastest(reached, self.settings.kept_states) if (state != start).any()]
        return [self._strategy(state) for state in states[: self.settings.decide]]

    def tempering(self, fabric: Fabric, round: int, run: Run) -> Tempering:
        """Return the walk of a round on a network, on the device of ``run``."""
        return Tempering(
            screen(self.problem, fabric, self.choices, run),
            self.budget,
            moves(self.workload, self.choices),
            shares(self.settings.acceptance, self.settings.chains),
            self.problem.seed,
            round,
            self.settings.patience,
        )

    def first(self, start: Numbers, round: int) -> Numbers:
        """Return [A, C, Y] the initial states of chains: ``start``, in the first round also those of other fabrics.

        Ladders take turns: if the number of states divides that of ladders, all chains of a ladder begin at one state.
        """
        initial = [self._state(other) for other in self.problem.others] if round == 0 else []
        fitting = [state for state in initial if self.budget.fits(self.budget.used(state[None]))[0]]
        states, ladders, chains = np.array([start, *fitting]), self.settings.ladders, self.settings.chains
        turn = np.arange(ladders)[:, None] + ladders * np.arange(chains)
        states_of_chains: Numbers = states[turn % len(states)].astype(np.int32)
        return states_of_chains

    def _state(self, strategy: Strategy) -> Numbers:
        assert isinstance(strategy, Placement)
        return self.choices.placement(self.workload, strategy)

    def _strategy(self, state: Numbers) -> Placement:
        return self.choices.strategy(self.workload, state, self.initial)


def rules(problem: Problem) -> list[Placement]:
    """Return the strategies of the rules without options, with the buckets of the start."""
    start = problem.start
    assert isinstance(start, Placement)
    buckets = {"bucket_bytes": start.bucket_bytes, "first_bucket_bytes": start.first_bucket_bytes}
    return [
        rule.place(problem.workload, problem.servers) for rule in (DataParallel(**buckets), Hybrid(None, **buckets))
    ]


def space(problem: Problem, settings: SearchSettings) -> Space:
    """Return the space of a problem: placements, the listed ``alternatives`` of other kinds, or one strategy."""
    if isinstance(problem.start, Placement):
        workload = layer_graph(problem.workload)
        others = [strategy for strategy in problem.others if isinstance(strategy, Placement)]
        initial = [problem.start, *rules(problem), *others]
        placed = choices(problem.servers, [holders for strategy in initial for holders in strategy.placement.values()])
        return PlacementSpace(problem, settings, workload, problem.start, placed, budget(workload, placed))
    options = problem.start.alternatives(problem.workload)
    return ListedStrategies(problem, settings, tuple(options)) if options else FixedStrategy(problem)
