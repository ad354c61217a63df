"""Everything that a search can find, one by one: the oracle of ``search_gap`` for jobs of a few layers and servers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from topoflow.engine.base import Floats, Run
from topoflow.engine.fluid import Fluid
from topoflow.fabric.base import Fabric
from topoflow.search.judge import Judge, Wiring
from topoflow.search.problem import Problem, SearchSettings
from topoflow.search.screen import screen
from topoflow.search.space import PlacementSpace, space
from topoflow.search.tempering import Numbers
from topoflow.strategy.base import Strategy

BATCH = 64  # worlds at a time


class Optimum(NamedTuple):
    """The fastest of all."""

    placements: int  # that fit
    networks: int
    seconds: float
    favourite: float  # s, of the placement with the least estimate, on the network of the fastest


def optimum(problem: Problem, settings: SearchSettings) -> Optimum:
    """By ``fluid``: all placements that a search can propose, on all networks that it can build for one of them."""
    within = space(problem, settings)
    assert isinstance(within, PlacementSpace)
    states = np.array(
        list(itertools.product(range(within.choices.count), repeat=len(within.workload.layers))), np.int32
    )
    states = states[within.budget.fits(within.budget.used(states))]
    candidates = networks(problem, settings, strategies(within, states))
    times = [makespans(problem, wiring, fabric, strategies(within, states)) for wiring, fabric in candidates]
    best = min(range(len(times)), key=lambda number: times[number].min())
    estimates = screen(problem, candidates[best][1], within.choices).makespans(states)
    return Optimum(len(states), len(candidates), float(times[best].min()), float(times[best][estimates.argmin()]))


def strategies(within: PlacementSpace, states: Numbers) -> Iterator[Strategy]:
    return (within.choices.strategy(within.workload, state, within.initial) for state in states)


def makespans(problem: Problem, wiring: Wiring, fabric: Fabric, candidates: Iterator[Strategy]) -> Floats:
    """s of each strategy on one network."""
    times: list[float] = []
    while batch := list(itertools.islice(candidates, BATCH)):
        judge = Judge(problem, Fluid(), Run(threads=1))
        times += [plan.iteration_time for plan in judge.judge([(strategy, wiring, fabric) for strategy in batch])]
    return np.array(times)


def networks(problem: Problem, settings: SearchSettings, candidates: Iterator[Strategy]) -> list[tuple[Wiring, Fabric]]:
    """Each once."""
    built: dict[object, tuple[Wiring, Fabric]] = {}
    for strategy in candidates:
        judge = Judge(problem, Fluid(), Run())
        for emphasis in settings.emphasis:
            wiring = Wiring(strategy, emphasis)
            fabric = judge.fabric(wiring)
            wires = (fabric.source, fabric.target, fabric.bandwidth, fabric.latency)
            built.setdefault((*(array.tobytes() for array in wires), repr(fabric.channels)), (wiring, fabric))
    return list(built.values())
