"""Chains visit states as Boltzmann says, and what they draw depends on the step alone."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from topoflow.engine.base import Run
from topoflow.engine.fluid import Fluid
from topoflow.search.judge import Judge, Wiring
from topoflow.search.memory import budget
from topoflow.search.placements import choices
from topoflow.search.problem import Problem
from topoflow.search.screen import screen
from topoflow.search.tempering import Tempering, begin, draw, fastest, ladder

Make = Callable[..., Problem]
TINY = ("servers=2", "workload.tables=1", "workload.dense_layers=2", "workload.feature_layers=1")  # 3 layers, 3 choices


def tempering(asked: Problem, temperature: list[float], seed: int = 0) -> Tempering:
    found = choices(asked.servers)
    built = Judge(asked, Fluid(), Run()).fabric(Wiring(asked.start, 1.0))
    states = screen(asked, built, found)
    unit = float(states.chains(start_of(asked)[None]).energy[0])
    return Tempering(states, budget(asked.workload, found), unit * np.array(temperature), seed, 0)


def start_of(asked: Problem) -> np.ndarray:
    return choices(asked.servers).placement(asked.workload, asked.start)


@pytest.mark.slow
def test_states_are_visited_with_boltzmanns_probability_at_every_temperature(problem: Make) -> None:
    """All 27 states of 3 layers on 2 servers: chi-square of thinned samples, 26 degrees of freedom."""
    asked = problem(*TINY)
    run = tempering(asked, [0.1, 0.3])
    states = np.array(list(itertools.product(range(3), repeat=3)), np.int32)
    energy = run.screen.chains(states).energy
    seen = np.zeros((2, 27))
    walk = begin(run.screen, start_of(asked), 2)
    for walk in run.walk(walk, 5000):  # noqa: B020 the first is where it begins
        if walk.step % 8 == 0:  # so that samples are all but independent
            seen[walk.rung, walk.placement @ [9, 3, 1]] += 1
    for temperature, counts in zip(run.temperature, seen, strict=True):
        expected = np.exp(-(energy - energy.min()) / temperature)
        expected *= counts.sum() / expected.sum()
        likely = expected >= 5
        rest = np.array([counts[~likely].sum(), expected[~likely].sum()])
        chi = ((counts - expected)[likely] ** 2 / expected[likely]).sum() + (rest[0] - rest[1]) ** 2 / max(rest[1], 1)
        assert chi < 26 + 4 * np.sqrt(2 * 26)  # mean + 4 standard deviations
        assert counts.max() > 1.5 * counts.mean()  # not uniform


def test_a_walk_goes_on_from_anywhere_as_if_it_had_not_stopped(problem: Make) -> None:
    asked = problem("servers=4")
    walks = list(tempering(asked, [0.001, 0.01, 0.1]).walk(begin(tempering(asked, [1]).screen, start_of(asked), 3), 40))
    *_, last = tempering(asked, [0.001, 0.01, 0.1]).walk(walks[16], 40)
    assert (last.step, last.accepted) == (walks[-1].step, walks[-1].accepted)
    for name in ("placement", "energy", "rung", "best_placement", "best"):
        assert np.array_equal(getattr(last, name), getattr(walks[-1], name))


def test_energies_are_those_from_scratch_after_any_number_of_moves(problem: Make) -> None:
    asked = problem("servers=4")
    run = tempering(asked, [0.01, 0.1, 1.0])
    *_, last = run.walk(begin(run.screen, start_of(asked), 3), 60)
    assert last.energy.tolist() == tempering(asked, [1.0]).screen.chains(last.placement).energy.tolist()
    assert np.all(last.best <= last.energy)
    assert last.best.tolist() == run.screen.chains(last.best_placement).energy.tolist()
    assert sorted(last.rung.tolist()) == [0, 1, 2]


def test_a_cold_chain_only_gets_faster(problem: Make) -> None:
    asked = problem("servers=4")
    run = tempering(asked, [1e-12])
    energies = [float(walk.energy[0]) for walk in run.walk(begin(run.screen, start_of(asked), 1), 60)]
    assert all(later <= earlier for earlier, later in itertools.pairwise(energies))


def test_draws_depend_on_seed_round_and_step_alone() -> None:
    size = {"chains": 5, "layers": 7, "choices": 9}
    first = draw(1, 2, 3, **size)
    draw(1, 2, 2, **size)
    again = draw(1, 2, 3, **size)
    assert all(
        np.array_equal(getattr(first, name), getattr(again, name)) for name in ("layer", "choice", "accept", "swap")
    )
    for other in (draw(2, 2, 3, **size), draw(1, 3, 3, **size), draw(1, 2, 4, **size)):
        assert first.accept.tolist() != other.accept.tolist()
    assert first.layer.max() < 7
    assert first.choice.max() < 8


@pytest.mark.parametrize("chains", [1, 2, 8])
def test_a_ladder_is_geometric_from_the_coldest_to_the_hottest(chains: int) -> None:
    rungs = ladder(0.001, 0.1, chains)
    assert len(rungs) == chains
    assert rungs[0] == pytest.approx(0.001)
    assert np.allclose(np.diff(np.log(rungs)), np.log(rungs[-1] / rungs[0]) / max(chains - 1, 1))


def test_the_fastest_states_are_different_and_the_fastest_first(problem: Make) -> None:
    asked = problem("servers=4")
    run = tempering(asked, [0.001] * 6)
    *_, last = run.walk(begin(run.screen, start_of(asked), 6), 30)
    found = fastest(last, 4)
    assert len({state.tobytes() for state in found}) == len(found) <= 4
    energies = run.screen.chains(np.array(found)).energy
    assert np.all(np.diff(energies) >= 0)
    assert energies[0] == last.best.min()
