"""Ports that lose or mark packets, and what messages do about it: the settings, and a world in their numbers.

    lossless     a port sends only what the buffer at the end of its link has room for: credits, or with Ethernet the
                 pauses of priority flow control (PFC)
    drop, trim   a port sends what it has; what comes to a port where too much waits is dropped, or all of it but a flit

A window limits the packets of a message that are in flight. Receivers acknowledge each packet; acknowledgements take
the time of a flit on the idle path back, and no turns from packets. The sender learns of a dropped packet by a timeout,
of a trimmed one by the receiver. It sends just that packet again, on another path where it draws one.

    ecn          a packet is marked that comes to a port where much waits, or that leaves one where much still waits
    dcqcn        a message has a rate, which falls when its packets were marked (``csrc/packet/transport.h``)
    pulls        a receiver asks for one packet, trimmed or next, in the time that its interfaces together take for one,
                 those over which messages may come to it (NDP)
    nscc         a message has a window, which follows marks and the time that packets wait
    swift        a message has a window, which follows the round trips of packets
    hpcc         a message has a window, which follows the utilization of its path (all: ``csrc/packet/controls/``)

Source: Zhu et al., "Congestion control for large-scale RDMA deployments", SIGCOMM 2015 (PFC, ECN, DCQCN); Handley et
al., "Re-architecting datacenter networks and stacks for low latency and high performance", SIGCOMM 2017 (NDP); Mittal
et al., "Revisiting network support for RDMA", SIGCOMM 2018 (the packet that was lost is sent again, and no other); Zhu,
Ghobadi, Misra and Padhye, "ECN or delay: lessons learnt from analysis of DCQCN and TIMELY", CoNEXT 2016 (marks of
switches when a packet leaves).

Shapes: T tasks, N ports.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from topoflow.arrays import Floats, Ints, Offsets, distinct
from topoflow.engine.alternatives import Alternatives
from topoflow.engine.base import AUTO, LoweredGraph, World
from topoflow.engine.packet.addresses import AddressedLayout, max_hops
from topoflow.engine.packet.idle_routes import IdleRoutes
from topoflow.engine.packet.layout import PortLayout
from topoflow.engine.packet.merge import NONE
from topoflow.engine.packet.parts import connected

LOSSES = ("none", "drop", "trim")  # by the numbers that csrc/packet/batch.h gives them
CONTROLS = ("none", "dcqcn", "pulls", "nscc", "swift", "hpcc")
WINDOWED = ("nscc", "swift", "hpcc")  # controls that change windows
MARKED = ("arrival", "departure")
USUAL = {"loss": "none", "control": "none", "window": None, "ecn_from": None}  # neither losses nor marks nor control
PS = 10**12  # of a second
LONGEST = 2**53  # ps, 2.5 hours: the longest of a single wait; whole numbers up to here are exact as float64
WHOLE_RATE = WHOLE_UTILIZATION = 2**20
LONGEST_PACKET = 4  # s on a link: 2^42 ps, times a rate's 2^20
MAX_PACKETS = 2**30  # of a message: what its packets are numbered with
MAX_WINDOW = 2**31 - 1  # B, of a control that changes windows
NSCC_WINDOW = 1.5  # bandwidth-delay products; Source: csrc/packet/controls/nscc.h, as the next two
NSCC_TRIMMED_TARGET = 0.75  # round trips, where packets are trimmed; else one
NSCC_UNIT = 12.5e9 * 12e-6  # B, the bandwidth-delay product for which constants are stated
SWIFT_TARGET = 20e-6  # s, Source: csrc/packet/controls/swift.h, as the next three
SWIFT_LINKS = 6.55  # links whose time in a target is as long as the base
SWIFT_RANGE = 5.0  # bases, by which the target of the smallest window is longer
SWIFT_SCALES = 0.1**-0.5 - 100**-0.5  # between windows of 0.1 and 100 packets
MAX_SWIFT_WINDOW = 2**17  # packets
TICK = 1024  # ps of the timestamps of NICs


@dataclass(frozen=True)
class Transport:
    """Bytes, seconds, and B/s.

    ``loss``: what a port does with a packet for which ``buffer`` has no room. ``window``: B of a message in flight at
    most, "auto": what its first link sends until the first packet is acknowledged, and with NSCC 1.5 times as much,
    None: no limit. ``target``: s that packets are to wait in queues (nscc), or that are the base of round trips
    (swift), "auto": that of the control's authors. ``ecn_from``: B that wait, above which packets are marked, None:
    none ever; from ``ecn_to`` on all are, just below it a share ``ecn_most``. ``ecn_at``: whether what waits is looked
    at when a packet comes, or when it leaves. ``dcqcn_timer``,
    ``dcqcn_bytes``: between two increases of a rate; ``dcqcn_alpha_timer``: after which alpha falls; ``dcqcn_notice``:
    at least between two notifications of a receiver to a message; ``dcqcn_recoveries``: increases of fast recovery,
    before ``dcqcn_step`` (additive) and then ``dcqcn_leap`` (hyper increase) are added to the target.
    ``hpcc_utilization``: of the busiest port, at which windows aim; ``hpcc_step``: B by which they grow, up to
    ``hpcc_stages`` times in a row by that alone.
    """

    loss: str = "none"
    control: str = "none"
    window: int | str | None = None
    timeout: float = 320e-6
    target: float | str = AUTO
    ecn_from: int | None = None
    ecn_to: int = 200_000
    ecn_most: float = 0.01
    ecn_at: str = "arrival"
    dcqcn_gain: float = 1 / 256
    dcqcn_timer: float = 55e-6
    dcqcn_bytes: int = 10_000_000
    dcqcn_alpha_timer: float = 55e-6
    dcqcn_notice: float = 50e-6
    dcqcn_recoveries: int = 5
    dcqcn_step: float = 5e6
    dcqcn_leap: float = 50e6
    hpcc_utilization: float = 0.95
    hpcc_stages: int = 5
    hpcc_step: int = 80

    def __post_init__(self) -> None:
        for field, known in (("loss", LOSSES), ("control", CONTROLS), ("ecn_at", MARKED)):
            if getattr(self, field) not in known:
                raise ValueError(f"packet.{field}: must be one of {', '.join(known)}, got {getattr(self, field)!r}")
        if self.window not in (None, AUTO):
            check_whole("window", self.window, 1, LONGEST, f", {AUTO} or null")
        if self.ecn_from is not None:
            check_whole("ecn_from", self.ecn_from, 0, 2**31 - 1, " or null")
        elif self.control in ("dcqcn", "nscc"):
            raise ValueError(f"packet.ecn_from: must be given with packet.control={self.control}, got None")
        if self.control in WINDOWED and self.window is None:
            raise ValueError(f"packet.window: must be given with packet.control={self.control}, got None")
        if self.target != AUTO and (not is_number(self.target) or not 1 / PS <= float(self.target) <= 1):
            raise ValueError(f"packet.target: must be within 1e-12 and 1 s, or {AUTO}, got {self.target!r}")
        if self.control == "pulls" and self.window is None and self.loss != "trim":  # nothing would be pulled
            raise ValueError(
                "packet.window: must be given with packet.control=pulls, but for packet.loss=trim, got None"
            )
        check_whole("ecn_to", self.ecn_to, self.ecn_from or 0, 2**31 - 1)
        check_whole("dcqcn_bytes", self.dcqcn_bytes, 1, LONGEST)
        check_whole("dcqcn_recoveries", self.dcqcn_recoveries, 1, 2**20)
        check_whole("hpcc_stages", self.hpcc_stages, 0, 2**20)
        check_whole("hpcc_step", self.hpcc_step, 1, 2**30)
        if not is_number(self.hpcc_utilization) or not 0 < self.hpcc_utilization <= 1:
            raise ValueError(f"packet.hpcc_utilization: must be above 0, at most 1, got {self.hpcc_utilization!r}")
        if self.control == "hpcc" and self.loss != LOSSES[0]:  # the next packet tells what a port did since the last
            raise ValueError(f"packet.loss: must be none with packet.control=hpcc, got {self.loss}")
        for field in ("ecn_most", "dcqcn_gain"):
            if not is_number(getattr(self, field)) or not 0 <= getattr(self, field) <= 1:
                raise ValueError(f"packet.{field}: must be within 0 and 1, got {getattr(self, field)!r}")
        for field in ("timeout", "dcqcn_timer", "dcqcn_alpha_timer", "dcqcn_notice"):
            value = getattr(self, field)
            if not is_number(value) or not 1 <= value * PS <= LONGEST:
                raise ValueError(f"packet.{field}: must be within 1e-12 and {LONGEST / PS:g} s, got {value!r}")
        for field in ("dcqcn_step", "dcqcn_leap"):
            if not is_number(getattr(self, field)) or not 0 < getattr(self, field) < math.inf:
                raise ValueError(f"packet.{field}: must be a positive number, got {getattr(self, field)!r}")

    @property
    def has_transport(self) -> bool:
        """Return whether packets are lost or marked, or messages controlled."""
        return self.unusual is not None

    @property
    def unusual(self) -> tuple[str, str, object] | None:
        """The first field that makes it so, what it is without, and what it is; None: no field does."""
        name = next((name for name in USUAL if getattr(self, name) != USUAL[name]), None)
        return None if name is None else (name, USUAL[name] or "null", getattr(self, name))

    @property
    def loses(self) -> bool:
        return self.loss != LOSSES[0]

    @property
    def swift_target(self) -> float:
        return SWIFT_TARGET if self.target == AUTO else float(self.target)

    @property
    def transport(self) -> dict[str, float]:
        """Return the settings by the names of the kernel (``TransportSettings`` of ``csrc/packet/batch.h``)."""
        return {
            "is_on": self.has_transport,
            "loss": LOSSES.index(self.loss),
            "control": CONTROLS.index(self.control),
            "timeout": round(self.timeout * PS),
            "mark_from": self.ecn_from or 0,
            "mark_to": NONE if self.ecn_from is None else self.ecn_to,
            "mark_most": round(self.ecn_most * 2**32),
            "mark_leaving": self.ecn_at == "departure",
            "timer": round(self.dcqcn_timer * PS),
            "bytes": self.dcqcn_bytes,
            "alpha_timer": round(self.dcqcn_alpha_timer * PS),
            "notice": round(self.dcqcn_notice * PS) if self.control == "dcqcn" else 0,
            "scaling": round(SWIFT_RANGE * self.swift_target / SWIFT_SCALES * PS),
            "gain": round(self.dcqcn_gain * 2**16),
            "recoveries": self.dcqcn_recoveries,
            "utilization": math.ceil(self.hpcc_utilization * WHOLE_UTILIZATION),
            "increase": self.hpcc_step,
            "stages": self.hpcc_stages,
        }


@dataclass(frozen=True)
class TransportArrays:
    """The settings as numbers of each message and port of a world."""

    allowed: Ints  # [T] packets that may be in flight
    back: Offsets  # [T] ps from when a packet has arrived until its sender knows
    puller: Ints  # [T] a port of its receiver, of several interfaces the first; NONE: no bytes
    pull: Offsets  # [T] ps between two pulls of its receiver
    largest: Ints  # [T] B of its largest window; where windows change, as the next three
    idle: Offsets  # [T] ps of a round trip on an idle network; NSCC and HPCC: the longest of the world
    target: Offsets  # [T] ps that its packets are to wait in queues
    unit: Offsets  # [T] B, in which the control states how windows rise
    telemetry: Offsets  # [T] readings of ports of its path, and of packets in flight; empty but for HPCC
    step: Ints  # [N] 2^-20 of the port's rate that the target of a rate rises by
    leap: Ints  # [N] the same once it rises fast
    depth: Ints  # [N] flits that may wait for it where packets are lost

    @classmethod
    def nothing(cls, tasks: int, ports: int) -> TransportArrays:
        none, no_time, no_port = np.zeros(tasks, np.int32), np.zeros(tasks, np.int64), np.zeros(ports, np.int32)
        return cls(
            none, no_time, none, no_time, none, no_time, no_time, no_time, no_time[:0], no_port, no_port, no_port
        )

    @property
    def under_way(self) -> int:
        """Packets that all messages may have in flight."""
        return int(self.allowed.sum(dtype=np.int64))


def control_of(
    world: World,
    layout: PortLayout,
    crossed: IdleRoutes,
    settings: Transport,
    size: int,
    bytes: Offsets,
    back: Offsets,
    depth: Ints,
) -> TransportArrays:
    """Return the transport's arrays. ``size``: B of a packet, ``bytes`` [T], ``back`` [T]: ps of a flit."""
    graph, packets = world.graph, -(-bytes // size)
    if packets.max(initial=0) > MAX_PACKETS:
        requirement = f"must be at most {MAX_PACKETS} packets with packet.control"
        raise ValueError(f"{world.name}.bytes: {requirement}, got {packets.max()}")
    (sends,) = np.nonzero(bytes)
    rate = world.capacity[layout.port_link]
    slowest = size / float(rate.min(initial=np.inf))
    if settings.control == "dcqcn" and slowest > LONGEST_PACKET:
        requirement = f"must be at most {LONGEST_PACKET} s for a packet with packet.control=dcqcn"
        raise ValueError(f"{world.name}.capacity: {requirement}, got {slowest:.1f}")
    allowed, largest = packets.copy(), np.zeros(graph.tasks, np.int32)
    round_trip, target, unit = np.zeros((3, graph.tasks), np.int64)
    telemetry = np.zeros(graph.tasks if settings.control == "hpcc" else 0, np.int64)
    first = layout.root_port[layout.path_roots[graph.path[sends]]]
    stored = crossed.sums(size / world.capacity[crossed.link])  # s of a packet on its path, stored at each link
    idle = 2 * back[sends] / PS + stored[graph.path[sends]]
    if settings.control in ("nscc", "hpcc"):
        idle[:] = idle.max(initial=0.0)
    if settings.control == "nscc":
        target[sends] = _in_ticks(_nscc_target(settings, idle))
        unit[sends] = np.rint(size * idle * rate[first] / NSCC_UNIT)
        _check_nscc(world, size, target, unit)
    elif settings.control == "swift":
        target[sends] = _in_ticks(settings.swift_target * (1 + crossed.count[graph.path[sends]] / SWIFT_LINKS))
    round_trip[sends] = np.rint(idle * PS)
    window = idle * rate[first] if settings.window == AUTO else np.full(len(sends), float(settings.window or 0))
    if settings.control == "hpcc":  # a packet may leave while fewer bytes are under way
        allowed[sends] = np.ceil(window / size)
    elif settings.window == AUTO:
        share = NSCC_WINDOW if settings.control == "nscc" else 1
        allowed[sends] = np.ceil(share * window / size).astype(np.int64) + 1
    elif settings.window is not None:
        allowed[sends] = np.maximum(1, window // size)
    if settings.control in WINDOWED:
        allowed[sends] = np.minimum(allowed[sends], min(MAX_WINDOW // size, MAX_SWIFT_WINDOW))
        largest[sends] = allowed[sends] * size
    allowed = np.minimum(allowed, packets)
    if settings.control == "hpcc":
        _check_hpcc(world, size, round_trip)
        largest[sends] = np.minimum(largest[sends], np.maximum(1, np.rint(window)))
        telemetry[sends] = allowed[sends] + _most_links(graph, layout)[graph.path[sends]] - 1  # a NIC says nothing
    puller, pull = _receivers(world, layout, sends, size)
    return TransportArrays(
        allowed.astype(np.int32),
        back,
        puller,
        pull,
        largest,
        round_trip,
        target,
        unit,
        telemetry,
        _risen(settings.dcqcn_step, rate),
        _risen(settings.dcqcn_leap, rate),
        depth,
    )


def _nscc_target(settings: Transport, idle: Floats) -> Floats:
    """Return s that packets of NSCC are to wait, of messages whose round trips take ``idle`` s."""
    if settings.target != AUTO:
        return np.full(len(idle), float(settings.target))
    return idle * (NSCC_TRIMMED_TARGET if settings.loss == "trim" else 1.0)


def _in_ticks(seconds: Floats) -> Offsets:
    """Return ps, at least a tick."""
    return np.maximum(TICK, np.rint(seconds * PS)).astype(np.int64)


def _check_nscc(world: World, size: int, target: Offsets, unit: Offsets) -> None:
    """Raise where a product of the kernel would need more than 63 bits."""
    largest = 2.0**58 / size / max(1, int(target.max(initial=0)) // TICK)
    if unit.max(initial=0) > largest:
        requirement = (
            f"packet.size x bandwidth x latency must be at most {largest * NSCC_UNIT:.3g} with packet.control=nscc"
        )
        raise ValueError(f"{world.name}.latency: {requirement}, got {unit.max() * NSCC_UNIT:.3g}")


def _check_hpcc(world: World, size: int, round_trip: Offsets) -> None:
    """Raise where the time of a packet at the least rate would need more than 63 bits."""
    longest = 2**62 // size
    if round_trip.max(initial=0) > longest:
        requirement = f"a round trip must be at most {longest / PS:.3g} s with packet.control=hpcc"
        raise ValueError(f"{world.name}.latency: {requirement}, got {round_trip.max() / PS:.3g}")


def _most_links(graph: LoweredGraph, layout: PortLayout) -> Offsets:
    """Return the links of the longest alternative of each path; by address those of the longest route."""
    if isinstance(layout, AddressedLayout):
        return np.full(len(graph.path_offsets) - 1, max_hops(layout.next_hops, layout.routing))
    every = graph.alternatives or Alternatives.single(graph.path_offsets, graph.path_links)
    most = np.zeros(len(every.offsets) - 1, np.int64)
    np.maximum.at(most, np.repeat(np.arange(len(most)), np.diff(every.offsets)), np.diff(every.hop_offsets))
    return most


def _risen(rate: float, of: Floats) -> Ints:
    increments: Ints = np.clip(np.rint(rate / of * WHOLE_RATE), 1, WHOLE_RATE).astype(np.int32)
    return increments


def _receivers(world: World, layout: PortLayout, sends: Offsets, size: int) -> tuple[Ints, Offsets]:
    """[T] the first port of each task's receiver, and [T] ps that all of its ports together take for a packet.

    A receiver is the target of messages, or where the graph does not say whose link is whose: last links of one path.
    """
    graph = world.graph
    path, link = _last_links(graph, graph.path[sends])
    port = np.full(graph.links, NONE)
    port[layout.port_link] = np.arange(layout.ports)
    last = port[link]
    # Vertices: ports, then receivers or paths. What is connected is one receiver.
    end = graph.path[sends] if graph.ends is None else graph.target[sends]
    many = int(end.max(initial=0)) + 1
    begin = np.searchsorted(path, graph.path[sends])
    count = np.searchsorted(path, graph.path[sends], side="right") - begin
    row = np.repeat(begin, count) + np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    vertex = connected(
        last[row].astype(np.int64), layout.ports + np.repeat(end.astype(np.int64), count), layout.ports + many
    )
    rate = np.zeros(layout.ports + many)
    ports = distinct(last[row].astype(np.int64))
    np.add.at(rate, vertex[ports], world.capacity[layout.port_link[ports]])
    puller, pull = np.full(graph.tasks, NONE, np.int32), np.zeros(graph.tasks, np.int64)
    puller[sends] = vertex[last[begin]]
    pull[sends] = np.ceil(size * (PS / rate[puller[sends]]))
    return puller, pull


def _last_links(graph: LoweredGraph, paths: Ints) -> tuple[Offsets, Ints]:
    """Paths, ascending, and the last link of each alternative of each."""
    every = graph.alternatives or Alternatives.single(graph.path_offsets, graph.path_links)
    path = np.repeat(np.arange(len(every.offsets) - 1), np.diff(every.offsets))
    ends = every.hop_offsets[1:]
    has_links = np.isin(path, paths) & (ends > every.hop_offsets[:-1])
    return path[has_links], every.links[ends[has_links] - 1]


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def check_whole(field: str, value: object, least: int, most: int, other: str = "") -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ValueError(f"packet.{field}: must be a whole number within {least}..{most}{other}, got {value!r}")
