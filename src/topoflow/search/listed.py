"""Listed: a search among strategies that can be enumerated, such as the parallel degrees of a transformer.

The list (``Strategy.alternatives``) has some hundred entries, each with a lower bound that needs no lowering
(``topoflow.traffic.least_seconds``). The ``degrees`` entries with the least bounds are lowered and ranked by their
``bound`` on the present network. The ranking is an estimate in any fidelity; the first ones are candidates for the
simulation, like placements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from topoflow.engine.base import Run
from topoflow.engine.bound import Bound
from topoflow.engine.lowering.placement import Placer
from topoflow.fabric.base import Fabric
from topoflow.search.problem import Effort, Problem, SearchSettings
from topoflow.search.tempering import Tell, Walk
from topoflow.strategy.base import Strategy
from topoflow.traffic.least_seconds import least_seconds
from topoflow.traffic.lower import lower


@dataclass(frozen=True)
class ListedStrategies:
    """A space of all strategies of one kind that fit in memory: ``options``, at least one."""

    problem: Problem
    settings: SearchSettings
    options: tuple[Strategy, ...] = field(repr=False)
    stages = (0,)

    def start(self) -> Strategy:
        """Return the problem's start if it fits, otherwise the nearest option."""
        start = self.problem.start
        nearest = min(self.options, key=start.distance)
        return start if start.distance(nearest) == 0 else nearest

    def others(self) -> list[Strategy]:
        """Return the best strategies of other fabrics that are options here."""
        return [option for option in self.options if any(option.distance(other) == 0 for other in self.problem.others)]

    def check(self, strategy: Strategy, walk: Walk | None) -> None:
        """Raise ``ValueError`` for a strategy that is no option, start, or best of another fabric."""
        check_listed(strategy, walk, [*self.options, self.problem.start, *self.problem.others])

    def explore(
        self, fabric: Fabric, present: Strategy, effort: Effort, walk: Walk | None, tell: Tell, run: Run
    ) -> list[Strategy]:
        bandwidth = float(np.bincount(fabric.source, fabric.bandwidth)[: fabric.servers].max(initial=0.0)) or np.inf
        alternatives = [option for option in self.options if option.distance(present) > 0]
        promising = sorted(alternatives, key=lambda option: self._least(option, bandwidth))[: self.settings.degrees]
        placer = self.problem.placer(fabric)
        return sorted(promising, key=lambda option: self._bound(option, placer))[: self.settings.decide]

    def _bound(self, option: Strategy, placer: Placer) -> float:
        """Return the lower bound of the time (s) on the placer's network. Its world is not kept: it may take 2 GB."""
        world = placer.place(lower(self.problem.workload, option), option.name)
        return Bound().simulate([world])[0].makespan

    def _least(self, option: Strategy, bandwidth: float) -> float:
        """Return a lower bound of the time (s) if every server sends at most ``bandwidth`` (B/s)."""
        return least_seconds(self.problem.workload, option, bandwidth)


def check_listed(strategy: Strategy, walk: Walk | None, options: Sequence[Strategy]) -> None:
    """Raise ``ValueError`` unless ``strategy`` is one of ``options``, and ``walk`` is None."""
    if walk is not None:
        raise ValueError("walk: must not be there, as no layer is placed")
    plain = strategy.to_json()
    if not any(option.to_json() == plain for option in options):
        raise ValueError(f"must be one of the {len(options)} strategies of the search, got {strategy.name!r}")
