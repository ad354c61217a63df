"""Lowering: a workload and a strategy become the tasks of one training iteration.

A placement of layers is lowered by ``placed.py``, a grid of ranks that cut the layers by ``pipelined.py``, a recorded
job by ``captured.py``.
"""

from __future__ import annotations

from functools import cached_property

from topoflow.strategy.base import Strategy
from topoflow.traffic.base import Traffic
from topoflow.traffic.captured import lower_captured
from topoflow.traffic.pipelined import lower_pipelined
from topoflow.traffic.placed import Placements
from topoflow.workload.base import Workload


def lower(workload: Workload, strategy: Strategy) -> Traffic:
    """The traffic of one iteration.

    Raises ``ValueError`` where the strategy does not place a layer of the workload.
    """
    return Lowerer(workload).lower(strategy)


class Lowerer:
    """Lowers strategies of one workload, one after the other, as a search does; what they share is computed once."""

    def __init__(self, workload: Workload) -> None:
        self.workload = workload

    def lower(self, strategy: Strategy) -> Traffic:
        """As ``lower`` does."""
        if self.workload.trace is not None:
            return lower_captured(self.workload, strategy)
        if strategy.grid is not None:
            return lower_pipelined(self.workload, strategy, strategy.grid)
        return self._placements.lower(strategy)

    @cached_property
    def _placements(self) -> Placements:
        return Placements(self.workload)
