"""Alternating optimization: strategy and network, one at a time, until neither helps the other.

    present strategy, on the network built for it
      Comp x Comm     explore strategies on that network; the best few by their screening are simulated
      Comm x Topo     build a network for the demand of each of these, and more for the best; simulate them, too
    keep the fastest; again, until nothing improves or ``rounds`` are over

Strategies are explored on a network that was built for another, where those that are far from it look slow. Every
second round of a network without switches therefore explores on an ideal switch of the same bandwidth
(``search.ideal``), as if any network could be had; what it finds has to be faster on networks that can.

Source: TopoOpt 4.1, Fig. 6. There one strategy goes from one plane to the other; here a few do, as the networks of
all are one batch. A network is taken only if an iteration is faster on it, so no round makes it slower. Where a fabric
does not depend on the demand (switches), this is a search for the strategy alone.
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
from topoflow.search.checkpoint import Checkpoint, key, load, save
from topoflow.search.found import Found, found
from topoflow.search.history import History, Round
from topoflow.search.judge import Candidate, Judge, Wiring, ideal_for, same_wires
from topoflow.search.problem import Problem, Settings
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

    def __post_init__(self) -> None:
        self.silent = replace(self.run, observer=Silent())
        self.judge = Judge(self.problem, self.settings.deciding(self.problem.fidelity), self.silent)

    @cached_property
    def key(self) -> dict[str, str]:
        return key(self.problem, self.settings)

    def search(self) -> Found:
        given = self.space.start()
        wiring = Wiring(given, self.settings.emphasis[0])
        start = self._candidate(given, wiring)
        self.at = self._begin(start)
        present = start
        if repr((self.at.strategy, self.at.wiring)) != repr((given, wiring)):
            present = self._candidate(self.at.strategy, self.at.wiring)
        try:
            while not self.at.done:
                present = self._round(present)
        finally:
            self._save()
        return found(self.problem, start, present, self.at.history, self.silent)

    def _begin(self, start: Candidate) -> Checkpoint:
        """Where it was stopped; else the fastest that it begins with, each on a network of its own."""
        if self.path is None or not self.path.exists():
            wirings = [Wiring(other, self.settings.emphasis[0]) for other in self.space.others()]
            others = self.judge.judge([(each.strategy, each, self.judge.fabric(each)) for each in wirings])
            first = min([start, *others], key=lambda candidate: candidate.iteration_time)
            return Checkpoint(0, first.strategy, first.wiring, None, False, History())
        loaded = load(self.path, self.key, self.settings, self.space)
        self.steps = [tuple(row) for row in loaded.history.steps.tolist()]
        return loaded

    def _candidate(self, strategy: Strategy, wiring: Wiring) -> Candidate:
        (candidate,) = self.judge.judge([(strategy, wiring, self.judge.fabric(wiring))])
        return candidate

    def _round(self, present: Candidate) -> Candidate:
        """Both planes once; the fastest then."""
        at = self.at
        ideal = self.settings.ideal and not present.fabric.has_switches
        fabric = ideal_for(present.fabric) if ideal and at.round % 2 else present.fabric
        strategies = self.space.explore(
            fabric, present.strategy, at.round, at.walk, self._stretch(present), self.silent
        )
        self._inform("simulating", present)
        here = self.judge.judge([(strategy, present.wiring, present.fabric) for strategy in strategies])
        fastest = min([present, *here], key=lambda candidate: candidate.iteration_time)
        there = self._rewire(fastest, here, present)
        best = min([fastest, *there], key=lambda candidate: candidate.iteration_time)
        rewired = not same_wires(best.fabric, present.fabric)
        record = Round(
            round=at.round,
            strategies=tuple(candidate.iteration_time for candidate in here),
            topologies=tuple(candidate.iteration_time for candidate in there),
            time=best.iteration_time,
            new_strategy=best.strategy is not present.strategy,
            new_topology=rewired,
            temperatures=() if self.at.walk is None else tuple(np.median(self.at.walk.temperature, axis=0).tolist()),
        )
        history = replace(self._history(), rounds=(*at.history.rounds, record))
        same = [not (each.new_strategy or each.new_topology) for each in history.rounds[-2 if ideal else -1 :]]
        done = (all(same) and len(same) == (2 if ideal else 1)) or at.round + 1 == self.settings.rounds
        self.at = Checkpoint(at.round + 1, best.strategy, best.wiring, None, done, history)
        self.judge.forget(best.strategy)
        self._save()
        return best

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

    def _stretch(self, present: Candidate) -> Callable[[Stretch], None]:
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
            self._inform("exploring", present, shares / reached.walk.step)
            if time.perf_counter() - self.saved > SAVE_EVERY:
                self._save()

        return stretch

    def _history(self) -> History:
        return replace(self.at.history, steps=np.array(self.steps, np.float64).reshape(-1, 6))

    def _inform(self, activity: str, present: Candidate, acceptance: float = 0.0) -> None:
        walk, time = self.at.walk, present.iteration_time
        _, _, best, current, _, rate = self.steps[-1] if walk else (0, 0, time, time, 0.0, 0.0)
        observer = self.run.observer
        observer.advance(walk.step if walk else 0, self.settings.steps)
        observer.record(
            activity=activity,
            round=self.at.round,
            rounds=self.settings.rounds,
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
