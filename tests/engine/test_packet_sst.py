"""``packet.model=sst``: the times of SST's network to the picosecond, its order under load, and its twin exactly.

The numbers of ``LINK``, ``INPUT`` and so on, and the rules by which the closed forms add them up, are those that SST 16
has in its sources (merlin, firefly) and in its traces of the tapered dragonfly; none is an answer of our own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.test_packet_addresses import computes, dragonfly
from tests.engine.test_packet_random import compare, twin_of
from tests.twins.packet_sst import GET, SstSimulation
from topoflow import _C
from topoflow.demand import Demand
from topoflow.engine.base import Run, Timeline, World
from topoflow.engine.device import HOST_MEMORY, DeviceMemory
from topoflow.engine.lowering.placement import place
from topoflow.engine.packet import PORTS_OF_A_THREAD, Packet, Prepared, layout_of
from topoflow.engine.packet.addresses import AddressedLayout
from topoflow.engine.packet.batch import pack
from topoflow.engine.packet.settings import numbers
from topoflow.fabric.base import Fabric
from topoflow.fabric.dragonfly import Dragonfly, DragonflyRoutes
from topoflow.fabric.dragonfly_plus import DragonflyPlus
from topoflow.fabric.groups import WIRINGS
from topoflow.fabric.routing.next_hops import DOWN, GLOBAL, LOCAL, UP
from topoflow.traffic.base import Compute, Task, Traffic, Transfer

LINK, INPUT, OUTPUT, FLIT = 150_000, 150_000, 150_000, 2560  # ps; a flit of 32 B at 12.5 GB/s
CREDIT = OUTPUT + LINK + INPUT
NIC, SETUP, MATCH = 1_000, 50_000, 100_000
FULL = 64  # flits of a packet of 2 KiB
SST = Packet(
    model="sst",
    size=2048,
    flit=32,
    buffer=14 * 2048,
    switch_latency=(INPUT + OUTPUT) * 1e-12,
    credit_latency=(CREDIT - LINK) * 1e-12,
    nic_latency=NIC * 1e-12,
    setup=SETUP * 1e-12,
    match=MATCH * 1e-12,
)
NETWORK = replace(SST, nic_latency=0.0, setup=0.0, match=0.0)
ROUTINGS = ("minimal", "valiant_group", "adaptive_local")


def world_of(fabric: Fabric, tasks: Sequence[Task], routing: str = "minimal", seed: int = 0) -> World:
    return place(Traffic.from_tasks("sst", fabric.servers, tasks), fabric, name="sst", routing=routing, seed=seed)


def run(world: World, model: Packet = SST) -> Timeline:
    return model.simulate([world], Run(threads=1))[0]


def finishes(world: World, model: Packet = SST) -> list[int]:
    """ps"""
    return np.rint(run(world, model).finish * 1e12).astype(int).tolist()


def links_of(fabric: Fabric, source: int, target: int) -> int:
    """Of the only minimal path, where two groups have one cable."""
    path = world_of(fabric, [Transfer(1.0, source, target)], "ecmp").graph
    return int(path.path_offsets[-1])


def delivered(offered: int, links: int) -> int:
    """ps, the head of a packet that came to the buffer of its NIC at ``offered``."""
    time = offered + FLIT + LINK + INPUT
    for router in range(1, links):
        edge = (time // FLIT + 1) * FLIT
        time = edge + FLIT + OUTPUT + LINK + (INPUT if router < links - 1 else 0)
    return time


def received(offered: int, links: int, flits_after_first: int = 0) -> int:
    """ps, a message of which the last packet begins so many flits after the first, with all that NICs take."""
    first = delivered(offered + NIC + SETUP, links)
    return max(first + MATCH, first + flits_after_first * FLIT) + NIC


FABRIC = dragonfly(2, 3, 4, 1)


@pytest.mark.parametrize("target", range(1, FABRIC.servers))
@pytest.mark.parametrize("size", [1, 13, 14, 32, 1069, 2048])
def test_a_packet_costs_its_hops_and_not_its_own_time(target: int, size: int) -> None:
    """h links: h x 150 of them, (h - 1) x 300 of routers, h flits, and the waits for the clocks of h - 1 crossbars."""
    setup = 0 if size <= GET else SETUP  # gets have a machine of their own
    world = world_of(FABRIC, [Transfer(float(size), 0, target)])
    assert finishes(world) == [received(setup - SETUP, links_of(FABRIC, 0, target))]
    assert 2 <= links_of(FABRIC, 0, target) <= 5


@pytest.mark.parametrize("start", [1, 777, 2559, 2560, 123_456_789])
def test_edges_are_multiples_of_a_flit(start: int) -> None:
    """Whatever the moment of the message: what comes with an edge waits for the next one."""
    for target in (1, 3, 9, 23):
        world = world_of(FABRIC, [Compute(start * 1e-12, None), Transfer(1000.0, 0, target, (0,))])
        assert finishes(world)[1] == received(start, links_of(FABRIC, 0, target))


@pytest.mark.parametrize("packets", [2, 3, 8, 13, 14, 60])
@pytest.mark.parametrize("rest", [0, 1, 32, 33, 2047])
def test_packets_of_a_message_follow_each_other_without_a_gap(packets: int, rest: int) -> None:
    """The last head is behind the first by the flits of the packets before it; its own time does not count."""
    size = packets * 2048 + rest
    after = (packets if rest else packets - 1) * FULL
    for target in (1, 2, 9, 23):
        world = world_of(FABRIC, [Transfer(float(size), 0, target)])
        assert finishes(world) == [received(0, links_of(FABRIC, 0, target), after)]


@pytest.mark.parametrize("count", [2, 5, 20])
@pytest.mark.parametrize("flits", [2, 10, 20, 64])
def test_a_nic_sends_its_messages_one_after_the_other(count: int, flits: int) -> None:
    """The next is set up when the last packet of that before is in the buffer; the link sends one after the other."""
    world = world_of(FABRIC, [Transfer(32.0 * flits, 0, 1)] * count)
    leaves, leave_times = 0, []
    for number in range(count):
        offered = NIC + (number + 1) * SETUP
        leaves = offered + FLIT if number == 0 or leaves + flits * FLIT <= offered else leaves + flits * FLIT
        leave_times.append(leaves)
    # Where the link is free before the next message comes, it looks for one at the end of the packet, and then waits.
    expected = [delivered(time - FLIT, 2) + MATCH + NIC for time in leave_times]
    assert finishes(world) == expected


def test_messages_of_a_flit_pass_long_ones() -> None:
    """Gets and answers have a machine of their own; in the buffer before the link they wait for what is there."""
    long, short = finishes(world_of(FABRIC, [Transfer(1e6, 0, 1), Transfer(13.0, 0, 1)]))
    assert short == delivered(NIC, 2) + MATCH + NIC
    assert long > 50 * short


@pytest.mark.parametrize("flits", [1, 5, 64])
@pytest.mark.parametrize("inputs", [2, 3, 6])
def test_an_output_takes_a_packet_after_the_other(flits: int, inputs: int) -> None:
    """Packets from several inputs at one moment are delivered in the order of ports, a packet's time apart."""
    fabric = dragonfly(inputs + 1, 1, 1, 1)
    world = world_of(fabric, [Transfer(32.0 * flits, sender, inputs) for sender in range(inputs)])
    first = delivered(0, 2)
    assert finishes(world, NETWORK) == [first + place * flits * FLIT for place in range(inputs)]


def test_who_was_granted_least_recently_is_the_next() -> None:
    """Two inputs to one output: packets of both in turns, so that both messages end a packet apart."""
    fabric = dragonfly(3, 1, 1, 1)
    times = finishes(world_of(fabric, [Transfer(40 * 2048.0, sender, 2) for sender in (0, 1)]), NETWORK)
    assert times == [delivered(0, 2) + packets * FULL * FLIT for packets in (78, 79)]


def test_the_first_packet_of_an_input_blocks_those_behind_it() -> None:
    """Input 0 sends to output 4, of which it gets a quarter, and then to output 5, which nobody else uses."""
    fabric = dragonfly(6, 1, 1, 1)
    tasks = [Transfer(16 * 2048.0, sender, 4) for sender in range(4)] + [Transfer(16 * 2048.0, 0, 5)]
    times = finishes(world_of(fabric, tasks), NETWORK)
    assert times[4] >= delivered(0, 2) + (3.9 * 15 + 15) * FULL * FLIT
    assert times[4] <= delivered(0, 2) + (4 * 16 + 16) * FULL * FLIT


@pytest.mark.parametrize("packets", [1, 2, 3, 5, 6, 14])
def test_a_credit_loop_sends_at_most_a_buffer_each_round_trip(packets: int) -> None:
    """B / R: to the next input, an edge, back, and a flit; room is free when the head has gone."""
    fabric, sent = dragonfly(1, 2, 1, 1), 400
    (finish,) = finishes(world_of(fabric, [Transfer(sent * 2048.0, 0, 1)]), replace(NETWORK, buffer=packets * 2048))
    round_trip = OUTPUT + LINK + INPUT + CREDIT + 1.5 * FLIT
    period = max(FULL * FLIT, round_trip / packets)
    assert (finish - delivered(0, 3)) / (sent - 1) == pytest.approx(period, rel=0.005)


@pytest.mark.parametrize("samples", [1, 5, 64])
def test_queues_fill_to_what_was_ever_taken_and_empty_again(samples: int) -> None:
    """Five senders to one: the depths over time have the peak of each buffer, and nothing when all has been sent."""
    fabric = dragonfly(3, 2, 1, 1)
    world = world_of(fabric, [*(Transfer(40 * 2048.0, sender, 5) for sender in range(5)), Compute(1e-3, None)])
    timeline = run(world, replace(NETWORK, samples=samples))
    ports: Any = timeline.ports
    assert ports.queues.depth.max(axis=1).tolist() == ports.fullest[ports.queues.link].tolist()
    assert ports.fullest.max() == 14 * 2048
    assert samples / 2 <= ports.queues.depth.shape[1] <= samples
    ends = np.arange(1, ports.queues.depth.shape[1] + 1) * ports.queues.interval
    assert not ports.queues.depth[:, ends - ports.queues.interval > timeline.finish[:5].max() + 1e-6].any()
    assert 0 <= ends[-1] - timeline.makespan < ports.queues.interval


def crossed(world: World, model: Packet = NETWORK) -> np.ndarray:
    """Packets over each link."""
    ports: Any = run(world, model).ports
    packets: np.ndarray = ports.packets
    return packets


def levels_of(fabric: Fabric) -> np.ndarray:
    route: Any = fabric.route
    levels: np.ndarray = route.next_hops().level
    return levels


@pytest.mark.parametrize("cables", [1, 2, 3])
@pytest.mark.parametrize("routing", ["minimal", "valiant_group"])
def test_a_source_has_its_cable_whatever_the_load(cables: int, routing: str) -> None:
    """Cable s % n of the source s, so that sources of the same rest share one and leave the others idle."""
    fabric = dragonfly(3, 2, 3, cables)
    route: Any = fabric.route
    tables = route.next_hops()
    senders = [sender for sender in range(6) if sender % cables == 0]
    world = world_of(fabric, [Transfer(8 * 2048.0, sender, 6 + sender) for sender in senders], routing)
    used = np.flatnonzero((crossed(world) > 0) & (levels_of(fabric) == GLOBAL) & (tables.source < 2))
    first = {int(link) for link in tables.outside[:2, 1:, 0].ravel() if tables.level[link] == GLOBAL}
    assert set(used.tolist()) <= first
    assert len(used) > 0


def test_an_idle_network_is_crossed_directly() -> None:
    """adaptive_local: as long as the direct output has half of the room, even when it is used all the time."""
    fabric = dragonfly(2, 3, 5, 1)
    sends = [Transfer(200 * 2048.0, 0, 29)]
    world, minimal = (world_of(fabric, sends, routing) for routing in ("adaptive_local", "minimal"))
    assert finishes(world) == finishes(minimal)
    assert crossed(world).tolist() == crossed(minimal).tolist()


@pytest.mark.parametrize(("threshold", "goes_around"), [(2.0, True), (1e9, False)])
def test_a_full_output_sends_packets_around(threshold: float, goes_around: bool) -> None:
    """Two groups send to one server of a third, each as much as its link down takes, so that buffers fill back to the
    outputs of both. None goes around where the other output would need a thousand million times the room."""
    fabric = dragonfly(4, 1, 5, 1)
    world = world_of(fabric, [Transfer(100 * 2048.0, sender, 16) for sender in range(8)], "adaptive_local")
    packets = crossed(world, replace(NETWORK, threshold=threshold))[levels_of(fabric) == GLOBAL]
    assert (packets.sum() > 800) == goes_around


def test_an_output_that_is_only_busy_sends_nothing_around() -> None:
    """A crossbar passes no more to an output than its link takes, so the buffer before it stays empty."""
    fabric = dragonfly(4, 1, 5, 1)
    world = world_of(fabric, [Transfer(100 * 2048.0, sender, 16 + sender) for sender in range(4)], "adaptive_local")
    assert crossed(world)[levels_of(fabric) == GLOBAL].sum() == 400


def test_with_several_cables_the_next_one_is_taken_unless_the_own_has_more_room() -> None:
    """On an idle network both are equally empty: cable (s + 1) % n."""
    fabric = dragonfly(1, 2, 2, 2)
    route: Any = fabric.route
    tables = route.next_hops()
    packets = crossed(world_of(fabric, [Transfer(1.0, 0, 2)], "adaptive_local"))
    (link,) = np.flatnonzero((packets > 0) & (tables.level == GLOBAL))
    first = tables.outside[0, 1, 1]
    behind = first if tables.level[first] == GLOBAL else tables.outside[1, 1, 1]
    assert link == behind


@pytest.mark.parametrize("routing", ROUTINGS)
def test_channels_rise_as_far_as_the_dragonfly_has_them(routing: str) -> None:
    """minimal: 2; the others: 3. One more after a link between groups, and at a middle router inside a group."""
    fabric = dragonfly(2, 4, 4, 2)
    draw = np.random.default_rng(3)
    tasks = [Transfer(4096.0, *(int(server) for server in draw.integers(0, fabric.servers, 2))) for _ in range(200)]
    twin: Any = twin_of(world_of(fabric, tasks, routing), NETWORK)
    assert isinstance(twin, SstSimulation)
    assert twin.channels == (2 if routing == "minimal" else 3)
    routes: dict[tuple[int, int], list[tuple[int, int]]] = {}
    come = twin.come

    def watch(packet: Any, port: int, virtual: int, now: int) -> None:
        routes.setdefault((packet.task, packet.number), []).append((twin.level[port], virtual))
        come(packet, port, virtual, now)

    twin.come = watch
    assert not twin.run().buffered
    for route in routes.values():
        levels = [level for level, _ in route]
        around = [level == GLOBAL for level in levels[:-1]]
        if levels == [UP, LOCAL, LOCAL]:  # by a middle router
            around = [False, True]
        assert [virtual for _, virtual in route] == [sum(around[:hop]) for hop in range(len(route))]
        assert max(virtual for _, virtual in route) < twin.channels


@pytest.mark.parametrize("group", range(4))
def test_at_first_an_input_passes_before_those_of_higher_ports(group: int) -> None:
    """A group of one router: palm-tree port j comes from j + 1 groups back, whatever the order of the cables."""
    fabric = dragonfly(2, 1, 4, 1)
    by_port = [(group - back) % 4 for back in (1, 2, 3)]
    assert by_port != sorted(by_port), "the order of cables would be another one"
    world = world_of(fabric, [Transfer(2048.0, 2 * other, 2 * group) for other in by_port])
    first = delivered(0, 3)
    assert finishes(world, NETWORK) == [first + turn * FULL * FLIT for turn in range(3)]
    assert compare(world, NETWORK, Run(threads=1))


@pytest.mark.parametrize("wiring", WIRINGS)
@pytest.mark.parametrize("cables", [1, 3, 12])
def test_the_ports_of_a_router_are_those_of_endpoints_of_its_group_and_between_groups(cables: int, wiring: str) -> None:
    """In that order, and of one kind by endpoint, router, and port of the wiring."""
    plan = DragonflyRoutes(2 * 3 * 4, 2, 3, 4, cables, wiring)
    sizes = {"nodes": 2, "routers": 3, "groups": 4, "global_links": cables}
    fabric = Dragonfly(12.5e9, 1, 150e-9, **sizes, wiring=wiring).build(24, Demand(24))
    world = world_of(fabric, [Transfer(1.0, 0, 23)])
    layout = layout_of(world.graph, SST, "minimal")
    assert isinstance(layout, AddressedLayout)
    hops = layout.next_hops
    assert sorted(layout.first_seen.tolist()) == list(range(layout.ports))
    gates = {
        (group, int(WIRINGS[wiring](*(np.array(index) for index in (group, other, turn)), 4))): other
        for group in range(4)
        for other in range(4)
        for turn in range(cables)
        if other != group
    }
    for router in range(12):
        group, place = divmod(router, 3)
        inputs = sorted(np.flatnonzero(hops.target == router), key=lambda port: layout.first_seen[port])
        assert hops.level[inputs].tolist() == sorted(hops.level[inputs].tolist())
        up, local, far = (np.array(inputs)[hops.level[inputs] == level] for level in (UP, LOCAL, GLOBAL))
        assert up.tolist() == hops.up[2 * router : 2 * router + 2].tolist()
        assert hops.source[local].tolist() == [3 * group + neighbour for neighbour in range(3) if neighbour != place]
        ports = [port for port in range(3 * cables) if port // plan.global_ports == place]
        assert (hops.source[far] // 3).tolist() == [gates[group, port] for port in ports]


def random_world(draw: np.random.Generator, routing: str) -> World:
    """Many to few, over a network of few routers with cables of one speed, or all to all."""
    sizes = [int(draw.integers(1, high)) for high in (4, 4, 5, 4)]
    servers = sizes[0] * sizes[1] * sizes[2]
    speed, latency = float(draw.choice([12.5e9, 3.1e9])), float(draw.choice([1e-9, 2e-8, 1e-7]))
    fabric = Dragonfly(speed, 1, latency, *sizes).build(servers, Demand(servers))
    tasks: list[Task] = []
    for number in range(int(draw.integers(1, 25))):
        source, target = (int(server) for server in draw.integers(0, servers, 2))
        size = float(draw.choice([1.0, 64.0, 500.5, 4096.0, 20_000.0]))
        after = tuple({int(task) for task in draw.integers(0, number, draw.integers(0, 2))} if number else ())
        transfer = Transfer(size, source, target if draw.random() < 0.6 else 0, after)
        tasks.append(transfer if draw.random() < 0.7 else computes(draw, after))
    return world_of(fabric, tasks, routing, int(draw.integers(2**63)))


def random_model(draw: np.random.Generator) -> Packet:
    flit = int(draw.choice([32, 100, 256]))
    size = flit * int(draw.integers(1, 20))
    times = {
        name: float(draw.choice([0, 1e-8, 5e-8])) for name in ("switch_latency", "credit_latency", "setup", "match")
    }
    buffer, threshold = int(size * draw.choice([1, 1.5, 4])), float(draw.choice([0.5, 1.0, 2.0]))
    nic, samples = float(draw.choice([0, 1e-9])), int(draw.choice([0, 1, 2, 7, 64]))
    settings: dict[str, Any] = {"flit": flit, "size": size, "buffer": buffer, "nic_latency": nic, "samples": samples}
    return Packet(model="sst", threshold=threshold, **settings, **times)


@pytest.mark.parametrize("routing", ROUTINGS)
@settings(max_examples=12)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_kernel_is_exactly_the_twin(device: str, routing: str, seed: int) -> None:
    draw = np.random.default_rng(seed)
    world = random_world(draw, routing)
    assert compare(world, random_model(draw), Run(DeviceMemory.named(device), threads=1)), "no buffers wait in a circle"


@pytest.mark.parametrize("routing", ROUTINGS)
@settings(max_examples=40)
@given(seed=st.integers(0, 2**32 - 1))
def test_every_byte_arrives_once(routing: str, seed: int) -> None:
    """Through one link up and one down, and as often between routers as a route allows; buffers hold what they may."""
    draw = np.random.default_rng(seed)
    world, model = random_world(draw, routing), random_model(draw)
    timeline = run(world, model)
    sends = (world.graph.path >= 0) & (np.diff(np.append(world.graph.path_offsets, 0))[world.graph.path] > 0)
    sizes = np.ceil(world.graph.bytes) * sends
    hops: Any = world.graph.next_hops
    ports: Any = timeline.ports
    packets = int(np.ceil(sizes / model.size).sum())
    for level in (UP, DOWN):
        assert timeline.link_bytes[hops.level == level].sum() == sizes.sum()
        assert ports.packets[hops.level == level].sum() == packets
    limit = {LOCAL: 1, GLOBAL: 1} if routing == "minimal" else {LOCAL: 3, GLOBAL: 2}
    assert ports.packets[hops.level == GLOBAL].sum() <= limit[GLOBAL] * packets
    assert ports.packets[hops.level == LOCAL].sum() <= (limit[LOCAL] + 1) * packets
    assert ports.latency.count.sum() == packets
    assert np.isfinite(timeline.finish).all()
    assert (ports.active + ports.stalled <= timeline.makespan * (1 + 1e-9)).all()
    assert (ports.fullest <= (3 * model.buffer)).all()


def test_no_answer_depends_on_threads_or_on_other_worlds() -> None:
    draw = np.random.default_rng(7)
    worlds = [random_world(draw, ROUTINGS[index % 3]) for index in range(12)]
    model = random_model(draw)
    alone = [run(world, model) for world in worlds]
    for threads, order in ((2, 1), (3, -1)):
        together = model.simulate(worlds[::order], Run(threads=threads))[::order]
        for single, batched in zip(alone, together, strict=True):
            assert single.finish.tobytes() == batched.finish.tobytes()


def refused() -> Iterator[tuple[dict[str, Any], str]]:
    yield {"model": "ns3"}, "packet.model: must be one of hardware, sst, got 'ns3'"
    yield {"loss": "drop"}, "packet.loss: must be none with packet.model=sst, got drop"
    yield {"control": "pulls", "window": 1}, "packet.control: must be none with packet.model=sst, got pulls"
    yield {"ecn_from": 5000}, "packet.ecn_from: must be null with packet.model=sst, got 5000"
    yield {"switching": "store_and_forward"}, "packet.switching: must be cut_through with packet.model=sst, got store_"
    yield {"arbiter": "age"}, "packet.arbiter: must be round_robin with packet.model=sst, got age"
    yield {"draws": "message"}, "packet.draws: must be packet with packet.model=sst, got message"
    yield {"setup": -1.0}, "packet.setup: must be within 0 and 9007.2 s, got -1.0"
    yield {"model": "hardware", "setup": 5e-8}, "packet.setup: must be 0 but for packet.model=sst, got 5e-08"
    yield {"model": "hardware", "match": 1e-7}, "packet.match: must be 0 but for packet.model=sst, got 1e-07"


@pytest.mark.parametrize(("change", "line"), list(refused()))
def test_what_the_model_does_not_have_is_named(change: dict[str, Any], line: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(line)}"):
        Packet(**{"model": "sst", **change})


def test_worlds_that_it_does_not_have_are_refused() -> None:
    fabric = dragonfly(2, 2, 3, 1)
    sends = [Transfer(100.0, 0, 5)]
    assert SST.refuses(world_of(fabric, sends)) is None
    message = "routing: must be one of minimal, valiant_group, adaptive_local with packet.model=sst"
    for routing in ("ugal", "ecmp"):
        assert SST.refuses(world_of(fabric, sends, routing)) == f"{message}, got {routing} in sst"
    plus = DragonflyPlus(12.5e9, 1, 1e-7, 2, 2, 2, 3, 1).build(12, Demand(12))
    message = "fabric: must be a dragonfly with packet.model=sst"
    assert SST.refuses(world_of(plus, sends)) == f"{message}, got dragonfly_plus"
    with pytest.raises(ValueError, match=r"^sst.latency: must be more than 0 with packet.model=sst, got 0 ps$"):
        run(world_of(dragonfly(2, 2, 3, 1, latency=0.0), sends), replace(NETWORK, switch_latency=0.0))


def test_a_world_beyond_memory_is_refused_before_it_starts() -> None:
    """With what it would take; that is what the kernel takes, but for its tasks."""
    fabric = dragonfly(2, 3, 4, 1)
    world = world_of(fabric, [Transfer(1e6, sender, 23 - sender) for sender in range(12)], "adaptive_local")
    layout = layout_of(world.graph, SST, world.routing)
    prepared = Prepared(world, layout, numbers(world, layout, SST), is_sst=True)
    batch = pack([world], [layout], [prepared.amounts])
    state = _C.packets(batch.arrays, SST.kernel(), HOST_MEMORY, 0, 1, PORTS_OF_A_THREAD)
    assert prepared.state == pytest.approx(state, rel=0.05)
    large = world_of(fabric, [Transfer(1e13, 0, 23)], "adaptive_local")
    with pytest.raises(
        ValueError, match=r"^packet.buffer: a world's buffers must take at most 32 GiB, got \d+\.\d GiB"
    ):
        run(large, replace(SST, buffer=2**34))
