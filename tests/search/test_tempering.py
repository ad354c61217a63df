"""Chains visit states as Boltzmann says, temperatures follow acceptance, draws depend on the step alone."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import fields, replace

import numpy as np
import pytest

from topoflow.engine.base import Run
from topoflow.engine.fluid import Fluid
from topoflow.fabric.base import FabricDesign
from topoflow.fabric.topoopt import TopoOpt
from topoflow.search.judge import Judge, Wiring
from topoflow.search.memory import budget
from topoflow.search.moves import BLOCK, Moves, moves
from topoflow.search.placements import choices
from topoflow.search.problem import Problem
from topoflow.search.screen import screen
from topoflow.search.tempering import Tempering, Walk, fastest, first_temperatures, kept, shares

Make = Callable[..., Problem]
TINY = ("servers=2", "workload.tables=1", "workload.dense_layers=2", "workload.feature_layers=1")  # 3 layers, 3 choices
MODERATE = (0.01, 0.2)


def tempering(
    asked: Problem, acceptance: tuple[float, float] = MODERATE, chains: int = 3, seed: int = 0, patience: int = 0
) -> Tempering:
    found = choices(asked.servers)
    built = Judge(asked, Fluid(), Run()).fabric(Wiring(asked.start, 1.0))
    model, proposed = screen(asked, built, found), moves(asked.workload, found)
    return Tempering(model, budget(asked.workload, found), proposed, shares(acceptance, chains), seed, 0, patience)


def begin(run: Tempering, asked: Problem, keep: int = 4) -> Walk:
    start = choices(asked.servers).placement(asked.workload, asked.start)
    return run.begin(np.tile(start, (len(run.share), 1)), keep)


def some_moves(asked: Problem) -> tuple[Moves, int]:
    found = choices(asked.servers)
    return moves(asked.workload, found), found.count


@pytest.mark.slow
def test_states_are_visited_with_boltzmanns_probability_at_every_temperature(
    problem: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All 27 states of 3 layers on 2 servers: chi-square of thinned samples, 26 degrees of freedom.

    Exchanges are not proposed back as often as there, so this holds by the ratio of both only.
    """
    asked = problem(*TINY)
    run = tempering(asked, chains=2)
    monkeypatch.setattr(Tempering, "_correct", lambda self, temperature, count, rung, accepted: (temperature, count))
    states = np.array(list(itertools.product(range(3), repeat=3)), np.int32)
    energy = run.model.makespans(states)
    seen = np.zeros((2, 27))
    start = begin(run, asked)
    walk = replace(start, temperature=np.array([0.1, 0.3]) * start.energy[0])
    for walk in run.walk(walk, 5000):  # noqa: B020 the first is where it begins
        if walk.step % 8 == 0:  # so that samples are all but independent
            seen[walk.rung, walk.placement @ [9, 3, 1]] += 1
    for temperature, counts in zip(walk.temperature, seen, strict=True):
        expected = np.exp(-(energy - energy.min()) / temperature)
        expected *= counts.sum() / expected.sum()
        likely = expected >= 5
        rest = np.array([counts[~likely].sum(), expected[~likely].sum()])
        chi = ((counts - expected)[likely] ** 2 / expected[likely]).sum() + (rest[0] - rest[1]) ** 2 / max(rest[1], 1)
        assert chi < 26 + 4 * np.sqrt(2 * 26)  # mean + 4 standard deviations
        assert counts.max() > 1.5 * counts.mean()  # not uniform


def test_a_proposal_is_proposed_back_by_the_same_draw_as_likely_as_its_ratio_says(problem: Make) -> None:
    """The ratio of the way back is the inverse, and an exchange undoes itself."""
    proposed, count = some_moves(problem("servers=4"))
    random = np.random.default_rng(0)
    placement = random.integers(count, size=(64, proposed.layers), dtype=np.int32)
    for step in range(100):
        drawn = proposed.draw(0, 0, step, 64).step(step)
        there = proposed.propose(placement, drawn)
        # Back: the same set, a layer of it that has b now, and a instead of it.
        layer = np.array([np.flatnonzero(row)[0] if row.any() else 0 for row in (there.target != placement)])
        mates = there.target[np.arange(64), drawn.mate]
        one, other = there.target[np.arange(64), layer], placement[np.arange(64), layer]
        moved = one != other
        of_one, of_other = ((drawn.members & (there.target == choice[:, None])).sum(axis=1) for choice in (one, other))
        degree, joins = proposed.degree, drawn.joins
        back = (1 - joins) * proposed.likely[degree[one], degree[other]] + joins * (mates == other)
        again = (1 - joins) * proposed.likely[degree[other], degree[one]] + joins * (mates == one)
        with np.errstate(invalid="ignore"):  # where nothing moves: 0 / 0
            ratio = np.log((of_one * again + of_other * back) / (of_one * back + of_other * again))
        np.testing.assert_allclose(there.ratio[moved], -ratio[moved], atol=1e-9)
        assert not (there.target != placement)[~drawn.members].any()


def test_choices_are_drawn_as_often_as_is_said(problem: Make) -> None:
    asked = problem("servers=4", "workload.tables=1", "workload.dense_layers=2", "workload.feature_layers=1")
    proposed, count = some_moves(asked)
    placement = np.zeros((2000, proposed.layers), np.int32)
    seen, steps = np.zeros(count), 32
    for step in range(steps):
        drawn = proposed.draw(3, 0, step, 2000).step(step)
        found = proposed.propose(placement, drawn._replace(takes=np.zeros_like(drawn.takes), joins=np.zeros(2000)))
        seen += np.bincount(found.other, minlength=count)
    expected = proposed.likely[proposed.degree[0], proposed.degree] * 2000 * steps
    expected[0] = 0
    assert expected.sum() == pytest.approx(2000 * steps)
    assert np.abs(seen - expected).max() < 5 * np.sqrt(expected.max())  # standard deviations


@pytest.mark.parametrize("patience", [0, 4, BLOCK + 10])
def test_a_walk_continues_from_anywhere_as_if_it_had_not_stopped(problem: Make, patience: int) -> None:
    asked = problem("servers=4")
    run = tempering(asked, patience=patience)
    walks = list(run.walk(begin(run, asked), BLOCK + 20))
    for stopped in (16, BLOCK - 1, BLOCK):
        *_, last = tempering(asked, patience=patience).walk(walks[stopped], BLOCK + 20)
        for field in fields(Walk):
            assert np.array_equal(getattr(last, field.name), getattr(walks[-1], field.name))


@pytest.mark.parametrize("patience", [0, 4, 60])
def test_energies_are_those_from_scratch_after_any_number_of_moves(problem: Make, patience: int) -> None:
    asked = problem("servers=4")
    run = tempering(asked, patience=patience)
    *_, last = run.walk(begin(run, asked), 60)
    assert last.energy.tolist() == tempering(asked).model.makespans(last.placement).tolist()
    assert last.best[0] <= last.energy.min()
    assert last.best[: len(fastest(last))].tolist() == run.model.makespans(np.array(fastest(last))).tolist()
    assert sorted(last.rung.tolist()) == [0, 1, 2]


@pytest.mark.parametrize("gpus", [1, 4])
def test_a_descent_goes_to_the_fastest_of_what_chains_propose_and_never_up(problem: Make, gpus: int) -> None:
    """Proposals of a step are those of moves; of one state, as all chains are there."""
    asked = problem("servers=4", "strategy=data_parallel", f"workload.gpus_per_server={gpus}")
    run = tempering(asked, chains=5, patience=40)
    before = begin(run, asked)
    for walk in run.walk(before, 40):
        drawn = run.moves.draw(run.seed, run.round, before.step, 5).step(before.step)
        target = run.moves.propose(before.placement, drawn).target
        energy = run.model.makespans(target)
        fits = run.budget.fits(run.budget.used(target))
        assert walk.energy[0] == min(before.energy[0], energy[fits].min(initial=np.inf))
        assert (walk.placement == walk.placement[0]).all()
        assert (walk.energy == walk.energy[0]).all()
        before = walk
    assert before.energy[0] < begin(run, asked).energy[0]


def test_a_descent_begins_at_the_fastest_and_temperatures_where_it_finds_nothing_faster(problem: Make) -> None:
    asked = problem("servers=4")
    count, layers = choices(4).count, len(asked.workload.layers)
    states = np.random.default_rng(0).integers(count, size=(3, layers), dtype=np.int32)
    run = tempering(asked, patience=6)
    start = run.begin(states, 2)
    assert (start.placement == states[run.model.makespans(states).argmin()]).all()
    walks = [start, *run.walk(start, 200)]
    end = next(number for number, walk in enumerate(walks) if walk.stuck == 6)
    assert (
        len({walk.energy[0] for walk in walks[end - 6 : end + 1]}) == 1 < len({walk.energy[0] for walk in walks[:end]})
    )
    assert all((walk.placement == walk.placement[0]).all() for walk in walks[: end + 1])
    again = tempering(asked).begin(walks[end].placement, 2)  # the first temperatures of a walk that begins there
    assert walks[end].temperature.tolist() == again.temperature.tolist()
    *_, expected = tempering(asked).walk(walks[end], 200)
    assert walks[-1].placement.tolist() == expected.placement.tolist()


@pytest.mark.parametrize("unit", [1.0, 2.0**-20, 2.0**20])
def test_temperatures_have_the_scale_of_the_job(problem: Make, unit: float) -> None:
    """The chains of a job whose times are all multiplied by ``unit`` take the same steps."""
    asked = problem("servers=4", "latency_us=0")
    gpu = asked.workload.gpu
    slower = replace(
        gpu,
        flops={name: rate / unit for name, rate in gpu.flops.items()},
        memory_bandwidth=gpu.memory_bandwidth / unit,
        local_bandwidth=gpu.local_bandwidth / unit,
    )
    scaled = replace(asked, workload=replace(asked.workload, gpu=slower), design=_slower(asked.design, unit))
    *_, one = tempering(asked).walk(begin(tempering(asked), asked), 100)
    *_, other = tempering(scaled).walk(begin(tempering(scaled), scaled), 100)
    assert one.placement.tolist() == other.placement.tolist()
    np.testing.assert_allclose(one.temperature * unit, other.temperature, rtol=1e-9)


def _slower(design: FabricDesign, unit: float) -> FabricDesign:
    assert isinstance(design, TopoOpt)
    return replace(design, bandwidth=design.bandwidth / unit)


@pytest.mark.parametrize("wrong", [1e-4, 1e4])
def test_temperatures_that_are_far_off_come_back(problem: Make, wrong: float) -> None:
    asked = problem("servers=4")
    run = tempering(asked, (0.05, 0.3), chains=4)
    start = begin(run, asked)
    *_, walk = run.walk(replace(start, temperature=start.temperature * wrong), 500)
    assert np.all(np.diff(walk.temperature) >= 0)
    assert np.all(np.abs(np.log(walk.temperature / start.temperature)) < np.log(100))


def test_first_temperatures_accept_their_share_of_the_steps() -> None:
    steps, share = np.random.default_rng(0).exponential(3.0, 500), np.array([0.001, 0.1, 0.5])
    found = first_temperatures(steps, share, energy=1.0)
    np.testing.assert_allclose(np.exp(-steps[:, None] / found).mean(axis=0), share, rtol=1e-9)
    assert np.all(np.diff(found) > 0)
    assert np.all(first_temperatures(np.zeros(0), share, energy=2.0) > 0)  # nothing was slower


def test_draws_depend_on_seed_round_and_step_alone(problem: Make) -> None:
    proposed, _ = some_moves(problem("servers=4"))
    first = proposed.draw(1, 2, 3, 5)
    proposed.draw(1, 2, BLOCK, 5)
    again = proposed.draw(1, 2, 7, 5)  # of the same block
    assert all(np.array_equal(one, other) for one, other in zip(first, again, strict=True))
    for other in (proposed.draw(2, 2, 3, 5), proposed.draw(1, 3, 3, 5), proposed.draw(1, 2, BLOCK, 5)):
        assert first.accept.tolist() != other.accept.tolist()


@pytest.mark.parametrize("chains", [1, 2, 8])
def test_shares_are_geometric_from_the_coldest_to_the_hottest(chains: int) -> None:
    rungs = shares((0.001, 0.1), chains)
    assert len(rungs) == chains
    assert rungs[0] == pytest.approx(0.001)
    assert np.allclose(np.diff(np.log(rungs)), np.log(rungs[-1] / rungs[0]) / max(chains - 1, 1))


def test_the_fastest_states_have_different_energies_and_the_fastest_is_first(problem: Make) -> None:
    asked = problem("servers=4")
    run = tempering(asked, chains=6)
    walks = list(run.walk(begin(run, asked), 30))
    found = fastest(walks[-1])
    energies = run.model.makespans(np.array(found))
    assert np.all(np.diff(energies) > 0)
    assert energies[0] == min(walk.energy.min() for walk in walks)


def test_of_states_that_are_kept_each_energy_counts_once() -> None:
    best, states = kept(
        np.array([2.0, np.inf]), np.array([[2], [0]]), np.array([3.0, 2.0, 1.0]), np.array([[3], [9], [1]])
    )
    assert (best.tolist(), states.tolist()) == ([1.0, 2.0], [[1], [2]])
    best, _ = kept(np.full(3, np.inf), np.zeros((3, 1), np.int32), np.array([5.0, 5.0]), np.array([[1], [2]]))
    assert best.tolist() == [5.0, np.inf, np.inf]
