"""Listed: a search among strategies that can all be listed, as the degrees of a transformer's parallelism.

The list (``Strategy.alternatives``) has some hundred entries, each with a least time that needs no lowering
(``topoflow.traffic.least_seconds``). The ``degrees`` entries for which it is shortest are lowered and ranked by
their ``bound`` on the present network. That is a guess, whatever the fidelity: the first ones are candidates, as
placements are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from topoflow.engine.base import Run
from topoflow.engine.bound import Bound
from topoflow.fabric.base import Fabric
from topoflow.search.problem import Effort, Problem, Settings
from topoflow.search.tempering import Tell, Walk
from topoflow.strategy.base import Strategy
from topoflow.traffic.least_seconds import least_seconds
from topoflow.traffic.lower import lower


@dataclass(frozen=True)
class Listed:
    """All strategies of one kind that fit in memory: ``options``, at least one."""

    problem: Problem
    settings: Settings
    options: tuple[Strategy, ...] = field(repr=False)
    stages = (0,)

    def start(self) -> Strategy:
        """The problem's start where it fits, otherwise the nearest option."""
        given = self.problem.start
        nearest = min(self.options, key=given.distance)
        return given if given.distance(nearest) == 0 else nearest

    def others(self) -> list[Strategy]:
        """The best on other fabrics, as far as they are options here."""
        return [option for option in self.options if any(option.distance(other) == 0 for other in self.problem.others)]

    def check(self, strategy: Strategy, walk: Walk | None) -> None:
        """Raise ``ValueError`` for another strategy than the options, the start and those of other fabrics."""
        check_listed(strategy, walk, [*self.options, self.problem.start, *self.problem.others])

    def explore(
        self, fabric: Fabric, present: Strategy, effort: Effort, walk: Walk | None, tell: Tell, run: Run
    ) -> list[Strategy]:
        sends = float(np.bincount(fabric.source, fabric.bandwidth)[: fabric.servers].max(initial=0.0)) or np.inf
        others = [option for option in self.options if option.distance(present) > 0]
        promising = sorted(others, key=lambda option: self._least(option, sends))[: self.settings.degrees]
        placer = self.problem.placer(fabric)
        worlds = [placer.place(lower(self.problem.workload, option), option.name) for option in promising]
        times = [timeline.makespan for timeline in Bound().simulate(worlds)]
        fastest = sorted(range(len(worlds)), key=lambda number: times[number])
        return [promising[number] for number in fastest[: self.settings.decide]]

    def _least(self, option: Strategy, sends: float) -> float:
        """s, if every server sends at most ``sends`` B/s."""
        return least_seconds(self.problem.workload, option, sends)


def check_listed(strategy: Strategy, walk: Walk | None, options: Sequence[Strategy]) -> None:
    """Raise ``ValueError`` unless ``strategy`` is one of these, and there are no chains."""
    if walk is not None:
        raise ValueError("walk: must not be there, as no layer is placed")
    plain = strategy.to_json()
    if not any(each.to_json() == plain for each in options):
        raise ValueError(f"must be one of the {len(options)} strategies of the search, got {strategy.name!r}")
