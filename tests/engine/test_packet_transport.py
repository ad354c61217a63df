"""Laws of ports that lose or mark packets, and of messages that are controlled: closed forms, bounds, conservation."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.test_packet_random import loses_nothing_silently, some_lossy_worlds, union_of
from tests.twins.packet_entropies import FREEZE, Recycled
from tests.twins.packet_hpcc import WHOLE, HpccWindow, Reading
from tests.twins.packet_nscc import NsccWindow
from tests.twins.packet_swift import PACKET as WINDOW_OF_ONE
from tests.twins.packet_swift import SwiftWindow
from tests.twins.packet_transport import Rate
from topoflow.demand import Demand
from topoflow.engine.alternatives import Alternatives
from topoflow.engine.base import LoweredGraph, Run, Timeline, World
from topoflow.engine.lowering.placement import place
from topoflow.engine.packet import Packet, layout_of
from topoflow.engine.packet.settings import numbers
from topoflow.engine.packet.transport import MARKED, WHOLE_RATE
from topoflow.fabric.fat_tree import FatTree
from topoflow.fabric.leaf_spine import LeafSpine
from topoflow.traffic.base import Traffic, Transfer

C = 12.5e9  # B/s: 80 ps for a byte
PACKET = 4096 * 80e-12  # s that a full packet takes
FLIT = 32 * 80e-12
LATENCY = 1e-6
EXACT = {"rel": 1e-12}
ROCE = Packet(control="dcqcn", ecn_from=5000)
NDP = Packet(loss="trim", control="pulls", window="auto", buffer=8 * 4096)
NSCC = Packet(control="nscc", window="auto", ecn_from=12_500, ecn_to=50_000, ecn_most=1.0, ecn_at="departure")
SWIFT = Packet(control="swift", window="auto")
HPCC = Packet(control="hpcc", window="auto")
MakeWorld = Callable[..., World]


def run(world: World, model: Packet) -> Timeline:
    return model.simulate([world], Run(threads=1))[0]


def incast(make_world: MakeWorld, senders: int, size: float) -> World:
    """Each by a link of its own to a switch, and from there by one link."""
    tasks = [{"path": [i, senders], "bytes": size} for i in range(senders)]
    return make_world(tasks, [C] * (senders + 1), [LATENCY] * (senders + 1))


def test_a_dropped_packet_comes_a_timeout_later(make_world: MakeWorld) -> None:
    """Three packets come to a queue that holds one: two are dropped, then one of these again."""
    model = Packet(loss="drop", buffer=4096, timeout=50e-6)
    timeline = run(incast(make_world, 3, 4096), model)
    alone = FLIT + PACKET + 2 * LATENCY
    assert sorted(timeline.finish) == pytest.approx([alone, alone + 50e-6, alone + 100e-6], **EXACT)
    ports: Any = timeline.ports
    assert ports.lost.tolist() == [0, 0, 0, 3]
    assert ports.packets.sum() == 3 + 3 + 3  # the first links carry each packet again that is lost


@pytest.mark.parametrize("control", ["none", "pulls"])
def test_a_trimmed_packet_comes_a_round_trip_later(make_world: MakeWorld, control: str) -> None:
    """A flit goes on to the receiver, a flit comes back, and the packet comes again."""
    model = Packet(loss="trim", control=control, buffer=4096)
    timeline = run(incast(make_world, 2, 4096), model)
    one_way = 2 * (FLIT + LATENCY)
    alone = FLIT + PACKET + 2 * LATENCY
    assert sorted(timeline.finish) == pytest.approx([alone, 2 * one_way + alone], **EXACT)


@pytest.mark.parametrize("senders", [2, 8, 70])
def test_pulls_end_an_incast_near_its_bound(make_world: MakeWorld, senders: int) -> None:
    """All but the packets of the first round trip come as fast as the last link takes them; queues stay short."""
    timeline = run(incast(make_world, senders, 200 * 4096), NDP)
    bound = senders * 200 * PACKET
    round_trip = 4 * (FLIT + LATENCY) + 2 * PACKET
    assert bound < timeline.makespan <= bound + 2 * round_trip
    ports: Any = timeline.ports
    assert ports.fullest.max() == NDP.buffer  # full at the beginning, and never more
    assert ports.latency.quantile(0.5) <= 2 * LATENCY + FLIT + PACKET + 8 * PACKET


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("interfaces", [1, 2, 3])
def test_a_receiver_pulls_at_the_rate_of_all_its_interfaces(
    make_world: MakeWorld, interfaces: int, named: bool
) -> None:
    """Six senders of one link each, and packets that draw one of the receiver's: twice the interfaces, half the time.

    With ``named`` the graph says that all is for one server, and each message takes one interface of it.
    """
    senders, packets = 6, 400
    tasks = [{"path": [i, senders + i % interfaces], "bytes": packets * 4096} for i in range(senders)]
    world = make_world(tasks, [C] * (senders + interfaces), [LATENCY] * (senders + interfaces))
    if named:
        world = replace(world, graph=replace(world.graph, ends=ends_of(range(senders), [senders] * senders)))
    else:
        world = replace(world, graph=spread(world.graph, senders, interfaces))
    timeline = run(world, replace(NDP, buffer=64 * 4096))
    bound = senders * packets * PACKET / interfaces
    assert bound <= timeline.makespan <= 1.12 * bound  # one interface has more to come than the others at times
    amounts = numbers(world, layout_of(world.graph, NDP), NDP)
    assert amounts.control.pull.tolist() == [math.ceil(4096 * 80 / interfaces)] * senders
    assert len(set(amounts.control.puller.tolist())) == 1


def test_servers_do_not_pull_for_each_other(make_world: MakeWorld) -> None:
    """Two receivers, one with two interfaces: each has its own clock and rate."""
    tasks = [{"path": [i, 3 + i], "bytes": 4096} for i in range(3)]
    world = make_world(tasks, [C] * 6)
    world = replace(world, graph=replace(world.graph, ends=ends_of(range(3), [7, 8, 7])))
    control = numbers(world, layout_of(world.graph, NDP), NDP).control
    assert control.pull.tolist() == [4096 * 40, 4096 * 80, 4096 * 40]
    assert control.puller[0] == control.puller[2] != control.puller[1]


def ends_of(sources: Iterable[int], targets: Sequence[int]) -> np.ndarray:
    return np.array([[*sources], targets, [0] * len(targets)], np.int32)


def spread(graph: LoweredGraph, senders: int, interfaces: int) -> LoweredGraph:
    """Packets of each sender draw one of the links ``senders``, ... after its own."""
    rows = [[i, senders + k] for i in range(senders) for k in range(interfaces)]
    several = Alternatives(
        np.arange(0, len(rows) + 1, interfaces),
        np.arange(0, 2 * len(rows) + 1, 2),
        np.array(rows, np.int32).ravel(),
        np.full(len(rows), 1 / interfaces),
    )
    hops = union_of([np.array([i, *range(senders, senders + interfaces)]) for i in range(senders)], several)
    return replace(
        graph, path_offsets=hops.offsets, path_links=hops.links, path_weight=hops.weights, alternatives=several
    )


def test_a_window_lets_a_message_have_so_much_under_way(make_world: MakeWorld) -> None:
    """min(C, window / round trip): a packet's time, the latency there, and that of a flit back."""
    world = make_world([{"path": [0, 1], "bytes": 2000 * 4096}], [C, C], [LATENCY, LATENCY])
    round_trip = FLIT + PACKET + 2 * LATENCY + 2 * (FLIT + LATENCY)
    for packets in (1, 3, 10, 20):
        rate = 2000 * 4096 / run(world, Packet(window=packets * 4096)).makespan
        assert rate == pytest.approx(min(C, packets * 4096 / round_trip), rel=0.01)
    assert run(world, Packet(window="auto")).makespan == run(world, Packet()).makespan


def test_lossless_ports_lose_nothing_and_others_only_where_too_much_waits(make_world: MakeWorld) -> None:
    world = incast(make_world, 4, 200 * 4096)
    for model in (Packet(), ROCE, replace(NDP, loss="none")):
        ports: Any = run(world, model).ports
        assert not ports.lost.any()
    lossy: Any = run(world, Packet(loss="drop", buffer=8 * 4096)).ports
    assert lossy.lost[4] > 0
    assert lossy.lost[:4].tolist() == [0] * 4
    assert lossy.fullest[4] == 8 * 4096
    assert lossy.packets[:4].sum() == 800 + lossy.lost.sum()
    assert lossy.packets[4] == 800


@pytest.mark.parametrize("model", [ROCE, NSCC, SWIFT])
def test_a_controlled_message_alone_is_as_fast_as_its_link(make_world: MakeWorld, model: Packet) -> None:
    world = incast(make_world, 1, 3000 * 4096)
    assert run(world, model).finish.tolist() == run(world, Packet()).finish.tolist()


@pytest.mark.parametrize("model", [ROCE, NSCC, SWIFT])
def test_two_controlled_messages_share_fairly(make_world: MakeWorld, model: Packet) -> None:
    first, second = run(incast(make_world, 2, 60e6), model).finish
    assert first == pytest.approx(second, rel=0.02)
    assert max(first, second) <= 1.05 * 120e6 / C  # and the link is rarely idle


def test_marks_keep_queues_near_their_threshold(make_world: MakeWorld) -> None:
    """Half of the packets wait for less than ``ecn_to`` bytes; without marks they wait for all that buffers hold."""
    world, idle = incast(make_world, 4, 40e6), FLIT + PACKET + 2 * LATENCY
    deep = Packet(buffer=1_000_000 // 4096 * 4096)

    def waits(model: Packet) -> float:
        ports: Any = run(world, model).ports
        return float((ports.latency.quantile(0.5) - idle) * C)

    assert waits(deep) > 2_000_000
    for threshold in (50_000, 100_000, 200_000):
        assert waits(replace(deep, control="dcqcn", ecn_from=threshold, ecn_to=threshold)) <= threshold


def marks(world: World, **settings: Any) -> int:
    ports: Any = run(world, Packet(buffer=512 * 4096, **settings)).ports
    return int(ports.marked.sum())


@pytest.mark.parametrize("at", MARKED)
def test_none_is_marked_below_kmin_and_all_above_kmax(make_world: MakeWorld, at: str) -> None:
    """Eight packets come at once: 0, 1, ... 7 wait when they come, 7, 6, ... 0 when they leave."""
    world = incast(make_world, 8, 4096)
    for above in range(9):
        threshold = above * 4096
        more = sum(waiting * 4096 > threshold for waiting in range(8))
        assert marks(world, ecn_at=at, ecn_from=threshold, ecn_to=threshold) == more
        as_many = sum(waiting * 4096 >= threshold for waiting in range(1, 8))
        assert marks(world, ecn_at=at, ecn_from=0, ecn_to=threshold, ecn_most=0) == as_many
    deep = incast(make_world, 6, 200 * 4096)
    low, high = 100_000, 900_000
    most, least = (marks(deep, ecn_at=at, ecn_from=mark, ecn_to=mark) for mark in (low, high - 1))
    assert 0 < least < most
    assert marks(deep, ecn_at=at, ecn_from=low, ecn_to=high, ecn_most=0) == least
    assert least < marks(deep, ecn_at=at, ecn_from=low, ecn_to=high, ecn_most=1) < most


def test_a_packet_that_leaves_is_marked_for_those_behind_it(make_world: MakeWorld) -> None:
    """One is sent, one comes while it is, and three more: that which came to one packet leaves three behind."""
    tasks = [
        {"path": [i, 5], "bytes": 4096, "release": late * PACKET} for i, late in enumerate((0, 0.2, 0.4, 0.5, 0.6))
    ]
    world = make_world(tasks, [C] * 6, [LATENCY] * 6)
    assert marks(world, ecn_at="arrival", ecn_from=4096, ecn_to=4096) == 3  # those that come to 2, 3 and 4
    assert marks(world, ecn_at="departure", ecn_from=4096, ecn_to=4096) == 2  # those that leave 3 and 2


def test_a_rate_falls_by_half_and_comes_back_by_halves() -> None:
    """1/2, 3/4, 7/8, ... with alpha 1 after the first mark; after ``dcqcn_recoveries`` the target rises as well."""
    model = ROCE
    rate = Rate(model, step=3, leap=30)
    rate.cut(0)
    for timers in range(5):
        rate.catch_up(timers * 55_000_000 + 1)
        assert rate.rate == WHOLE_RATE - (WHOLE_RATE >> timers + 1)
    rate = Rate(replace(model, dcqcn_gain=1.0), step=3, leap=30)
    for _ in range(2):  # a quarter; the target is a half
        rate.cut(0)
    rate.catch_up(40 * 55_000_000)
    assert rate.target == WHOLE_RATE // 2 + 36 * 3  # the fifth timer is the first with a step
    rate.sent(6 * model.dcqcn_bytes)
    assert rate.target == WHOLE_RATE // 2 + 36 * 3 + 5 * 3 + 30  # both have ended more than five times


@pytest.mark.parametrize("loss", ["none", "drop", "trim"])
def test_windows_end_an_incast_near_its_bound_with_waits_near_their_target(make_world: MakeWorld, loss: str) -> None:
    """The link is always busy, and most packets wait for about as long as the target says, which is a round trip."""
    world = incast(make_world, 8, 20e6)
    timeline = run(world, replace(NSCC, loss=loss, target=4e-6))
    ports: Any = timeline.ports
    assert 160e6 / C < timeline.makespan < 1.03 * 160e6 / C
    assert ports.latency.quantile(0.5) - FLIT - PACKET - 2 * LATENCY < 8e-6


def test_a_marked_packet_that_waited_cuts_the_window_by_the_share_of_the_wait_over_the_target() -> None:
    window = NsccWindow(idle=12_000_000, target=6_144_000, size=4096, largest=409_600, unit=4096, trims=False)
    window.window, window.average = 100_000, 12_288_000
    window.decrease(now=20_000_000)
    assert window.window == 60_000
    window.decrease(now=30_000_000)  # within a round trip
    assert window.window == 60_000
    window.average = 2**40
    window.decrease(now=40_000_000)
    assert window.window == 30_000  # by half at most


def test_a_round_trip_above_its_target_cuts_the_window_by_its_share() -> None:
    window = SwiftWindow(round_trip=0, target=40_960_000, scaling=0, size=4096, largest=40_960, drops_packets=False)
    window.on_ack(4096, round_trip=51_200_000, marked=False, now=60_000_000)
    assert window.window / WINDOW_OF_ONE == pytest.approx(10 * (1 - 0.8 * 10.24 / 51.2), rel=1e-4)
    window.on_ack(4096, round_trip=51_200_000, marked=False, now=70_000_000)  # within a round trip
    assert window.window / WINDOW_OF_ONE == pytest.approx(8.4, rel=1e-4)
    for _ in range(8):  # a window without waits is one packet larger
        window.on_ack(4096, round_trip=1_000_000, marked=False, now=80_000_000)
    assert window.window / WINDOW_OF_ONE == pytest.approx(9.4, rel=0.01)


def test_windows_below_one_packet_keep_a_link_busy(make_world: MakeWorld) -> None:
    """Waits of paced packets end once their windows are one packet again."""
    timeline = run(incast(make_world, 400, 200 * 4096), replace(SWIFT, window=2 * 4096))
    assert timeline.makespan <= 1.1 * 400 * 200 * PACKET


@pytest.mark.parametrize("utilization", [0.95, 0.7])
@pytest.mark.parametrize("senders", [1, 2, 8])
def test_hpcc_uses_its_share_of_a_link_and_keeps_queues_near_zero(
    make_world: MakeWorld, senders: int, utilization: float
) -> None:
    """Once the first windows have left, a few packets wait at most, and half of them for one other at most."""
    size = 40e6 / senders
    timeline = run(incast(make_world, senders, size), replace(HPCC, hpcc_utilization=utilization))
    ports: Any = timeline.ports
    assert utilization * timeline.makespan == pytest.approx(senders * size / C, rel=0.06)
    assert timeline.makespan >= senders * size / C
    assert ports.latency.quantile(0.5) <= (2 * LATENCY + FLIT + 2 * PACKET) * 17 / 16
    late = ports.queues.depth[:, ports.queues.depth.shape[1] // 4 :]
    assert late.max() <= 8 * 4096


def test_hpcc_begins_with_a_bandwidth_delay_product_to_the_byte(make_world: MakeWorld) -> None:
    """Rounded up to packets, a window of which 0.95 are left could still be more than the product, and slow nothing."""
    world = make_world([{"path": [0], "bytes": 1e6}], [C], [LATENCY])
    control = numbers(world, layout_of(world.graph, HPCC), HPCC).control
    assert control.idle.tolist() == [round((2 * LATENCY + 2 * FLIT + PACKET) * 1e12)]
    assert control.largest.tolist() == [round(float(control.idle[0]) * C / 1e12)]
    assert control.allowed.tolist() == [math.ceil(int(control.largest[0]) / 4096)]


def test_two_messages_of_hpcc_share_fairly(make_world: MakeWorld) -> None:
    """They come together slowly: 60 MB each end 3.3 % apart, and 4.0 % in the authors' simulator."""
    first, second = run(incast(make_world, 2, 120e6), HPCC).finish
    assert first == pytest.approx(second, rel=0.03)


def test_a_busy_port_cuts_the_window_to_its_share_and_an_idle_one_lets_it_grow() -> None:
    """Twice eta: half of the window and a step more. Below eta: a step, five times, and then all that is free."""
    size, trip = 1000, 10_000_000
    window = HpccWindow(trip, size, largest=100_000, target=WHOLE // 2, increase=80, stages=5)
    active = time = 0

    def acknowledge(share: int, wait: int) -> int:
        nonlocal active, time
        time, active = time + trip, active + share * trip // 100
        window.sent(size)
        window.readings[-1].append(Reading(time, active, wait))
        window.on_ack(size, trip, marked=False, now=time)
        return window.window

    assert acknowledge(100, 0) == 100_000  # the first packet only begins to measure
    assert acknowledge(100, 0) == 50_080
    assert acknowledge(100, trip) == 25_120  # what waits now did not when the packet before left
    assert acknowledge(100, trip) == 6_360  # a round trip's worth waited all the time: utilization 2
    assert [acknowledge(25, 0) for _ in range(6)] == [6_440, 6_520, 6_600, 6_680, 6_760, 13_600]


def stride(slow: int | None = None) -> World:
    """Eight messages from one half of a fat-tree to the other; link ``slow`` has a hundredth of its bandwidth."""
    fabric = FatTree(C, 1, LATENCY, radix=4).build(16, Demand(16))
    tasks = [Transfer(500 * 4096.0, server, server + 8) for server in range(8)]
    world = place(Traffic.from_tasks("stride", 16, tasks), fabric, name="stride", routing="spray", seed=3)
    capacity = world.capacity.copy()
    if slow is not None:
        capacity[slow] /= 100
    return replace(world, capacity=capacity)


def shared_link(world: World) -> int:
    """Return a link that packets of several messages cross, as one of several equal ones."""
    ports: Any = run(world, Packet()).ports
    return int(np.flatnonzero((ports.packets > 400) & (ports.packets < 600) & (ports.packets != 500))[0])


def test_without_marks_recycled_entropies_spread_packets_as_drawn_ones_do() -> None:
    world = stride()
    drawn: Any = run(world, NSCC)
    recycled: Any = run(world, replace(NSCC, draws="reps", ecn_from=2**31 - 1, ecn_to=2**31 - 1))
    assert recycled.ports.marked.sum() == 0
    assert recycled.makespan == pytest.approx(drawn.makespan, rel=0.1)
    carries = drawn.ports.packets > 0
    assert (recycled.ports.packets > 0).tolist() == carries.tolist()
    assert (recycled.ports.packets[carries] > 0.7 * drawn.ports.packets[carries]).all()


@pytest.mark.parametrize("loss", ["none", "trim", "drop"])
def test_recycled_entropies_avoid_a_failing_path_after_a_round_trip(loss: str) -> None:
    """The first windows go everywhere; then few packets, which are drawn again, try the link that nearly failed."""
    slow = shared_link(stride())
    world = stride(slow)
    model = replace(NSCC, loss=loss, timeout=100e-6)
    drawn: Any = run(world, model)
    recycled: Any = run(world, replace(model, draws="reps"))
    first = sum(numbers(world, layout_of(world.graph, model), model).control.allowed.tolist())
    assert drawn.ports.packets[slow] > 250
    assert recycled.ports.packets[slow] + recycled.ports.lost[slow] < first / 2
    assert recycled.makespan < drawn.makespan / 3


def test_a_timeout_freezes_the_entropies_that_were_good() -> None:
    known = Recycled()
    for entropy in range(10):
        known.on_ack(entropy, marked=entropy == 4, now=0)
    assert [known.next(99) for _ in range(3)] == [1, 2, 3]  # 0 is the oldest of nine
    known.on_timeout(1000)
    assert [known.next(99) for _ in range(16)] == 2 * [9, 1, 2, 3, 5, 6, 7, 8]
    known.on_ack(20, marked=False, now=2000)
    assert 20 in [known.next(99) for _ in range(8)]
    known.on_ack(21, marked=False, now=1000 + FREEZE + 1)
    assert [known.next(99) for _ in range(18)] == [*16 * [99], 21, 99]


def test_a_flowlet_keeps_its_path_until_its_message_has_paused() -> None:
    """A message without pauses has one path; one whose packets are a microsecond apart has one for each packet."""
    fabric = LeafSpine(C, 1, LATENCY, 8).build(16, Demand(16))
    traffic = Traffic.from_tasks("one", 16, [Transfer(64 * 4096.0, 0, 15)])
    world = place(traffic, fabric, name="one", routing="spray", seed=1)
    limit = np.where(np.diff(world.graph.path_offsets), 4.096e9, np.inf)
    paced = replace(world, graph=replace(world.graph, path_limit=limit))

    def paths(world: World, gap: float) -> int:
        ports: Any = run(world, Packet(draws="flowlet", flowlet_gap=gap)).ports
        return int((ports.packets > 0).sum() - 2) // 2  # of links besides those of the servers

    assert paths(world, 1e-6) == paths(paced, 2e-6) == 1
    assert paths(world, 0) == paths(paced, 1e-6) == 8


def test_sprayed_packets_that_are_lost_take_other_paths() -> None:
    fabric = LeafSpine(C, 1, 5e-7, 4).build(16, Demand(16))
    tasks = [Transfer(100 * 4096.0, host, 15) for host in range(15)]
    world = place(Traffic.from_tasks("incast", 16, tasks), fabric, name="incast", routing="spray", seed=1)
    timeline = run(world, NDP)
    ports: Any = timeline.ports
    assert 1500 * PACKET < timeline.makespan < 1.02 * 1500 * PACKET
    assert ports.latency.count.sum() == 1500
    assert ports.lost.sum() > 0


def test_hpcc_is_refused_where_packets_of_a_message_take_several_paths() -> None:
    message = "packet.draws: must be message with packet.control=hpcc and several paths, as in stride"
    assert HPCC.refuses(stride()) == f"{message}, got packet"
    assert replace(HPCC, draws="message").refuses(stride()) is None


@settings(max_examples=150)
@given(st.integers(0, 2**32 - 1))
def test_what_was_sent_was_delivered_or_lost(seed: int) -> None:
    (world,), model = some_lossy_worlds(seed, 1)
    try:
        timeline = run(world, model)
    except ValueError as error:
        if "every message must arrive" in str(error):  # two messages lose each other's packets for ever
            return
        raise
    loses_nothing_silently(world, model, timeline)
    ports: Any = timeline.ports
    if model.ecn_from is None:
        assert not ports.marked.any()
    if model.loses and model.buffer != "auto":
        assert ports.fullest.max(initial=0.0) <= model.buffer
        assert not ports.stalled.any()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"loss": "red"}, "loss: must be one of none, drop, trim, got 'red'"),
        ({"control": "tcp"}, "control: must be one of none, dcqcn, pulls, nscc, swift, hpcc, got 'tcp'"),
        ({"control": "dcqcn"}, "ecn_from: must be given with packet.control=dcqcn, got None"),
        ({"control": "nscc", "window": "auto"}, "ecn_from: must be given with packet.control=nscc, got None"),
        ({"control": "nscc", "ecn_from": 0}, "window: must be given with packet.control=nscc, got None"),
        ({"target": 0}, "target: must be within 1e-12 and 1 s, or auto, got 0"),
        ({"control": "swift"}, "window: must be given with packet.control=swift, got None"),
        ({"control": "pulls"}, "window: must be given with packet.control=pulls, but for packet.loss=trim, got None"),
        ({"control": "hpcc"}, "window: must be given with packet.control=hpcc, got None"),
        ({"control": "hpcc", "window": 1, "loss": "trim"}, "loss: must be none with packet.control=hpcc, got trim"),
        (
            {"control": "hpcc", "window": 1, "draws": "reps"},
            "draws: must be message with packet.control=hpcc, got reps",
        ),
        ({"hpcc_utilization": 0}, "hpcc_utilization: must be above 0, at most 1, got 0"),
        ({"hpcc_step": 0}, "hpcc_step: must be a whole number within 1..1073741824, got 0"),
        ({"draws": "reps", "entropies": 512}, "entropies: must be a whole number within 1..256, got 512"),
        ({"flowlet_gap": -1}, "flowlet_gap: must be within 0 and 9007.2 s, got -1"),
        ({"window": 0}, "window: must be a whole number within 1..9007199254740992, auto or null, got 0"),
        ({"timeout": 0}, "timeout: must be within 1e-12 and 9007.2 s, got 0"),
        ({"ecn_from": 300_000}, "ecn_to: must be a whole number within 300000..2147483647, got 200000"),
        ({"ecn_at": "both"}, "ecn_at: must be one of arrival, departure, got 'both'"),
        ({"ecn_most": 1.5}, "ecn_most: must be within 0 and 1, got 1.5"),
        ({"dcqcn_step": 0}, "dcqcn_step: must be a positive number, got 0"),
        ({"dcqcn_recoveries": 0}, "dcqcn_recoveries: must be a whole number within 1..1048576, got 0"),
        (
            {"loss": "drop", "queues": "input"},
            "queues: must be virtual_output where packets are lost or marked, or messages controlled, got input",
        ),
    ],
)
def test_a_wrong_setting_is_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=rf"^packet\.{message}$"):
        Packet(**change)


def test_a_message_that_leaves_by_several_interfaces_is_refused(make_world: MakeWorld) -> None:
    world = make_world([{"path": [0, 1], "bytes": 100, "weight": [0.5, 0.5]}], [C, C])
    both = Alternatives(np.array([0, 2]), np.array([0, 1, 2]), np.array([0, 1], np.int32), np.array([0.5, 0.5]))
    world = replace(world, graph=replace(world.graph, alternatives=both))
    message = "where a message leaves by several interfaces of its server, as in world, got"
    assert Packet().refuses(world) is None
    assert NDP.refuses(world) == f"packet.loss: must be none {message} trim"
    assert replace(NDP, loss="none").refuses(world) == f"packet.control: must be none {message} pulls"
    assert Packet(draws="flowlet").refuses(world) == f"packet.draws: must be packet {message} flowlet"
    assert Packet(window="auto").refuses(world) == f"packet.window: must be null {message} auto"
    assert Packet(ecn_from=5000).refuses(world) == f"packet.ecn_from: must be null {message} 5000"
