"""Chains visit states as Boltzmann says, temperatures follow acceptance, and the kernel walks as its twin does."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.twins.tempering import Reference, choose, draw, first_temperatures, keep_best, propose, ratio
from topoflow import _C
from topoflow.engine.base import Run
from topoflow.engine.device import DeviceMemory
from topoflow.engine.fluid import Fluid
from topoflow.engine.screen.ladders import SLICE
from topoflow.fabric.base import FabricDesign
from topoflow.fabric.topoopt import TopoOpt
from topoflow.search.judge import Judge, Wiring
from topoflow.search.memory import budget
from topoflow.search.moves import Moves, moves
from topoflow.search.placements import choices
from topoflow.search.problem import Problem
from topoflow.search.screen import screen
from topoflow.search.tempering import Tempering, Walk, fastest, shares

Make = Callable[..., Problem]
TINY = ("servers=2", "workload.tables=1", "workload.dense_layers=2", "workload.feature_layers=1")  # 3 layers, 3 choices
TIGHT = ("workload=candle", "servers=8", "fabric=fat_tree")  # not every placement fits in memory
MODERATE = (0.01, 0.2)


def tempering(
    problem: Problem,
    acceptance: tuple[float, float] = MODERATE,
    chains: int = 3,
    seed: int = 0,
    patience: int = 0,
    run: Run = Run(threads=1),
) -> Tempering:
    sets = choices(problem.servers)
    built = Judge(problem, Fluid(), Run()).fabric(Wiring(problem.start, 1.0))
    model, proposed = screen(problem, built, sets, run), moves(problem.workload, sets)
    return Tempering(model, budget(problem.workload, sets), proposed, shares(acceptance, chains), seed, 0, patience)


def start_of(problem: Problem, chains: int, ladders: int = 1) -> NDArray[np.int32]:
    """All at the start, or what is closest to it and fits."""
    sets = choices(problem.servers)
    state = budget(problem.workload, sets).closest(sets.placement(problem.workload, problem.start))
    return np.tile(state, (ladders, chains, 1))


def begin(run: Tempering, problem: Problem, keep: int = 4) -> Walk:
    return run.begin(start_of(problem, len(run.share)), keep)


def last(run: Tempering, start: Walk, steps: int) -> Walk:
    *_, stretch = run.walk(start, steps)
    return stretch.walk


def every_step(run: Tempering, start: Walk, steps: int) -> list[Walk]:
    """The walk after 0, 1, .. ``steps`` steps."""
    walks = [start]
    for step in range(start.step, steps):
        walks.append(last(run, walks[-1], step + 1))
    return walks


def same(one: Walk, other: Walk) -> bool:
    return all(np.array_equal(getattr(one, field.name), getattr(other, field.name)) for field in fields(Walk))


def some_moves(problem: Problem) -> tuple[Moves, int]:
    sets = choices(problem.servers)
    return moves(problem.workload, sets), sets.count


@pytest.mark.parametrize(
    ("keys", "chains", "patience", "ladder"),
    [
        (("servers=4",), 3, 0, 0),
        (("servers=4", "strategy=data_parallel"), 5, 6, 2),
        (("servers=4", "strategy=data_parallel", "workload.gpus_per_server=1"), 1, 0, 1),
        (TIGHT, 4, 5, 0),
        (TIGHT, 4, 0, 1),
        (("workload=ncf", "servers=8"), 4, 3, 0),
    ],
)
def test_the_kernel_proposes_accepts_and_keeps_what_the_twin_does(
    problem: Make, keys: tuple[str, ...], chains: int, patience: int, ladder: int
) -> None:
    instance = problem(*keys)
    run = tempering(instance, (0.05, 0.3), chains, seed=7, patience=patience)
    walks = every_step(run, run.begin(start_of(instance, chains, ladder + 1), 4), 2 * SLICE)
    twin = Reference(run, ladder, walks[0].placement[ladder], keep=4)
    for step, walk in enumerate(walks):
        if step:
            twin.advance()
        assert walk.placement[ladder].tolist() == twin.placement.tolist()
        assert walk.energy[ladder].tolist() == twin.energy.tolist()
        assert walk.rung[ladder].tolist() == twin.rung.tolist()
        assert walk.slower[ladder].tolist() == twin.slower.tolist()
        assert walk.stuck[ladder] == twin.stuck
        np.testing.assert_allclose(walk.temperature[ladder], twin.temperature, rtol=1e-9)
        for energy, state, best in zip(walk.best[ladder], walk.best_placement[ladder], twin.best, strict=False):
            assert (energy, state.tolist()) == best
        assert np.isinf(walk.best[ladder][len(twin.best) :]).all()


@pytest.mark.parametrize("keys", [("servers=4",), TIGHT])
def test_all_devices_walk_alike_to_the_bit(device: str, problem: Make, keys: tuple[str, ...]) -> None:
    instance = problem(*keys)
    walks = []
    for name in ("cpu", device):
        run = tempering(instance, patience=3, run=Run(DeviceMemory.named(name)))
        walks.append(last(run, run.begin(start_of(instance, 3, 2), 4), SLICE + 4))
    assert same(*walks)


@pytest.mark.parametrize("ladders", [1, 2, 5])
@pytest.mark.parametrize("several", ["torch", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_several_devices_share_ladders_and_estimates(
    several: str, ladders: int, problem: Make, check_device: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three times torch's CPU, or two GPUs: each has its share, and what is found is what one device finds."""
    torch = pytest.importorskip("torch")
    if several == "torch":
        one = DeviceMemory(torch.device("cpu"))
        together = replace(one, others=(one, one))
    elif check_device("cuda") and torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    else:
        together = DeviceMemory.named("cuda:0,cuda:1")
    instance, walk, used = problem("servers=4"), _C.walk, list[Any]()

    def recorded(arrays: dict[str, Any], *arguments: Any) -> None:
        used.append((arrays["energy"].device, len(arrays["energy"])))
        walk(arrays, *arguments)

    monkeypatch.setattr(_C, "walk", recorded)
    walks, estimates = [], []
    for memory in (DeviceMemory(), together):
        run = tempering(instance, patience=3, run=Run(memory))
        if memory is together:
            used.clear()
        walks.append(last(run, run.begin(start_of(instance, 3, ladders), 4), SLICE + 4))
        estimates.append(run.model.makespans(walks[0].placement.reshape(3 * ladders, -1)))
    assert same(*walks)
    assert estimates[0].tobytes() == estimates[1].tobytes()
    sharing = min(len(together.all), ladders)
    begun = used[:sharing]
    assert sum(chains for _, chains in begun) == 3 * ladders  # none twice
    assert max(chains for _, chains in begun) - min(chains for _, chains in begun) <= 3
    assert several == "torch" or len({device for device, _ in begun}) == sharing


def test_a_walk_that_is_cancelled_stops_between_two_steps(device: str, problem: Make) -> None:
    instance = problem("servers=4")
    run = tempering(instance, patience=3, run=Run(DeviceMemory.named(device)))
    ladders = run.ladders()
    ladders.begin(start_of(instance, 3, 2), 4)
    before = ladders.read()
    ladders.parts[0].arrays["cancel"][0] = 1
    ladders.advance(0, SLICE)
    assert all(np.array_equal(before[name], array) for name, array in ladders.read().items())
    ladders.parts[0].arrays["cancel"][0] = 0
    ladders.advance(0, SLICE)
    assert not np.array_equal(before["energy"], ladders.read()["energy"])


def test_threads_and_other_ladders_change_nothing(problem: Make) -> None:
    instance, walks = problem("servers=4"), []
    for threads, ladders in ((1, 1), (1, 5), (2, 5)):
        run = tempering(instance, patience=3, run=Run(threads=threads))
        walks.append(last(run, run.begin(start_of(instance, 3, ladders), 4), 40))
    one, five, threaded = walks
    assert same(five, threaded)
    assert five.placement[0].tolist() == one.placement[0].tolist()
    assert len({five.placement[ladder].tobytes() for ladder in range(5)}) == 5


def test_log_exp_and_random_numbers_are_those_of_numpy(device: str) -> None:
    """Numbers that are drawn to the bit; functions within 2 units in the last place, and the same on all devices."""
    random, outputs = np.random.default_rng(0), []
    uniform = random.random(4000)
    log_of = np.concatenate([1 - uniform, np.exp2(1000 * (uniform - 0.5)), 1 + (uniform - 0.5) / 1000, [1.0, 2.0**-53]])
    exp_of = np.concatenate([-700 * uniform, 700 * uniform, uniform - 0.5, [0.0, -1e300]])
    for name in ("cpu", device):
        memory = DeviceMemory.named(name)
        arrays = memory.put({"log_of": log_of, "exp_of": exp_of})
        arrays |= {name: memory.zeros(len(log_of)) for name in ("uniform", "log", "exp")}
        with memory.using(memory.current_stream()):
            _C.numbers(arrays, (7, 2**63 - 1), (3, 5), memory.stream)
        outputs.append({name: memory.numpy(arrays[name]) for name in ("uniform", "log", "exp")})
    on_cpu, on_device = outputs
    assert all(on_cpu[name].tobytes() == on_device[name].tobytes() for name in on_cpu)
    philox = np.random.Philox(key=[7, 2**63 - 1], counter=[0, 0, 3, 5])
    assert on_cpu["uniform"].tolist() == np.random.Generator(philox).random(len(log_of)).tolist()
    for name, exact in (("log", np.log(log_of.astype(np.longdouble))), ("exp", np.exp(exp_of.astype(np.longdouble)))):
        assert (np.abs(on_cpu[name] - exact) <= 2 * np.spacing(np.abs(exact).astype(np.float64))).all()


@pytest.mark.slow
def test_states_are_visited_with_boltzmanns_probability_at_every_temperature(problem: Make) -> None:
    """All 27 states of 3 layers on 2 servers: chi-square of thinned samples, 26 degrees of freedom.

    Exchanges are not proposed back as often as there, so this holds by the ratio of both only. Temperatures stay as
    they are, as they are corrected by less, the more slower proposals were accepted.
    """
    instance = problem(*TINY)
    run = tempering(instance, chains=2)
    states = np.array(list(itertools.product(range(3), repeat=3)), np.int32)
    energy = run.model.makespans(states)
    ladders, visits = 40, np.zeros((2, 27))
    start = run.begin(start_of(instance, 2, ladders), 4)
    fixed = np.tile(np.array([0.1, 0.3]) * start.energy[0, 0], (ladders, 1))
    walk = replace(start, temperature=fixed, slower=np.full((ladders, 2), 2**30, np.int32))
    for step in range(64, 1064, 8):  # so that samples are all but independent
        walk = last(run, walk, step)
        np.add.at(visits, (walk.rung, walk.placement @ [9, 3, 1]), 1)
    np.testing.assert_allclose(walk.temperature, fixed, rtol=0.01)
    for temperature, counts in zip(fixed[0], visits, strict=True):
        expected = np.exp(-(energy - energy.min()) / temperature)
        expected *= counts.sum() / expected.sum()
        likely = expected >= 5
        tail = np.array([counts[~likely].sum(), expected[~likely].sum()])
        chi = ((counts - expected)[likely] ** 2 / expected[likely]).sum() + (tail[0] - tail[1]) ** 2 / max(tail[1], 1)
        assert chi < 26 + 4 * np.sqrt(2 * 26)  # mean + 4 standard deviations
        assert counts.max() > 1.5 * counts.mean()  # not uniform


def test_a_proposal_is_proposed_back_by_the_same_draw_as_likely_as_its_ratio_says(problem: Make) -> None:
    """The ratio of the way back is the inverse, and an exchange undoes itself."""
    proposed, count = some_moves(problem("servers=4"))
    random = np.random.default_rng(0)
    placements = random.integers(count, size=(64, proposed.layers), dtype=np.int32)
    for step in range(40):
        for placement, numbers in zip(placements, draw(0, 0, 0, step, 64), strict=True):
            proposal, chosen = propose(proposed, placement, numbers), choose(proposed, numbers)
            assert set(np.flatnonzero(proposal.target != placement)) <= set(chosen.members)
            if proposal.one == proposal.other:
                assert proposal.target.tolist() == placement.tolist()
                continue
            # Back: the same set, a layer of it that has b now, and a instead of it.
            back = ratio(proposed, proposal.target, chosen, proposal.other, proposal.one)
            assert proposal.ratio == pytest.approx(-back, abs=1e-9)


def test_choices_are_drawn_as_often_as_is_said(problem: Make) -> None:
    instance = problem("servers=4", "workload.tables=1", "workload.dense_layers=2", "workload.feature_layers=1")
    proposed, count = some_moves(instance)
    placement, counts, steps = np.zeros(proposed.layers, np.int32), np.zeros(count), 8
    for step in range(steps):
        for numbers in draw(3, 0, 0, step, 2000):
            counts[propose(proposed, placement, numbers._replace(kind=0.99, takes=0.99)).other] += 1
    expected = proposed.likely[proposed.degree[0], proposed.degree] * 2000 * steps
    expected[0] = 0
    assert expected.sum() == pytest.approx(2000 * steps)
    assert np.abs(counts - expected).max() < 5 * np.sqrt(expected.max())  # standard deviations


@pytest.mark.parametrize("patience", [0, 4, 74])
def test_a_walk_continues_from_anywhere_as_if_it_had_not_stopped(problem: Make, patience: int) -> None:
    instance = problem("servers=4")
    run = tempering(instance, patience=patience)
    start = begin(run, instance)
    unbroken = last(run, start, 84)
    for stopped in (1, SLICE, 63, 64):
        assert same(last(tempering(instance, patience=patience), last(run, start, stopped), 84), unbroken)
    assert list(run.walk(unbroken, 84)) == []


@pytest.mark.parametrize("patience", [0, 4, 60])
def test_energies_are_those_from_scratch_after_any_number_of_moves(problem: Make, patience: int) -> None:
    instance = problem("servers=4")
    run = tempering(instance, patience=patience)
    walk = last(run, begin(run, instance), 60)
    assert walk.energy[0].tolist() == tempering(instance).model.makespans(walk.placement[0]).tolist()
    assert walk.best[0, 0] <= walk.energy.min()
    states = fastest(walk, 4)
    assert walk.best[0, : len(states)].tolist() == run.model.makespans(np.array(states)).tolist()
    assert sorted(walk.rung[0].tolist()) == [0, 1, 2]


def test_every_step_is_in_the_history_of_a_stretch(problem: Make) -> None:
    instance = problem("servers=4")
    run = tempering(instance, patience=4)
    start = run.begin(start_of(instance, 3, 2), 4)
    walks, stretches = every_step(run, start, 2 * SLICE + 3)[1:], list(run.walk(start, 2 * SLICE + 3))
    assert [stretch.walk.step for stretch in stretches] == [SLICE, 2 * SLICE, 2 * SLICE + 3]
    assert np.concatenate([stretch.best for stretch in stretches]).tolist() == [walk.best.min() for walk in walks]
    coldest = [walk.energy[walk.rung == 0].min() for walk in walks]
    assert np.concatenate([stretch.coldest for stretch in stretches]).tolist() == coldest
    accepted = np.concatenate([stretch.accepted for stretch in stretches])
    assert 0 < accepted.max() <= 6


@pytest.mark.parametrize("gpus", [1, 4])
def test_a_descent_goes_to_the_fastest_of_what_chains_propose_and_never_up(problem: Make, gpus: int) -> None:
    """Proposals of a step are those of moves; of one state, as all chains are there."""
    instance = problem("servers=4", "strategy=data_parallel", f"workload.gpus_per_server={gpus}")
    run = tempering(instance, chains=5, patience=40)
    before, *walks = every_step(run, begin(run, instance), 40)
    start = before.energy[0, 0]
    for walk in walks:
        random_numbers = draw(run.seed, run.round, 0, before.step, 5)
        target = np.array(
            [propose(run.moves, *pair).target for pair in zip(before.placement[0], random_numbers, strict=True)]
        )
        energy = run.model.makespans(target)
        fits = run.budget.fits(run.budget.used(target))
        assert walk.energy[0, 0] == min(before.energy[0, 0], energy[fits].min(initial=np.inf))
        assert (walk.placement == walk.placement[0, 0]).all()
        assert (walk.energy == walk.energy[0, 0]).all()
        before = walk
    assert before.energy[0, 0] < start


def test_a_descent_begins_at_the_fastest_and_temperatures_where_it_finds_nothing_faster(problem: Make) -> None:
    instance = problem("servers=4")
    count, layers = choices(4).count, len(instance.workload.layers)
    states = np.random.default_rng(0).integers(count, size=(1, 3, layers), dtype=np.int32)
    run = tempering(instance, patience=6)
    start = run.begin(states, 2)
    assert (start.placement == states[0, run.model.makespans(states[0]).argmin()]).all()
    walks = every_step(run, start, 100)
    end = next(number for number, walk in enumerate(walks) if walk.stuck == 6)
    energies = [walk.energy[0, 0] for walk in walks[: end + 1]]
    assert len(set(energies[end - 6 :])) == 1 < len(set(energies))
    assert all((walk.placement == walk.placement[0, 0]).all() for walk in walks[: end + 1])
    again = tempering(instance).begin(walks[end].placement, 2)  # the first temperatures of a walk that begins there
    assert walks[end].temperature.tolist() == again.temperature.tolist()
    assert last(tempering(instance), replace(walks[end], stuck=np.zeros(1, np.int32)), 100).placement.tolist() == (
        walks[-1].placement.tolist()
    )


@pytest.mark.parametrize("unit", [1.0, 2.0**-20, 2.0**20])
def test_temperatures_have_the_scale_of_the_job(problem: Make, unit: float) -> None:
    """The chains of a job whose times are all multiplied by ``unit`` take the same steps."""
    instance = problem("servers=4", "latency_us=0")
    gpu = instance.workload.gpu
    slower = replace(
        gpu,
        flops={name: rate / unit for name, rate in gpu.flops.items()},
        memory_bandwidth=gpu.memory_bandwidth / unit,
        local_bandwidth=gpu.local_bandwidth / unit,
    )
    scaled = replace(instance, workload=replace(instance.workload, gpu=slower), design=_slower(instance.design, unit))
    walk, scaled_walk = (
        last(tempering(variant), begin(tempering(variant), variant), 100) for variant in (instance, scaled)
    )
    assert walk.placement.tolist() == scaled_walk.placement.tolist()
    np.testing.assert_allclose(walk.temperature * unit, scaled_walk.temperature, rtol=1e-9)


def _slower(design: FabricDesign, unit: float) -> FabricDesign:
    assert isinstance(design, TopoOpt)
    return replace(design, bandwidth=design.bandwidth / unit)


@pytest.mark.parametrize("wrong", [1e-4, 1e4])
def test_temperatures_that_are_far_off_come_back(problem: Make, wrong: float) -> None:
    instance = problem("servers=4")
    run = tempering(instance, (0.05, 0.3), chains=4)
    start = begin(run, instance)
    walk = last(run, replace(start, temperature=start.temperature * wrong), 500)
    assert np.all(np.diff(walk.temperature) >= 0)
    assert np.all(np.abs(np.log(walk.temperature / start.temperature)) < np.log(100))


def test_first_temperatures_accept_their_share_of_the_steps() -> None:
    steps, share = np.random.default_rng(0).exponential(3.0, 500), np.array([0.001, 0.1, 0.5])
    temperatures = first_temperatures(steps, share, energy=1.0)
    np.testing.assert_allclose(np.exp(-steps[:, None] / temperatures).mean(axis=0), share, rtol=1e-9)
    assert np.all(np.diff(temperatures) > 0)
    assert np.all(first_temperatures(np.zeros(0), share, energy=2.0) > 0)  # nothing was slower


def test_draws_depend_on_seed_round_ladder_and_step_alone() -> None:
    first = draw(1, 2, 0, 3, 5)
    assert first == draw(1, 2, 0, 3, 5)
    for other in (draw(2, 2, 0, 3, 5), draw(1, 3, 0, 3, 5), draw(1, 2, 1, 3, 5), draw(1, 2, 0, 4, 5)):
        assert not {numbers.accept for numbers in first} & {numbers.accept for numbers in other}


@pytest.mark.parametrize("chains", [1, 2, 8])
def test_shares_are_geometric_from_the_coldest_to_the_hottest(chains: int) -> None:
    rungs = shares((0.001, 0.1), chains)
    assert len(rungs) == chains
    assert rungs[0] == pytest.approx(0.001)
    assert np.allclose(np.diff(np.log(rungs)), np.log(rungs[-1] / rungs[0]) / max(chains - 1, 1))


def test_the_fastest_states_of_all_ladders_have_different_energies_and_the_fastest_is_first(problem: Make) -> None:
    instance = problem("servers=4")
    run = tempering(instance, chains=6)
    walks = every_step(run, run.begin(start_of(instance, 6, 3), 4), 30)
    states = fastest(walks[-1], 9)
    energies = run.model.makespans(np.array(states))
    assert np.all(np.diff(energies) > 0)
    assert energies[0] == min(walk.energy.min() for walk in walks)
    assert len(fastest(walks[-1], 2)) == 2


def test_of_states_that_are_kept_each_energy_counts_once() -> None:
    best: list[tuple[float, list[int]]] = []
    for energy in (3.0, 2.0, 2.0 + 1e-10, 1.0, 2.0 - 1e-10, 5.0):
        best = keep_best(best, energy, np.array([int(10 * energy)], np.int32), 3)
    assert best == [(1.0, [10]), (2.0 - 1e-10, [19]), (3.0, [30])]
