"""Evaluation of strategies on networks; the candidates of a round are simulated as one batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from topoflow.case.base import Case, CaseSettings, Job, Result
from topoflow.demand import Demand
from topoflow.engine.base import Fidelity, Run
from topoflow.engine.bound import Bound
from topoflow.engine.lowering.placement import Placer
from topoflow.engine.simulation import simulate
from topoflow.fabric.base import Fabric
from topoflow.fabric.channels.strides import Strides, with_strides
from topoflow.fabric.ideal_switch import IdealSwitch
from topoflow.search.problem import Problem
from topoflow.strategy.base import Strategy
from topoflow.traffic.lower import Lowerer


@dataclass(frozen=True)
class Wiring:
    """The demand that a fabric is built for: that of a strategy, with ``emphasis`` times the all-reduce bytes.

    ``strides`` replace the ring orders of the fabric; () keeps them.
    """

    strategy: Strategy
    emphasis: float
    strides: Strides = ()


@dataclass(frozen=True, eq=False, repr=False)
class Candidate(Result):
    """A strategy on a network, with the times of its tasks."""

    wiring: Wiring = field(kw_only=True)


@dataclass
class Judge:
    """An evaluator of strategies: lowers, wires, places and simulates them, and caches their jobs."""

    problem: Problem
    fidelity: Fidelity
    run: Run
    jobs: dict[str, Job] = field(default_factory=dict)  # text of a strategy -> its job

    def __post_init__(self) -> None:
        self.lowerer = Lowerer(self.problem.workload)

    def job(self, strategy: Strategy) -> Job:
        """Return the problem's workload, spread by ``strategy``."""
        return self.jobs.setdefault(repr(strategy), Job(self.problem.workload, strategy, self.lowerer))

    def forget(self, keep: Strategy) -> None:
        """Drop all jobs except that of one strategy, since their traffic is large."""
        self.jobs = {key: job for key, job in self.jobs.items() if key == repr(keep)}

    def fabric(self, wiring: Wiring) -> Fabric:
        """Return the fabric that the problem's design builds for the demand of ``wiring``.

        Raises ``ValueError`` if it changes its circuits while a job runs, since a plan cannot describe them.
        """
        demand = self.job(wiring.strategy).demand
        scaled = {group: bytes_ * wiring.emphasis for group, bytes_ in demand.all_reduce.items()}
        built = self.problem.design.build(self.problem.servers, replace(demand, all_reduce=scaled))
        check_keeps_circuits(built)
        return with_strides(built, demand.all_reduce, wiring.strides) if wiring.strides else built

    def judge(self, setups: Sequence[tuple[Strategy, Wiring, Fabric]]) -> list[Candidate]:
        """Simulate all setups as one batch; return a candidate for each."""
        placers: dict[int, Placer] = {}  # worlds on one fabric share its paths
        cases = [
            self._case(strategy, placers.setdefault(id(fabric), self.problem.placer(fabric)))
            for strategy, _, fabric in setups
        ]
        timelines = simulate([case.world for case in cases], self.fidelity, self.run)
        return [
            Candidate(case, timeline, wiring=wiring)
            for (_, wiring, _), case, timeline in zip(setups, cases, timelines, strict=True)
        ]

    def _case(self, strategy: Strategy, placer: Placer) -> Case:
        problem, job, fabric = self.problem, self.job(strategy), placer.fabric
        world = placer.place(job.traffic, strategy.name)
        settings = CaseSettings(
            world=strategy.name,
            workload=problem.workload.name,
            strategy=strategy.name,
            fabric=fabric.name,
            prices="",
            latency=float(fabric.latency.max(initial=0.0)),
            fidelity=problem.fidelity.name,
            lower_bound_of=problem.fidelity.lower_bound_of,
        )
        return Case(settings, job, fabric, problem.lowering, world, problem.prices)


def check_keeps_circuits(fabric: Fabric) -> None:
    """Raise ``ValueError`` for a fabric that changes its circuits while a job runs."""
    if not fabric.is_static:
        raise ValueError(f"fabric: must keep its circuits while a job runs, got {fabric.name}")


def predicted(candidates: Sequence[Candidate], fidelity: Fidelity, run: Run) -> list[Candidate]:
    """Return the candidates simulated in another ``fidelity``."""
    timelines = simulate([candidate.world for candidate in candidates], fidelity, run)
    return [replace(candidate, timeline=timeline) for candidate, timeline in zip(candidates, timelines, strict=True)]


def lower_bound(candidate: Candidate, run: Run) -> float:
    """Return a lower bound of the candidate's time (s) in exact ``fluid``; other fidelities may be faster."""
    return simulate([candidate.world], Bound(), run)[0].makespan


def same_wires(first: Fabric, second: Fabric) -> bool:
    """Return whether two fabrics have the same links and ring orders, so that every strategy takes as long on both."""
    arrays = ("source", "target", "bandwidth", "latency")
    return first.channels == second.channels and all(
        np.array_equal(getattr(first, a), getattr(second, a)) for a in arrays
    )


def ideal_for(fabric: Fabric) -> Fabric:
    """Return an ideal switch with the interfaces of ``fabric``."""
    latency = float(fabric.latency.max(initial=0.0))
    nothing = Demand(fabric.servers)
    return IdealSwitch(fabric.interface_bandwidth, fabric.degree, latency).build(fabric.servers, nothing)
