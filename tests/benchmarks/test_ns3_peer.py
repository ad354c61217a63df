"""ns-3 runs the same messages over the same links, and they arrive at the same times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from peers.ns3_peer import MODEL, Ns3, words

from topoflow.arrays import Floats, offsets
from topoflow.engine.base import LoweredGraph, Run, World

SPEEDS = [1.25e9, 12.5e9]  # B/s


def world_of(paths: Sequence[np.ndarray], sizes: np.ndarray, capacity: np.ndarray, latency: np.ndarray) -> World:
    """Messages that are ready at the beginning."""
    tasks, numbers = len(paths), np.arange(len(paths), dtype=np.int32)
    graph = LoweredGraph(
        delay=np.zeros(tasks),
        bytes=sizes.astype(float),
        release=np.zeros(tasks),
        path=numbers,
        after_offsets=np.zeros(tasks + 1, np.int64),
        after=np.zeros(0, np.int32),
        path_offsets=offsets(np.array([len(path) for path in paths])),
        path_links=np.concatenate(paths).astype(np.int32),
        owner=numbers,
        owners=tasks,
        links=len(capacity),
    )
    return World("messages", graph, capacity, latency)


def random_messages(draw: np.random.Generator) -> World:
    """Over few links, so that many meet: some of them begin where others pass."""
    links, tasks = int(draw.integers(1, 9)), int(draw.integers(1, 12))
    paths = [draw.permutation(links)[: draw.integers(1, min(links, 5) + 1)] for _ in range(tasks)]
    sizes = draw.integers(100, 200_000, tasks)  # the last packet is longer than PPP's header
    return world_of(paths, sizes, draw.choice(SPEEDS, links), draw.choice([1e-7, 5e-7, 7.3e-7], links))


def incast(_: np.random.Generator) -> World:
    """Six senders by a link each and then by one."""
    paths = [np.array([i, 6]) for i in range(6)]
    return world_of(paths, np.arange(6) * 5_000 + 40_000, np.full(7, SPEEDS[1]), np.arange(1, 8) * 1.1e-7)


def ours(world: World) -> Floats:
    finish: Floats = MODEL.simulate([world], Run(threads=1))[0].finish
    return finish


@pytest.mark.slow  # compiling against ns-3's headers takes ten seconds
@pytest.mark.parametrize("make", [random_messages, incast])
def test_packets_arrive_when_those_of_ns3_do(make: Callable[[np.random.Generator], World], ns3: Ns3) -> None:
    """To a packet's time, as what comes at one time may go in another order; nearly always to a picosecond."""
    exact = []
    for seed in range(20):
        world = make(np.random.default_rng(seed))
        difference = np.abs(ns3.run(world, MODEL.size).finish - ours(world)).max()
        assert difference <= MODEL.size / world.capacity.min()
        exact.append(difference <= 1e-12)
    assert np.mean(exact) >= 0.9


@pytest.mark.slow
def test_all_packets_cross_all_links(ns3: Ns3) -> None:
    world = random_messages(np.random.default_rng(3))
    packets = np.ceil(world.graph.bytes / MODEL.size) * np.diff(world.graph.path_offsets)
    assert ns3.run(world, MODEL.size).hops == packets.sum()


def test_what_the_peer_does_not_run_is_refused_by_name() -> None:
    world = random_messages(np.random.default_rng(0))
    late = replace(world, graph=replace(world.graph, delay=np.ones(world.graph.tasks)))
    with pytest.raises(ValueError, match=r"^messages: every task must be a message that is ready at the beginning$"):
        words(late, MODEL.size)
