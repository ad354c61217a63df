"""Threads that share a world of packets: the bytes that come out are the same for any number of them."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings

from tests.engine.test_packet_addresses import model_of
from tests.engine.test_packet_addresses import random_world as addressed_world
from tests.engine.test_packet_random import CASES, random_model, random_transport, random_world, union_of
from topoflow import _C
from topoflow.engine.alternatives import Alternatives
from topoflow.engine.base import LoweredGraph, World
from topoflow.engine.device import HOST_MEMORY
from topoflow.engine.packet import Packet, layout_of
from topoflow.engine.packet.addresses import ROUTINGS
from topoflow.engine.packet.batch import ANSWERS, PacketBatch, pack
from topoflow.engine.packet.settings import numbers


def simulated(worlds: Sequence[World], model: Packet, threads: int, grain: int = 1) -> PacketBatch:
    """With all that the kernel writes; ``grain``: ports for each thread of a world at least."""
    layouts = [layout_of(world.graph, model, world.routing) for world in worlds]
    amounts = [numbers(world, layout, model) for world, layout in zip(worlds, layouts, strict=True)]
    batch = pack(worlds, layouts, amounts)
    _C.packets(batch.arrays, model.kernel(), HOST_MEMORY, 0, threads, grain)
    return batch


def same_bytes(worlds: Sequence[World], model: Packet, most: int = 4) -> None:
    """Of every port, buffer and task, of all latencies, and how worlds ended; with 1 to ``most`` threads for each."""
    alone = simulated(worlds, model, 1)
    assert (alone.arrays["status"] != _C.RUNNING).all()
    for threads in range(2, most + 1):
        shared = simulated(worlds, model, threads * len(worlds))
        for name in (*ANSWERS, "latencies", "message_latencies"):
            assert shared.arrays[name].tobytes() == alone.arrays[name].tobytes(), (name, threads)


def coarse_model(draw: np.random.Generator) -> Packet:
    """Of packets that are not so small that windows are many: threads meet in each."""
    model = random_model(draw)
    size = model.size * 256 if model.size < 256 else model.size
    return replace(model, size=size, buffer="auto" if model.buffer == "auto" else 2 * size)


@settings(max_examples=60)
@given(seed=CASES)
def test_any_number_of_threads_gives_the_same_bytes(seed: int) -> None:
    """All options of lossless switches; some worlds block each other's buffers."""
    draw = np.random.default_rng(seed)
    same_bytes([random_world(draw)], coarse_model(draw))


@settings(max_examples=50)
@given(seed=CASES)
@example(seed=978)  # two messages lose each other's packets for ever, and give up
def test_with_losses_marks_and_control(seed: int) -> None:
    draw = np.random.default_rng(seed)
    same_bytes([random_world(draw, one_interface=True)], random_transport(draw))


@pytest.mark.parametrize("routing", ROUTINGS)
@settings(max_examples=20)
@given(seed=CASES)
def test_with_routers_that_forward_by_address(routing: str, seed: int) -> None:
    draw = np.random.default_rng(seed)
    same_bytes([addressed_world(draw, routing)], model_of(draw))


@settings(max_examples=20)
@given(seed=CASES)
def test_several_worlds_each_with_several_threads(seed: int) -> None:
    """Some end early, and some are not simulated to their end."""
    draw = np.random.default_rng(seed)
    worlds = [random_world(draw) for _ in range(3)]
    worlds[1] = replace(worlds[1], until=float(draw.choice([0.0, 1e-6, 1e-5])))
    same_bytes(worlds, coarse_model(draw), most=3)


@settings(max_examples=50)
@given(seed=CASES)
def test_parts_of_a_world_are_whole_switches(seed: int) -> None:
    """What a switch's ports share, and the channels and queues of a port, lie together."""
    draw = np.random.default_rng(seed)
    world, model = random_world(draw), random_model(draw)
    layout = layout_of(world.graph, model)
    assert (np.diff(layout.node) >= 0).all()
    assert (np.diff(layout.channel_port) >= 0).all()
    ports_of = layout.node[layout.edge_port]
    for queue in np.unique(layout.edge_queue):
        channel = layout.queue_channel[queue]
        assert len(set(ports_of[layout.queue_channel[layout.edge_queue] == channel].tolist())) == 1
    assert sorted(layout.first_seen.tolist()) == list(range(layout.ports))


def test_packets_of_a_message_that_arrive_in_several_parts_are_all_counted() -> None:
    """Its packets come to the target from two leaves, a part each, at the same time. (Counted without atomics they are
    lost now and then, where both threads have a processor.)"""
    nic, up, other_up, down, other_down = range(5)
    rows = [np.array([nic, up, down]), np.array([nic, other_up, other_down])]
    both = Alternatives(
        np.array([0, 2]), np.array([0, 3, 6]), np.concatenate(rows).astype(np.int32), np.array([0.5, 0.5])
    )
    hops = union_of(rows[:1], both)
    graph = LoweredGraph(
        delay=np.zeros(1),
        bytes=np.array([4e6]),
        release=np.zeros(1),
        path=np.zeros(1, np.int32),
        after_offsets=np.zeros(2, np.int64),
        after=np.zeros(0, np.int32),
        path_offsets=hops.offsets,
        path_links=hops.links,
        path_weight=hops.weights,
        alternatives=both,
        owner=np.zeros(1, np.int32),
        owners=1,
        links=5,
    )
    world = World("two leaves", graph, np.full(5, 12.5e9), np.full(5, 1e-5))
    for _ in range(3):
        assert simulated([world], Packet(size=64), 2).arrays["status"].tolist() == [_C.DONE]
    same_bytes([world], Packet(size=64), most=2)


def test_threads_share_a_world_that_is_alone_also_where_its_parts_take_more_than_a_batch_may() -> None:
    """It is simulated whatever it takes, so only what parts add counts. Worlds of a batch wait for each other then."""
    draw = np.random.default_rng(0)
    world, model = random_world(draw), coarse_model(draw)
    layout = layout_of(world.graph, model, world.routing)

    def state(worlds: int, threads: int, budget: int) -> int:
        """B of a world's."""
        batch = pack([world] * worlds, [layout] * worlds, [numbers(world, layout, model)] * worlds)
        return int(_C.packets(batch.arrays, model.kernel(), budget, 0, threads, 1))

    alone, shared = state(1, 1, HOST_MEMORY), state(1, 2, HOST_MEMORY)
    assert alone < shared
    assert state(1, 2, -(-(shared - alone) // 4)) == shared
    assert state(1, 2, (shared - alone - 1) // 4) == alone
    assert state(2, 4, 2 * shared) == shared
    assert state(2, 4, 2 * shared - 1) == alone


def answers(seed: int, threads: int) -> str:
    """A digest of all that the kernel writes for a random world."""
    draw = np.random.default_rng(seed)
    arrays = simulated([random_world(draw)], coarse_model(draw), threads).arrays
    return hashlib.sha256(b"".join(arrays[name].tobytes() for name in (*ANSWERS, "latencies"))).hexdigest()


PROGRAM = """
import sys
root, *seeds = sys.argv[1:]
sys.path.append(root)
from tests.engine.test_packet_threads import answers
print(*[answers(int(seed), 4) for seed in seeds])
"""


def test_parts_whose_threads_never_come_are_done_by_those_that_do() -> None:
    """Four parts and one thread: OpenMP gives no more. So no thread is waited for that has not begun a part."""
    seeds = range(8)
    program = [sys.executable, "-c", PROGRAM, str(Path(__file__).parents[2]), *map(str, seeds)]
    completed = subprocess.run(
        program, env=os.environ | {"OMP_THREAD_LIMIT": "1"}, capture_output=True, text=True, timeout=120
    )
    assert completed.stdout.split() == [answers(seed, 1) for seed in seeds], completed.stderr
