"""Lowering: turns a workload and a strategy into the tasks of one training iteration.

A placement of layers is lowered by ``placed.py``, a grid of ranks by ``grid/pipelined.py``, a recorded job by
``captured/job.py``. A kind of strategy that is defined in ``topoflow.strategy.NAME`` registers its lowering in
``topoflow.traffic.NAME``:

    @lowering.register
    def _(strategy: Kind, lowerer: Lowerer) -> Traffic: ...
"""

from __future__ import annotations

from functools import cached_property, singledispatch
from importlib import import_module
from importlib.util import find_spec

from topoflow.strategy.as_captured import Recorded
from topoflow.strategy.base import Strategy
from topoflow.strategy.grid import ParallelGrid
from topoflow.strategy.placement import Placement
from topoflow.traffic.base import Traffic
from topoflow.traffic.grid.pipelined import lower_pipelined
from topoflow.traffic.placed import PlacementLowering
from topoflow.workload.base import Workload, layer_graph


def lower(workload: Workload, strategy: Strategy) -> Traffic:
    """Return the traffic of one iteration.

    Raises ``ValueError`` where the strategy does not fit the workload: a placement must place every layer.
    """
    return Lowerer(workload).lower(strategy)


class Lowerer:
    """A lowering of strategies of one workload, which computes shared parts once."""

    def __init__(self, workload: Workload) -> None:
        self.workload = workload

    def lower(self, strategy: Strategy) -> Traffic:
        """Return the traffic of one iteration with ``strategy``; see the function ``lower``."""
        if lowering.dispatch(type(strategy)) is lowering.dispatch(object):
            find_lowering(type(strategy))
        return lowering(strategy, self)

    @cached_property
    def placements(self) -> PlacementLowering:
        return PlacementLowering(layer_graph(self.workload))


@singledispatch
def lowering(strategy: Strategy, lowerer: Lowerer) -> Traffic:
    """Return the traffic of ``lowerer.workload``, by the kind of the strategy."""
    raise TypeError(f"strategy: must be of a kind with a lowering, got {type(strategy).__name__}")


@lowering.register
def _(strategy: Placement, lowerer: Lowerer) -> Traffic:
    return lowerer.placements.lower(strategy)


@lowering.register
def _(strategy: ParallelGrid, lowerer: Lowerer) -> Traffic:
    return lower_pipelined(layer_graph(lowerer.workload), strategy)


@lowering.register
def _(strategy: Recorded, lowerer: Lowerer) -> Traffic:
    from topoflow.traffic.captured.job import lower_captured  # most jobs were not recorded

    return lower_captured(lowerer.workload, strategy)


def find_lowering(kind: type[Strategy]) -> None:
    """Import the module that registers the lowering of ``kind``, if there is one."""
    name = f"{__package__}.{kind.__module__.rpartition('.')[2]}"
    if find_spec(name) is not None:
        import_module(name)
