"""Alternating optimization: strategy and network, one at a time, until neither helps the other.

    present strategy, on the network built for it
      Comp x Comm     explore strategies on that network; the best few by their screening are simulated
      Comm x Topo     build a network for the demand of each of these, and more for the best; simulate them, too
    keep the fastest; again, until nothing improves or ``rounds`` are over
    again from the start with longer walks, in stages (``Settings.stages``); keep the fastest of all stages

Strategies are explored on a network that was built for another, where those that are far from it look slow. Every
second round of a network without switches therefore explores on an ideal switch of the same bandwidth
(``search.ideal``), as if any network could be had; what it finds has to be faster on networks that can.

Source: TopoOpt 4.1, Fig. 6. There one strategy goes from one plane to the other; here a few do, as the networks of
all are one batch. A network is taken only if an iteration is faster on it, so no round makes it slower. Where a fabric
does not depend on the demand (switches), this is a search for the strategy alone.

A longer walk ends elsewhere, and the rounds after it begin elsewhere, so that it can find less than a shorter one. A
search therefore contains the shorter ones: its stages are those of a search with fewer proposals, to the bit, and
longer ones after them. Of the fastest of every round the best is kept, by the fidelity of the problem, which is the one
that counts at the end. So neither more proposals nor more rounds give a slower plan.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from topoflow.engine.base import Run
from topoflow.engine.lowering.algorithms import following
from topoflow.engine.observer import Silent
from topoflow.fabric.channels.strides import WithStrides, strides_to_try
from topoflow.search.checkpoint import Checkpoint, Setup, key, load, save
from topoflow.search.found import Found, found
from topoflow.search.history import History, Round
from topoflow.search.judge import Candidate, Judge, Wiring, ideal_for, predicted, same_wires
from topoflow.search.problem import Effort, Problem, Settings
from topoflow.search.space import Space, space
from topoflow.search.tempering import Stretch
from topoflow.strategy.base import Strategy

SAVE_EVERY = 5.0  # s between checkpoints; it has no influence on what is found

# Share of an iteration that other ring orders must save: to follow them, an application needs more than a setting.
WORTH = 1e-3


def search(
    problem: Problem,
    settings: Settings,
    run: Run = Run(),
    *,
    checkpoint: Path | None = None,
    within: Space | None = None,
) -> Found:
    """The fastest strategy and network that are found, among the strategies of ``within``; None: of the problem.

    Never slower than the start on its network, or than another strategy that it begins with (``Space.others``): data
    parallel, hybrid, and the problem's ``others``.

    The same problem and settings give the same plan. With a ``checkpoint``, a search that was stopped, wherever, goes
    on from there to the plan that it would have found unbroken; the file is left there. ``run.observer`` is informed
    every few steps: ``activity`` ("exploring" or "simulating"), ``round`` of ``rounds``, ``time`` (s, of the best plan
    so far), ``best`` (s, the least in this round, as screened), ``current`` (s, of the coldest chain, as screened),
    ``acceptance`` (share of the proposals so far in this round) and ``rate`` (evaluations per second).

    Raises ``ValueError`` where nothing fits in memory, a fabric cannot be built, or the checkpoint is of another
    search.
    """
    return _Search(problem, settings, within or space(problem, settings), run, checkpoint).search()


def _worthwhile(found: list[Candidate], fastest: Candidate) -> list[Candidate]:
    """Those in orders of their fabric, and of the others the one with the fewest rings that is as fast as any, if it is
    worth a change of ``fastest``.
    """
    permuted = [each for each in found if each.wiring.strides]
    enough = min([(1 - WORTH) * fastest.iteration_time, *((1 + WORTH) * each.iteration_time for each in permuted)])
    best = sorted(
        (each for each in permuted if each.iteration_time <= enough), key=lambda each: len(each.wiring.strides)
    )
    return [each for each in found if not each.wiring.strides] + best[:1]


def _setup(candidate: Candidate) -> Setup:
    return Setup(candidate.strategy, candidate.wiring)


@dataclass
class _Search:
    problem: Problem
    settings: Settings
    space: Space
    run: Run
    path: Path | None
    steps: list[tuple[float, ...]] = field(default_factory=list)
    saved: float = 0.0  # when, by the clock
    silent: Run = field(init=False)
    judge: Judge = field(init=False)
    at: Checkpoint = field(init=False)
    first: Candidate = field(init=False)  # from which every stage begins
    best: Candidate = field(init=False)  # of all stages so far
    times: dict[str, float] = field(default_factory=dict)  # s, in the fidelity of the problem, by the text of a setup

    def __post_init__(self) -> None:
        self.silent = replace(self.run, observer=Silent())
        self.judge = Judge(self.problem, self.settings.deciding(self.problem.fidelity), self.silent)

    @cached_property
    def key(self) -> dict[str, str]:
        return key(self.problem, self.settings)

    def search(self) -> Found:
        given = self.space.start()
        start = self._candidate(given, Wiring(given, self.settings.emphasis[0]))
        self.first = self._first(start)
        self.at = self._begin()
        self.best, present = self._restored(self.at.best), self._restored(self.at.present)
        try:
            while not self.at.done:
                present = self._round(present)
        finally:
            self._save()
        return found(self.problem, start, self.best, self.at.history, self.silent)

    def _first(self, start: Candidate) -> Candidate:
        """The fastest strategy that a search begins with, each on a network of its own."""
        wirings = [Wiring(other, self.settings.emphasis[0]) for other in self.space.others()]
        others = self.judge.judge([(each.strategy, each, self.judge.fabric(each)) for each in wirings])
        return min([start, *others], key=lambda candidate: candidate.iteration_time)

    def _begin(self) -> Checkpoint:
        """Return the checkpoint at which the search was stopped, else one at the first candidate."""
        if self.path is None or not self.path.exists():
            return Checkpoint(0, 0, _setup(self.first), _setup(self.first), None, False, History())
        loaded = load(self.path, self.key, self.settings, self.space)
        self.steps = [tuple(row) for row in loaded.history.steps.tolist()]
        return loaded

    def _restored(self, setup: Setup) -> Candidate:
        """The candidate of a checkpoint, simulated anew unless it is the first one."""
        return self.first if repr(setup) == repr(_setup(self.first)) else self._candidate(setup.strategy, setup.wiring)

    def _candidate(self, strategy: Strategy, wiring: Wiring) -> Candidate:
        (candidate,) = self.judge.judge([(strategy, wiring, self.judge.fabric(wiring))])
        return candidate

    def _round(self, present: Candidate) -> Candidate:
        """Both planes once; return the candidate from which the next round begins."""
        at, steps, earlier = self.at, self._steps, self._of_stage()
        ideal = self.settings.ideal and not present.fabric.has_switches
        fabric = ideal_for(present.fabric) if ideal and len(earlier) % 2 else present.fabric
        effort = Effort(len(earlier), steps)
        strategies = self.space.explore(fabric, present.strategy, effort, at.walk, self._stretch(), self.silent)
        self._inform("simulating")
        here = self.judge.judge([(strategy, present.wiring, present.fabric) for strategy in strategies])
        fastest = min([present, *here], key=lambda candidate: candidate.iteration_time)
        there = self._rewire(fastest, here, present)
        best = min([fastest, *there], key=lambda candidate: candidate.iteration_time)
        self.best = min([self.best, best], key=self._time)
        rewired = not same_wires(best.fabric, present.fabric)
        record = Round(
            round=at.round,
            steps=steps,
            strategies=tuple(candidate.iteration_time for candidate in here),
            topologies=tuple(candidate.iteration_time for candidate in there),
            time=min([best.iteration_time, *(each.time for each in at.history.rounds[-1:])]),
            new_strategy=best.strategy is not present.strategy,
            new_topology=rewired,
            temperatures=() if self.at.walk is None else tuple(np.median(self.at.walk.temperature, axis=0).tolist()),
        )
        history = replace(self._history(), rounds=(*at.history.rounds, record))
        last = (*earlier, record)[-2 if ideal else -1 :]
        same = len(last) == (2 if ideal else 1) and not any(each.new_strategy or each.new_topology for each in last)
        ends_stage = same or len(earlier) + 1 == self.settings.rounds
        done = ends_stage and at.stage + 1 == len(self.space.stages)
        stage = at.stage + (ends_stage and not done)
        present = self.first if ends_stage else best
        self.at = Checkpoint(stage, at.round + 1, _setup(self.best), _setup(present), None, done, history)
        self.judge.forget(present.strategy)
        self._save()
        return present

    @property
    def _steps(self) -> int:
        """Steps of every chain in a round of this stage."""
        return self.space.stages[self.at.stage]

    def _of_stage(self) -> list[Round]:
        """The rounds of this stage that have ended."""
        return [each for each in self.at.history.rounds if each.steps == self._steps]

    def _time(self, candidate: Candidate) -> float:
        """s, in the fidelity of the problem; a coarser one decides between the candidates of a round."""
        if self.judge.fidelity == self.problem.fidelity:
            return candidate.iteration_time
        text = repr(_setup(candidate))
        if text not in self.times:
            self.times[text] = predicted([candidate], self.problem.fidelity, self.silent)[0].iteration_time
        return self.times[text]

    def _rewire(self, fastest: Candidate, others: list[Candidate], present: Candidate) -> list[Candidate]:
        """Candidates on networks of their own: the fastest on one for every emphasis, the others on the first."""
        emphasis = self.settings.emphasis
        wirings = [Wiring(fastest.strategy, factor) for factor in emphasis]
        wirings += [Wiring(other.strategy, emphasis[0]) for other in others if other is not fastest]
        wirings += self._permuted(fastest)
        asked = [(wiring.strategy, wiring, self.judge.fabric(wiring)) for wiring in wirings]
        found = self.judge.judge([each for each in asked if not same_wires(each[2], present.fabric)])
        return _worthwhile(found, fastest)

    def _permuted(self, fastest: Candidate) -> list[Wiring]:
        """The fastest strategy in other ring orders, where its servers reduce through switches.

        Circuits are wired for the orders of their design, and orders that were asked for stay.
        """
        asked = isinstance(self.problem.design, WithStrides)
        if asked or not fastest.fabric.has_switches or self.problem.all_reduce not in following("rings"):
            return []
        largest = max(map(len, fastest.all_reduces), default=1)
        return [Wiring(fastest.strategy, fastest.wiring.emphasis, strides) for strides in strides_to_try(largest)]

    def _stretch(self) -> Callable[[Stretch], None]:
        """What to do after every few steps of a walk."""
        chains = self.settings.ladders * self.settings.chains
        began, first = time.perf_counter(), 0 if self.at.walk is None else self.at.walk.step
        shares = sum(row[4] for row in self.steps if row[0] == self.at.round)

        def stretch(reached: Stretch) -> None:
            nonlocal shares
            rate = (reached.walk.step - first) * chains / max(time.perf_counter() - began, 1e-9)
            made = self.steps[-1][1] if self.steps else 0
            columns = zip(reached.best.tolist(), reached.coldest.tolist(), reached.accepted.tolist(), strict=True)
            for count, (best, coldest, accepted) in enumerate(columns, 1):
                self.steps.append((self.at.round, made + count * chains, best, coldest, accepted / chains, rate))
                shares += accepted / chains
            self.at = replace(self.at, walk=reached.walk)
            self._inform("exploring", shares / reached.walk.step)
            if time.perf_counter() - self.saved > SAVE_EVERY:
                self._save()

        return stretch

    def _history(self) -> History:
        return replace(self.at.history, steps=np.array(self.steps, np.float64).reshape(-1, 6))

    def _inform(self, activity: str, acceptance: float = 0.0) -> None:
        walk, time = self.at.walk, self.best.iteration_time
        _, _, best, current, _, rate = self.steps[-1] if walk else (0, 0, time, time, 0.0, 0.0)
        observer = self.run.observer
        observer.advance(walk.step if walk else 0, self._steps)
        observer.record(
            activity=activity,
            round=self.at.round,
            rounds=self.settings.rounds * len(self.space.stages),
            time=time,
            best=best,
            current=current,
            acceptance=acceptance,
            rate=rate if activity == "exploring" else 0.0,
        )

    def _save(self) -> None:
        if self.path is not None:
            save(self.path, self.key, replace(self.at, history=self._history()))
            self.saved = time.perf_counter()
