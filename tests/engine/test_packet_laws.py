"""Laws of packets: closed forms of one message, shares, head-of-line blocking, credits, and other fidelities."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from topoflow.demand import Demand
from topoflow.engine.alternatives import Alternatives
from topoflow.engine.base import Run, Timeline, World
from topoflow.engine.fluid import Fluid
from topoflow.engine.lowering.placement import place
from topoflow.engine.packet import Packet, layout_of
from topoflow.fabric.fat_tree import FatTree
from topoflow.fabric.leaf_spine import LeafSpine
from topoflow.traffic.base import Traffic, Transfer

C = 12.5e9  # B/s: 80 ps for a byte
PACKET = 4096 * 80e-12  # s that a full packet takes
FLIT = 32 * 80e-12
MB = 1e6
EXACT = {"rel": 1e-12}
MakeWorld = Callable[..., World]


def run(world: World, model: Packet = Packet()) -> Timeline:
    return model.simulate([world], Run(threads=1))[0]


def messages(paths: list[list[int]], size: float) -> list[dict[str, Any]]:
    return [{"path": path, "bytes": size} for path in paths]


@pytest.mark.parametrize("hops", [1, 2, 5])
@pytest.mark.parametrize("packets", [1, 7])
@pytest.mark.parametrize("through", [True, False])
def test_a_message_takes_its_closed_form(make_world: MakeWorld, hops: int, packets: int, through: bool) -> None:
    """Cut-through: a switch adds a flit; store-and-forward: a packet. Packets follow each other without a gap."""
    world = make_world(messages([list(range(hops))], packets * 4096), [C] * hops, [5e-7] * hops)
    model = Packet(switching="cut_through" if through else "store_and_forward", switch_latency=1e-7, nic_latency=1.5e-7)
    latency = hops * 5e-7 + (hops - 1) * 1e-7 + 2 * 1.5e-7
    sent = packets * PACKET + (hops - 1) * (FLIT if through else PACKET)
    assert run(world, model).makespan == pytest.approx(latency + sent, **EXACT)


@pytest.mark.parametrize("switching", ["cut_through", "store_and_forward"])
@pytest.mark.parametrize("speeds", [[C], [C, C / 3, C / 7]])
def test_a_long_message_takes_a_request_and_an_answer_more(
    make_world: MakeWorld, speeds: list[float], switching: str
) -> None:
    """A flit there, a flit back on equal links, and the message, one after the other; a short message asks nobody."""
    hops = len(speeds)
    forward, backward = list(range(hops)), list(range(2 * hops - 1, hops - 1, -1))
    links = [*speeds, *speeds], [5e-7, 1e-7, 2e-7][:hops] * 2
    model = Packet(switching=switching, switch_latency=1e-7, nic_latency=1.5e-7)
    steps = [forward, backward, forward]
    tasks = [{"path": path, "bytes": size, "after": [i - 1] if i else []}
             for i, (path, size) in enumerate(zip(steps, [32, 32, 9000], strict=True))]  # fmt: skip
    world = make_world(messages([forward], 9000), *links)
    timeline = run(world, replace(model, eager=8999))
    ports: Any = timeline.ports
    assert timeline.makespan == pytest.approx(run(make_world(tasks, *links), model).makespan, **EXACT)
    assert ports.message_latency.largest == pytest.approx(timeline.makespan, **EXACT)
    assert run(world, replace(model, eager=9000)).makespan == run(world, model).makespan < timeline.makespan


@pytest.mark.parametrize(("speeds", "slowest"), [([C, C / 4], C / 4), ([C / 4, C], C / 4), ([C, C / 4, C], C / 4)])
def test_a_switch_between_two_speeds_sends_without_a_gap(
    make_world: MakeWorld, speeds: list[float], slowest: float
) -> None:
    """A fast link begins when it cannot run dry; a message of n packets takes n of the slowest link's times."""
    world = make_world(messages([list(range(len(speeds)))], 100 * 4096), speeds)
    heads = sum(32 / speed for speed in speeds) + 4096 / slowest
    makespan = run(world).makespan
    assert 100 * 4096 / slowest <= makespan <= 100 * 4096 / slowest + heads


def test_a_packet_is_whole_flits_and_a_message_whole_bytes(make_world: MakeWorld) -> None:
    timeline = run(make_world(messages([[0]], 4096 + 32.5), [C]))
    assert timeline.makespan == pytest.approx((4096 + 64) * 80e-12, **EXACT)  # 33 B are two flits
    assert timeline.link_bytes.tolist() == [4129]


@pytest.mark.parametrize("inputs", [2, 5, 70])
def test_round_robin_gives_equal_inputs_equal_shares(make_world: MakeWorld, inputs: int) -> None:
    """Of n messages over n inputs none ends more than n packets before the last; 70 are more than a word has bits."""
    world = make_world(messages([[i, inputs] for i in range(inputs)], 40 * 4096), [C] * (inputs + 1))
    timeline = run(world)
    assert timeline.makespan == pytest.approx(40 * inputs * PACKET + FLIT, **EXACT)
    assert np.ptp(timeline.finish) <= inputs * PACKET


def test_round_robin_favours_the_near(make_world: MakeWorld) -> None:
    """A street with a garage at each of four corners: each corner halves what came before it.

    Source: the parking lot of Dally and Towles, Principles and Practices of Interconnection Networks, 2004, 15.4.1.
    """
    street = [0, 1, 2, 3]  # links; garage i enters before link i, by link 4 + i
    packets = 400
    world = make_world(messages([[4 + i, *street[i:]] for i in range(4)], packets * 4096), [C] * 8)
    finish = run(world, Packet(buffer=2 * 4096)).finish
    assert finish.max() == pytest.approx(4 * packets * PACKET, rel=0.02)  # the last link is never idle
    assert packets * PACKET / finish[3] == pytest.approx(1 / 2, rel=0.03)
    # A quarter until the nearest is done, then half: 200 packets in 800 times and 200 in 400.
    assert packets * PACKET / finish[2] == pytest.approx(1 / 3, rel=0.03)


@pytest.mark.parametrize(("arbiter", "least", "most"), [("round_robin", 6, 9), ("age", 11, 13.1)])
def test_by_age_a_late_packet_waits_for_all_that_left_their_nics_before(
    make_world: MakeWorld, arbiter: str, least: float, most: float
) -> None:
    """Two inputs have sent 5 or 6 packets each when the third sends one. By turns it waits for one of each."""
    tasks = [*messages([[0, 3], [1, 3]], 10 * 4096), {"path": [2, 3], "bytes": 4096, "release": 5 * PACKET}]
    late = run(make_world(tasks, [C] * 4), Packet(arbiter=arbiter)).finish[2] / PACKET
    assert least <= late <= most


def test_shares_are_of_inputs_not_of_messages(make_world: MakeWorld) -> None:
    """Two messages of one input and one of another: a quarter, a quarter, a half."""
    world = make_world(messages([[0, 2], [0, 2], [1, 2]], 100 * 4096), [C] * 3)
    first, second, alone = run(world).finish
    assert alone == pytest.approx(200 * PACKET, rel=0.03)
    assert [first, second] == pytest.approx([300 * PACKET] * 2, rel=0.03)


def test_a_port_that_waits_is_idle_once_for_each_pause(make_world: MakeWorld) -> None:
    """Packets at 0, 3 us, 3 ms, 3.5 ms and 0.8 us later: pauses of 2.7 us, 3 ms, 0.5 ms, 0.5 us, no other."""
    release = [0.0, 3e-6, 3e-3, 3.5e-3, 3.5008e-3]
    sends = [{"path": [0], "bytes": 4096, "release": time} for time in release]
    ports: Any = run(make_world(sends, [C, C])).ports
    assert ports.idle_intervals.tolist() == [4, 1]  # nothing crosses the other link
    assert ports.idle_1us.tolist() == [3, 1]
    assert ports.idle_1ms.tolist() == [1, 1]
    later: Any = run(make_world([*sends, {"delay": 1e-3, "after": [4]}], [C, C])).ports
    assert later.idle_intervals.tolist() == [5, 1]
    assert later.idle_1us.tolist() == [4, 1]
    assert later.message_latency.largest == pytest.approx(PACKET, **EXACT)


def test_a_nic_gives_its_messages_turns(make_world: MakeWorld) -> None:
    first, second = run(make_world(messages([[0], [0]], 10 * 4096), [C])).finish
    assert (first, second) == pytest.approx((19 * PACKET, 20 * PACKET), **EXACT)


def test_a_nic_that_keeps_the_order_sends_a_message_to_its_end_before_the_next(make_world: MakeWorld) -> None:
    first, second = run(make_world(messages([[0], [0]], 10 * 4096), [C]), Packet(messages="in_order")).finish
    assert (first, second) == pytest.approx((10 * PACKET, 20 * PACKET), **EXACT)


def test_a_limit_paces_a_message(make_world: MakeWorld) -> None:
    """To a quarter of the link: a packet every 4 packet times, or one later where the other message has its turn."""
    limited = {"path": [0], "bytes": 10 * 4096, "limit": C / 4}
    (alone,) = run(make_world([limited], [C])).finish
    assert alone == pytest.approx((10 * 4 + 1) * PACKET, **EXACT)
    paced, free = run(make_world([limited, {"path": [0], "bytes": 10 * 4096}], [C])).finish
    assert alone <= paced <= alone + 10 * PACKET
    assert free <= 14 * PACKET


@pytest.mark.parametrize("queues", ["virtual_output", "input"])
def test_heads_of_line_block_only_where_an_input_has_one_queue(make_world: MakeWorld, queues: str) -> None:
    """Input 0 sends in turns to output 4, of which it gets a quarter, and to output 5, which nobody else uses.

    With a queue for each output, output 5 is as fast as the NIC. With one queue, each of its packets waits for one to
    output 4, which waits for those of three other inputs. All buffers hold all packets.
    """
    tasks = messages([[i, 4] for i in range(4)] + [[0, 5]], 16 * 4096)
    finish = run(make_world(tasks, [C] * 6), Packet(queues=queues)).finish[4]
    if queues == "input":
        assert finish >= 3.5 * 16 * PACKET
    else:
        assert finish == pytest.approx(2 * 16 * PACKET + FLIT, **EXACT)


@pytest.mark.parametrize("buffer", [1, 2, 3, 5, 9, 30])
def test_a_credit_loop_sends_at_most_a_buffer_each_round_trip(make_world: MakeWorld, buffer: int) -> None:
    """min(C, B / R): R is a packet's time, a flit's, the latency there and back, and that of credits."""
    latency, credit = 1e-6, 3e-7
    world = make_world(messages([[0, 1]], 2000 * 4096), [C, C], [latency, 0.0])
    makespan = run(world, Packet(buffer=buffer * 4096, credit_latency=credit)).makespan
    round_trip = PACKET + FLIT + 2 * latency + credit
    assert 2000 * 4096 / makespan == pytest.approx(min(C, buffer * 4096 / round_trip), rel=0.01)


def circle(make_world: MakeWorld, servers: int, hops: int) -> World:
    """Everybody sends far around a ring that goes one way."""
    paths = [[(first + hop) % servers for hop in range(hops)] for first in range(servers)]
    return make_world(messages(paths, 100 * 4096), [C] * servers, [1e-7] * servers)


def test_a_circle_of_full_buffers_is_named(make_world: MakeWorld) -> None:
    world = circle(make_world, 5, 4)
    model = Packet(buffer=4096, virtual_channels=1)
    message = (
        r"^world: buffers must not wait for each other in a circle, got that of (link [0-4](, )?){3} and 2 more with"
    )
    with pytest.raises(ValueError, match=message):
        run(world, model)


def test_two_virtual_channels_free_a_ring(make_world: MakeWorld) -> None:
    world = circle(make_world, 5, 4)
    model = Packet(buffer=4096)
    assert layout_of(world.graph, model).channels_needed == 2
    assert run(world, model).makespan >= 400 * PACKET
    assert run(world, Packet(buffer=4096, virtual_channels=2)).makespan == run(world, model).makespan


def large() -> Iterator[tuple[str, list[list[int]], int]]:
    """Paths of messages of 64 MB, and how many links there are."""
    yield "one bottleneck", [[0, 4], [1, 4], [2, 4], [3, 4]], 5
    yield "incast", [[i, 8, 9] for i in range(8)], 10
    yield "ring", [[i] for i in range(8)], 8
    yield "permutation", [[i, 8 + (i + 3) % 8] for i in range(8)], 16


@pytest.mark.parametrize(("paths", "links"), [case[1:] for case in large()], ids=[case[0] for case in large()])
def test_large_messages_agree_with_fluid(make_world: MakeWorld, paths: list[list[int]], links: int) -> None:
    world = make_world(messages(paths, 64 * MB), [C] * links, [1e-6] * links)
    (fluid,) = Fluid().simulate([world])
    np.testing.assert_allclose(run(world).finish, fluid.finish, rtol=0.02)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("size", 0, "must be a whole number within 1..16777216, got 0"),
        ("size", 100, "must be a multiple of the 32 B of a flit, got 100"),
        ("flit", 1.5, "must be a whole number within 1..16777216, got 1.5"),
        ("buffer", 4095, "must be a whole number within 4096..34359738368 or auto, got 4095"),
        ("switching", "wormhole", "must be one of cut_through, store_and_forward, got 'wormhole'"),
        ("queues", "output", "must be one of virtual_output, input, got 'output'"),
        ("arbiter", "oldest", "must be one of round_robin, age, arrival, got 'oldest'"),
        ("eager", -1, "must be a whole number within 0..9007199254740992 or null, got -1"),
        ("draws", "flow", "must be one of packet, message, in_turn, reps, flowlet, got 'flow'"),
        ("virtual_channels", 0, "must be a whole number within 1..32768 or auto, got 0"),
        ("switch_latency", -1.0, "must be within 0 and 9007.2 s, got -1.0"),
        ("nic_latency", float("nan"), "must be within 0 and 9007.2 s, got nan"),
    ],
)
def test_a_wrong_setting_is_named(key: str, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^packet.{key}: {message}$"):
        Packet(**{key: value})


def test_paths_of_which_only_the_union_is_known_are_refused(make_world: MakeWorld) -> None:
    world = make_world([{"path": [0, 1], "bytes": 100, "weight": [0.5, 0.5]}], [C, C])
    message = "routing: paths must be known one by one with fidelity=packet, got only their union in world"
    assert Packet().refuses(world) == message


def permutation(routing: str, seed: int, packets: int = 64) -> World:
    """16 hosts on 4 leaves with 4 spines: each sends to the one at its place of the next leaf."""
    fabric = LeafSpine(C, 1, 5e-7, 4).build(16, Demand(16))
    tasks = [Transfer(packets * 4096.0, host, (host + 4) % 16) for host in range(16)]
    return place(Traffic.from_tasks("shift", 16, tasks), fabric, name="shift", routing=routing, seed=seed)


def test_sprayed_packets_share_all_spines() -> None:
    """A permutation gets the full bisection but for queues; hashed flows collide."""
    sprayed, hashed = permutation("spray", 0, packets=1000), permutation("ecmp", 0, packets=1000)
    alone = 1000 * PACKET
    assert alone < run(sprayed).makespan < 1.1 * alone
    assert run(hashed).makespan > 1.5 * alone
    ports: Any = run(sprayed).ports
    fabric: Any = sprayed.fabric
    first = (fabric.source < 16) | (fabric.target < 16)
    # Of 4 x 1000 packets of a leaf each of 4 spines gets 1000, to 6 standard deviations of a binomial draw.
    np.testing.assert_allclose(ports.packets[~first], 1000, atol=6 * np.sqrt(4000 * 0.25 * 0.75))


def test_a_message_that_draws_keeps_its_path() -> None:
    """Links between switches carry whole messages; which ones depends on the seed, and on nothing else."""
    model, counts = Packet(draws="message"), []
    for seed in range(8):
        ports: Any = run(permutation("spray", seed), model).ports
        assert not np.any(ports.packets % 64)
        counts.append(ports.packets.tolist())
    again: Any = run(permutation("spray", 3), model).ports
    assert again.packets.tolist() == counts[3]
    assert len({tuple(packets) for packets in counts}) == 8


def test_packets_of_one_entropy_keep_their_path() -> None:
    """Of 64 packets of a message 16 have each of 4 entropies; with one entropy a message draws once."""
    ports: Any = run(permutation("spray", 0), Packet(entropies=4)).ports
    assert not np.any(ports.packets % 16)
    assert np.any(ports.packets % 64)
    one: Any = run(permutation("spray", 0), Packet(entropies=1)).ports
    message: Any = run(permutation("spray", 0), Packet(draws="message")).ports
    assert one.packets.tolist() == message.packets.tolist()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"entropies": 3}, "must be a power of two or null, got 3"),
        ({"entropies": 4, "draws": "in_turn"}, "must be null with packet.draws=in_turn, got 4"),
        ({"entropies": 4, "model": "sst"}, "must be null with packet.model=sst, got 4"),
    ],
)
def test_entropies_that_nothing_draws_by_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"packet.entropies: {message}"):
        Packet(**change)


def test_packets_in_turn_take_every_path_once_before_any_path_again() -> None:
    """Of 64 packets of a message each of 4 spines gets 16; over two branches of 2, each of 4 paths gets 16."""
    ports: Any = run(permutation("spray", 0), Packet(draws="in_turn")).ports
    sprayed: Any = run(permutation("spray", 0), Packet()).ports
    assert not np.any(ports.packets % 16)
    assert np.any(sprayed.packets % 16)
    fabric = FatTree(C, 1, 0.0, radix=4).build(16, Demand(16))
    traffic = Traffic.from_tasks("one", 16, [Transfer(64 * 4096, 0, 15)])
    one_message: Any = run(place(traffic, fabric, name="one", routing="spray", seed=0), Packet(draws="in_turn")).ports
    assert sorted(one_message.packets[one_message.packets > 0].tolist()) == [16] * 8 + [32] * 4 + [64] * 2


def test_a_message_leaves_by_all_of_its_interfaces(make_world: MakeWorld) -> None:
    """Two paths without a common link: half of the packets each, at the same time."""
    world = make_world([{"path": [0, 1], "bytes": 400 * 4096, "weight": [0.5, 0.5]}], [C, C])
    both = Alternatives(np.array([0, 2]), np.array([0, 1, 2]), np.array([0, 1], np.int32), np.array([0.5, 0.5]))
    timeline = run(replace(world, graph=replace(world.graph, alternatives=both)))
    ports: Any = timeline.ports
    assert ports.packets.sum() == 400
    assert timeline.makespan == pytest.approx(ports.packets.max() * PACKET, **EXACT)
    assert timeline.makespan < 0.6 * 400 * PACKET


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"capacity": 1e-6}, "the time of a packet on a link must be at most 9007199254740992 ps, got"),
        ({"latency": 1e5}, "the latency of a link must be at most 9007199254740992 ps, got"),
        ({"latency": 1e3}, "packet.buffer=auto, which follows from bandwidth and latency, must be at most 1073741824 "),
        ({"bytes": 1e17}, "a message must be at most 9007199254740992 B, got"),
    ],
)
def test_what_cannot_be_said_in_picoseconds_is_named(
    make_world: MakeWorld, change: dict[str, float], message: str
) -> None:
    size, capacity, latency = (
        change.get(key, usual) for key, usual in (("bytes", 1.0), ("capacity", C), ("latency", 0.0))
    )
    world = make_world([{"path": [0], "bytes": size}], [capacity], [latency])
    with pytest.raises(ValueError, match=rf"^world: {message}"):
        run(world)


def test_what_comes_after_until_is_left_out(make_world: MakeWorld) -> None:
    world = make_world([*messages([[0]], 4096), {"delay": 5.0, "after": [0]}], [C])
    timeline = run(replace(world, until=1.0))
    assert timeline.finish.tolist() == [pytest.approx(PACKET), np.inf]


def test_tasks_that_wait_in_a_circle_are_named(make_world: MakeWorld) -> None:
    world = make_world([{"delay": 1.0, "after": [1]}, {"delay": 1.0, "after": [0]}], [])
    with pytest.raises(ValueError, match=r"^world: every task must become ready, got an endless wait for task 0$"):
        run(world)


def test_the_latency_of_packets_is_that_of_an_idle_network(make_world: MakeWorld) -> None:
    world = make_world(messages([[0, 1]], 100 * 4096), [C, C], [5e-7, 5e-7])
    ports: Any = run(world).ports
    idle = PACKET + FLIT + 1e-6
    assert ports.latency.count.sum() == 100
    assert ports.latency.mean == pytest.approx(idle, **EXACT)
    assert ports.latency.largest == pytest.approx(idle, **EXACT)
    for share in (0.5, 0.99):
        assert ports.latency.quantile(share) == pytest.approx(idle, rel=1 / 16)


@pytest.mark.parametrize("samples", [1, 5, 64])
def test_the_most_over_time_is_the_most_of_all(make_world: MakeWorld, samples: int) -> None:
    """Of each port, in at least half as many intervals as there may be; they cover the run and no more."""
    ports = 40
    sends = messages([[i, ports] for i in range(ports)], 20 * 4096)
    timeline = run(make_world(sends, [C] * (ports + 1), [5e-7] * (ports + 1)), Packet(samples=samples))
    seen: Any = timeline.ports
    assert sorted(seen.queues.link.tolist()) == list(range(ports))  # those with buffers; the last one delivers
    assert seen.queues.depth.max(axis=1).tolist() == seen.fullest[seen.queues.link].tolist()
    assert samples / 2 <= seen.queues.depth.shape[1] <= samples
    assert 0 <= seen.queues.depth.shape[1] * seen.queues.interval - timeline.makespan < seen.queues.interval


def test_what_waits_grows_by_what_comes_and_does_not_go(make_world: MakeWorld) -> None:
    """Two senders at C share a link of C: a buffer at the end of each first link fills at C / 2, and is full then."""
    buffer = 64 * 4096
    timeline = run(make_world(messages([[0, 2], [1, 2]], MB), [C] * 3, [1e-7] * 3), Packet(buffer=buffer))
    ports: Any = timeline.ports
    end = np.arange(1, ports.queues.depth.shape[1] + 1) * ports.queues.interval
    expected = np.minimum(buffer, C / 2 * end)
    sending = end < MB / C  # the senders send until half of it has gone
    assert np.abs(ports.queues.depth - expected)[:, sending].max() <= 3 * 4096


def test_queues_are_empty_when_all_has_been_sent(make_world: MakeWorld) -> None:
    """And a wait of 1 ms follows: the intervals in it have nothing, though they were made longer meanwhile."""
    incast = messages([[i, 8] for i in range(8)], 20 * 4096)
    world = make_world([*incast, {"delay": 1e-3, "after": list(range(8))}], [C] * 9, [5e-7] * 9)
    for model in (Packet(), Packet(loss="drop", buffer=4 * 4096), Packet(loss="trim", control="pulls")):
        timeline = run(world, model)
        ports: Any = timeline.ports
        after = np.arange(ports.queues.depth.shape[1]) * ports.queues.interval > timeline.finish[:8].max() + 1e-6
        assert after.any()
        assert not ports.queues.depth[:, after].any()
        assert (ports.queues.depth[:, 0] > 0).any()


def test_what_depths_over_time_need_is_known_before(make_world: MakeWorld) -> None:
    world = make_world([{"path": list(range(9000)), "bytes": 64}], [C] * 9000)
    with pytest.raises(ValueError, match=r"packet.samples: depths of queues over time must take at most 2 GiB, got 2"):
        run(world, Packet(samples=2**16))
    with pytest.raises(ValueError, match=r"packet.samples: must be a whole number within 0..65536, got -1"):
        Packet(samples=-1)
