"""Skipped periods of packets: the kernel says exactly what its twin does, which simulates every packet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from tests.engine.test_packet_random import CASES, compare, random_model, random_world
from tests.engine.test_packet_threads import simulated
from topoflow.engine.base import Run, World
from topoflow.engine.packet import Packet

MakeWorld = Callable[..., World]
PACKETS = 1000
SPEED = 12.5e9  # B/s


def counted(world: World, model: Packet, threads: int = 1) -> tuple[int, int]:
    """Return all packet-hops, and those of skipped periods."""
    arrays = simulated([world], model, threads).arrays
    return int(arrays["packets"].sum()), int(arrays["skipped"].sum())


def incast(make_world: MakeWorld, packets: int) -> World:
    """Three senders to one link, which is as fast as one of them."""
    tasks = [{"path": [i, 3], "bytes": packets * 4096} for i in range(3)]
    return make_world(tasks, [SPEED] * 4, [5e-7] * 4)


@settings(max_examples=60)
@given(seed=CASES)
def test_skipped_periods_change_nothing(seed: int) -> None:
    """Messages are long, so that many worlds have periods."""
    draw = np.random.default_rng(seed)
    world, model = random_world(draw), replace(random_model(draw), queues="virtual_output", virtual_channels="auto")
    graph = replace(world.graph, alternatives=None, bytes=np.minimum(100 * world.graph.bytes, 300.5 * model.size))
    compare(replace(world, graph=replace(graph, path_weight=np.ones_like(graph.path_weight))), model, Run(threads=1))


@pytest.mark.parametrize(
    "model", [Packet(), Packet(samples=0), Packet(arbiter="age"), Packet(switching="store_and_forward")]
)
@pytest.mark.parametrize("threads", [1, 2])
def test_a_period_takes_no_time(make_world: MakeWorld, model: Packet, threads: int) -> None:
    """Ten times as many packets take no more packet-hops that are simulated."""
    few, many = (counted(incast(make_world, size), model, threads) for size in (PACKETS, 10 * PACKETS))
    assert few[0] == 6 * PACKETS
    assert many[0] == 60 * PACKETS
    assert few[1] > 0.5 * few[0]
    assert many[1] > 0.95 * many[0]


def test_tasks_interrupt_a_period(make_world: MakeWorld) -> None:
    """A message that comes in the middle is sent as it comes; what is around it is skipped."""
    tasks = [{"path": [i, 3], "bytes": PACKETS * 4096} for i in range(3)]
    late = {"path": [2, 3], "bytes": 100 * 4096, "release": 4e-4}
    world = make_world([*tasks, late], [SPEED] * 4, [5e-7] * 4)
    assert compare(world, Packet(), Run(threads=1))
    hops, skipped = counted(world, Packet())
    assert skipped > 0.5 * hops


def test_what_is_drawn_or_lost_has_no_period(make_world: MakeWorld) -> None:
    """Nor has what is controlled: only packets on known paths, which credits hold, are skipped."""
    for model in (Packet(queues="input"), Packet(loss="drop"), Packet(ecn_from=0, control="dcqcn")):
        assert counted(incast(make_world, 100), model)[1] == 0
