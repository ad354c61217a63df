"""The settings of the packet model, and a world in its numbers: whole picoseconds, bytes and flits.

Shapes: T tasks, N ports, C channels (``topoflow.engine.packet.layout``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from topoflow.arrays import Floats, Ints, Offsets
from topoflow.engine.base import AUTO, World
from topoflow.engine.packet.addresses import AddressedLayout, max_hops, most_slots
from topoflow.engine.packet.idle_routes import IdleRoutes
from topoflow.engine.packet.layout import PortLayout
from topoflow.engine.packet.merge import NONE
from topoflow.engine.packet.transport import (
    LONGEST,
    MAX_PACKETS,
    Transport,
    TransportArrays,
    check_whole,
    control_of,
    is_number,
)
from topoflow.fabric.routing.next_hops import DOWN, UP

SECOND = 1e12  # ps
MICROSECOND, MILLISECOND = 10**6, 10**9  # ps
LARGEST_BUFFER = 2**30  # flits
SWITCH_BUFFER = 128 * 1024  # B of an input port; Source: MOTION, Table 3
MAX_SAMPLES = 2**16
MODELS = ("hardware", "sst")
SWITCHING = ("cut_through", "store_and_forward")
QUEUES = ("virtual_output", "input")
DRAWS = ("packet", "message", "in_turn", "reps", "flowlet")
CHOSEN = ("", "reps", "flowlet")  # draws in which the sender chooses entropies, by the numbers of csrc/packet/batch.h
ENTROPIES = 64  # where the sender chooses; Source: github.com/ultraethernet/uet-htsim, main_uec.cpp, -paths
MAX_RECYCLED = 256  # entropies: news of a packet has one and its delay, of half a millisecond then (flow.h)
ARBITERS = ("round_robin", "age", "arrival")
MESSAGES = ("round_robin", "in_order")
COMPARES = ("occupied", "free")
CHOICES = {
    "model": MODELS,
    "switching": SWITCHING,
    "queues": QUEUES,
    "draws": DRAWS,
    "arbiter": ARBITERS,
    "messages": MESSAGES,
    "compares": COMPARES,
}
FIXED_BY_SST = {"switching": SWITCHING[0], "arbiter": ARBITERS[0], "draws": DRAWS[0]}  # else it has what it has


@dataclass(frozen=True)
class PacketSettings(Transport):
    """The settings of switches and NICs. Bytes and seconds.

    ``buffer`` "auto": ``SWITCH_BUFFER``, or twice what a link needs to send without a pause when nothing is in the way,
    if that is more. ``virtual_channels`` "auto": as many as exclude every deadlock (``layout``). ``draws``: who draws
    one of several paths, every packet or a message for all of its packets; or its packets take all of them in turn;
    or its sender chooses entropies, those of packets that were not marked (reps), or the next one once it has sent
    nothing for ``flowlet_gap`` (flowlet).
    ``entropies``: values of the header by which packets of a message draw, one after the other; None: one for each.
    ``arbiter``: of queues that can send, the next in turn, that with the packet that left its NIC first (those of the
    own NIC are the youngest), or that whose packet came to the port first. ``messages``: those of one NIC take turns
    packet by packet, or each is sent to its end before the next. ``eager``: a message of more bytes first asks its
    receiver (rendezvous); None: none does. ``threshold``: adaptive-local routing takes the non-minimal route where the
    minimal one's port has more than ``threshold`` times the occupied space of the other's (``compares`` "occupied"), or
    where the other's has more than ``threshold`` times the free space of the minimal one's ("free"). ``samples``:
    intervals at most in which the depths of queues are written down, 0: none.

    ``model`` "sst": the network and the NICs of another simulator, which has none of the choices above
    (``tests/twins/packet_sst.py``). ``setup`` is the time of a sender's NIC before each message, and ``match`` that
    of a receiver's NIC for the first packet of a message.
    """

    model: str = "hardware"
    size: int = 4096
    flit: int = 32
    buffer: int | str = AUTO
    switching: str = "cut_through"
    queues: str = "virtual_output"
    virtual_channels: int | str = AUTO
    switch_latency: float = 0.0
    nic_latency: float = 0.0
    credit_latency: float = 0.0
    draws: str = "packet"
    entropies: int | None = None
    flowlet_gap: float = 500e-6
    arbiter: str = "round_robin"
    messages: str = "round_robin"
    eager: int | None = None
    threshold: float = 2.0
    compares: str = "occupied"
    samples: int = 64
    setup: float = 0.0
    match: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        for field in ("size", "flit"):
            check_whole(field, getattr(self, field), 1, 2**24)
        if self.size % self.flit:
            raise ValueError(f"packet.size: must be a multiple of the {self.flit} B of a flit, got {self.size}")
        if self.buffer != AUTO:
            check_whole("buffer", self.buffer, self.size, LARGEST_BUFFER * self.flit, f" or {AUTO}")
        if self.virtual_channels != AUTO:
            check_whole("virtual_channels", self.virtual_channels, 1, 2**15, f" or {AUTO}")
        if self.eager is not None:
            check_whole("eager", self.eager, 0, LONGEST, " or null")
        if self.entropies is not None:
            check_whole("entropies", self.entropies, 1, MAX_PACKETS, " or null")
            if self.entropies & (self.entropies - 1):
                raise ValueError(f"packet.entropies: must be a power of two or null, got {self.entropies}")
            for field in ("model", "draws"):
                if getattr(self, field) not in (CHOICES[field][0], *CHOSEN):
                    requirement = f"must be null with packet.{field}={getattr(self, field)}"
                    raise ValueError(f"packet.entropies: {requirement}, got {self.entropies}")
        if self.draws == "reps":
            check_whole("entropies", self.numbers_drawn, 1, MAX_RECYCLED)
        if self.control == "hpcc" and self.draws in CHOSEN:
            raise ValueError(f"packet.draws: must be message with packet.control=hpcc, got {self.draws}")
        check_whole("samples", self.samples, 0, MAX_SAMPLES)
        for field, known in CHOICES.items():
            if getattr(self, field) not in known:
                raise ValueError(f"packet.{field}: must be one of {', '.join(known)}, got {getattr(self, field)!r}")
        if not is_number(self.threshold) or not 0 < self.threshold < math.inf:
            raise ValueError(f"packet.threshold: must be a positive number, got {self.threshold!r}")
        for field in ("switch_latency", "nic_latency", "credit_latency", "flowlet_gap", "setup", "match"):
            value = getattr(self, field)
            if not is_number(value) or not 0 <= value * SECOND <= LONGEST:
                raise ValueError(f"packet.{field}: must be within 0 and {LONGEST / SECOND:g} s, got {value!r}")
        if self.has_transport and not self.output_queues:
            requirement = "must be virtual_output where packets are lost or marked, or messages controlled"
            raise ValueError(f"packet.queues: {requirement}, got {self.queues}")
        self._check_model()

    def _check_model(self) -> None:
        """Neither model has what only the other one does."""
        if self.is_sst and self.unusual is not None:
            field, usual, value = self.unusual
            raise ValueError(f"packet.{field}: must be {usual} with packet.model=sst, got {value}")
        for field, usual in FIXED_BY_SST.items() if self.is_sst else ():
            if getattr(self, field) != usual:
                raise ValueError(f"packet.{field}: must be {usual} with packet.model=sst, got {getattr(self, field)}")
        for field in () if self.is_sst else ("setup", "match"):
            if getattr(self, field):
                raise ValueError(f"packet.{field}: must be 0 but for packet.model=sst, got {getattr(self, field)!r}")

    @property
    def is_sst(self) -> bool:
        return self.model == MODELS[1]

    @property
    def cut_through(self) -> bool:
        return self.switching == SWITCHING[0]

    @property
    def numbers_drawn(self) -> int:
        """Return how many numbers the packets of a message draw paths by, a power of two."""
        if self.draws == DRAWS[1]:
            return 1
        if self.entropies is None:
            return ENTROPIES if self.draws in CHOSEN else MAX_PACKETS
        return self.entropies

    @property
    def choice(self) -> int:
        """Return how the sender chooses entropies (``Choice`` of ``csrc/packet/batch.h``); 0: it does not."""
        return CHOSEN.index(self.draws) if self.draws in CHOSEN else 0

    @property
    def unusual(self) -> tuple[str, str, object] | None:
        return super().unusual or (("draws", DRAWS[0], self.draws) if self.choice else None)

    @property
    def in_turn(self) -> bool:
        return self.draws == DRAWS[2]

    @property
    def by_age(self) -> bool:
        return self.arbiter == ARBITERS[1]

    @property
    def by_arrival(self) -> bool:
        return self.arbiter == ARBITERS[2]

    @property
    def in_order(self) -> bool:
        return self.messages == MESSAGES[1]

    @property
    def by_free(self) -> bool:
        return self.compares == COMPARES[1]

    @property
    def output_queues(self) -> bool:
        return self.queues == QUEUES[0]


@dataclass(frozen=True)
class Numbers:
    """A world as the packet model has it. ps, B and flits."""

    bytes: Offsets  # [T] B that cross the network; 0: the task is a wait only
    delay: Offsets  # [T] ps from when it is ready until it has finished or, if it has bytes, enters the NIC
    handshake: Offsets  # [T] ps of that in which a message asks its receiver
    release: Offsets  # [T] ps
    pace: Offsets  # [T] ps at least between the beginnings of two packets of a message, which a limit spreads
    byte_time: Floats  # [N] ps for each byte
    latency: Offsets  # [N] ps
    buffer: Ints  # [C] flits
    slots: Offsets  # [C] packets that are in the buffer at most
    slot_total: int  # of all channels; fewer than all ``slots`` where channels share them
    days: Ints  # [C] of the calendar of each channel's credits
    depths: int  # of queues over time that are written down
    control: TransportArrays
    window: int  # ps: what a port does is seen by others so much later at the earliest

    def time(self, port: int, bytes: int) -> int:
        """ps that a port needs to send these bytes."""
        return math.ceil(bytes * float(self.byte_time[port]))


def numbers(world: World, layout: PortLayout, settings: PacketSettings) -> Numbers:
    """``world`` in the packet model's units. Raises ``ValueError`` where it cannot be said in them."""
    graph, links = world.graph, layout.port_link
    crosses = (graph.bytes > 0) & (np.diff(layout.path_roots)[graph.path] > 0) if len(graph.path_offsets) > 1 else None
    bytes_ = np.where(crosses, np.ceil(graph.bytes), 0.0) if crosses is not None else np.zeros(graph.tasks)
    _check_most(world, "a message", bytes_, 2.0**53, "B")
    byte_time = SECOND / world.capacity[links]
    _check_most(world, "the time of a packet on a link", settings.size * byte_time, LONGEST, "ps")
    latency = picoseconds(world, "the latency of a link", world.latency[links])
    limit = np.full(graph.tasks, np.inf)
    if graph.path_limit is not None:
        limit[bytes_ > 0] = graph.path_limit[graph.path[bytes_ > 0]]
    pace = np.where(bytes_ > 0, np.ceil(settings.size * SECOND / limit), 0.0)
    _check_most(world, "the time of a packet at the limit of a transfer", pace, LONGEST, "ps")
    first = np.ceil(np.minimum(bytes_, settings.size) * SECOND / limit)  # ps, until there is a packet to send
    listed = IdleRoutes.listed(graph)
    handshake = picoseconds(world, "the latency of a path", _handshake(world, settings, listed) * (bytes_ > 0))
    buffer = _buffers(world, layout, settings, byte_time, latency)
    slots, slot_total = _slots(bytes_.astype(np.int64), buffer, world, layout, settings, byte_time, latency)
    control = TransportArrays.nothing(graph.tasks, layout.ports)
    if settings.has_transport:
        crossed = listed if graph.next_hops is None else IdleRoutes.by_address(graph, world.routing)
        back = picoseconds(world, "the latency of a path", _one_way(world, settings, crossed) * (bytes_ > 0))
        depth = _depths(world, settings, byte_time, latency)
        control = control_of(world, layout, crossed, settings, settings.size, bytes_.astype(np.int64), back, depth)
        if settings.loses:
            slot_total = control.under_way + 1  # a packet gets its next slot before it leaves the one that it has
    if settings.is_sst:
        assert isinstance(layout, AddressedLayout), "refused otherwise"
        depth = _depths(world, settings, byte_time, latency)
        control = replace(control, depth=depth)
        rounds = _overlapping(world, layout, settings, byte_time, latency)
        slot_total = _sst_slots(bytes_.astype(np.int64), depth, rounds, layout, settings)
    return Numbers(
        bytes_.astype(np.int64),
        picoseconds(world, "the delay of a task", graph.delay + _latency_alone(world, settings, listed) * (bytes_ == 0))
        + first.astype(np.int64)
        + handshake,
        handshake,
        picoseconds(world, "the beginning of a task", graph.release),
        pace.astype(np.int64),
        byte_time,
        latency,
        buffer,
        slots,
        slot_total,
        _days(slots, layout, settings, byte_time, latency),
        settings.samples * (layout.ports if settings.loses else layout.channels),
        control,
        _sst_window(world, layout, settings, latency)
        if isinstance(layout, AddressedLayout) and settings.is_sst
        else _window(layout, settings, byte_time, latency),
    )


def picoseconds(world: World, what: str, seconds: Floats) -> Offsets:
    """Seconds to the nearest ps."""
    with np.errstate(over="ignore"):  # inf is more than the most, too
        times = np.rint(seconds * SECOND)
    _check_most(world, what, times, LONGEST, "ps")
    return times.astype(np.int64)


def in_picoseconds(seconds: float) -> int:
    """Seconds to the nearest ps."""
    return round(seconds * SECOND)


def _latency_alone(world: World, settings: PacketSettings, crossed: IdleRoutes) -> Floats:
    """[T] s that a message without bytes takes on its path; 0 off the network."""
    graph = world.graph
    if not crossed.paths:
        return np.zeros(graph.tasks)
    hops = crossed.count  # of the average byte
    waited = crossed.sums(world.latency[crossed.link])
    waited += np.where(hops > 0, np.maximum(hops - 1, 0) * settings.switch_latency + 2 * settings.nic_latency, 0.0)
    alone: Floats = np.where(graph.path >= 0, waited[graph.path], 0.0)
    return alone


def _handshake(world: World, settings: PacketSettings, crossed: IdleRoutes) -> Floats:
    """[T] s in which a request of a flit crosses an idle network and its answer comes back, where a message asks.

    A flit has crossed a link when the next one begins, cut-through or not. Neither takes room or turns from packets.
    Source: Sur, Jin, Chai and Panda, "RDMA read based rendezvous protocol for MPI over InfiniBand", PPoPP 2006, 2.
    """
    graph = world.graph
    asks = graph.bytes > (np.inf if settings.eager is None else settings.eager)
    if not asks.any() or not crossed.paths:
        return np.zeros(graph.tasks)
    return np.where(asks, 2 * _one_way(world, settings, crossed), 0.0)


def _one_way(world: World, settings: PacketSettings, crossed: IdleRoutes) -> Floats:
    """[T] s that a flit takes on the idle path of a task; of any length for a task without one."""
    if not crossed.paths:
        return np.zeros(world.graph.tasks)
    flit = np.ceil(settings.flit * SECOND / world.capacity[crossed.link]) / SECOND
    seconds: Floats = crossed.sums(flit)[world.graph.path] + _latency_alone(world, settings, crossed)
    return seconds


def _buffers(world: World, layout: PortLayout, settings: PacketSettings, byte_time: Floats, latency: Offsets) -> Ints:
    return _depths(world, settings, byte_time, latency)[layout.channel_port]


def _depths(world: World, settings: PacketSettings, byte_time: Floats, latency: Offsets) -> Ints:
    """[N] flits of the buffer of each port: at the end of its link, or before it where packets are lost."""
    if settings.buffer != AUTO:
        return np.full(len(latency), int(settings.buffer) // settings.flit, np.int32)
    extra = in_picoseconds(settings.switch_latency) + in_picoseconds(settings.credit_latency)
    round_trip = (2 * latency + extra) / byte_time + 2 * settings.size  # B that are sent meanwhile
    flits = np.maximum(SWITCH_BUFFER, np.maximum(2 * round_trip, 4 * settings.size)) // settings.flit
    what = "packet.buffer=auto, which follows from bandwidth and latency,"
    _check_most(world, what, flits, LARGEST_BUFFER, "flits")
    return flits.astype(np.int32)


def _slots(
    bytes: Offsets,
    buffer: Ints,
    world: World,
    layout: PortLayout,
    settings: PacketSettings,
    byte_time: Floats,
    latency: Offsets,
) -> tuple[Offsets, int]:
    """Return [C] the most packets in each channel, and the number of slots, which channels share by address."""
    if not isinstance(layout, AddressedLayout):
        least, crossing = _smallest(bytes, world, layout, settings)
        slots = np.minimum(buffer // np.maximum(least, 1), crossing)
        return slots, int(slots.sum())
    short = bytes[bytes > 0] % settings.size
    least_flits = -(-int(short[short > 0].min(initial=settings.size)) // settings.flit)
    packets = int((-(-bytes // settings.size)).sum()) * _overlapping(world, layout, settings, byte_time, latency)
    room = (buffer // least_flits).astype(np.int64)
    return np.minimum(room, packets), most_slots(layout, packets, room)


def _days(slots: Offsets, layout: PortLayout, settings: PacketSettings, byte_time: Floats, latency: Offsets) -> Ints:
    """Return [C] the days of the calendar of each channel's credits (``csrc/queues/calendar.h``), a power of two.

    They are at most the packets that the link sends in the delay of a credit, and those that the channel can hold.
    """
    port = layout.channel_port
    delay = (latency + in_picoseconds(settings.credit_latency))[port]
    packets = np.minimum(delay / np.maximum(settings.size * byte_time[port], 1), slots)
    return (2 ** np.floor(np.log2(np.maximum(packets, 1)))).astype(np.int32)


def _overlapping(
    world: World, layout: PortLayout, settings: PacketSettings, byte_time: Floats, latency: Offsets
) -> int:
    """Rounds of a message for whose packets and credits there are slots.

    At most k rounds have packets or unreturned credits at the same time: the next round begins when the last one has
    arrived, two links and two NICs later, and a credit is returned within its delay and a window. A returned credit
    keeps its slot until the sender looks at the channel. When slots run out, the sender collects all of these
    (``Credits::take_slot``); with slots for 2 k rounds that frees half of them.
    """
    if world.graph.rounds == 1:
        return 1
    one_round = 2 * int(latency.min(initial=LONGEST)) + 2 * in_picoseconds(settings.nic_latency) + 1
    sending = math.ceil(settings.size * float(byte_time.max(initial=0.0)))
    credit = sending + int(latency.max(initial=0)) + in_picoseconds(settings.credit_latency)
    until_back = credit + _window(layout, settings, byte_time, latency)
    return min(world.graph.rounds, 2 * (2 + until_back // one_round))


def _sst_slots(bytes: Offsets, depth: Ints, rounds: int, layout: AddressedLayout, settings: PacketSettings) -> int:
    """Slots of packets and credits together: a packet is in one place, and each input that it has left waits for one.

    Of each message those of some ``rounds`` may be under way.

    ``depth`` [N] flits of each buffer: before every link, and at the end of those that have channels.
    """
    short = bytes[bytes > 0] % settings.size
    least = -(-int(short[short > 0].min(initial=settings.size)) // settings.flit)
    room = depth.astype(np.int64) // least
    buffers = int(room.sum()) * layout.channels_needed + int(room[layout.channel_port].sum())
    packets = int((-(-bytes // settings.size)).sum()) * rounds
    return min(buffers, packets * (1 + max_hops(layout.next_hops, layout.routing)), 2**31 - 1)


def _smallest(bytes: Offsets, world: World, layout: PortLayout, settings: PacketSettings) -> tuple[Offsets, Offsets]:
    """[C] flits of the smallest packet, and [C] how many packets may cross each channel."""
    full, flit = settings.size, settings.flit
    (sent,) = np.nonzero(bytes)
    path, rest = world.graph.path[sent], bytes[sent] % full
    begin, channel = layout.path_channels
    smallest = np.full(len(begin) - 1, full // flit, np.int64)
    np.minimum.at(smallest, path, np.where(rest > 0, -(-rest // flit), full // flit))
    packets = np.bincount(path, -(-bytes[sent] // full), len(smallest)).astype(np.int64) * world.graph.rounds
    least = np.full(layout.channels, full // flit, np.int64)
    np.minimum.at(least, channel, np.repeat(smallest, np.diff(begin)))
    crossing = np.bincount(channel, np.repeat(packets, np.diff(begin)), layout.channels).astype(np.int64)
    return least, crossing


def _window(layout: PortLayout, settings: PacketSettings, byte_time: Floats, latency: Offsets) -> int:
    """Return the least time from a port's decision until a packet, a credit or a message's end is seen elsewhere."""
    flit = np.ceil(settings.flit * byte_time).astype(np.int64)
    delays = settings.switch_latency, settings.credit_latency, settings.nic_latency
    switch, credit, nic = (in_picoseconds(seconds) for seconds in delays)
    if isinstance(layout, AddressedLayout):
        arrival = latency[layout.tables.level == DOWN].min(initial=LONGEST) + nic
        other = latency[layout.tables.level != DOWN].min(initial=LONGEST) + min(switch, credit)
        if settings.has_transport:  # what is lost is known a flit and a link later
            other = min(other, latency.min(initial=LONGEST))
        return int(flit.min(initial=LONGEST) + min(arrival, other))
    last = np.concatenate(
        [layout.root_port[layout.root_channel == NONE], layout.edge_port[layout.edge_channel == NONE]]
    )
    sent, following = layout.channel_port[layout.queue_channel[layout.edge_queue]], layout.edge_port
    times = [
        flit[sent] + latency[sent] + switch,
        flit[following] + latency[sent] + credit,
        flit[last] + latency[last] + nic,
    ]
    if settings.has_transport:  # likewise
        times.append(flit + latency)
    return min((int(bound.min()) for bound in times if len(bound)), default=1)


def _sst_window(world: World, layout: AddressedLayout, settings: PacketSettings, latency: Offsets) -> int:
    """Return the least time until another router or a task learns of an event at a router or a NIC of its servers.

    Raises ``ValueError`` where that is none.
    """
    through, nic = in_picoseconds(settings.switch_latency), in_picoseconds(settings.nic_latency)
    level, credit = layout.tables.level, in_picoseconds(settings.credit_latency)
    between = latency[(level != UP) & (level != DOWN)].min(initial=LONGEST) + min(through, credit)
    window = int(min(between, latency[level == DOWN].min(initial=LONGEST) + through - through // 2 + nic))
    if window < 1:
        raise ValueError(f"{world.name}.latency: must be more than 0 with packet.model=sst, got {window} ps")
    return window


def _check_most(world: World, what: str, values: Floats, most: float, unit: str) -> None:
    if len(values) and not values.max() <= most:
        raise ValueError(f"{world.name}: {what} must be at most {most:.0f} {unit}, got {values.max():.0f}")
