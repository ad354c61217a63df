"""Packets on random worlds: the kernel does exactly what its plain-Python twin does, and nothing is lost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topoflow.engine.base import Graph, Run, World
from topoflow.engine.bound import Bound
from topoflow.engine.packet import Packet, layout_of
from topoflow.engine.packet.layout import NONE, lay_out
from topoflow.engine.packet.reference import Answer, Simulation
from topoflow.engine.packet.settings import SECOND, numbers

CASES = st.integers(0, 2**32 - 1)


def random_world(draw: np.random.Generator) -> World:
    """Tasks on random paths over few links: many meet, links differ in speed, some worlds have circles."""
    links, paths, tasks = int(draw.integers(1, 9)), int(draw.integers(1, 8)), int(draw.integers(1, 14))
    rows = [draw.permutation(links)[: draw.integers(0, min(links, 5) + 1)] for _ in range(paths)]
    after = [np.unique(draw.integers(0, t, draw.integers(0, 3))) if t else np.zeros(0, int) for t in range(tasks)]
    path = draw.integers(-1, paths, tasks)
    nothing = draw.random(tasks) < 0.2
    size = np.where((path < 0) | nothing, 0.0, draw.choice([1.0, 64.0, 500.5, 4096.0, 30_000.0], tasks))
    graph = Graph(
        delay=draw.choice([0.0, 1e-7, 1e-6], tasks),
        bytes=size,
        release=draw.choice([0.0, 0.0, 2e-6], tasks),
        path=path.astype(np.int32),
        after_offsets=np.cumsum([0, *map(len, after)]).astype(np.int64),
        after=np.concatenate(after).astype(np.int32),
        path_offsets=np.cumsum([0, *map(len, rows)]).astype(np.int64),
        path_links=np.concatenate(rows).astype(np.int32),
        owner=np.arange(tasks, dtype=np.int32),
        owners=tasks,
        links=links,
        path_limit=np.array([draw.choice([1e9, np.inf]) if len(row) else np.inf for row in rows])
        if draw.random() < 0.3
        else None,
    )
    speeds = [1.25e9, 1.25e9, 3.1e9, 12.5e9]
    return World("random", graph, draw.choice(speeds, links), draw.choice([0.0, 1e-7, 5e-7], links))


def random_model(draw: np.random.Generator) -> Packet:
    flit = int(draw.choice([1, 32, 256]))
    size = flit * int(draw.integers(1, 9)) if draw.random() < 0.5 else 4096
    return Packet(
        size=size,
        flit=flit,
        buffer="auto" if draw.random() < 0.2 else int(size * draw.choice([1, 1.5, 4])),
        switching=str(draw.choice(["cut_through", "store_and_forward"])),
        queues=str(draw.choice(["virtual_output", "virtual_output", "input"])),
        virtual_channels="auto" if draw.random() < 0.7 else int(draw.integers(1, 3)),
        switch_latency=float(draw.choice([0, 1e-7])),
        nic_latency=float(draw.choice([0, 1e-7])),
        credit_latency=float(draw.choice([0, 3e-8])),
    )


def by_twin(world: World, model: Packet) -> Answer:
    layout = layout_of(world.graph, model)
    return Simulation(world, layout, numbers(world, layout, model), model).run()


def seconds(times: list[int | None]) -> list[float]:
    return [np.inf if time is None else time / SECOND for time in times]


def compare(world: World, model: Packet, threads: int = 1) -> bool:
    """Whether the world came to its end; kernel and twin must say the same."""
    expected = by_twin(world, model)
    if expected.buffered or None in expected.finish:
        with pytest.raises(ValueError, match=r"must not wait for each other in a circle, got that of links"):
            model.simulate([world], Run(threads=threads))
        return False
    (found,) = model.simulate([world], Run(threads=threads))
    assert found.finish.tolist() == seconds(expected.finish)
    assert found.start.tolist() == seconds(expected.start)
    layout = layout_of(world.graph, model)
    of_ports: Any = found.ports
    for link, port in zip(layout.port_link.tolist(), expected.ports, strict=True):
        assert of_ports.active[link] == port.active / SECOND
        assert of_ports.stalled[link] == port.stalled / SECOND
        assert (found.link_bytes[link], of_ports.packets[link]) == (port.bytes, port.packets)
    fullest = np.zeros(world.graph.links)
    np.add.at(fullest, layout.port_link[layout.channel_port], np.array(expected.fullest, float) * model.flit)
    assert of_ports.fullest.tolist() == fullest.tolist()
    latency = of_ports.latency
    assert latency.count.sum() == len(expected.latencies)
    assert latency.largest == max(expected.latencies, default=0) / SECOND
    assert latency.total == sum(expected.latencies) / SECOND
    for low, high, count in zip(latency.low, latency.high, latency.count, strict=True):
        assert count == sum(low <= each / SECOND < high for each in expected.latencies)
    return True


@settings(max_examples=150)
@given(CASES)
def test_the_kernel_is_exactly_the_twin(seed: int) -> None:
    draw = np.random.default_rng(seed)
    compare(random_world(draw), random_model(draw))


@settings(max_examples=200)
@given(st.integers(0, 2**32 - 1))
def test_virtual_channels_leave_no_circle(seed: int) -> None:
    """Channels in the order in which all that follow them come first: there is one for all channels."""
    layout = lay_out(random_world(np.random.default_rng(seed)).graph, None, output_queues=True)
    follows: dict[int, set[int]] = {channel: set() for channel in range(layout.channels)}
    for channel, following in zip(layout.hop_channel[:-1], layout.hop_channel[1:], strict=True):
        if NONE not in (channel, following):
            follows[int(channel)].add(int(following))
    while free := [channel for channel, those in follows.items() if not those]:
        for channel in free:
            del follows[channel]
        for those in follows.values():
            those.difference_update(free)
    assert not follows


@settings(max_examples=100)
@given(st.integers(0, 2**32 - 1))
def test_every_byte_arrives_once_and_never_before_the_bound(seed: int) -> None:
    draw = np.random.default_rng(seed)
    world, model = random_world(draw), random_model(draw)
    model = replace(model, virtual_channels="auto")  # no deadlock
    (found,) = model.simulate([world], Run(threads=1))
    expected = np.zeros(world.graph.links)
    for path, size in zip(world.graph.path.tolist(), np.ceil(world.graph.bytes).tolist(), strict=True):
        if path >= 0:
            hops = world.graph.path_links[world.graph.path_offsets[path] : world.graph.path_offsets[path + 1]]
            expected[hops] += size
    assert found.link_bytes.tolist() == expected.tolist()
    ports: Any = found.ports
    assert (ports.active + ports.stalled <= found.makespan * (1 + 1e-9)).all()
    (least,) = Bound().simulate([world])
    assert least.makespan <= found.makespan * (1 + 1e-9) + 1e-11  # latencies are whole picoseconds


def test_no_answer_depends_on_threads_or_on_other_worlds() -> None:
    draw = np.random.default_rng(5)
    worlds = [random_world(draw) for _ in range(40)]
    model = Packet(buffer=2 * 4096)
    alone = [model.simulate([world], Run(threads=1))[0] for world in worlds]
    for threads, order in ((2, 1), (3, -1)):
        together = model.simulate(worlds[::order], Run(threads=threads))[::order]
        for one, other in zip(alone, together, strict=True):
            assert one.finish.tobytes() == other.finish.tobytes()
            ports: Any = (one.ports, other.ports)
            assert ports[0].stalled.tobytes() == ports[1].stalled.tobytes()
