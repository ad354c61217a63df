"""Packets on random worlds: the kernel does exactly what its plain-Python twin does, and nothing is lost."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.twins.packet import Answer, Simulation, most_of_intervals
from tests.twins.packet_addresses import AddressedSimulation
from tests.twins.packet_addresses_transport import AddressedTransportSimulation
from tests.twins.packet_sst import SstSimulation
from tests.twins.packet_transport import TransportSimulation
from topoflow.engine.alternatives import Alternatives
from topoflow.engine.base import Histogram, LoweredGraph, Ports, Run, Timeline, World
from topoflow.engine.bound import Bound
from topoflow.engine.device import DeviceMemory
from topoflow.engine.lowering.paths import PathSet, union
from topoflow.engine.packet import MOST_QUEUES, Packet, layout_of
from topoflow.engine.packet.addresses import AddressedLayout
from topoflow.engine.packet.layout import PortLayout, lay_out
from topoflow.engine.packet.merge import NONE
from topoflow.engine.packet.settings import MICROSECOND, MILLISECOND, SECOND, numbers
from topoflow.engine.packet.transport import MARKED, WINDOWED
from topoflow.fabric.routing.base import padded

Rows = Sequence[np.ndarray]  # links of each path
CASES = st.integers(0, 2**32 - 1)


def random_world(draw: np.random.Generator, *, one_interface: bool = False) -> World:
    """Tasks on random paths over few links: many meet, links differ in speed, some worlds have circles.

    With ``one_interface`` all paths of a message begin with the same link.
    """
    links, paths, tasks = int(draw.integers(1, 9)), int(draw.integers(1, 8)), int(draw.integers(1, 14))
    rows = [draw.permutation(links)[: draw.integers(0, min(links, 5) + 1)] for _ in range(paths)]
    after = [np.unique(draw.integers(0, t, draw.integers(0, 3))) if t else np.zeros(0, int) for t in range(tasks)]
    several = alternatives(draw, rows, int(one_interface)) if draw.random() < 0.5 else None
    hops = union_of(rows, several)
    path = draw.integers(-1, paths, tasks)
    nothing = draw.random(tasks) < 0.2
    size = np.where((path < 0) | nothing, 0.0, draw.choice([1.0, 64.0, 500.5, 4096.0, 30_000.0], tasks))
    graph = LoweredGraph(
        delay=draw.choice([0.0, 1e-7, 1e-6], tasks),
        bytes=size,
        release=draw.choice([0.0, 0.0, 2e-6], tasks),
        path=path.astype(np.int32),
        after_offsets=np.cumsum([0, *map(len, after)]).astype(np.int64),
        after=np.concatenate(after).astype(np.int32),
        path_offsets=hops.offsets,
        path_links=hops.links,
        path_weight=hops.weights,
        alternatives=several,
        owner=np.arange(tasks, dtype=np.int32),
        owners=tasks,
        links=links,
        path_limit=np.array([draw.choice([1e9, np.inf]) if len(row) else np.inf for row in rows])
        if draw.random() < 0.3
        else None,
    )
    speeds = [1.25e9, 1.25e9, 3.1e9, 12.5e9]
    latency = draw.choice([0.0, 1e-7, 5e-7], links)
    return World("random", graph, draw.choice(speeds, links), latency, seed=int(draw.integers(2**63)))


def alternatives(draw: np.random.Generator, rows: Rows, prefix_length: int) -> Alternatives:
    """Return up to three other ways of each path: its first ``prefix_length`` links, and some of its others."""
    paths, shares = [], []
    for row in rows:
        count = draw.integers(0, 4) if len(row) else 0
        paths.append([row, *(other_way(draw, row, prefix_length) for _ in range(count))])
        share = draw.random(len(paths[-1])) + 0.1
        shares.append(share / share.sum())
    flat = [row for several in paths for row in several]
    return Alternatives(
        np.cumsum([0, *map(len, paths)]).astype(np.int64),
        np.cumsum([0, *map(len, flat)]).astype(np.int64),
        np.concatenate(flat).astype(np.int32),
        np.concatenate(shares),
    )


def other_way(draw: np.random.Generator, row: np.ndarray, prefix_length: int) -> np.ndarray:
    rest = draw.permutation(row[prefix_length:])
    return np.concatenate([row[:prefix_length], rest[: draw.integers(1, len(rest) + 1)] if len(rest) else rest])


def union_of(rows: Rows, several: Alternatives | None) -> PathSet:
    if several is None:
        offsets = np.cumsum([0, *map(len, rows)]).astype(np.int64)
        links = np.concatenate(rows).astype(np.int32)
        return PathSet(offsets, links, np.ones(len(links)), None)
    chains = [several.links[a:b] for a, b in itertools.pairwise(several.hop_offsets)]
    path = np.repeat(np.arange(len(rows)), np.diff(several.offsets))
    return union(padded([tuple(chain.tolist()) for chain in chains]), path, several.share, len(rows))


def random_model(draw: np.random.Generator) -> Packet:
    flit = int(draw.choice([1, 32, 256]))
    size = flit * int(draw.integers(1, 9)) if draw.random() < 0.5 else 4096
    model = Packet(
        size=size,
        flit=flit,
        buffer="auto" if draw.random() < 0.2 else int(size * draw.choice([1, 1.5, 4])),
        switching=str(draw.choice(["cut_through", "store_and_forward"])),
        queues=str(draw.choice(["virtual_output", "virtual_output", "input"])),
        arbiter=str(draw.choice(["round_robin", "age", "arrival"])),
        draws=str(draw.choice(["packet", "message", "in_turn"])),
        messages=str(draw.choice(["round_robin", "in_order"])),
        virtual_channels="auto" if draw.random() < 0.7 else int(draw.integers(1, 3)),
        switch_latency=float(draw.choice([0, 1e-7])),
        nic_latency=float(draw.choice([0, 1e-7])),
        eager=None if draw.random() < 0.7 else int(draw.choice([0, 500, 4096])),
        credit_latency=float(draw.choice([0, 3e-8])),
        samples=int(draw.spawn(1)[0].choice([0, 1, 2, 3, 7, 64])),  # whatever else is drawn
    )
    entropies = [None, None, 1, 4][draw.spawn(1)[0].integers(4)]
    return replace(model, entropies=entropies) if model.draws == "packet" else model


def random_transport(draw: np.random.Generator) -> Packet:
    """A model with losses, marks or control. Its timers are short, as the worlds are; packets are not so small that
    a great many are sent again after each timeout."""
    usual, low = random_model(draw), int(draw.integers(0, 3) * 4096)
    usual = replace(usual, size=usual.size * 256, flit=usual.flit * 256, buffer="auto") if usual.size < 256 else usual
    marks = draw.random() >= 0.2
    loss = str(draw.choice(["none", "drop", "trim"]))
    control = str(draw.choice(["none", "dcqcn", "nscc", "swift", "pulls"] if marks else ["none", "swift", "pulls"]))
    draws, more = usual.draws, draw.spawn(1)[0]
    if loss == "none" and draws == "message" and more.random() < 0.7:
        control = "hpcc"
    elif more.random() < 0.5:
        draws = str(more.choice(["reps", "flowlet"]))
    # what was trimmed is pulled without a window, too
    pulls_next = (control == "pulls" and loss != "trim") or control in WINDOWED
    model = replace(
        usual,
        queues="virtual_output",
        draws=draws,
        loss=loss,
        control=control,
        window=["auto" if pulls_next else None, "auto", 1, 10_000][draw.integers(0, 4)],
        timeout=float(draw.choice([1e-6, 20e-6])),
        target="auto" if draw.spawn(1)[0].random() < 0.5 else 3e-7,
        ecn_from=low if marks else None,
        ecn_to=low + int(draw.integers(0, 3) * 4096),
        ecn_most=float(draw.random()),
        ecn_at=str(draw.spawn(1)[0].choice(MARKED)),
        dcqcn_gain=float(draw.random()),
        dcqcn_timer=float(draw.choice([1e-6, 5e-6])),
        dcqcn_bytes=int(draw.choice([5_000, 20_000])),
        dcqcn_alpha_timer=float(draw.choice([1e-6, 5e-6])),
        dcqcn_notice=float(draw.choice([1e-12, 3e-6])),
        dcqcn_recoveries=int(draw.integers(1, 4)),
        dcqcn_step=float(draw.choice([1e5, 1e8])),
        flowlet_gap=float(more.choice([0, 1e-6, 5e-6])),
        hpcc_utilization=float(more.choice([0.95, 0.3])),
        hpcc_stages=int(more.integers(0, 6)),
        hpcc_step=int(more.choice([1, 80, 3000])),
    )
    return model if model.has_transport else replace(model, loss="drop")


def twin_of(world: World, model: Packet) -> Simulation:
    layout = layout_of(world.graph, model, world.routing)
    amounts = numbers(world, layout, model)
    if model.is_sst:
        assert isinstance(layout, AddressedLayout)
        return SstSimulation(world, layout, amounts, model)
    if isinstance(layout, AddressedLayout):
        of_addresses = AddressedTransportSimulation if model.has_transport else AddressedSimulation
        return of_addresses(world, layout, amounts, model)
    return (TransportSimulation if model.has_transport else Simulation)(world, layout, amounts, model)


def by_twin(world: World, model: Packet) -> Answer:
    return twin_of(world, model).run()


def seconds(times: list[int | None]) -> list[float]:
    return [np.inf if time is None else time / SECOND for time in times]


def compare(world: World, model: Packet, run: Run) -> bool:
    """Whether the world came to its end; kernel and twin must say the same."""
    twin = twin_of(world, model)
    try:
        expected = twin.run()
    except RuntimeError:
        with pytest.raises(ValueError, match=r"every message must arrive, got a message whose packets were lost 1000"):
            model.simulate([world], run)
        return False
    if expected.buffered or None in expected.finish:
        with pytest.raises(ValueError, match=r"must not wait for each other in a circle, got that of link"):
            model.simulate([world], run)
        return False
    (timeline,) = model.simulate([world], run)
    assert timeline.finish.tolist() == seconds(expected.finish)
    assert timeline.start.tolist() == seconds(expected.start)
    layout = layout_of(world.graph, model, world.routing)
    of_ports: Any = timeline.ports
    end = max((time for time in expected.finish if time is not None), default=0)
    for link, port in zip(layout.port_link.tolist(), expected.ports, strict=True):
        assert of_ports.active[link] == (port.active - max(port.free - end, 0) * model.is_sst) / SECOND
        assert of_ports.stalled[link] == port.stalled / SECOND
        assert (timeline.link_bytes[link], of_ports.packets[link]) == (port.bytes, port.packets)
        idle = end - port.free
        assert of_ports.idle_intervals[link] == port.idle_intervals + (idle > 0)
        assert of_ports.idle_1us[link] == port.idle_1us + (idle > MICROSECOND)
        assert of_ports.idle_1ms[link] == port.idle_1ms + (idle > MILLISECOND)
    fullest = np.zeros(world.graph.links)
    if model.loses:
        fullest[layout.port_link] = np.array(twin.most, float) * model.flit
    else:
        np.add.at(fullest, layout.port_link[layout.channel_port], np.array(expected.fullest, float) * model.flit)
    assert of_ports.fullest.tolist() == fullest.tolist()
    agree_over_time(of_ports, layout, twin, model, end)
    agree(of_ports.latency, expected.latencies)
    for of_kernel, of_twin in ((of_ports.lost, twin.lost), (of_ports.marked, twin.marked)):
        assert of_kernel[layout.port_link].tolist() == of_twin
        assert of_kernel.sum() == sum(of_twin)
    if isinstance(twin, TransportSimulation):
        for name, counts in (("sent", twin.sent), ("delivered", twin.delivered), ("lost", twin.dropped)):
            assert getattr(of_ports.flows, name).tolist() == counts.packets
            assert getattr(of_ports.flows, f"{name}_bytes").tolist() == counts.bytes
    amounts = numbers(world, layout, model)
    ends = zip(
        expected.start,
        expected.finish,
        (amounts.delay - amounts.handshake).tolist(),
        amounts.bytes.tolist(),
        strict=True,
    )
    agree(of_ports.message_latency, [int(b or 0) - int(a or 0) - wait for a, b, wait, size in ends if size])
    return True


def agree_over_time(ports: Ports, layout: PortLayout, twin: Simulation, model: Packet, end: int) -> None:
    """Depths of queues, interval by interval; and their greatest is the one that is counted besides."""
    if not model.samples:
        assert ports.queues is None
        return
    assert ports.queues is not None
    interval = round(ports.queues.interval * SECOND)
    doubled, rest = divmod(interval, twin.numbers.window)
    assert rest == 0
    assert doubled & (doubled - 1) == 0
    count = ports.queues.depth.shape[1]
    assert count <= model.samples
    assert (count - 1) * interval < max(end, 1) <= count * interval
    depth = np.zeros((len(ports.fullest), count))
    of_depth = layout.port_link if model.loses else layout.port_link[layout.channel_port]
    for link, depths in zip(of_depth.tolist(), twin.depths, strict=True):
        depth[link] += np.array(most_of_intervals(depths, interval, count)) * model.flit
        assert depths.get(max(depths, default=0), 0) == 0  # all that came has gone
    assert len(ports.queues.link) == min(np.count_nonzero(ports.fullest), MOST_QUEUES)
    assert ports.queues.depth.tolist() == depth[ports.queues.link].tolist()
    by_most = sorted(range(len(ports.fullest)), key=lambda link: (-ports.fullest[link], link))
    assert ports.queues.link.tolist() == by_most[: len(ports.queues.link)]
    assert (depth.max(axis=1) <= ports.fullest).all()
    alone = np.bincount(of_depth, minlength=len(ports.fullest)) == 1  # else the peaks of channels are at several times
    assert depth.max(axis=1)[alone].tolist() == ports.fullest[alone].tolist()


def agree(histogram: Histogram, values: list[int]) -> None:
    """A histogram in s of values in ps."""
    assert histogram.count.sum() == len(values)
    assert histogram.largest == max(values, default=0) / SECOND
    assert histogram.total == sum(values) / SECOND
    for low, high, count in zip(histogram.low, histogram.high, histogram.count, strict=True):
        assert count == sum(low <= value / SECOND < high for value in values)
    for share in (0.5, 0.99) if values else ():
        exact = np.quantile(values, share, method="inverted_cdf") / SECOND
        assert exact <= histogram.quantile(share) <= 17 / 16 * exact + 1 / SECOND


@settings(max_examples=150)
@given(seed=CASES)
def test_the_kernel_is_exactly_the_twin(device: str, seed: int) -> None:
    draw = np.random.default_rng(seed)
    compare(random_world(draw), random_model(draw), Run(DeviceMemory.named(device), threads=1))


@settings(max_examples=150)
@given(seed=CASES)
@example(seed=978)  # two messages lose each other's packets for ever, and give up
def test_with_losses_marks_and_control_the_kernel_is_exactly_the_twin(device: str, seed: int) -> None:
    draw = np.random.default_rng(seed)
    compare(random_world(draw, one_interface=True), random_transport(draw), Run(DeviceMemory.named(device), threads=1))


def test_with_windows_below_one_packet_the_kernel_is_exactly_the_twin(
    device: str, make_world: Callable[..., World]
) -> None:
    """Many more messages than packets fit into a target: windows fall below one packet and rise again."""
    senders = 40
    tasks = [{"path": [sender, senders], "bytes": 30 * 4096} for sender in range(senders)]
    world = make_world(tasks, [12.5e9] * (senders + 1), [1e-6] * (senders + 1))
    model = Packet(control="swift", window=2 * 4096, target=1e-6)
    assert compare(world, model, Run(DeviceMemory.named(device), threads=1))


@settings(max_examples=40)
@given(seed=CASES)
@example(seed=4725)  # a credit is not back yet at the end of an interval that is written long after
def test_on_links_of_milliseconds_the_kernel_is_exactly_the_twin(device: str, seed: int) -> None:
    """What a channel and a queue have in 32 bits, and credits that they have no room for, are as exact as the rest."""
    draw = np.random.default_rng(seed)
    world, model = random_world(draw), random_model(draw)
    latency = draw.choice([0.0, 1e-6, 1.2e-3, 2.1e-3, 5e-3], world.graph.links)
    model = replace(model, buffer=64 * model.size) if draw.random() < 0.5 else model
    compare(replace(world, latency=latency), model, Run(DeviceMemory.named(device), threads=1))


@settings(max_examples=40)
@given(seed=CASES)
def test_on_links_with_hundreds_of_packets_under_way_the_kernel_is_exactly_the_twin(device: str, seed: int) -> None:
    """Credits are in calendars of many days; slow links after fast ones give them back in later rounds of days."""
    draw = np.random.default_rng(seed)
    world, model = random_world(draw), replace(random_model(draw), virtual_channels="auto")
    model = replace(model, buffer=int(draw.choice([16, 512])) * model.size, credit_latency=1e-6)
    graph = replace(world.graph, bytes=np.minimum(100 * world.graph.bytes, 500.5 * model.size))
    speeds, latencies = [12.5e9, 100e9, 400e9, 400e9], [0.0, 1e-6, 2e-6]
    fast = replace(
        world, graph=graph, capacity=draw.choice(speeds, graph.links), latency=draw.choice(latencies, graph.links)
    )
    assert compare(fast, model, Run(DeviceMemory.named(device), threads=1))


@settings(max_examples=50)
@given(seed=CASES)
def test_worlds_that_share_their_paths_may_send_other_bytes(seed: int) -> None:
    """Also none where another sends some, so that it crosses other ports."""
    draw = np.random.default_rng(seed)
    world, model = random_world(draw), replace(random_model(draw), virtual_channels="auto")
    sends = [np.where(draw.random(world.graph.tasks) < 0.5, size * world.graph.bytes, 0.0) for size in (1, 2, 3)]
    worlds = [replace(world, graph=replace(world.graph, bytes=bytes)) for bytes in [*sends, world.graph.bytes]]
    together = model.simulate(worlds, Run(threads=1))
    for timeline, alone in zip(together, worlds, strict=True):
        assert timeline.finish.tolist() == model.simulate([alone], Run(threads=1))[0].finish.tolist()


@settings(max_examples=200)
@given(st.integers(0, 2**32 - 1))
def test_virtual_channels_leave_no_circle(seed: int) -> None:
    """Channels in the order in which all that follow them come first: there is one for all channels."""
    layout = lay_out(random_world(np.random.default_rng(seed)).graph, None, output_queues=True)
    follows: dict[int, set[int]] = {channel: set() for channel in range(layout.channels)}
    for queue, following in zip(layout.edge_queue, layout.edge_channel, strict=True):
        if following != NONE:
            follows[int(layout.queue_channel[queue])].add(int(following))
    while free := [channel for channel, those in follows.items() if not those]:
        for channel in free:
            del follows[channel]
        for those in follows.values():
            those.difference_update(free)
    assert not follows


@settings(max_examples=100)
@given(st.integers(0, 2**32 - 1))
def test_every_byte_arrives_once_and_never_before_the_bound(seed: int) -> None:
    worlds, model = some_worlds(seed, 1)
    (timeline,) = model.simulate(worlds, Run(threads=1))
    conserves(worlds[0], model, timeline)
    if worlds[0].graph.alternatives is None:  # else packets are not spread as evenly as a fluid
        (bound,) = Bound().simulate(worlds)
        assert bound.makespan <= timeline.makespan * (1 + 1e-9) + 1e-11  # latencies are whole picoseconds


def some_lossy_worlds(seed: int, count: int) -> tuple[list[World], Packet]:
    """Worlds and a model of losses, marks and control in which nothing can be blocked."""
    draw = np.random.default_rng(seed)
    worlds = [random_world(draw, one_interface=True) for _ in range(count)]
    return worlds, replace(random_transport(draw), virtual_channels="auto")


def loses_nothing_silently(world: World, model: Packet, timeline: Timeline) -> None:
    """What was sent was delivered or lost, of each message and in total, packets and bytes; each byte arrives once.

    Messages, ports and receivers count by themselves.
    """
    assert np.isfinite(timeline.finish).all()
    ports: Any = timeline.ports
    flows = ports.flows
    bytes = np.where(crosses(world), np.ceil(world.graph.bytes), 0).astype(int)
    assert flows.delivered_bytes.tolist() == bytes.tolist()
    assert flows.delivered.tolist() == (-(-bytes // model.size)).tolist()
    assert flows.sent.tolist() == (flows.delivered + flows.lost).tolist()
    assert flows.sent_bytes.tolist() == (flows.delivered_bytes + flows.lost_bytes).tolist()
    assert ports.lost.sum() == flows.lost.sum()
    assert ports.latency.count.sum() == flows.delivered.sum()
    assert ports.message_latency.count.sum() == np.count_nonzero(bytes)
    if not model.loses:
        assert not ports.lost.any()
    if world.graph.alternatives is None:  # what a link carried: at most what was sent by it, at least what arrived
        least, most = np.zeros(world.graph.links, int), np.zeros(world.graph.links, int)
        for task, path in enumerate(world.graph.path.tolist()):
            links = world.graph.path_links[slice(*world.graph.path_offsets[path : path + 2])] if path >= 0 else []
            least[links] += flows.delivered_bytes[task]
            most[links] += flows.sent_bytes[task]
        assert (least <= timeline.link_bytes).all()
        assert (timeline.link_bytes <= most).all()


def some_worlds(seed: int, count: int) -> tuple[list[World], Packet]:
    """Worlds and a model in which nothing can be blocked."""
    draw = np.random.default_rng(seed)
    worlds = [random_world(draw) for _ in range(count)]
    return worlds, replace(random_model(draw), virtual_channels="auto")


def conserves(world: World, model: Packet, timeline: Timeline) -> None:
    """Every byte and packet arrives once, no buffer holds more than its size, and ports do one thing at a time."""
    assert np.isfinite(timeline.finish).all()
    least, most = np.zeros(world.graph.links), np.zeros(world.graph.links)  # what must and what may cross each link
    sizes = np.ceil(world.graph.bytes)
    for path, size in zip(world.graph.path.tolist(), sizes.tolist(), strict=True):
        if path >= 0:
            hop_range = slice(world.graph.path_offsets[path], world.graph.path_offsets[path + 1])
            hops, weight = world.graph.path_links[hop_range], world.graph.path_weight[hop_range]
            least[hops[weight > 1 - 1e-9]] += size
            most[hops] += size
    assert (timeline.link_bytes >= least).all()
    assert (timeline.link_bytes <= most).all()
    ports: Any = timeline.ports
    assert ports.latency.count.sum() == np.ceil(sizes[crosses(world)] / model.size).sum()
    assert ports.message_latency.count.sum() == np.count_nonzero(sizes[crosses(world)])
    assert (ports.active + ports.stalled <= timeline.makespan * (1 + 1e-9)).all()
    layout = layout_of(world.graph, model)
    room = np.zeros(world.graph.links)
    buffer = numbers(world, layout, model).buffer.astype(float) * model.flit
    np.add.at(room, layout.port_link[layout.channel_port], buffer)
    assert (ports.fullest <= room).all()  # credits are never negative


def crosses(world: World) -> np.ndarray:
    """[T] whether a task sends over links."""
    hops = np.append(np.diff(world.graph.path_offsets), 0)
    crosses: np.ndarray = hops[world.graph.path] > 0
    return crosses


@settings(max_examples=200)
@given(CASES)
def test_packets_take_every_alternative_as_often_as_its_share_says(seed: int) -> None:
    """All walks from the roots of a path: the chains of its alternatives, no others, with their probabilities."""
    world = random_world(np.random.default_rng(seed))
    layout = lay_out(world.graph, 1, output_queues=True)
    several = world.graph.alternatives or Alternatives.single(world.graph.path_offsets, world.graph.path_links)
    for path, (first, last) in enumerate(itertools.pairwise(several.offsets.tolist())):
        expected: dict[tuple[int, ...], float] = defaultdict(float)
        for row in range(first, last):
            chain = several.links[several.hop_offsets[row] : several.hop_offsets[row + 1]]
            expected[tuple(chain.tolist())] += several.share[row]
        begin, end = layout.path_roots[path : path + 2].tolist()
        if begin == end:  # no bytes, or no links
            continue
        assert dict(walks(layout, begin, end)) == pytest.approx(expected, abs=1e-6)


def walks(layout: PortLayout, begin: int, end: int) -> Iterator[tuple[tuple[int, ...], float]]:
    """The links of every walk from these roots, and its probability; none comes twice."""
    before = 0.0
    for root in range(begin, end):
        reached = (float(layout.root_bound[root]) + 1) / 2**32
        link = int(layout.port_link[layout.root_port[root]])
        for rest, chance in following(layout, int(layout.root_next[root])):
            yield (link, *rest), (reached - before) * chance
        before = reached


def following(layout: PortLayout, step: int) -> Iterator[tuple[tuple[int, ...], float]]:
    if step == NONE:
        yield (), 1.0
        return
    edges = range(*layout.branches[-2 - step : -step].tolist()) if step < NONE else range(step, step + 1)
    before = 0.0
    for edge in edges:
        reached = 1.0 if step >= 0 else (float(layout.edge_bound[edge]) + 1) / 2**32
        link = int(layout.port_link[layout.edge_port[edge]])
        for rest, chance in following(layout, int(layout.edge_next[edge])):
            yield (link, *rest), (reached - before) * chance
        before = reached


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
