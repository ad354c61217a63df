"""Judging: what a strategy takes on a network; the candidates of a round are simulated as one batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from topoflow.case.base import Case, Job, Result, Settings
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
    """What a fabric is built for: the demand of a strategy, its all-reduces ``emphasis`` times as heavy.

    ``strides``: ring orders of its groups in place of those that the fabric has; none: as they are.
    """

    strategy: Strategy
    emphasis: float
    strides: Strides = ()


@dataclass(frozen=True, eq=False, repr=False)
class Candidate(Result):
    """A strategy on a network, and when its tasks run there."""

    wiring: Wiring = field(kw_only=True)


@dataclass
class Judge:
    """Lowers, wires, places and simulates; remembers what a round needs more than once."""

    problem: Problem
    fidelity: Fidelity
    run: Run
    jobs: dict[str, Job] = field(default_factory=dict)  # by the text of their strategy

    def __post_init__(self) -> None:
        self.lowerer = Lowerer(self.problem.workload)

    def job(self, strategy: Strategy) -> Job:
        """The problem's workload, spread by ``strategy``."""
        return self.jobs.setdefault(repr(strategy), Job(self.problem.workload, strategy, self.lowerer))

    def forget(self, keep: Strategy) -> None:
        """Drop all jobs but that of one strategy: their traffic is large."""
        self.jobs = {key: job for key, job in self.jobs.items() if key == repr(keep)}

    def fabric(self, wiring: Wiring) -> Fabric:
        """The fabric that the problem's design builds for the demand of ``wiring``.

        Raises ``ValueError`` where it changes its circuits while a job runs: no plan could state them.
        """
        demand = self.job(wiring.strategy).demand
        scaled = {group: bytes_ * wiring.emphasis for group, bytes_ in demand.all_reduce.items()}
        built = self.problem.design.build(self.problem.servers, replace(demand, all_reduce=scaled))
        check_keeps_circuits(built)
        return with_strides(built, demand.all_reduce, wiring.strides) if wiring.strides else built

    def judge(self, asked: Sequence[tuple[Strategy, Wiring, Fabric]]) -> list[Candidate]:
        """A candidate for each, simulated as one batch."""
        placers: dict[int, Placer] = {}  # what is placed on one fabric shares its paths
        cases = [
            self._case(strategy, placers.setdefault(id(fabric), self.problem.placer(fabric)))
            for strategy, _, fabric in asked
        ]
        timelines = simulate([case.world for case in cases], self.fidelity, self.run)
        return [
            Candidate(case, timeline, wiring=wiring)
            for (_, wiring, _), case, timeline in zip(asked, cases, timelines, strict=True)
        ]

    def _case(self, strategy: Strategy, placer: Placer) -> Case:
        problem, job, fabric = self.problem, self.job(strategy), placer.fabric
        world = placer.place(job.traffic, strategy.name)
        settings = Settings(
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
    """Raise ``ValueError`` for a fabric that changes its circuits while a job runs: no plan could tell them."""
    if not fabric.is_static:
        raise ValueError(f"fabric: must keep its circuits while a job runs, got {fabric.name}")


def predicted(candidates: Sequence[Candidate], fidelity: Fidelity, run: Run) -> list[Candidate]:
    """The same, simulated in another ``fidelity``."""
    timelines = simulate([candidate.world for candidate in candidates], fidelity, run)
    return [replace(each, timeline=timeline) for each, timeline in zip(candidates, timelines, strict=True)]


def lower_bound(candidate: Candidate, run: Run) -> float:
    """Return the least time (s) that the candidate takes in exact ``fluid``; other fidelities may be faster."""
    return simulate([candidate.world], Bound(), run)[0].makespan


def same_wires(one: Fabric, other: Fabric) -> bool:
    """Whether two fabrics have the same links and ring orders, so that every strategy takes as long on both."""
    arrays = ("source", "target", "bandwidth", "latency")
    return one.channels == other.channels and all(np.array_equal(getattr(one, a), getattr(other, a)) for a in arrays)


def ideal_for(fabric: Fabric) -> Fabric:
    """An ideal switch with the interfaces of ``fabric``."""
    latency = float(fabric.latency.max(initial=0.0))
    nothing = Demand(fabric.servers)
    return IdealSwitch(fabric.interface_bandwidth, fabric.degree, latency).build(fabric.servers, nothing)
