"""Setup: one point of a figure, a job on a network; a figure builds and simulates of it what it needs.

Shapes: T tasks of a world.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from topoflow.case.base import Case, Result
from topoflow.demand import Demand
from topoflow.engine.base import Run
from topoflow.engine.lowering.placement import Lowering, Placer
from topoflow.engine.simulation import simulate
from topoflow.fabric.base import Fabric, FabricDesign
from topoflow.fabric.prices import Prices
from topoflow.operations import sent_by_all
from topoflow.search.alternate import search
from topoflow.search.problem import Problem, SearchSettings
from topoflow.strategy.base import StrategyRule
from topoflow.study.builder import Builder, problem_of
from topoflow.study.configure.build import build
from topoflow.study.configure.decide import lowering_of
from topoflow.study.configure.point import EXECUTOR, Point
from topoflow.study.figures.base import Row
from topoflow.study.figures.points import identity
from topoflow.study.figures.similar_cost import RULES, unwired
from topoflow.track import trackers

RUN = ("device", "threads", EXECUTOR, *trackers())  # keys that no result depends on


@dataclass(frozen=True, eq=False)
class Setup:
    """One point. What is built stays in memory with it; ``replace(setup)`` is the same point, not built yet."""

    label: Row  # the series, and the values of the grid's keys
    point: Point
    rival: Point | None  # the point of another series, if the network is to cost about as much as that one's
    similar_cost: str  # the rule for it, a key of ``RULES``
    run: Run = Run()

    def id(self, parameters: Mapping[str, object]) -> str:
        """Return the digest of the configuration and of what is built of it: a file counts by its content.

        Strategies that come to the same are one point: hybrid is data parallel where there is nothing to split.

        Raises ``ValueError`` in one line, before anything is simulated, for what the point cannot be.
        """
        config = {key: value for key, value in self.point.config.items() if key not in ("strategy", *RUN)}
        strategy = {**self.problem.start.to_json(), "name": ""}
        configuration: dict[str, object] = {"series": self.label["series"], "point": config, "strategy": strategy}
        built = {name: getattr(self.problem, name) for name in ("workload", "design", "prices")}
        if self.rival is not None:
            built |= {"rival": build(self.rival, "fabric"), "similar_cost": self.similar_cost}
        return identity({**configuration, **built, **parameters})

    @cached_property
    def problem(self) -> Problem:
        """The job and the kind of network of this point. Raises ``ValueError`` in one line that names the key."""
        if self.point.config["servers"] == 1:
            raise ValueError("servers: must be at least 2, as figures show what servers send each other, got 1")
        return problem_of(self.point)

    @cached_property
    def prices(self) -> Prices:
        prices: Prices = build(self.point, "prices")
        return prices

    @property
    def servers(self) -> int:
        return self.problem.servers

    @property
    def design(self) -> FabricDesign:
        return self._priced[0]

    @property
    def cost(self) -> float:
        """USD of the network's bill of materials; of a network that is to cost as much as a rival, by its rule."""
        return self._priced[1]

    @cached_property
    def _priced(self) -> tuple[FabricDesign, float]:
        design = self.problem.design
        if self.rival is not None:
            return RULES[self.similar_cost](design, build(self.rival, "fabric"), self.servers, self.prices)
        return design, self.prices.cost(unwired(design, self.servers).bill)

    @cached_property
    def unwired(self) -> Fabric:
        """The network as it is bought, before its circuits are set up for a job."""
        return unwired(self.design, self.servers)

    @property
    def lowering(self) -> Lowering:
        """The algorithms and routing that turn traffic into a world."""
        return lowering_of(self.point)

    @property
    def strategy(self) -> StrategyRule:
        rule: StrategyRule = build(self.point, "strategy")
        return rule

    @cached_property
    def placer(self) -> Placer:
        """Puts traffic on the network as it is bought."""
        return Placer(self.unwired, self.lowering)

    @cached_property
    def case(self) -> Case:
        """Return the job on the network that is bought. Raises ``ValueError`` where the strategy cannot be used."""
        bought = replace(self.point, objects={**self.point.objects, "fabric": self.design})
        ((case,),) = (built.cases for built in Builder().build([bought]))
        return case

    @cached_property
    def result(self) -> Result:
        """The simulated iteration."""
        (timeline,) = simulate([self.case.world], self.problem.fidelity, self.run)
        return Result(self.case, timeline)

    def searched(self, settings: SearchSettings) -> Result:
        """Return the result of the best strategy found; not searched if circuits change during a job."""
        if not self.unwired.is_static:
            return self.result
        return search(replace(self.problem, design=self.design), settings, self.run).best


def model_parallel(case: Case) -> NDArray[np.bool_]:
    """Mark the tasks [T] of the world that are model-parallel traffic or computation, not part of an all-reduce."""
    reduces = np.array(case.job.traffic.kinds()) == "all_reduce"
    owned: NDArray[np.bool_] = ~reduces[case.world.graph.owner]
    return owned


def buffer_bytes(demand: Demand) -> float:
    """Sum the bytes of the buffers of all all-reduces, at each of their servers."""
    return sum(len(group) * buffer for group, buffer in demand.all_reduce.items())


def wire_bytes(demand: Demand) -> float:
    """Sum the bytes that ring all-reduces send between servers."""
    return sum(sent_by_all("all_reduce", len(group)) * buffer for group, buffer in demand.all_reduce.items())
