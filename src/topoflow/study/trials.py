"""Trials: of the points of a grid, Optuna chooses those to simulate, and what the objective asks for is searched.

A trial is one point, simulated with the strategy that its rule places. Where its fidelity is never below ``bound``, the
bound is computed first: a point that could not be among the best even if it took no longer than that is pruned. No
point of the front is lost. Other fidelities (``packet``, ``slotted``, ``fluid`` with merged events) prune nothing.

Source: Akiba et al., "Optuna: A next-generation hyperparameter optimization framework", KDD 2019. The plugin of Hydra,
hydra-optuna-sweeper 1.3.0, asks for an Optuna before 3.0.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from topoflow.case.base import Job
from topoflow.digest import digest, program
from topoflow.engine.base import Run
from topoflow.engine.bound import Bound
from topoflow.engine.observer import Silent
from topoflow.engine.simulation import simulate
from topoflow.fabric.prices import front
from topoflow.files import write_atomically
from topoflow.study.builder import problem_of
from topoflow.study.configure.build import build
from topoflow.study.configure.grid import Product, swept_values
from topoflow.study.configure.point import EXECUTOR, Point
from topoflow.units import check_whole, counted

GROUP = "study"
ROUNDING = 1e-9  # share by which rounding may put a time below its bound
Values = tuple[float, ...]  # what is made least


@dataclass(frozen=True)
class Optuna:
    """``trials`` in all, those of earlier runs of the same study included; ``startup`` of them are drawn at random."""

    trials: int = 100
    startup: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        for key, least in (("trials", 1), ("startup", 0), ("seed", 0)):
            check_whole(f"study.{key}", getattr(self, key), least)


@dataclass(frozen=True)
class Trial:
    """The result of a point. ``time`` is None if it was pruned, ``error`` says why it cannot be simulated."""

    number: int  # of the point in the grid
    swept: Mapping[str, str]
    bound: float | None = None  # s; None: the fidelity may be below it
    time: float | None = None  # s
    cost: float | None = None  # USD
    power: float | None = None  # W
    error: str | None = None


def is_sampled(points: Sequence[Point]) -> bool:
    """Return whether only some of the points are tried."""
    return GROUP in points[0].config


def sampled(points: Sequence[Point], run: Run, out: Path | None) -> list[Point]:
    """Return the points that the objective of the search chooses of those that are tried.

    With ``out``, trials are kept in ``study.db``, and ``trials.json`` has all of them. Raises ``ValueError`` where no
    point can be simulated, or Optuna is not installed.
    """
    objective = str(points[0].config["search"]["objective"])
    trials = _Study(points, objective, run, out).run()
    done = [trial for trial in trials if trial.time is not None]
    if not done:
        raise ValueError(
            next((trial.error for trial in trials if trial.error), "study.trials: must simulate some point")
        )
    values = [_values(trial, trial.time or 0.0, objective) for trial in done]
    best = front([value[-1] for value in values], [value[0] for value in values])
    chosen = best if objective == "pareto" else [min(range(len(values)), key=lambda number: values[number])]
    if out is not None:
        text = json.dumps({"objective": objective, "trials": [vars(trial) for trial in trials]}, indent=1)
        write_atomically(out / "trials.json", text.encode() + b"\n")
    return [points[done[number].number] for number in chosen]


def _values(trial: Trial, time: float, objective: str) -> Values:
    """Return the values that the objective minimizes, for a trial that takes ``time``."""
    price = trial.power if objective == "power" else trial.cost
    if objective == "time":
        return (time,)
    if price is None:
        raise ValueError(f"search.objective: must be time where a network has no bill of materials, got {objective}")
    return (time, price) if objective == "pareto" else (time * price,)


def is_beaten(values: Values, known: Sequence[Values]) -> bool:
    """Return whether some known values are as low everywhere, and lower somewhere."""
    return any(all(a <= b for a, b in zip(other, values, strict=True)) and other != values for other in known)


class _Study:
    def __init__(self, points: Sequence[Point], objective: str, run: Run, out: Path | None) -> None:
        self.points, self.objective, self.run_, self.out = points, objective, run, out
        self.settings: Optuna = build(points[0], GROUP)
        self.space = Product(swept_values(points))
        if len(self.space) != len(points):
            raise ValueError(
                f"study: points must be every combination of different values, {len(self.space)} in all, "
                f"got {len(points)}"
            )
        self.known: dict[int, Trial] = {}

    def run(self) -> list[Trial]:
        """Return all trials, those of earlier runs first."""
        optuna = _optuna()
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        study = self._study(optuna)
        self.known = {trial.number: trial for trial in map(_kept, study.trials) if trial is not None}
        total = min(self.settings.trials, len(self.points))
        self.run_.observer.stage("trials")
        self.run_.observer.size(f"{total:,} of {counted(len(self.points), 'point')}")
        while len(self.known) < total:
            self.run_.observer.advance(len(self.known), total)
            optuna_trial = study.ask()
            number = self._number(optuna_trial)
            trial = self.known.get(number) or self._tried(number)
            optuna_trial.set_user_attr("trial", json.dumps(vars(trial)))
            self.known[number] = trial
            state = optuna.trial.TrialState
            if trial.time is not None:
                study.tell(optuna_trial, list(_values(trial, trial.time, self.objective)))
            else:
                study.tell(optuna_trial, state=state.PRUNED if trial.error is None else state.FAIL)
        self.run_.observer.advance(total, total)
        return list(self.known.values())

    def _study(self, optuna: Any) -> Any:
        """Return the study of this grid and program; another one is a study of its own in the same file."""
        config = {
            key: value
            for key, value in self.points[0].config.items()
            if key not in (*self.space.values, GROUP, EXECUTOR)
        }
        name = digest([program(), dict(self.space.values), self.objective, config])[:16]
        storage = None
        if self.out is not None:
            self.out.mkdir(parents=True, exist_ok=True)
            connect = partial(sqlite3.connect, os.path.abspath(self.out / "study.db"))  # in a URL ? would end the name
            storage = optuna.storages.RDBStorage("sqlite://", engine_kwargs={"creator": connect})
        settings = self.settings
        return optuna.create_study(
            storage=storage,
            study_name=name,
            load_if_exists=True,
            directions=["minimize"] * (2 if self.objective == "pareto" else 1),
            sampler=optuna.samplers.TPESampler(seed=settings.seed, n_startup_trials=settings.startup),
        )

    def _number(self, optuna_trial: Any) -> int:
        """Return the point that Optuna suggests; if it was tried before, the next that was not."""
        number = 0
        for key, values in self.space.values.items():
            number = number * len(values) + _index(optuna_trial, key, values)
        while number in self.known:
            number = (number + 1) % len(self.points)
        return number

    def _tried(self, number: int) -> Trial:
        point = self.points[number]
        trial = Trial(number, dict(point.swept))
        try:
            problem = problem_of(point)
            job = Job(problem.workload, problem.start)
            fabric = problem.design.build(job.servers, job.demand)
            if fabric.bill and problem.prices is not None:
                prices = problem.prices.cost(fabric.bill), problem.prices.power(fabric.bill)
                trial = replace(trial, cost=prices[0], power=prices[1])
            world = problem.placer(fabric).place(job.traffic, ", ".join(point.swept.values()))
            silent = replace(self.run_, observer=Silent())
            if problem.fidelity.keeps_bound(world):
                (bound,) = simulate([world], Bound(), silent)
                trial = replace(trial, bound=bound.makespan)
                if self._is_hopeless(trial):
                    return trial
            (timeline,) = simulate([world], problem.fidelity, silent)
        except ValueError as error:
            return replace(trial, error=str(error))
        return replace(trial, time=timeline.makespan)

    def _is_hopeless(self, trial: Trial) -> bool:
        """Return whether a point is beaten even if it takes no longer than its bound."""
        known = [
            _values(known_trial, known_trial.time, self.objective)
            for known_trial in self.known.values()
            if known_trial.time is not None
        ]
        return is_beaten(_values(trial, (trial.bound or 0.0) * (1 - ROUNDING), self.objective), known)


def _optuna() -> Any:
    try:
        import optuna
    except ImportError as error:
        requirement = "must be left out where Optuna is not installed (pip install 'topoflow[optuna]')"
        raise ValueError(f"study: {requirement}, got {error}") from error
    return optuna


def _kept(trial: Any) -> Trial | None:
    """Return the trial of an earlier run; None if it was cut off."""
    text = trial.user_attrs.get("trial")
    return None if text is None or not trial.state.is_finished() else Trial(**json.loads(text))


def _index(optuna_trial: Any, key: str, values: Sequence[str]) -> int:
    """Return the index of the value that Optuna suggests. It ranks numbers, so that it knows which are near others."""
    try:
        order = sorted(range(len(values)), key=lambda index: float(values[index]))
    except ValueError:
        return int(optuna_trial.suggest_categorical(key, list(range(len(values)))))
    return order[int(optuna_trial.suggest_int(key, 0, len(values) - 1))]
