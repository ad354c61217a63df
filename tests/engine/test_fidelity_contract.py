"""What every fidelity promises, for each file of ``configs/fidelity``."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import FrozenInstanceError, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hydra.utils import instantiate

from topoflow.engine.base import Fidelity, Run, World
from topoflow.engine.bound import Bound
from topoflow.engine.lowering.placement import place
from topoflow.engine.simulation import simulate, simulate_each
from topoflow.engine.timelines import link_bytes
from topoflow.fabric.base import Fabric
from topoflow.fabric.fat_tree import FatTree
from topoflow.fabric.ring import Ring
from topoflow.fabric.torus import Torus
from topoflow.traffic.base import Collective, Compute, Traffic, Transfer

CONFIGS = sorted((Path(__file__).resolve().parents[2] / "src" / "topoflow" / "configs" / "fidelity").glob("*.yaml"))
ALL: list[Fidelity] = [instantiate(yaml.safe_load(path.read_text())) for path in CONFIGS]

JOB = Traffic.from_tasks(
    "job",
    4,
    [
        Compute(0.5, 0),
        Compute(0.25, 1),
        Transfer(300.0, 0, 2, (0,)),
        Transfer(500.0, 1, 2, (1,)),
        Transfer(200.0, 3, 0),
        Collective("all_reduce", 800.0, (0, 1, 2, 3), (2, 3)),
        Collective("all_to_all", 400.0, (0, 1, 2, 3), (4,)),
        Compute(0.125, 2, (5, 6)),
    ],
)


def fabrics() -> list[Fabric]:
    designs = [FatTree(100.0, 2, 0.01), Ring(100.0, 2, 0.01), Torus(100.0, 4, 0.01, [2, 2]), FatTree(30.0, 2, 0.0)]
    return [design.build(4, JOB.demand()) for design in designs]


def some_worlds() -> list[World]:
    """One job on several networks, and one of them at half the speed: worlds that share a graph."""
    placed = [place(JOB, fabric, name=f"{n} {fabric.name}", rings="flows") for n, fabric in enumerate(fabrics())]
    return [*placed, replace(placed[0], name="half", capacity=placed[0].capacity / 2)]


def takes_any_network(fidelity: Fidelity) -> bool:
    """Whether it has no networks of its own, as one of slots has, whose laws are in a file of theirs."""
    return all(fidelity.refuses(world) is None for world in some_worlds())


FIDELITIES = [fidelity for fidelity in ALL if takes_any_network(fidelity)]
EVERY = pytest.mark.parametrize("fidelity", FIDELITIES, ids=[fidelity.name for fidelity in FIDELITIES])


@pytest.fixture(scope="module")
def worlds() -> list[World]:
    return some_worlds()


@pytest.mark.parametrize("fidelity", ALL, ids=[path.stem for path in CONFIGS])
def test_a_network_that_is_refused_is_refused_by_field(fidelity: Fidelity) -> None:
    for world in some_worlds():
        refusal = fidelity.refuses(world)
        assert refusal is None or re.fullmatch(r"[a-z_.]+: must [^\n]+, got [^\n]+", refusal)
        if refusal is not None:
            with pytest.raises(ValueError, match=re.escape(refusal)):
                simulate([world], fidelity)
            with pytest.raises(ValueError, match=re.escape(refusal)):
                fidelity.simulate([world], Run())


@pytest.mark.parametrize("fidelity", ALL, ids=[path.stem for path in CONFIGS])
def test_a_fidelity_is_a_frozen_dataclass_with_the_name_of_its_package(fidelity: Fidelity) -> None:
    model: Any = fidelity
    assert is_dataclass(model)
    assert type(model).__module__ == f"topoflow.engine.{fidelity.name}"
    assert hash(model) == hash(replace(model)), "worlds of equal fidelities are one batch"
    for field in fields(model):
        with pytest.raises(FrozenInstanceError):
            setattr(model, field.name, None)


@EVERY
def test_timelines_come_in_the_order_of_the_worlds_and_say_of_which_they_are(
    fidelity: Fidelity, worlds: list[World]
) -> None:
    timelines = fidelity.simulate(worlds, Run())
    assert [timeline.world for timeline in timelines] == worlds
    for world, timeline in zip(worlds, timelines, strict=True):
        assert timeline.start.shape == timeline.finish.shape == (world.graph.tasks,)
        assert timeline.task_start.shape == timeline.task_finish.shape == (world.graph.owners,)
        assert (timeline.finish >= timeline.start).all()
        assert timeline.makespan >= timeline.finish.max()
    assert fidelity.simulate([], Run()) == []


@EVERY
def test_worlds_do_not_influence_each_other(fidelity: Fidelity, worlds: list[World]) -> None:
    together = fidelity.simulate(worlds, Run())
    shuffled = fidelity.simulate(worlds[::-1], Run(threads=1))[::-1]
    alone = [fidelity.simulate([world], Run())[0] for world in worlds]
    for versions in zip(together, shuffled, alone, strict=True):
        assert len({timeline.finish.tobytes() for timeline in versions}) == 1
        assert len({timeline.makespan for timeline in versions}) == 1


@EVERY
def test_the_numbers_of_links_do_not_matter(fidelity: Fidelity, worlds: list[World]) -> None:
    world = worlds[0]
    order = np.random.default_rng(0).permutation(world.graph.links).astype(np.int32)
    capacity, latency = np.empty_like(world.capacity), np.empty_like(world.latency)
    capacity[order], latency[order] = world.capacity, world.latency
    graph = replace(world.graph, path_links=order[world.graph.path_links])
    other = replace(world, graph=graph, capacity=capacity, latency=latency, fabric=None)
    one, two = fidelity.simulate([world, other], Run())
    np.testing.assert_allclose(two.finish, one.finish, rtol=1e-9)
    np.testing.assert_allclose(two.link_bytes[order], one.link_bytes, rtol=1e-9)


@EVERY
def test_links_carry_what_paths_say_and_no_task_begins_before_what_it_waits_for(
    fidelity: Fidelity, worlds: list[World]
) -> None:
    for world, timeline in zip(worlds, fidelity.simulate(worlds, Run()), strict=True):
        np.testing.assert_allclose(timeline.link_bytes, link_bytes(world.graph), rtol=1e-9)
        graph = world.graph
        waiter = np.repeat(np.arange(graph.tasks), np.diff(graph.after_offsets))
        assert (timeline.start[waiter] >= timeline.finish[graph.after] - 1e-9).all()
        assert (timeline.finish - timeline.start >= graph.delay - 1e-9).all()
        assert (timeline.link_bytes <= world.capacity * timeline.makespan * (1 + 1e-9)).all()


@EVERY
def test_twice_as_fast_links_and_computers_halve_the_time(fidelity: Fidelity, worlds: list[World]) -> None:
    quick = [
        replace(
            world,
            graph=replace(world.graph, delay=world.graph.delay / 2),
            capacity=world.capacity * 2,
            latency=world.latency / 2,
        )
        for world in worlds
    ]
    for fast, usual in zip(fidelity.simulate(quick, Run()), fidelity.simulate(worlds, Run()), strict=True):
        assert fast.makespan == pytest.approx(usual.makespan / 2, rel=1e-9)


@EVERY
def test_the_observer_sees_how_many_worlds_are_done(fidelity: Fidelity, worlds: list[World], watching: Any) -> None:
    fidelity.simulate(worlds, Run(observer=watching))
    assert watching.advances == sorted(watching.advances)
    assert watching.advances[-1] == (len(worlds), len(worlds))


@EVERY
def test_a_wrong_world_is_named(fidelity: Fidelity, worlds: list[World]) -> None:
    dark = replace(worlds[1], name="dark", capacity=np.zeros_like(worlds[1].capacity))
    with pytest.raises(ValueError, match=r"^dark: every flow must get bandwidth, got none"):
        fidelity.simulate([worlds[0], dark], Run())


@EVERY
def test_a_world_with_circuits_that_change_runs_or_is_refused_by_field(
    fidelity: Fidelity, configured: Callable[..., Any]
) -> None:
    job = Traffic.from_tasks("job", 4, [Transfer(1e9, 0, 2), Transfer(2e9, 1, 3)])
    fabric = configured("fabric", "fabric=sip_ml").build(4, job.demand())
    world = place(job, fabric, name="changing")
    refusal = fidelity.refuses(world)
    if refusal is None:
        (timeline,) = simulate([world], fidelity)
        assert timeline.world.graph.tasks == world.graph.tasks
        assert timeline.link_bytes.sum() == pytest.approx(3e9)
        return
    assert "\n" not in refusal
    assert refusal.startswith("fabric: must ")
    assert refusal.endswith(f"got {fabric.name}")
    with pytest.raises(ValueError, match=refusal):
        fidelity.simulate([world], Run())


@EVERY
def test_a_fidelity_that_keeps_the_bound_is_never_below_it(fidelity: Fidelity, worlds: list[World]) -> None:
    bounded = [world for world in worlds if fidelity.keeps_bound(world)]
    for timeline, bound in zip(fidelity.simulate(bounded, Run()), Bound().simulate(bounded), strict=True):
        assert timeline.makespan >= bound.makespan * (1 - 1e-9)


def test_a_lower_bound_is_never_above_the_fidelity_that_it_names(worlds: list[World]) -> None:
    times = {model.name: np.array([timeline.makespan for timeline in simulate(worlds, model)]) for model in FIDELITIES}
    bounds = [model for model in FIDELITIES if model.lower_bound_of]
    assert bounds
    for bound in bounds:
        assert (times[bound.name] <= times[bound.lower_bound_of] * (1 + 1e-9)).all()


def test_worlds_of_several_fidelities_are_given_back_in_their_order(worlds: list[World], watching: Any) -> None:
    pairs = [(world, fidelity) for world in worlds for fidelity in FIDELITIES]
    timelines = simulate_each(pairs, Run(observer=watching))
    for (world, fidelity), timeline in zip(pairs, timelines, strict=True):
        assert timeline.finish.tobytes() == fidelity.simulate([world], Run())[0].finish.tobytes()
    assert watching.advances == sorted(watching.advances)
    assert watching.advances[-1] == (len(pairs), len(pairs))
