"""The result of a search: the plan, and the candidates before and after."""

from __future__ import annotations

from dataclasses import dataclass, replace

from topoflow.engine.base import Run, Timeline, World
from topoflow.fabric.base import Fabric
from topoflow.search.base import Plan
from topoflow.search.history import SearchHistory
from topoflow.search.judge import Candidate, Judge, lower_bound, predicted
from topoflow.search.problem import Problem
from topoflow.search.routes import plan_of
from topoflow.strategy.base import Strategy
from topoflow.traffic.base import Traffic


@dataclass(frozen=True, eq=False)
class SearchResult:
    """The result of a search. ``start`` and ``best`` are simulated in the problem's fidelity.

    ``unpermuted`` is the best in the ring orders of its fabric; None if the search chose no other orders.
    """

    plan: Plan
    start: Candidate
    best: Candidate
    history: SearchHistory
    unpermuted: Candidate | None = None

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


def search_result(
    problem: Problem, start: Candidate, best: Candidate, history: SearchHistory, run: Run
) -> SearchResult:
    """Return the result with the predicted times of both candidates.

    The start is the result if nothing is faster than it in the problem's fidelity, which a coarser one can hide.
    """
    candidates = [start] if best is start else [start, best]
    first, *others = predicted(candidates, problem.fidelity, run)
    last = min([first, *others], key=lambda candidate: candidate.iteration_time)
    return SearchResult(plan(problem, last, run), first, last, history, _unpermuted(problem, last, run))


def _unpermuted(problem: Problem, best: Candidate, run: Run) -> Candidate | None:
    """Return ``best`` in the ring orders of its fabric; None if these are its orders."""
    if not best.wiring.strides:
        return None
    judge = Judge(problem, problem.fidelity, run)
    wiring = replace(best.wiring, strides=())
    return judge.judge([(best.strategy, wiring, judge.fabric(wiring))])[0]


def plan(problem: Problem, candidate: Candidate, run: Run) -> Plan:
    """Return the plan that describes how to run the job like the candidate."""
    fabric = candidate.fabric
    prices = problem.prices if fabric.bill else None
    return plan_of(
        fabric,
        candidate.traffic,
        candidate.strategy,
        workload=problem.workload.name,
        all_reduce=problem.all_reduce,
        routing=problem.routing,
        seed=problem.seed,
        bound=lower_bound(candidate, run),
        fidelity=problem.fidelity.name,
        iteration_time=candidate.iteration_time,
        cost=None if prices is None else prices.cost(fabric.bill),
        power=None if prices is None else prices.power(fabric.bill),
    )
