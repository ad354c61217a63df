"""The ``packet`` fidelity: lossless switches packet by packet, for a batch of worlds at once.

Messages are cut into packets, which NICs and switches send on one after the other; a switch has input buffers, virtual
output queues and an arbiter, and sends only what the next buffer has room for (credits). ``reference`` states the model
in plain Python, ``csrc/packet`` is what runs, and ``docs/packet.md`` says what is modelled and what is not.

    Packet    the fidelity: worlds of any graphs; a Timeline of each, with what its ports saw

A message crosses the links of its path in the world. The latency of a link in a world is that of a hop; what switches
and NICs add to it are settings of the fidelity.

Shapes: W worlds, T tasks, L links, N ports, C channels.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import ClassVar

import numpy as np

from topoflow import _C
from topoflow.arrays import Floats, Ints, Offsets
from topoflow.engine.base import Histogram, LoweredGraph, PacketCounts, Ports, Queues, Run, Timeline, Unfinished, World
from topoflow.engine.checks import check_accepted, refuses_rounds
from topoflow.engine.device import HOST_MEMORY, DeviceMemory
from topoflow.engine.launch import Kernel, Steps, count_threads, cut_by_memory, in_pieces, listed
from topoflow.engine.packet.addresses import ADAPTIVE, AddressedLayout, by_ports_of_routers, lay_out_addresses
from topoflow.engine.packet.batch import ANSWERS, SHARED, PacketBatch, pack
from topoflow.engine.packet.effort import count_packets, notice, packet_hops, share_done
from topoflow.engine.packet.layout import PortLayout, lay_out
from topoflow.engine.packet.merge import NONE
from topoflow.engine.packet.settings import (
    MICROSECOND,
    MILLISECOND,
    SECOND,
    Numbers,
    PacketSettings,
    in_picoseconds,
    numbers,
)
from topoflow.engine.slotted.cells import has_slots
from topoflow.engine.timelines import timeline
from topoflow.fabric.dragonfly import LEVELS as DRAGONFLY

SLOT = 32  # B of a packet in a buffer
PORT = 216  # B, with one virtual channel
EARLIER_PORT = 44  # B of the same at an earlier time, where its state may come back (csrc/packet/periods/periods.h)
QUEUE = 32  # B
DAY = 4  # B of a day of the calendar of a channel's credits
ADDRESSED_PORT, CHANNEL, PLACE = 184, 96, 4  # B by address: a port, a channel, a place for a queue
ARRIVAL = 24  # B of a packet on its way to a router that adapts, beside its slot
SST_SLOT, SST_PORT, SST_LANE = 40, 300, 48  # B with packet.model=sst: a packet or credit, a port, its virtual channel
DEPTH = 4  # B of a queue's depth in an interval
MOST_QUEUES = 64  # whose depths over time a timeline has: those of the fullest ports
PORTS_OF_A_THREAD = 128  # at least, where several share a world: with fewer, they wait for each other most of the time
FLOWS = ("sent", "sent_bytes", "delivered", "delivered_bytes", "lost_of", "lost_bytes")  # as ``PacketCounts`` has them
SST_ROUTINGS = ("minimal", "valiant_group", "adaptive_local")
MAX_TASKS = 2**30  # of a world: an event is a task and what happens to it in 32 bits


@dataclass(frozen=True)
class Packet(PacketSettings):
    """Lossless switches with credits, packet by packet."""

    name: ClassVar[str] = "packet"
    lower_bound_of: ClassVar[str] = ""

    def refuses(self, world: World) -> str | None:
        """Refuse networks with slots or changing circuits, and several paths of a flow given only as their union."""
        if world.fabric is not None and world.changes_circuits:
            return f"fabric: must keep its circuits with fidelity={self.name}, got {world.fabric.name}"
        if has_slots(world.fabric):
            requirement = f"must have switches with buffers with fidelity={self.name} (slots: fidelity=slotted)"
            return f"fabric: {requirement}, got {_fabric(world)}"
        weight = world.graph.path_weight
        if world.graph.alternatives is None and weight is not None and len(weight) and weight.min() < 1:
            requirement = f"paths must be known one by one with fidelity={self.name}"
            return f"routing: {requirement}, got only their union in {world.name}"
        if self.is_sst:
            return self._sst_refuses(world)
        if self.in_turn and world.graph.next_hops is not None:
            return f"packet.draws: must be packet or message with routing={world.routing}, got {self.draws}"
        if self.unusual is not None and (refusal := self._transport_refuses(world, *self.unusual)):
            return refusal
        if world.graph.next_hops is not None and not self.output_queues:
            return f"packet.queues: must be virtual_output with routing={world.routing}, got {self.queues}"
        if world.graph.next_hops is not None and self.eager is not None:  # how long the way is nobody has said
            return f"packet.eager: must be null with routing={world.routing}, got {self.eager}"
        return None

    def _transport_refuses(self, world: World, field: str, usual: str, value: object) -> str | None:
        """Return why ports cannot lose or mark packets of this world, or control its messages."""
        graph = world.graph
        if graph.rounds > 1:  # what a message hears says nothing of its round
            return refuses_rounds(world, f"{self.name} with packet.{field}={value}")
        if graph.next_hops is not None:
            return self._overtaking_refuses(world, world.routing in ADAPTIVE)
        if graph.alternatives is None:
            return None
        if _leaves_by_several(graph):
            requirement = (
                f"must be {usual} where a message leaves by several interfaces of its server, as in {world.name}"
            )
            return f"packet.{field}: {requirement}, got {value}"
        return self._overtaking_refuses(world)

    def _overtaking_refuses(self, world: World, adapts: bool = False) -> str | None:
        """Return why packets of a message must not overtake each other, if they may in this world."""
        if self.control != "hpcc":
            return None
        if adapts:
            return f"routing: must not adapt with packet.control=hpcc, got {world.routing} in {world.name}"
        if self.in_turn or self.numbers_drawn > 1:
            requirement = f"must be message with packet.control=hpcc and several paths, as in {world.name}"
            return f"packet.draws: {requirement}, got {self.draws}"
        return None

    def _sst_refuses(self, world: World) -> str | None:
        """Refuse all but the routings of a dragonfly that SST has, and what its NICs do not do."""
        hops, limit = world.graph.next_hops, world.graph.path_limit
        if hops is None or world.routing not in SST_ROUTINGS:
            requirement = f"must be one of {', '.join(SST_ROUTINGS)} with packet.model=sst"
            return f"routing: {requirement}, got {world.routing} in {world.name}"
        if hops.levels != DRAGONFLY:
            return f"fabric: must be a dragonfly with packet.model=sst, got {_fabric(world)}"
        if limit is not None and np.isfinite(limit).any():
            return f"packet.model: must be hardware where transfers have a limit, as in {world.name}, got sst"
        if self.eager is not None:
            return f"packet.eager: must be null with routing={world.routing}, got {self.eager}"
        return None

    def keeps_bound(self, world: World) -> bool:
        """Return False: a link is busy before the latency of the whole path has passed, and paths are drawn."""
        return False

    def simulate(self, worlds: Sequence[World], run: Run = Run()) -> list[Timeline]:
        """Return when every task of every world ran, in the order of ``worlds``.

        Raises ``ValueError`` as ``Fluid.simulate`` does, and ``Unfinished`` naming the ports where full buffers wait
        for each other in a circle.
        """
        check_accepted(self, worlds)
        layouts: dict[Hashable, PortLayout] = {}
        prepared = []
        for world in worlds:
            self._check(world)
            key = (_routes(world.graph), world.routing)
            if key not in layouts:
                layouts[key] = layout_of(world.graph, self, world.routing)
            prepared.append(Prepared(world, layouts[key], numbers(world, layouts[key], self), self.is_sst))
        if not run.device.on_cuda:
            hops = sum(packet_hops(item.world.graph, item.layout, self._packets(item)) for item in prepared)
            if text := notice(hops, min(count_threads(run.threads) or os.cpu_count() or 1, len(prepared))):
                run.observer.note(text)
        return in_pieces(
            prepared,
            run.device,
            run.observer,
            partial(cut_by_memory, needed=_needed),
            partial(self._steps, threads=run.threads),
        )

    def kernel(self) -> dict[str, float]:
        """Return the settings by the names of the kernel (``PacketSettings`` of ``csrc/packet/batch.h``)."""
        return dict(
            size=self.size,
            flit=self.flit,
            switch_latency=in_picoseconds(self.switch_latency),
            nic_latency=in_picoseconds(self.nic_latency),
            credit_latency=in_picoseconds(self.credit_latency),
            cut_through=self.cut_through,
            output_queues=self.output_queues,
            entropies=self.numbers_drawn,
            choice=self.choice,
            flowlet_gap=in_picoseconds(self.flowlet_gap),
            in_turn=self.in_turn,
            by_age=self.by_age,
            by_arrival=self.by_arrival,
            in_order=self.in_order,
            by_free=self.by_free,
            threshold=self.threshold,
            samples=self.samples,
            is_sst=self.is_sst,
            setup=in_picoseconds(self.setup),
            match=in_picoseconds(self.match),
            **self.transport,
        )

    def _packets(self, prepared: Prepared) -> Floats:
        return count_packets(prepared.amounts.bytes, self.size, prepared.world.graph.rounds)

    def _check(self, world: World) -> None:
        tasks = world.graph.tasks * world.graph.rounds
        if tasks > MAX_TASKS:
            raise ValueError(f"{world.name}.tasks: must be at most {MAX_TASKS} in all rounds, got {tasks}")
        starved = _starved(world)
        if starved != NONE:
            raise ValueError(f"{world.name}: every flow must get bandwidth, got none for {world.graph.where(starved)}")

    def _steps(self, prepared: Sequence[Prepared], device: DeviceMemory, threads: int | None) -> Steps[list[Timeline]]:
        batch = pack(*zip(*((item.world, item.layout, item.amounts) for item in prepared), strict=True))
        arrays = batch.arrays
        if device.torch is not None:
            arrays = device.put({name: arrays[name] for name in arrays if name not in SHARED})
            arrays |= {name: device.shared(len(batch.arrays[name])) for name in SHARED}
        status, count = np.asarray(arrays["status"]), count_threads(threads)
        packets = [self._packets(item) for item in prepared] if device.torch is None else []

        def done() -> float:
            ended = np.count_nonzero((status != _C.PENDING) & (status != _C.RUNNING))
            running = np.flatnonzero(status == _C.RUNNING).tolist() if packets else []
            return float(ended) + sum(
                share_done(packets[index], batch.of("finish", index), int(batch.latencies(index, "latency")[0].sum()))
                for index in running
            )

        yield Kernel(
            partial(_C.packets, arrays, self.kernel(), device.memory, device.stream, count, PORTS_OF_A_THREAD),
            arrays["cancel"],
            running=lambda: [batch.worlds[index].name for index in np.flatnonzero(status == _C.RUNNING)],
            done=done,
        )
        if device.torch is not None:
            batch.arrays["status"][:] = status
            for name in {*ANSWERS, "latencies", "message_latencies"} - {"status"}:
                batch.arrays[name][:] = device.numpy(arrays[name])
        _raise_unfinished(batch, self)
        return [_timeline(batch, index, self) for index in range(len(prepared))]


def layout_of(graph: LoweredGraph, settings: PacketSettings, routing: str = "ecmp") -> PortLayout:
    """Ports, channels and queues of a graph's paths with these settings, or of its ``routing`` by address."""
    channels = None if isinstance(settings.virtual_channels, str) else settings.virtual_channels
    if graph.next_hops is not None:
        layout = lay_out_addresses(graph, graph.next_hops, routing, channels)
        return by_ports_of_routers(layout) if settings.is_sst else layout
    return lay_out(graph, channels, output_queues=settings.output_queues)


def _fabric(world: World) -> str:
    return world.name if world.fabric is None else world.fabric.name


def _leaves_by_several(graph: LoweredGraph) -> bool:
    """Return whether alternatives of a path differ in their first link, or in whether it is also the last."""
    several = graph.alternatives
    assert several is not None, "the caller asks for graphs with alternatives"
    hops = np.diff(several.hop_offsets)
    first = 2 * several.links[several.hop_offsets[:-1][hops > 0]] + (hops[hops > 0] > 1)
    path = np.repeat(np.arange(len(several.offsets) - 1), np.diff(several.offsets))[hops > 0]
    return bool(((np.diff(path) == 0) & (np.diff(first) != 0)).any())


def _routes(graph: LoweredGraph) -> Hashable:
    """Equal for graphs that share the arrays that ``layout_of`` reads: worlds may differ in what they send."""
    shared = (graph.path, graph.path_offsets, graph.path_links, graph.alternatives, graph.next_hops)
    return (*map(id, shared), (graph.bytes > 0).tobytes())


@dataclass(frozen=True)
class Prepared:
    """A world as the kernel takes it."""

    world: World
    layout: PortLayout
    amounts: Numbers
    is_sst: bool = False

    @property
    def name(self) -> str:
        return self.world.name

    @property
    def state(self) -> int:
        """About the B of packets, ports and queues while it runs, at most; by address up to 8 % too few (measured)."""
        slots, ports, queues = self.amounts.slot_total, self.layout.ports, int(self.layout.port_queues[-1])
        if self.is_sst:
            return SST_SLOT * slots + (SST_PORT + SST_LANE * self.layout.channels_needed) * ports
        days = DAY * int(self.amounts.days.sum())
        if not isinstance(self.layout, AddressedLayout):
            return SLOT * slots + (PORT + EARLIER_PORT) * ports + QUEUE * queues + days
        held, channels = min(slots, queues), self.layout.channels
        slot = SLOT + ARRIVAL * (self.layout.routing in ADAPTIVE)
        return slot * slots + ADDRESSED_PORT * ports + CHANNEL * channels + QUEUE * held + PLACE * queues + days


def _needed(prepared: Prepared) -> int:
    """Return the B of a world's arrays. Raises ``ValueError`` where its state is too large for any device."""
    world, layout, amounts = prepared.world, prepared.layout, prepared.amounts
    _refuse_large(world, prepared.state)
    if DEPTH * amounts.depths > HOST_MEMORY:
        requirement = f"depths of queues over time must take at most {HOST_MEMORY / 2**30:.0f} GiB"
        raise ValueError(
            f"packet.samples: {requirement}, got {DEPTH * amounts.depths / 2**30:.1f} GiB for {world.name}"
        )
    return (
        64 * world.graph.tasks
        + 32 * len(layout.edge_port)
        + 80 * layout.ports
        + 8 * _C.LATENCY_BINS
        + DEPTH * amounts.depths
    )


def _refuse_large(world: World, bytes: int) -> None:
    if bytes > 16 * HOST_MEMORY:
        requirement = f"a world's buffers must take at most {16 * HOST_MEMORY / 2**30:.0f} GiB"
        raise ValueError(f"packet.buffer: {requirement}, got {bytes / 2**30:.1f} GiB for {world.name}")


def _starved(world: World) -> int:
    """A task whose path has a link without bandwidth, NONE if there is none."""
    graph = world.graph
    if graph.next_hops is not None and not world.capacity.all():  # any link may be taken
        return int(np.argmax(graph.bytes > 0)) if graph.bytes.any() else NONE
    dark = np.flatnonzero(world.capacity[graph.path_links] == 0)
    paths = np.unique(np.searchsorted(graph.path_offsets, dark, side="right") - 1)
    tasks = np.flatnonzero((graph.bytes > 0) & np.isin(graph.path, paths))
    return int(tasks[0]) if len(tasks) else NONE


def _raise_unfinished(batch: PacketBatch, settings: PacketSettings) -> None:
    status = batch.arrays["status"]
    failures = []
    for index in np.flatnonzero((status != _C.DONE) & (status != _C.PAUSED)).tolist():
        world, name = batch.worlds[index], batch.worlds[index].name
        if status[index] == _C.BLOCKED:
            ports = listed([world.where_link(link) for link in circle(batch, index)])
            channels = f"packet.virtual_channels={settings.virtual_channels}"
            requirement = "buffers must not wait for each other in a circle"
            failures.append(f"{name}: {requirement}, got that of {ports} with {channels}")
        elif status[index] == _C.STARVED:
            losses = f"a message whose packets were lost {_C.MOST_LOSSES} times each"
            failures.append(f"{name}: every message must arrive, got {losses} (packet.timeout, packet.window)")
        elif status[index] == _C.DEADLOCK:
            stuck = int(np.argmax(batch.of("finish", index) == _C.NEVER))
            failures.append(f"{name}: every task must become ready, got an endless wait for {world.graph.where(stuck)}")
        else:
            failures.append(f"{name}: must end within {_C.NEVER / 2 / SECOND / 86400:.0f} days, got a longer time")
    if failures:
        raise Unfinished("; ".join(failures))


def circle(batch: PacketBatch, index: int) -> list[int]:
    """Return links whose buffers are full and wait for each other, each for the next and the last for the first."""
    waits, layout = batch.of("waits_for", index), batch.layouts[index]
    channel = int(np.flatnonzero(waits != NONE)[0])
    seen: dict[int, int] = {}
    for step in count():
        if channel in seen or channel == NONE:
            break
        seen[channel] = step
        channel = int(waits[channel])
    circle_channels = [waiting_channel for waiting_channel, step in seen.items() if step >= seen.get(channel, 0)]
    links: list[int] = layout.port_link[layout.channel_port[circle_channels]].tolist()
    return links


def _timeline(batch: PacketBatch, index: int, settings: PacketSettings) -> Timeline:
    world, layout = batch.worlds[index], batch.layouts[index]
    start, finish = (_seconds(batch.of(name, index)) for name in ("start", "finish"))
    carried = _on_links(world.graph, layout.port_link, batch.of("port_bytes", index))
    simulated = timeline(world, start, finish, carried)
    return replace(simulated, ports=_ports(batch, index, settings))


def _ports(batch: PacketBatch, index: int, settings: PacketSettings) -> Ports:
    world, layout = batch.worlds[index], batch.layouts[index]

    def by_link(name: str) -> Floats:
        return _on_links(world.graph, layout.port_link, batch.of(name, index))

    fullest = np.zeros(world.graph.links)
    if settings.loses:
        fullest[layout.port_link] = batch.of("deepest", index).astype(np.float64) * settings.flit
    else:
        taken = batch.of("fullest", index).astype(np.float64) * settings.flit
        np.add.at(fullest, layout.port_link[layout.channel_port], taken)
    end = int(batch.of("finish", index).max(initial=0, where=batch.of("finish", index) < _C.NEVER))
    rest = end - batch.of("free", index)  # ps, since the port last sent
    sent = by_link("active")
    if settings.is_sst:  # a message has arrived with its last head, while ports may still send
        sent -= _on_links(world.graph, layout.port_link, np.maximum(-rest, 0))
    return Ports(
        active=sent / SECOND,
        stalled=by_link("stalled") / SECOND,
        packets=by_link("packets").astype(np.int64),
        idle_intervals=_idle(world.graph, layout, batch.of("idle_intervals", index) + (rest > 0), end > 0),
        idle_1us=_idle(world.graph, layout, batch.of("idle_1us", index) + (rest > MICROSECOND), end > MICROSECOND),
        idle_1ms=_idle(world.graph, layout, batch.of("idle_1ms", index) + (rest > MILLISECOND), end > MILLISECOND),
        fullest=fullest,
        lost=by_link("lost").astype(np.int64),
        marked=by_link("marked").astype(np.int64),
        latency=_histogram(*batch.latencies(index, "latency")),
        message_latency=_histogram(*batch.latencies(index, "message_latency")),
        queues=_queues(batch, index, settings, fullest, end) if settings.samples else None,
        flows=PacketCounts(*(batch.of(name, index) for name in FLOWS)) if settings.has_transport else None,
    )


def _queues(batch: PacketBatch, index: int, settings: PacketSettings, fullest: Floats, end: int) -> Queues:
    """``fullest`` [L] B; ``end``: ps, when the last task has finished."""
    layout, interval = batch.layouts[index], int(batch.of("interval", index)[0])
    links = np.argsort(-fullest, kind="stable")[:MOST_QUEUES]
    links = links[fullest[links] > 0]
    row = np.full(len(fullest), NONE)  # of each link
    row[links] = np.arange(len(links))
    of_depth = row[layout.port_link if settings.loses else layout.port_link[layout.channel_port]]
    (taken,) = np.nonzero(of_depth != NONE)
    count = int(batch.of("intervals", index)[0])
    if batch.of("status", index)[0] == _C.DONE:  # else there is more to come; credits may still be under way then
        count = min(count, max(1, -(-end // interval)))
    flits = batch.of("depths", index).reshape(settings.samples, -1)[:count, taken]
    depth = np.zeros((len(links), count))
    np.add.at(depth, of_depth[taken], flits.T.astype(np.float64) * settings.flit)
    return Queues(links.astype(np.int32), interval / SECOND, depth)


def _idle(graph: LoweredGraph, layout: PortLayout, counts: Offsets, whole: bool) -> Offsets:
    """Return [L] the ``counts`` [N] of ports by link; one that nothing crosses is idle once, for the ``whole`` time."""
    by_link = np.full(graph.links, int(whole))
    by_link[layout.port_link] = counts
    return by_link


def _histogram(counts: Offsets, total: int, largest: int) -> Histogram:
    """In s, of numbers in the kernel's bins, in ps."""
    (bins,) = np.nonzero(counts)
    ends = _bin_begin(bins) / SECOND, _bin_begin(bins + 1) / SECOND
    return Histogram(*ends, counts[bins], total / SECOND, largest / SECOND)


def _bin_begin(bins: Offsets) -> Floats:
    """ps, the least latency of each bin (``csrc/packet/state.h``)."""
    shift = np.maximum(bins // 16 - 1, 0)
    begin: Floats = np.ldexp((bins - 16 * shift).astype(np.float64), shift)
    return begin


def _seconds(times: Offsets) -> Floats:
    return np.where(times >= _C.NEVER, np.inf, times / SECOND)


def _on_links(graph: LoweredGraph, links: Ints, values: Offsets) -> Floats:
    """Return [L] the ``values`` [N] of ports by link; 0 where no port is."""
    by_link = np.zeros(graph.links)
    by_link[links] = values
    return by_link
