"""Divisions: how much of a model's state data-parallel replicas divide (ZeRO 1 to 3, or nothing), and among how many.

The space is a short list (``topoflow.strategy.space.shard_choices``): each entry is lowered and bounded on the present
network, and from there on is a candidate as placements are. Units and prefetching stay those of the start.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from topoflow.fabric.base import Fabric
from topoflow.search.degrees import fastest_by_bound
from topoflow.search.problem import Problem, Settings
from topoflow.search.tempering import Tell, Walk
from topoflow.strategy.base import Strategy
from topoflow.strategy.space import shard_choices


@dataclass(frozen=True)
class Divisions:
    """All that fit in memory."""

    problem: Problem
    settings: Settings
    options: tuple[Strategy, ...] = field(repr=False)

    def start(self) -> Strategy:
        """The problem's start where it fits, else what is nearest to it."""
        return min(self.options, key=self._apart)

    def explore(self, fabric: Fabric, present: Strategy, round: int, walk: Walk | None, tell: Tell) -> list[Strategy]:
        others = [option for option in self.options if option.shards != present.shards]
        return fastest_by_bound(self.problem, fabric, others, self.settings.decide)

    def _apart(self, option: Strategy) -> tuple[bool, int]:
        """Another group, then the stages between."""
        given = self.problem.start.shards
        assert given is not None
        stage, servers = (0, option.servers) if option.shards is None else (option.shards.stage, option.shards.servers)
        return servers != given.servers, abs(stage - given.stage)


def divisions(problem: Problem, settings: Settings) -> Divisions:
    """Raises ``ValueError`` where nothing fits in memory."""
    return Divisions(problem, settings, tuple(shard_choices(problem.workload, problem.start)))
