"""What a search hands back: the plan, and everything that its report shows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from topoflow.engine.base import Timeline, World
from topoflow.fabric.base import Fabric
from topoflow.search.base import Plan
from topoflow.search.history import History
from topoflow.search.judge import Candidate, exactly, lower_bound
from topoflow.search.problem import Problem
from topoflow.search.routes import plan_circuits, plan_rings, plan_routes, plan_trees
from topoflow.search.strategies import strategy_to_json
from topoflow.strategy.base import Strategy
from topoflow.traffic.base import Traffic

Bytes = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Found:
    """The answer. Times of ``start`` and ``best`` are exact (no merged events)."""

    plan: Plan
    start: Candidate
    best: Candidate
    history: History

    @property
    def strategy(self) -> Strategy:
        return self.best.strategy

    @property
    def fabric(self) -> Fabric:
        return self.best.fabric

    @property
    def traffic(self) -> Traffic:
        return self.best.traffic

    @property
    def world(self) -> World:
        return self.best.world

    @property
    def timeline(self) -> Timeline:
        return self.best.timeline

    @cached_property
    def before(self) -> Bytes:
        """[n, n] bytes from server to server at the start, each all-reduce one ring in its group's order."""
        return ring_demand(self.start.traffic, None)

    @cached_property
    def after(self) -> Bytes:
        """[n, n] bytes from server to server of the plan, whose all-reduces are spread over its rings."""
        return ring_demand(self.traffic, self.fabric)


def found(problem: Problem, start: Candidate, best: Candidate, history: History) -> Found:
    """Simulate both exactly; the start is the answer where merged events had hidden that nothing is faster."""
    exact_start, exact_best = (start, best)
    if best is start:
        exact_start = exact_best = exactly([start])[0]
    else:
        exact_start, exact_best = exactly([start, best])
    if exact_best.time >= exact_start.time:
        exact_best = exact_start
    return Found(plan(problem, exact_best), exact_start, exact_best, history)


def plan(problem: Problem, candidate: Candidate) -> Plan:
    """What has to be known to run the job as the candidate does."""
    fabric = candidate.fabric
    prices = problem.prices if fabric.bill else None
    return Plan(
        workload=problem.workload.name,
        servers=problem.servers,
        strategy=strategy_to_json(candidate.strategy),
        fabric=fabric.name,
        degree=fabric.degree,
        bandwidth=fabric.interface_bandwidth,
        circuits=plan_circuits(fabric),
        rings=plan_rings(fabric, candidate.traffic, problem.all_reduce),
        trees=plan_trees(fabric, candidate.traffic, problem.all_reduce),
        routes=plan_routes(fabric),
        all_reduce=problem.all_reduce,
        routing=problem.routing,
        seed=problem.seed,
        bound=lower_bound(candidate),
        fluid=candidate.time,
        cost=None if prices is None else prices.cost(fabric.bill),
        power=None if prices is None else prices.power(fabric.bill),
    )


def ring_demand(traffic: Traffic, fabric: Fabric | None) -> Bytes:
    """[n, n] bytes from server to server if every all-reduce is a ring: 2 (k - 1) / k S from each to the next.

    Where the fabric has R rings for a group, each carries 1 / R of that (TopoOpt 4.3, Figs 8 and 9).
    """
    demand, groups = traffic.demand()
    for group, buffer in groups.items():
        orders = fabric.rings.get(group, (group,)) if fabric is not None else (group,)
        share = 2 * (len(group) - 1) / len(group) * buffer / len(orders)
        for order in orders:
            np.add.at(demand, (list(order), [*order[1:], order[0]]), share)
    return demand
