"""Degrees: how a transformer is cut by tensor, pipeline, context and expert parallelism, with how many microbatches.

The space is a list (``topoflow.strategy.space``), some hundred entries long, of which every one has a least time that
costs no lowering (``topoflow.traffic.least_seconds``). The ``degrees`` entries for which it is shortest are lowered and
bounded on the present network; from there on they are candidates as placements are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import log2

import numpy as np

from topoflow.engine.bound import Bound
from topoflow.fabric.base import Fabric
from topoflow.search.problem import Problem, Settings
from topoflow.search.tempering import Tell, Walk
from topoflow.strategy.base import Strategy
from topoflow.strategy.grid import Grid
from topoflow.strategy.space import parallel_choices
from topoflow.traffic.least_seconds import least_seconds
from topoflow.traffic.lower import lower

AXES = ("tensor", "pipeline", "context", "expert", "microbatches")


@dataclass(frozen=True)
class Degrees:
    """All strategies of a parallel job that fit in memory."""

    problem: Problem
    settings: Settings
    options: tuple[Strategy, ...] = field(repr=False)

    def start(self) -> Strategy:
        """The problem's start where it fits, else what is nearest to it."""
        given = self.problem.start
        if any(option.grid == given.grid for option in self.options):
            return given
        return min(self.options, key=lambda option: _apart(option.grid, given.grid))

    def explore(self, fabric: Fabric, present: Strategy, round: int, walk: Walk | None, tell: Tell) -> list[Strategy]:
        sends = float(np.bincount(fabric.source, fabric.bandwidth)[: fabric.servers].max(initial=0.0)) or np.inf
        others = [option for option in self.options if option.grid != present.grid]
        promising = sorted(others, key=lambda option: self._least(option, sends))[: self.settings.degrees]
        placer = self.problem.placer(fabric)
        worlds = [placer.place(lower(self.problem.workload, option), option.name) for option in promising]
        times = [timeline.makespan for timeline in Bound().simulate(worlds)]
        fastest = sorted(range(len(worlds)), key=lambda number: times[number])
        return [promising[number] for number in fastest[: self.settings.decide]]

    def _least(self, option: Strategy, sends: float) -> float:
        """s, if every server sends at most ``sends`` B/s."""
        assert option.grid is not None
        return least_seconds(self.problem.workload, option.grid, sends)


def _apart(one: Grid | None, other: Grid | None) -> float:
    """How often a degree has to be doubled or halved between two."""
    return sum(abs(log2(getattr(one, axis) / getattr(other, axis))) for axis in AXES)


def degrees(problem: Problem, settings: Settings) -> Degrees:
    """Raises ``ValueError`` where nothing fits in memory."""
    choices = parallel_choices(problem.workload, problem.servers)
    return Degrees(problem, settings, tuple(choice.place(problem.workload, problem.servers) for choice in choices))
