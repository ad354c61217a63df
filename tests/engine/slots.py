"""Worlds of slots for several test files, and the comparison of the kernel with its twin."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from tests.twins.slotted import Reference
from topoflow import _C
from topoflow.arrays import offsets
from topoflow.engine.slotted import SlottedResults
from topoflow.engine.slotted.cells import NEVER, Cells
from topoflow.engine.slotted.settings import CABLES, SlottedSettings
from topoflow.fabric.circuits.on_demand import Square
from topoflow.fabric.circuits.rotors import FailedRotors, Rotors
from topoflow.fabric.circuits.schedule import CircuitSchedule, Failed
from topoflow.fabric.circuits.staggered import Staggered

SLOT = 1000  # ps


def burst(
    schedule: CircuitSchedule | Square | Rotors,
    source: np.ndarray,
    target: np.ndarray,
    cells: int,
    release: object = 0,
    **fields: Any,
) -> Cells:
    """A message of ``cells`` from each source node to its target; cables of servers are never in the way.

    ``fields``: others of ``Cells``.
    """
    tasks = len(source)
    return Cells(
        name="burst",
        schedule=schedule,
        slot=SLOT,
        node=np.arange(schedule.nodes, dtype=np.int32),
        pace=1,
        cells=np.full(tasks, cells, np.int32),
        source=source.astype(np.int32),
        target=target.astype(np.int32),
        delay=np.zeros(tasks, np.int64),
        release=np.broadcast_to(np.asarray(release, np.int64), tasks).copy(),
        after_offsets=np.zeros(tasks + 1, np.int64),
        after=np.zeros(0, np.int32),
        **fields,
    )


def random_failed(draw: np.random.Generator, schedule: CircuitSchedule) -> CircuitSchedule:
    """The schedule less some of its parts."""
    parts = [
        [(node,) for node in range(schedule.nodes)],
        [(one, other) for one in range(schedule.groups) for other in range(schedule.groups)],
        [(node, uplink) for node in range(schedule.nodes) for uplink in range(schedule.uplinks)],
    ]
    nodes, *pairs = [tuple(part for part in all_ if draw.random() < 0.12) for all_ in parts]
    return replace(schedule, failed=Failed(tuple(node for (node,) in nodes), *pairs))


def random_failed_rotors(draw: np.random.Generator, rotors: Rotors) -> Rotors:
    """The cycle less some of its parts."""
    nodes, switches = (
        tuple(np.flatnonzero(draw.random(count) < 0.12).tolist()) for count in (rotors.nodes, rotors.switches)
    )
    lost = np.argwhere(draw.random((rotors.nodes, rotors.switches)) < 0.12).tolist()
    return replace(rotors, failed=FailedRotors(nodes, switches, tuple((node, switch) for node, switch in lost)))


def with_failures(draw: np.random.Generator, world: Cells, protocol: str = "") -> Cells:
    """The world on a network that lost some of its parts, less the tasks between nodes that cannot reach each other."""
    assert not isinstance(world.schedule, Square)
    lose = random_failed_rotors if isinstance(world.schedule, Rotors) else random_failed
    schedule = lose(draw, world.schedule)
    reach = schedule.joined() | np.eye(schedule.nodes, dtype=bool)
    if protocol != "direct":
        reach = reach.astype(int) @ reach > 0
    ends = world.node[world.source], world.node[world.target]
    lost = ~reach[ends]
    if isinstance(schedule, Staggered) and world.low_latency is not None:
        lost = np.where(world.low_latency, ~schedule.reach(world.pause[0])[ends], lost)
    surviving = {name: np.where(lost, -1, getattr(world, name)).astype(np.int32) for name in ("source", "target")}
    return replace(world, schedule=schedule, cells=np.where(lost, 0, world.cells).astype(np.int32), **surviving)


def check_twin(
    draw: np.random.Generator,
    world: Cells,
    reference: Callable[[Cells, SlottedSettings], Reference],
    run_cells: Callable[..., list[SlottedResults]],
) -> None:
    """The kernel is exactly the twin on a world, half of the time with parts that failed."""
    model = SlottedSettings(cable=str(draw.choice(list(CABLES))))
    if draw.random() < 0.5:
        world = with_failures(draw, world)
    twin = reference(world, model)
    twin.run()
    (results,) = run_cells([world], model)
    assert_equal(results, twin)


def of_seeds(
    first: int, count: int, make: Callable[..., Cells], run_cells: Callable[..., list[SlottedResults]]
) -> Iterator[SlottedResults]:
    """What becomes of a world of each seed, half of them with parts that failed."""
    for begin in range(first, first + count, 500):
        draws = [np.random.default_rng(seed) for seed in range(begin, begin + 500)]
        worlds = [make(draw, most_cells=60) for draw in draws]
        failed = zip(draws[::2], worlds[::2], strict=True)
        yield from run_cells(
            [*worlds[1::2], *(with_failures(draw, world) for draw, world in failed)], SlottedSettings()
        )


def assert_equal(results: SlottedResults, twin: Reference) -> None:
    """In every cell and slot. ``twin`` has run, ``results`` have a log."""
    world = results.world
    logged = {name: np.full(int(world.cells.sum()), -1) for name in ("through", "sent", "sent_on")}
    first = offsets(world.cells)
    for hop in twin.hops:
        at = first[hop.cell.task] + hop.cell.number
        again = hop.source != twin.ends(hop.cell.task)[0]
        logged["sent_on" if again else "sent"][at] = hop.slot
        if again:
            logged["through"][at] = hop.source
    for name, expected in logged.items():
        assert getattr(results.log, name).tolist() == expected.tolist(), name
    assert results.start.tolist() == [NEVER if time is None else time for time in twin.start]
    assert results.finish.tolist() == [NEVER if time is None else time for time in twin.finish]
    assert results.delivered.tolist() == [flow.delivered for flow in twin.flow]
    assert results.reorder.tolist() == [flow.reorder for flow in twin.flow]
    assert results.fullest.tolist() == twin.fullest
    epochs, *waiting = results.sampled.T.tolist()
    assert list(zip(*waiting, strict=True)) == [twin.waiting.get(epoch, (0, 0)) for epoch in epochs]
    busy = {epoch for epoch, (cells, _) in twin.waiting.items() if cells}
    assert max(twin.waiting, default=0) >= _C.MOST_SAMPLES or busy <= set(epochs), "only what is empty is left out"
    assert (results.received, results.hops) == (twin.received, len(twin.hops))
    assert has_ended(results) == (not twin.left)


def has_ended(results: SlottedResults) -> bool:
    """Whether every task has finished, or lost some of its cells and got the others."""
    lost = (results.dropped > 0) & (results.delivered + results.dropped == results.world.cells)
    return bool(((results.finish < NEVER) | lost).all())
