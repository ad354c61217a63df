"""Losses, marks and control where routers forward by address: each half as it is alone, and twins agree exactly."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from tests.engine.test_packet_addresses import B, dragonfly, random_dragonfly, random_world
from tests.engine.test_packet_random import CASES, compare, random_transport
from tests.engine.test_packet_threads import same_bytes
from topoflow.engine.base import Run, Timeline, World
from topoflow.engine.device import DeviceMemory
from topoflow.engine.lowering.placement import place
from topoflow.engine.packet import Packet
from topoflow.engine.packet.addresses import ADAPTIVE, ROUTINGS, VALIANT, max_hops
from topoflow.engine.packet.idle_routes import IdleRoutes
from topoflow.fabric.base import Fabric
from topoflow.fabric.routing.base import NO_LINK, as_routes
from topoflow.traffic.base import Traffic, Transfer

NDP = Packet(size=2048, loss="trim", control="pulls", window="auto", buffer=8 * 2048)


def crowded(draw: np.random.Generator, routing: str, model: Packet) -> World:
    """A random network whose links differ in speed, with messages of up to 40 packets."""
    world = random_world(draw, routing)
    capacity = world.capacity * draw.choice([1.0, 0.25, 2.0], world.graph.links)
    sent = np.minimum(8 * world.graph.bytes, 40.0 * model.size)
    return replace(world, capacity=capacity, graph=replace(world.graph, bytes=sent))


def model_of(draw: np.random.Generator, routing: str) -> Packet:
    """Any transport with buffers of few packets, and of 16 channels or as few as there must be."""
    model = random_transport(draw)
    size = max(model.size, 256)
    model = replace(
        model,
        size=size,
        flit=model.flit if size == model.size else 32,
        buffer=int(size * draw.choice([1, 1.5, 4])),
        virtual_channels="auto" if draw.random() < 0.7 else 16,
        eager=None,
        draws="packet" if model.draws == "in_turn" else model.draws,
        compares=str(draw.choice(["occupied", "free"])),
        threshold=float(draw.choice([0.5, 1.0, 2.0])),
    )
    return replace(model, control="swift", window="auto") if refuses_hpcc(model, routing) else model


def refuses_hpcc(model: Packet, routing: str) -> bool:
    return model.control == "hpcc" and routing in ADAPTIVE


def with_transfers(fabric: Fabric, transfers: list[Transfer], routing: str) -> World:
    return place(Traffic.from_tasks("some", fabric.servers, transfers), fabric, name="some", routing=routing)


def simulated(world: World, model: Packet) -> Timeline:
    (timeline,) = model.simulate([world])
    return timeline


@pytest.mark.parametrize("routing", ROUTINGS)
@settings(max_examples=12)
@given(seed=CASES)
def test_the_kernel_is_exactly_the_twin(device: str, routing: str, seed: int) -> None:
    draw = np.random.default_rng(seed)
    model = model_of(draw, routing)
    compare(crowded(draw, routing, model), model, Run(DeviceMemory.named(device), threads=1))


@pytest.mark.parametrize("routing", ROUTINGS)
@settings(max_examples=15)
@given(seed=CASES)
def test_any_number_of_threads_gives_the_same_bytes(routing: str, seed: int) -> None:
    draw = np.random.default_rng(seed)
    model = model_of(draw, routing)
    same_bytes([crowded(draw, routing, model)], model, most=3)


@settings(max_examples=30)
@given(seed=CASES)
def test_with_one_path_of_each_pair_tables_and_listed_paths_are_the_same(seed: int) -> None:
    """To the picosecond, where packets are lost: else virtual channels, which differ, have a buffer each. Packets take
    turns by when they come, as queues are in another order, and no two come at once."""
    draw = np.random.default_rng(seed)
    routers, groups = int(draw.integers(1, 5)), int(draw.integers(1, 6))
    fabric = dragonfly(2, routers, groups, 1)
    tables = str(draw.choice(ROUTINGS)) if max(routers, groups) < 3 else "minimal"  # else there are detours
    if fabric.servers < 3:
        return
    model = replace(model_of(draw, "minimal"), arbiter="arrival", virtual_channels="auto", samples=0)
    if not model.loses:
        model = replace(model, loss="trim", control="pulls")
    if model.ecn_from is not None:  # what ports draw depends on their numbers
        model = replace(model, ecn_to=model.ecn_from)
    ends = [draw.choice(fabric.servers, 2, replace=False).tolist() for _ in range(20)]
    transfers = [
        Transfer(float(draw.integers(1, 20 * model.size)), a, b if draw.random() < 0.5 else 0) for a, b in ends if a
    ]
    latency = draw.integers(0, 10**6, fabric.links) / 1e12
    speeds = draw.choice([1.0, 0.25, 0.3], fabric.links) * B
    by_address, listed = (
        replace(with_transfers(fabric, transfers, routing), latency=latency, capacity=speeds)
        for routing in (tables, "ecmp")
    )
    one, other = simulated(by_address, model), simulated(listed, model)
    assert one.finish.tolist() == other.finish.tolist()
    assert one.link_bytes.tolist() == other.link_bytes.tolist()
    for name in ("lost", "marked", "fullest", "active"):
        crossed = other.link_bytes > 0
        assert getattr(one.ports, name)[crossed].tolist() == getattr(other.ports, name)[crossed].tolist()


@pytest.mark.parametrize("routing", ["minimal", VALIANT])
@settings(max_examples=20)
@given(seed=CASES)
def test_ports_that_never_fill_lose_nothing_and_are_as_lossless_ones(routing: str, seed: int) -> None:
    draw = np.random.default_rng(seed)
    model = Packet(size=2048, buffer=2**24)
    world = crowded(draw, routing, model)
    lossy, lossless = simulated(world, replace(model, loss="drop")), simulated(world, model)
    assert lossy.ports is not None
    assert lossy.ports.lost.sum() == 0
    assert lossy.finish.tolist() == lossless.finish.tolist()
    assert lossy.link_bytes.tolist() == lossless.link_bytes.tolist()


@pytest.mark.parametrize("routing", ROUTINGS)
@pytest.mark.parametrize("loss", ["drop", "trim"])
def test_what_was_sent_was_delivered_or_lost_and_every_byte_arrives_once(routing: str, loss: str) -> None:
    """All 24 servers of three groups send to one of them."""
    fabric = dragonfly(2, 4, 3, 2)
    transfers = [Transfer(50_000.0, source, 0) for source in range(1, fabric.servers)]
    timeline = simulated(
        with_transfers(fabric, transfers, routing), replace(NDP, loss=loss, control="none", buffer=4 * 2048)
    )
    assert timeline.ports is not None
    flows = timeline.ports.flows
    assert flows is not None
    assert flows.lost.sum() == timeline.ports.lost.sum() > 0
    assert (flows.sent == flows.delivered + flows.lost).all()
    assert flows.sent_bytes.tolist() == (flows.delivered_bytes + flows.lost_bytes).tolist()
    assert flows.delivered_bytes.tolist() == [50_000] * len(transfers)


@pytest.mark.parametrize("loss", ["none", "drop"])
def test_a_window_of_a_round_trip_is_enough_for_one_message(loss: str) -> None:
    """``auto`` counts the links between routers, so that a message alone never waits for an acknowledgement."""
    fabric = dragonfly(2, 4, 5, 1, latency=2e-6)
    world = with_transfers(fabric, [Transfer(2e6, 0, fabric.servers - 1)], "minimal")
    model = Packet(loss=loss, window="auto")
    assert simulated(world, model).makespan == simulated(world, replace(model, window=None, loss="none")).makespan


@pytest.mark.parametrize("routing", ADAPTIVE)
def test_routers_that_adapt_relieve_a_cable_that_loses_packets(routing: str) -> None:
    """All 32 servers of one of 9 groups send to the next one, which one cable joins, and by 7 others."""
    fabric = dragonfly(4, 8, 9, 1)
    transfers = [Transfer(65_536.0, server, server + 32) for server in range(32)]
    direct, adaptive = (
        simulated(with_transfers(fabric, transfers, routing_name), NDP) for routing_name in ("minimal", routing)
    )
    assert direct.makespan >= 32 * 65_536 / B
    assert 4 < direct.makespan / adaptive.makespan <= 8
    assert direct.ports is not None
    assert adaptive.ports is not None
    assert adaptive.ports.lost.sum() < direct.ports.lost.sum()


@settings(max_examples=20)
@given(seed=CASES)
def test_idle_routes_are_the_mean_of_the_paths_that_a_dragonfly_lists(seed: int) -> None:
    draw = np.random.default_rng(seed)
    fabric = random_dragonfly(draw)
    if fabric.servers < 2:
        return
    ends = [draw.choice(fabric.servers, 2, replace=False).tolist() for _ in range(5)]
    weights = draw.random(fabric.links)
    graph = with_transfers(fabric, [Transfer(1.0, *pair) for pair in ends], "minimal").graph
    crossed = IdleRoutes.by_address(graph, "minimal")
    sums = crossed.sums(weights[crossed.link])[graph.path]
    routes = as_routes(fabric.route)
    for (source, target), total in zip(ends, sums, strict=True):
        pair = np.array([[source], [target]])
        number = np.arange(int(routes.choices(*pair)[0, 0]))
        rows = routes.links(*np.repeat(pair, len(number), axis=1), number)
        assert total == pytest.approx(np.where(rows == NO_LINK, 0.0, weights[rows]).sum() / len(number))


@settings(max_examples=20)
@given(seed=CASES)
def test_idle_routes_by_a_middle_are_no_longer_than_routes_may_be(seed: int) -> None:
    draw = np.random.default_rng(seed)
    world = random_world(draw, VALIANT)
    hops = world.graph.next_hops
    assert hops is not None
    direct, around = (IdleRoutes.by_address(world.graph, routing_name).count for routing_name in ("minimal", VALIANT))
    assert (around <= max_hops(hops, VALIANT)).all()
    assert (direct <= max_hops(hops, "minimal")).all()
    assert (direct >= 2).all()


def test_what_needs_packets_in_order_is_refused_where_they_may_overtake_each_other() -> None:
    model = Packet(control="hpcc", window="auto", draws="message")
    world = with_transfers(dragonfly(1, 2, 3, 1), [Transfer(1.0, 0, 3)], "ugal")
    assert model.refuses(world) == "routing: must not adapt with packet.control=hpcc, got ugal in some"
    world = with_transfers(dragonfly(1, 2, 3, 1), [Transfer(1.0, 0, 3)], "minimal")
    assert model.refuses(world) is None
    assert (replace(model, draws="packet").refuses(world) or "").startswith("packet.draws: must be message")
