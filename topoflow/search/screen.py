"""Screening: what very many strategies of one job take on one fabric, before the best are simulated.

    placement[c, y]    which choice layer y has in state c

A state has the energy by which chains walk: the larger of its ``bound``, which it cannot beat, and of an estimate that
sees contention (``topoflow.engine.screen.contention``). The estimate is nearly always the larger one and so comes
first; it takes some 50 us, for a DLRM on 128 servers, or less than one where the all-reduces alone are too slow. The
bound (``topoflow.engine.screen.strategy_bound``) is computed for what the estimate would let pass. Shapes: C states, Y
layers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from topoflow.engine.screen.contention import Contention
from topoflow.engine.screen.strategy_bound import StrategyBound
from topoflow.fabric.base import Fabric
from topoflow.search.placements import Choices
from topoflow.search.problem import Problem
from topoflow.strategy.placement import Placement
from topoflow.workload.base import layer_graph

Numbers = NDArray[np.int32]
Seconds = NDArray[np.float64]
Mask = NDArray[np.bool_]


class Screen:
    """Energies of states of one problem on one fabric."""

    def __init__(self, estimate: Contention, bound: StrategyBound | None) -> None:
        self.estimate = estimate
        self.bound = bound

    def chains(self, placement: Numbers) -> Chains:
        """States to propose to, of which ``placement`` [C, Y] are the first."""
        return Chains(self, placement)


class Chains:
    """C states that change one layer at a time."""

    def __init__(self, screen: Screen, placement: Numbers) -> None:
        self.estimates = screen.estimate.chains(placement)
        self.bounds = None if screen.bound is None else screen.bound.chains(placement)
        self.placement = placement.copy()  # [C, Y]
        self.energy = self.estimates.makespan  # [C] s
        if self.bounds is not None:
            self.energy = np.maximum(self.energy, self.bounds.makespan)
        self.proposed = self.placement, self.energy

    def propose(self, layer: Numbers, choice: Numbers, limit: Seconds) -> Seconds:
        """[C] s, the energy that each state would have with one ``layer`` [C] on another ``choice`` [C].

        Above ``limit`` [C], it is only known to be that high.
        """
        placement = self.placement.copy()
        placement[np.arange(len(placement)), layer] = choice
        energy = self.estimates.propose(layer, choice, limit)
        if self.bounds is not None:
            energy = np.maximum(energy, self.bounds.propose(layer, choice, np.where(energy <= limit, limit, -1.0)))
        self.proposed = placement, energy
        return energy

    def accept(self, mask: Mask) -> None:
        """Make the last proposal the state, where ``mask`` [C]."""
        for chains in (self.estimates, self.bounds):
            if chains is not None:
                chains.accept(mask)
        self.placement = np.where(mask[:, None], self.proposed[0], self.placement)
        self.energy = np.where(mask, self.proposed[1], self.energy)


def screen(problem: Problem, fabric: Fabric, choices: Choices) -> Screen:
    """The screen of a problem; without bounds where those of its all-reduces need lowering."""
    workload, start = layer_graph(problem.workload), problem.start
    assert isinstance(start, Placement)
    settings: dict[str, Any] = {
        "routing": problem.routing,
        "seed": problem.seed,
        "bucket_bytes": start.bucket_bytes,
        "first_bucket_bytes": start.first_bucket_bytes,
        "threads": 1,  # a step of some chains is too short to share: threads would wait for each other
    }
    estimate = Contention(workload, fabric, choices.holders, **settings)
    if problem.all_reduce not in StrategyBound.algorithms:
        return Screen(estimate, None)
    settings |= {
        "all_reduce": problem.all_reduce,
        "same_as": estimate if problem.all_reduce == "hierarchical" else None,
    }
    return Screen(estimate, StrategyBound(workload, fabric, choices.holders, **settings))
