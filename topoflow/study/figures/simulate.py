"""One point as a job on a network: lowered, wired, placed, and simulated if its time is asked for."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from topoflow.case.base import Job
from topoflow.demand import Demand
from topoflow.engine.base import Timeline, World
from topoflow.engine.lowering.placement import place
from topoflow.engine.simulation import simulate
from topoflow.fabric.base import Fabric, FabricDesign
from topoflow.operations import sent_by_all
from topoflow.search.alternate import search
from topoflow.search.found import Found
from topoflow.search.problem import Problem, Settings
from topoflow.strategy.base import Strategy
from topoflow.study.figures.base import Setup
from topoflow.study.figures.similar_cost import RULES, unwired


def wire_bytes(demand: Demand) -> float:
    """Bytes that ring all-reduces send between servers."""
    return sum(sent_by_all("all_reduce", len(group)) * buffer for group, buffer in demand.all_reduce.items())


class Simulation:
    """A setup, simulated as far as is asked for."""

    def __init__(self, setup: Setup, settings: Settings | None = None) -> None:
        """With ``settings``, the strategy is what a search finds that begins with that of ``setup``."""
        self.setup = setup
        self.settings = settings

    @cached_property
    def job(self) -> Job:
        """Raises ``ValueError`` where the strategy cannot be."""
        return Job(self.setup.workload, self._start) if self._found is None else self._found.best.case.job

    @property
    def cost(self) -> float:
        """USD of the network: of its own bill of materials, or of the rival whose price it has about."""
        return self._priced[1]

    @cached_property
    def unwired(self) -> Fabric:
        """The network before there is a job: what can be bought, not what a job does with it."""
        return unwired(self.design, self.setup.servers)

    @cached_property
    def fabric(self) -> Fabric:
        if self._found is not None:
            return self._found.fabric
        return self.design.build(self.job.strategy.servers, self.job.demand)

    @cached_property
    def world(self) -> World:
        if self._found is not None:
            return self._found.world
        setup = self.setup
        return place(
            self.job.traffic,
            self.fabric,
            name=", ".join(f"{key}={value}" for key, value in setup.point.items()),
            all_reduce=setup.all_reduce,
            routing=setup.routing,
            rings=setup.rings,
            seed=setup.seed,
        )

    @cached_property
    def immutable(self) -> NDArray[np.bool_]:
        """Whether a task of the world is model-parallel traffic or computation, and not part of an all-reduce [T]."""
        reduces = np.array(self.job.traffic.kinds()) == "all_reduce"
        owned: NDArray[np.bool_] = ~reduces[self.world.graph.owner]
        return owned

    @cached_property
    def timeline(self) -> Timeline:
        """When every task runs, and in which world: circuits may change meanwhile."""
        if self._found is not None:
            return self._found.timeline
        return simulate([self.world], self.setup.fidelity, self.setup.run)[0]

    @property
    def design(self) -> FabricDesign:
        return self._priced[0]

    @cached_property
    def _priced(self) -> tuple[FabricDesign, float]:
        setup = self.setup
        if setup.rival is not None:
            return RULES[setup.similar_cost](setup.design, setup.rival, setup.servers, setup.prices)
        return setup.design, setup.prices.cost(unwired(setup.design, setup.servers).bill)

    @cached_property
    def _start(self) -> Strategy:
        return self.setup.rule.place(self.setup.workload, self.setup.servers)

    @cached_property
    def _found(self) -> Found | None:
        """What a search finds, if one is asked for; it does not know of circuits that change while a job runs."""
        setup = self.setup
        if self.settings is None or not self.unwired.is_static:
            return None
        problem = Problem(
            workload=setup.workload,
            start=self._start,
            design=self.design,
            all_reduce=setup.all_reduce,
            routing=setup.routing,
            seed=setup.seed,
            fidelity=setup.fidelity,
        )
        return search(problem, self.settings, setup.run)
