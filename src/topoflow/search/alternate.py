"""Alternating optimization of strategy and network, until neither improves.

    present strategy, on the network built for it
      Comp x Comm     explore strategies on that network; simulate those with the best estimates
      Comm x Topo     build a network for the demand of each of these, and more for the best; simulate them, too
    keep the fastest; repeat until nothing improves or ``rounds`` are over
    repeat from the start with longer walks, in stages (``SearchSettings.stages``); keep the fastest of all stages

Strategies are explored on a network that was built for another strategy, where very different ones look slow. Every
second round of a network without switches therefore explores on an ideal switch of the same bandwidth
(``search.ideal``), as a bound on all networks; its results are then simulated on real networks.

Source: TopoOpt 4.1, Fig. 6. There one strategy goes from one plane to the other; here several do, since their networks
are simulated as one batch. A network is accepted only if an iteration is faster on it, so no round makes it slower. If
a fabric does not depend on the demand (switches), only the strategy is searched.

A longer walk ends at another state, from which later rounds may find less than those of a shorter walk. A search
therefore contains the shorter ones: its first stages equal those of a search with fewer proposals, to the bit. The best
of all rounds is kept by the problem's fidelity, which decides the final result. So neither more proposals nor more
rounds give a slower plan.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from topoflow.collectives.algorithm import following
from topoflow.engine.base import Run
from topoflow.engine.observer import Silent
from topoflow.fabric.channels.strides import WithStrides, strides_to_try
from topoflow.search.checkpoint import Checkpoint, WiredStrategy, key, load, save
from topoflow.search.history import SearchHistory, SearchRound
from topoflow.search.judge import Candidate, Judge, Wiring, ideal_for, predicted, same_wires
from topoflow.search.problem import Effort, Problem, SearchSettings
from topoflow.search.result import SearchResult, search_result
from topoflow.search.space import Space, space
from topoflow.search.tempering import Stretch
from topoflow.strategy.base import Strategy

SAVE_EVERY = 5.0  # s between checkpoints; it does not influence the result

# Share of an iteration that other ring orders must save, since they need changes to an application.
MIN_SAVING = 1e-3


def search(
    problem: Problem,
    settings: SearchSettings,
    run: Run = Run(),
    *,
    checkpoint: Path | None = None,
    within: Space | None = None,
) -> SearchResult:
    """Search the fastest strategy and network, among the strategies of ``within`` (None: of the problem).

    The result is never slower than the start on its network, or than another initial strategy (``Space.others``): data
    parallel, hybrid, and the problem's ``others``.

    The same problem and settings give the same plan. With a ``checkpoint``, an interrupted search continues and gives
    the plan of an uninterrupted one; the file is kept. ``run.observer`` is informed every few steps: ``activity``
    ("exploring" or "simulating"), ``round`` of ``rounds``, ``time`` (s, of the best plan so far), ``best`` (s, the
    least estimate in this round), ``current`` (s, the estimate of the coldest chain), ``acceptance`` (share of the
    proposals so far in this round) and ``rate`` (evaluations per second).

    Raises ``ValueError`` where nothing fits in memory, a fabric cannot be built, or the checkpoint belongs to another
    search.
    """
    return _Search(problem, settings, within or space(problem, settings), run, checkpoint).search()


def _worthwhile(candidates: list[Candidate], fastest: Candidate) -> list[Candidate]:
    """Return the candidates with the ring orders of their fabric, and at most one with other orders.

    The latter is as fast as any, saves enough relative to ``fastest``, and has the fewest rings.
    """
    permuted = [candidate for candidate in candidates if candidate.wiring.strides]
    times = [candidate.iteration_time for candidate in permuted]
    limit = min([(1 - MIN_SAVING) * fastest.iteration_time, *((1 + MIN_SAVING) * time for time in times)])
    fast = [candidate for candidate in permuted if candidate.iteration_time <= limit]
    fewest_rings = sorted(fast, key=lambda candidate: len(candidate.wiring.strides))[:1]
    return [candidate for candidate in candidates if not candidate.wiring.strides] + fewest_rings


def _setup(candidate: Candidate) -> WiredStrategy:
    return WiredStrategy(candidate.strategy, candidate.wiring)


@dataclass
class _Search:
    problem: Problem
    settings: SearchSettings
    space: Space
    run: Run
    path: Path | None
    steps: list[tuple[float, ...]] = field(default_factory=list)
    saved: float = 0.0  # time of the last checkpoint, by the clock
    silent: Run = field(init=False)
    judge: Judge = field(init=False)
    at: Checkpoint = field(init=False)
    first: Candidate = field(init=False)  # every stage begins here
    best: Candidate = field(init=False)  # of all stages so far
    times: dict[str, float] = field(default_factory=dict)  # text of a setup -> s in the fidelity of the problem

    def __post_init__(self) -> None:
        self.silent = replace(self.run, observer=Silent())
        self.judge = Judge(self.problem, self.settings.deciding(self.problem.fidelity), self.silent)

    @cached_property
    def key(self) -> dict[str, str]:
        return key(self.problem, self.settings)

    def search(self) -> SearchResult:
        strategy = self.space.start()
        start = self._candidate(strategy, Wiring(strategy, self.settings.emphasis[0]))
        self.first = self._first(start)
        self.at = self._begin()
        self.best, present = self._restored(self.at.best), self._restored(self.at.present)
        try:
            while not self.at.done:
                present = self._round(present)
        finally:
            self._save()
        return search_result(self.problem, start, self.best, self.at.history, self.silent)

    def _first(self, start: Candidate) -> Candidate:
        """Return the fastest of the initial strategies, each on a network built for it."""
        wirings = [Wiring(other, self.settings.emphasis[0]) for other in self.space.others()]
        candidates = self.judge.judge([(wiring.strategy, wiring, self.judge.fabric(wiring)) for wiring in wirings])
        return min([start, *candidates], key=lambda candidate: candidate.iteration_time)

    def _begin(self) -> Checkpoint:
        """Return the checkpoint at which the search was stopped, else one at the first candidate."""
        if self.path is None or not self.path.exists():
            return Checkpoint(0, 0, _setup(self.first), _setup(self.first), None, False, SearchHistory())
        loaded = load(self.path, self.key, self.settings, self.space)
        self.steps = [tuple(row) for row in loaded.history.steps.tolist()]
        return loaded

    def _restored(self, setup: WiredStrategy) -> Candidate:
        """Return the candidate of a checkpoint; it is simulated again unless it is the first one."""
        return self.first if repr(setup) == repr(_setup(self.first)) else self._candidate(setup.strategy, setup.wiring)

    def _candidate(self, strategy: Strategy, wiring: Wiring) -> Candidate:
        (candidate,) = self.judge.judge([(strategy, wiring, self.judge.fabric(wiring))])
        return candidate

    def _round(self, present: Candidate) -> Candidate:
        """Explore strategies, then networks; return the candidate from which the next round begins."""
        at, steps, earlier = self.at, self._steps, self._of_stage()
        ideal = self.settings.ideal and not present.fabric.has_switches
        fabric = ideal_for(present.fabric) if ideal and len(earlier) % 2 else present.fabric
        effort = Effort(len(earlier), steps)
        strategies = self.space.explore(fabric, present.strategy, effort, at.walk, self._stretch(), self.silent)
        self._inform("simulating")
        on_present = self.judge.judge([(strategy, present.wiring, present.fabric) for strategy in strategies])
        fastest = min([present, *on_present], key=lambda candidate: candidate.iteration_time)
        on_own = self._rewire(fastest, on_present, present)
        best = min([fastest, *on_own], key=lambda candidate: candidate.iteration_time)
        self.best = min([self.best, best], key=self._time)
        rewired = not same_wires(best.fabric, present.fabric)
        record = SearchRound(
            round=at.round,
            steps=steps,
            strategies=tuple(candidate.iteration_time for candidate in on_present),
            topologies=tuple(candidate.iteration_time for candidate in on_own),
            time=min([best.iteration_time, *(earlier_round.time for earlier_round in at.history.rounds[-1:])]),
            new_strategy=best.strategy is not present.strategy,
            new_topology=rewired,
            temperatures=() if self.at.walk is None else tuple(np.median(self.at.walk.temperature, axis=0).tolist()),
        )
        history = replace(self._history(), rounds=(*at.history.rounds, record))
        last = (*earlier, record)[-2 if ideal else -1 :]
        changed = any(finished.new_strategy or finished.new_topology for finished in last)
        converged = len(last) == (2 if ideal else 1) and not changed
        ends_stage = converged or len(earlier) + 1 == self.settings.rounds
        done = ends_stage and at.stage + 1 == len(self.space.stages)
        stage = at.stage + (ends_stage and not done)
        present = self.first if ends_stage else best
        self.at = Checkpoint(stage, at.round + 1, _setup(self.best), _setup(present), None, done, history)
        self.judge.forget(present.strategy)
        self._save()
        return present

    @property
    def _steps(self) -> int:
        """Return the steps of every chain in a round of this stage."""
        return self.space.stages[self.at.stage]

    def _of_stage(self) -> list[SearchRound]:
        """Return the finished rounds of this stage."""
        return [finished for finished in self.at.history.rounds if finished.steps == self._steps]

    def _time(self, candidate: Candidate) -> float:
        """Return the iteration time (s) in the fidelity of the problem.

        A coarser fidelity may decide between the candidates of a round.
        """
        if self.judge.fidelity == self.problem.fidelity:
            return candidate.iteration_time
        text = repr(_setup(candidate))
        if text not in self.times:
            self.times[text] = predicted([candidate], self.problem.fidelity, self.silent)[0].iteration_time
        return self.times[text]

    def _rewire(self, fastest: Candidate, candidates: list[Candidate], present: Candidate) -> list[Candidate]:
        """Return candidates on networks built for them: the fastest for every emphasis, the others for the first."""
        emphasis = self.settings.emphasis
        wirings = [Wiring(fastest.strategy, factor) for factor in emphasis]
        wirings += [Wiring(candidate.strategy, emphasis[0]) for candidate in candidates if candidate is not fastest]
        wirings += self._permuted(fastest)
        cases = [(wiring.strategy, wiring, self.judge.fabric(wiring)) for wiring in wirings]
        rewired = self.judge.judge([case for case in cases if not same_wires(case[2], present.fabric)])
        return _worthwhile(rewired, fastest)

    def _permuted(self, fastest: Candidate) -> list[Wiring]:
        """Return wirings of the fastest strategy in other ring orders, if its servers reduce through switches.

        Circuits are wired for the orders of their design, and orders that the user requested are kept.
        """
        requested = isinstance(self.problem.design, WithStrides)
        if requested or not fastest.fabric.has_switches or self.problem.all_reduce not in following("rings"):
            return []
        largest = max(map(len, fastest.all_reduces), default=1)
        return [Wiring(fastest.strategy, fastest.wiring.emphasis, strides) for strides in strides_to_try(largest)]

    def _stretch(self) -> Callable[[Stretch], None]:
        """Return the function that is called after every few steps of a walk."""
        chains = self.settings.ladders * self.settings.chains
        began, first = time.perf_counter(), 0 if self.at.walk is None else self.at.walk.step
        shares = sum(row[4] for row in self.steps if row[0] == self.at.round)

        def stretch(reached: Stretch) -> None:
            nonlocal shares
            rate = (reached.walk.step - first) * chains / max(time.perf_counter() - began, 1e-9)
            proposals = self.steps[-1][1] if self.steps else 0
            columns = zip(reached.best.tolist(), reached.coldest.tolist(), reached.accepted.tolist(), strict=True)
            for count, (best, coldest, accepted) in enumerate(columns, 1):
                self.steps.append((self.at.round, proposals + count * chains, best, coldest, accepted / chains, rate))
                shares += accepted / chains
            self.at = replace(self.at, walk=reached.walk)
            self._inform("exploring", shares / reached.walk.step)
            if time.perf_counter() - self.saved > SAVE_EVERY:
                self._save()

        return stretch

    def _history(self) -> SearchHistory:
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
