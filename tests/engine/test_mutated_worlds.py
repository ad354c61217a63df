"""Worlds from Python that are changed at random: each is simulated or refused in one line, and nothing else happens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from tests.examples import examples
from tests.twins import fluid as reference
from topoflow.demand import Demand
from topoflow.engine.base import Fidelity, Run, World
from topoflow.engine.bound import Bound
from topoflow.engine.fitting import Fitting
from topoflow.engine.fluid import Fluid
from topoflow.engine.lowering.placement import place
from topoflow.engine.packet import Packet
from topoflow.engine.slotted import Slotted
from topoflow.fabric.fat_tree import FatTree
from topoflow.fabric.torus import Torus
from topoflow.traffic.base import Collective, Compute, Traffic, Transfer

WORLDS = examples(150)
FIDELITIES: Sequence[Fidelity] = (Fluid(), Fluid(0.01), Fluid("auto"), Bound(), Packet(), Slotted(), Fitting())
MOST_BYTES = 1e7  # of a world that is simulated packet by packet or cell by cell
HORIZON = 1e-3  # s, to which it is

FLOATS = (np.nan, np.inf, -np.inf, -1.0, 0.0, 5e-324, 1e-300, 1e-9, 1e-6, 1.0, 1e9, 1e18, 1e19, 1e30, 1e300, 1.7e308)
WHOLES = (-(2**31), -2, -1, 0, 1, 2, 5, 100, 2**30, 2**31 - 1)
ODD = (None, [], [1.0], "x", 1, -1, 2**70, np.nan, np.zeros((2, 2)), np.array("x"), np.array([None]), np.zeros(0))
JOB = Traffic.from_tasks(
    "job",
    8,
    [
        Compute(1e-6, 0),
        Transfer(3000.0, 0, 5, (0,), limit=1e9),
        Transfer(50_000.0, 1, 6),
        Collective("all_reduce", 80_000.0, tuple(range(8)), (1,)),
        Collective("all_to_all", 20_000.0, (0, 2, 3, 7), (2,)),
        Transfer(9000.0, 3, 4, (3, 4), start=1e-5),
    ],
)
SHORT = Traffic.from_tasks("short", 8, [Transfer(3000.0, 0, 5), Collective("all_to_all", 8e4, tuple(range(8)), (0,))])


@pytest.fixture(scope="module")
def networks(configured: Callable[..., Any]) -> list[World]:
    """A job on networks of every kind: single paths, several, slots, and circuits that change."""
    plain = [FatTree(1.25e9, 2, 1e-6), Torus(1.25e9, 4, 1e-6, [2, 2, 2])]
    worlds = [
        place(JOB, design.build(8, Demand(8)), name="w", routing=routing)
        for design in plain
        for routing in ("ecmp", "spray")
    ]
    for name in ("sirius", "fosquare", "rotornet", "opera", "sip_ml"):
        fabric = configured("fabric", f"fabric={name}", "degree=4").build(8, SHORT.demand())
        worlds.append(place(SHORT, fabric, name="w"))
    return worlds


def random_tasks(draw: np.random.Generator) -> list[dict[str, Any]]:
    """Tasks on up to five links, some with weights and limits; some wait for others."""
    tasks: list[dict[str, Any]] = []
    for index in range(draw.integers(1, 9)):
        task: dict[str, Any] = {"delay": draw.choice([0.0, 1e-6]), "release": draw.choice([0.0, 1e-6])}
        if index:
            task["after"] = np.unique(draw.integers(0, index, draw.integers(0, 3))).tolist()
        if draw.random() < 0.8:
            path = draw.permutation(5)[: draw.integers(0, 4)].tolist()
            task |= {"path": path, "bytes": draw.choice([0.0, 1.0, 500.5, 1e5])}
            if path and draw.random() < 0.3:
                task["limit"] = draw.choice([1e8, 1e9])
            if path and draw.random() < 0.3:
                task["weight"] = draw.choice([0.25, 0.5, 1.0], len(path)).tolist()
        tasks.append(task)
    return tasks


def mutated(draw: np.random.Generator, value: Any) -> Any:
    """``value`` with another number, length, type, or order."""
    if not isinstance(value, np.ndarray) or draw.random() < 0.1:
        return ODD[draw.integers(len(ODD))]
    kind = draw.integers(15)
    if kind == 0:
        return value[: draw.integers(len(value) + 1)]
    if kind == 1:
        return np.append(value, value[-1:] if len(value) else np.zeros(1, value.dtype))
    if kind == 2:
        with np.errstate(invalid="ignore"):
            return value.astype(draw.choice(["float64", "float32", "int64", "int8", "uint64", "bool", "object", "str"]))
    if kind in (3, 4) and value.ndim == 1:
        return draw.permutation(value)
    changed = value.copy()
    numbers = FLOATS if value.dtype.kind == "f" else WHOLES
    for _ in range(draw.integers(1, 3)):
        if value.size:
            others = value.reshape(-1) if kind < 10 else numbers
            changed.reshape(-1)[draw.integers(value.size)] = others[draw.integers(len(others))]
    return changed


def mutate(draw: np.random.Generator, world: World) -> World:
    """Change a field or two of a world, its graph, or its alternatives. Raises ``ValueError`` where no such may be."""
    for _ in range(draw.integers(1, 3)):
        part = draw.choice(["world", "graph", "graph", "alternatives"])
        if part == "world":
            name = draw.choice(["capacity", "capacity", "latency", "latency", "until", "seed", "graph"])
            if name != "graph":
                world = replace(world, **{name: mutated(draw, getattr(world, name))})
        elif part == "graph" or world.graph.alternatives is None:
            fixed = ("alternatives", "next_hops", "named")
            name = draw.choice([field.name for field in fields(world.graph) if field.name not in fixed])
            graph = replace(world.graph, **{name: mutated(draw, getattr(world.graph, name))})
            world = replace(world, graph=graph)
        else:
            several = world.graph.alternatives
            name = draw.choice([field.name for field in fields(several)])
            several = replace(several, **{name: mutated(draw, getattr(several, name))})
            world = replace(world, graph=replace(world.graph, alternatives=several))
    return world


def fits(fidelity: Fidelity, world: World) -> bool:
    """Whether its cost does not depend on bytes, or there are few."""
    return isinstance(fidelity, Fluid | Bound) or float(world.graph.bytes.sum()) * world.graph.rounds <= MOST_BYTES


def check_message(error: ValueError) -> None:
    """Check that it is one line, and says something."""
    assert len(str(error).splitlines()) == 1, str(error)


def check_simulated(world: World, fidelity: Fidelity) -> bool:
    """Simulate a world; return whether there is an answer. It must be one, or a ``ValueError`` of one line."""
    if not fits(fidelity, world):
        return False
    horizon = HORIZON if not isinstance(fidelity, Fluid | Bound) else world.until
    try:
        (timeline,) = fidelity.simulate([replace(world, until=min(world.until, horizon))], Run(threads=1))
    except ValueError as error:
        check_message(error)
        return False
    assert not np.isnan(timeline.finish).any()
    assert (timeline.finish >= timeline.start).all()
    if fidelity == Fluid() and world.until == np.inf and not world.changes_circuits:
        np.testing.assert_allclose(timeline.finish, reference.simulate(world).finish, rtol=1e-9)
    return True


@pytest.mark.parametrize("part", range(4))
def test_a_mutated_world_is_simulated_or_refused_in_one_line(
    part: int, networks: list[World], make_world: Callable[..., World]
) -> None:
    built = answered = 0
    for seed in range(part, WORLDS, 4):
        draw = np.random.default_rng(seed)
        if draw.random() < 0.5:
            world = networks[draw.integers(len(networks))]
        else:
            world = make_world(random_tasks(draw), draw.choice([1e9, 12.5e9], 5).tolist(), [1e-6] * 5, name="w")
        try:
            world = mutate(draw, world)
        except ValueError as error:
            check_message(error)
            continue
        built += 1
        for fidelity in FIDELITIES:
            try:
                answered += check_simulated(world, fidelity)
            except BaseException:
                print(f"seed {seed}, {fidelity}")
                raise
    assert built > WORLDS / 40
    assert answered > built
