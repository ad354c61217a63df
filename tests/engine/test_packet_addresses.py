"""Routers that forward by address: tables lead where the fabric's paths do, routes are short, twins agree exactly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.test_packet_random import compare, random_model, twin_of
from topoflow.demand import Demand
from topoflow.engine.base import Run, Timeline, World
from topoflow.engine.bound import Bound
from topoflow.engine.device import DeviceMemory
from topoflow.engine.fluid import Fluid
from topoflow.engine.lowering.placement import place
from topoflow.engine.packet import Packet, layout_of
from topoflow.engine.packet.addresses import ROUTINGS, channels_of, max_hops
from topoflow.engine.packet.settings import numbers
from topoflow.fabric.base import Fabric, FabricDesign
from topoflow.fabric.dragonfly import Dragonfly
from topoflow.fabric.dragonfly_plus import DragonflyPlus
from topoflow.fabric.fat_tree import FatTree
from topoflow.fabric.hyperx import HyperX
from topoflow.fabric.leaf_spine import LeafSpine
from topoflow.fabric.routing.base import as_routes
from topoflow.fabric.routing.next_hops import DOWN, GLOBAL, LOCAL, NO_LINK, UP, AddressedRoutes, NextHops
from topoflow.fabric.routing.shortest import ShortestPaths
from topoflow.fabric.slim_fly import SlimFly
from topoflow.traffic.base import Compute, Traffic, Transfer

B = 12.5e9
CASES = st.integers(0, 2**32 - 1)


def dragonfly(nodes: int, routers: int, groups: int, global_links: int, latency: float = 150e-9) -> Fabric:
    sizes = {"nodes": nodes, "routers": routers, "groups": groups, "global_links": global_links}
    servers = nodes * routers * groups
    return Dragonfly(B, 1, latency, **sizes).build(servers, Demand(servers))


def tables_of(fabric: Fabric) -> NextHops:
    assert isinstance(fabric.route, AddressedRoutes)
    return fabric.route.next_hops()


def random_dragonfly(draw: np.random.Generator) -> Fabric:
    latency = float(draw.choice([0.0, 1e-7, 5e-7]))
    sizes = (int(draw.integers(1, high)) for high in (3, 5, 6, 4))
    return dragonfly(*sizes, latency)


def random_plus(draw: np.random.Generator) -> Fabric:
    nodes, leaves, spines, groups, cables = (int(draw.integers(1, high)) for high in (3, 4, 4, 6, 4))
    servers = int(draw.integers(1, nodes * leaves * groups + 1))
    return DragonflyPlus(B, 1, 1e-7, nodes, leaves, spines, groups, cables).build(servers, Demand(servers))


def random_slim_fly(draw: np.random.Generator) -> Fabric:
    q, nodes = int(draw.choice([3, 4, 5])), int(draw.integers(1, 3))
    return SlimFly(B, 1, 1e-7, q, nodes).build(2 * q * q * nodes, Demand(2 * q * q * nodes))


def random_hyperx(draw: np.random.Generator) -> Fabric:
    dims, nodes = draw.integers(1, 4, int(draw.integers(1, 4))).tolist(), int(draw.integers(1, 3))
    servers = int(np.prod(dims)) * nodes
    return HyperX(B, 1, 1e-7, nodes, dims).build(servers, Demand(servers))


def random_tree(draw: np.random.Generator) -> Fabric:
    radix = int(draw.choice([4, 8]))
    servers = int(draw.integers(1, min(radix**3 // 4, 40) + 1))
    return FatTree(B, 1, 1e-7, radix, int(draw.integers(1, 3))).build(servers, Demand(servers))


FABRICS: tuple[Callable[[np.random.Generator], Fabric], ...] = (
    *(random_dragonfly, random_plus, random_slim_fly, random_hyperx, random_tree),
)


def random_fabric(draw: np.random.Generator) -> Fabric:
    return FABRICS[int(draw.integers(len(FABRICS)))](draw)


def computes(draw: np.random.Generator, after: tuple[int, ...]) -> Compute:
    """Most take no time, so that those that wait for them begin at once."""
    return Compute(float(draw.choice([0.0, 0.0, 1e-7])), None, after)


def random_world(draw: np.random.Generator, routing: str) -> World:
    """Transfers between random endpoints of a random network, many to the same ones, and computes that wait for earlier
    ones.
    """
    fabric = random_fabric(draw)
    tasks: list[Any] = []
    for number in range(int(draw.integers(1, 20))):
        source, target = (int(server) for server in draw.integers(0, fabric.servers, 2))
        size = float(draw.choice([1.0, 64.0, 500.5, 4096.0, 10_000.0]))
        after = tuple({int(task) for task in draw.integers(0, number, draw.integers(0, 2))} if number else ())
        transfer = Transfer(size, source, target if draw.random() < 0.7 else 0, after)
        tasks.append(transfer if draw.random() < 0.7 else computes(draw, after))
    traffic = Traffic.from_tasks("random", fabric.servers, tasks)
    return place(traffic, fabric, name="random", routing=routing, seed=int(draw.integers(2**63)))


def model_of(draw: np.random.Generator) -> Packet:
    fixed = {"queues": "virtual_output", "virtual_channels": "auto", "arbiter": "round_robin"}
    named = {name: getattr(random_model(draw), name) for name in ("switching", "nic_latency")}
    named["draws"] = str(draw.choice(["packet", "packet", "message"]))
    compares, threshold = str(draw.choice(["occupied", "free"])), float(draw.choice([0.5, 1.0, 2.0]))
    flit = int(draw.choice([32, 100, 256]))
    size = flit * int(draw.integers(4, 20))
    times = {"switch_latency": float(draw.choice([0, 1e-7])), "credit_latency": float(draw.choice([0, 3e-8]))}
    buffer = int(size * draw.choice([1, 1.5, 4]))
    return Packet(
        size=size, flit=flit, buffer=buffer, compares=compares, threshold=threshold, **fixed, **named, **times
    )


@pytest.mark.parametrize("routing", ROUTINGS)
@settings(max_examples=60)
@given(seed=CASES)
def test_the_kernel_is_exactly_the_twin(device: str, routing: str, seed: int) -> None:
    draw = np.random.default_rng(seed)
    world = random_world(draw, routing)
    assert compare(world, model_of(draw), Run(DeviceMemory.named(device), threads=1)), "no buffers wait in a circle"


@settings(max_examples=10)
@given(seed=CASES)
def test_worlds_by_paths_and_by_address_may_be_in_one_batch(device: str, seed: int) -> None:
    draw = np.random.default_rng(seed)
    worlds = [random_world(draw, routing) for routing in ("ecmp", "minimal", "adaptive_local", "ecmp")]
    model, run = model_of(draw), Run(DeviceMemory.named(device), threads=1)
    for world, timeline in zip(worlds, model.simulate(worlds, run), strict=True):
        assert timeline.finish.tolist() == model.simulate([world], run)[0].finish.tolist()


@pytest.mark.parametrize("routing", ROUTINGS)
@settings(max_examples=40)
@given(seed=CASES)
def test_a_route_is_no_longer_than_allowed_and_its_channels_rise(routing: str, seed: int) -> None:
    """(virtual channel, level of the link) rises along every route of every packet, and no link comes twice."""
    draw = np.random.default_rng(seed)
    world, model = random_world(draw, routing), model_of(draw)
    twin: Any = twin_of(world, model)
    twin.run()
    tables = tables_of_world(world)
    for crossed in twin.paths.values():
        rank = [(channel, int(tables.level[link])) for link, channel in crossed]
        assert rank == sorted(set(rank))
        assert len(crossed) + 1 <= max_hops(tables, routing)  # and the link down, which has no channel
        assert len({link for link, _ in crossed}) == len(crossed)
        assert max(channel for channel, _ in rank) < channels_of(tables, routing)


def tables_of_world(world: World) -> NextHops:
    assert world.graph.next_hops is not None
    return world.graph.next_hops


@settings(max_examples=40)
@given(seed=CASES)
def test_tables_of_a_dragonfly_lead_along_the_paths_that_it_lists(seed: int) -> None:
    fabric = random_dragonfly(np.random.default_rng(seed))
    tables, routes = tables_of(fabric), as_routes(fabric.route)
    size = tables.routers_per_group
    pairs = np.argwhere(~np.eye(fabric.servers, dtype=bool))
    for cable in range(tables.cables):
        number = np.where(tables.router[pairs[:, 0]] // size == tables.router[pairs[:, 1]] // size, 0, cable)
        rows = routes.links(pairs[:, 0], pairs[:, 1], number)
        for (source, target), row in zip(pairs.tolist(), rows, strict=True):
            assert walked(tables, source, target, cable) == row[row != NO_LINK].tolist()


def walked(tables: NextHops, source: int, target: int, cable: int) -> list[int]:
    path, size = [int(tables.up[source])], tables.routers_per_group
    goal = int(tables.router[target])
    while (router := int(tables.target[path[-1]])) != goal:
        if router // size == goal // size:
            path.append(int(tables.inside[router, goal % size]))
        else:
            path.append(int(tables.outside[router, goal // size, cable]))
    return [*path, int(tables.down[target])]


@pytest.mark.parametrize("make", FABRICS)
@settings(max_examples=12)
@given(seed=CASES)
def test_every_entry_of_the_tables_leads_on_along_a_shortest_path(
    make: Callable[[np.random.Generator], Fabric], seed: int
) -> None:
    """Whatever links of sets are drawn: a walk ends at the target, by links of rising place in ``levels.direct``.

    In a dragonfly, the cable that was drawn is part of the question: two cables may join what one does not.
    """
    draw = np.random.default_rng(seed)
    fabric = make(draw)
    tables, shortest = tables_of(fabric), ShortestPaths(fabric.nodes, fabric.source, fabric.target)
    for source, target in draw.integers(0, fabric.servers, (12, 2)).tolist():
        goal = int(tables.router[target])
        cable, place = int(draw.integers(tables.cables)), goal % tables.routers_per_group
        path, group = [int(tables.up[source])], goal // tables.routers_per_group
        while (router := int(tables.target[path[-1]])) != goal:
            same_group = tables.group[router] == group
            entry = int(tables.inside[router, place] if same_group else tables.outside[router, group, cable])
            links = [entry] if entry >= 0 else links_of(tables, entry)
            assert set(tables.source[links].tolist()) == {router}
            path.append(int(draw.choice(links)))
        levels = iter(tables.levels.direct)
        assert all(level in levels for level in tables.level[path[1:]].tolist())
        if make is not random_dragonfly:
            assert len(path) + 1 == (shortest.hops(source, target) if source != target else 2)


def links_of(tables: NextHops, entry: int) -> list[int]:
    begin, links = tables.sets
    members: list[int] = links[begin[-2 - entry] : begin[-1 - entry]].tolist()
    return members


@pytest.mark.parametrize("make", FABRICS)
def test_ends_and_kinds_of_links_in_tables_are_those_of_the_fabric(
    make: Callable[[np.random.Generator], Fabric],
) -> None:
    for seed in range(5):
        fabric = make(np.random.default_rng(seed))
        tables = tables_of(fabric)
        source, target = (np.maximum(ends - fabric.servers, -1) for ends in (fabric.source, fabric.target))
        assert np.array_equal(tables.source, source)
        assert np.array_equal(tables.target, target)
        assert np.array_equal(tables.level == UP, source < 0)
        assert np.array_equal(tables.level == DOWN, target < 0)
        assert np.array_equal(tables.router, tables.target[tables.up])
        assert np.array_equal(tables.router, tables.source[tables.down])


@pytest.mark.parametrize(
    ("design", "direct", "around"),
    [
        (SlimFly(B, 1, 1e-7, q=3, nodes=1), 2, 4),  # Besta and Hoefler, SC 2014, IV-D
        (DragonflyPlus(B, 1, 1e-7, 1, 3, 3, 3, 1), 1, 2),  # Shpiner et al., HiPINEB 2017: two with detours
        (HyperX(B, 1, 1e-7, 1, [2, 3, 3]), 1, 2),  # dimension order, and twice that
        (FatTree(B, 1, 1e-7, 4), 1, 2),
        (Dragonfly(B, 1, 1e-7, 1, 3, 3, 1), 2, 3),  # Kim et al., ISCA 2008, 4.1
    ],
)
def test_virtual_channels_are_as_many_as_the_papers_need_and_fewer_are_refused(
    design: FabricDesign, direct: int, around: int
) -> None:
    fabric = design.build(9, Demand(9))
    traffic = Traffic.from_tasks("one", 9, [Transfer(1.0, 0, 8)])
    for routing, needed in zip(ROUTINGS, (direct, around, around, around), strict=True):
        assert channels_of(tables_of(fabric), routing) == needed
        world = place(traffic, fabric, name="one", routing=routing)
        Packet(virtual_channels=needed).simulate([world])
        if needed > 1:
            message = rf"^packet.virtual_channels: must be at least {needed} with routing={routing}, got {needed - 1}"
            with pytest.raises(ValueError, match=message):
                Packet(virtual_channels=needed - 1).simulate([world])


def test_what_climbs_a_tree_is_spread_over_all_cores() -> None:
    """Each of 16 servers of a pod sends 400 packets to another pod: each of 16 cores gets a 16th of them."""
    fabric = FatTree(B, 1, 1e-7, 8).build(128, Demand(128))
    timeline = one_by_one(
        fabric, [(source, 16 + source) for source in range(16)], 2048.0 * 400, "minimal", Packet(size=2048)
    )
    tables = tables_of(fabric)
    to_core = timeline.link_bytes[(tables.level == 2) & (tables.group[np.maximum(tables.source, 0)] == 0)]
    assert to_core / (2048 * 400 * 16) == pytest.approx(np.full(16, 1 / 16), abs=0.012)  # 4 standard deviations


def test_levels_say_what_a_link_joins() -> None:
    fabric = dragonfly(2, 3, 4, 2)
    tables = tables_of(fabric)
    ends = [(int(a), int(b)) for a, b in zip(tables.source, tables.target, strict=True)]
    kinds = [UP if a < 0 else DOWN if b < 0 else LOCAL if a // 3 == b // 3 else GLOBAL for a, b in ends]
    assert tables.level.tolist() == kinds
    assert ends == [
        (max(a - fabric.servers, -1), max(b - fabric.servers, -1))
        for a, b in zip(fabric.source.tolist(), fabric.target.tolist(), strict=True)
    ]


def test_110592_endpoints_need_megabytes_not_a_path_per_pair() -> None:
    sizes = {"nodes": 24, "routers": 48, "groups": 96, "global_links": 12}
    tables = Dragonfly(B, 1, 0.0, **sizes).plan(110_592).next_hops()
    arrays = (tables.router, tables.up, tables.down, tables.inside, tables.outside, tables.source, tables.level)
    assert sum(array.nbytes for array in arrays) < 32 * 2**20
    assert np.count_nonzero(tables.level == GLOBAL) == 2 * 54_720
    assert np.count_nonzero((tables.level == LOCAL) | (tables.level == DOWN)) == 327_168  # electrical ports of switches


@pytest.mark.parametrize(
    ("design", "cables"),
    [
        (DragonflyPlus(B, 1, 150e-9), 5),
        (SlimFly(B, 1, 150e-9), 4),
        (HyperX(B, 1, 150e-9, 48, [48, 48]), 4),
        (FatTree(B, 1, 150e-9), 6),
    ],
)
def test_packets_cross_networks_of_100000_servers_by_tables_of_megabytes(design: FabricDesign, cables: int) -> None:
    servers = 100_000
    fabric = design.build(servers, Demand(servers))
    ends = np.random.default_rng(0).permutation(servers)[:400].reshape(-1, 2).tolist()
    timeline = one_by_one(fabric, [(source, target) for source, target in ends], 4096.0, "minimal", Packet(size=2048))
    tables = tables_of(fabric)
    assert tables.inside.nbytes + tables.outside.nbytes + tables.sets.links.nbytes < 48 * 2**20
    for level in (UP, DOWN):
        assert timeline.link_bytes[tables.level == level].sum() == 200 * 4096
    assert timeline.link_bytes.sum() <= 200 * 4096 * cables


def one_by_one(fabric: Fabric, pairs: list[tuple[int, int]], size: float, routing: str, model: Packet) -> Timeline:
    traffic = Traffic.from_tasks("pairs", fabric.servers, [Transfer(size, *pair) for pair in pairs])
    (timeline,) = model.simulate([place(traffic, fabric, name="pairs", routing=routing)])
    return timeline


@pytest.mark.parametrize("routing", ["minimal", "adaptive_local", "ugal"])  # an idle network has no reason to detour
def test_one_packet_takes_the_closed_form(routing: str) -> None:
    fabric = dragonfly(2, 4, 5, 1)
    model = Packet(size=2048, flit=32, switch_latency=300e-9)
    source, target = 0, fabric.servers - 1
    hops = np.count_nonzero(as_routes(fabric.route).links(*np.array([[source], [target], [0]])) != NO_LINK)
    timeline = one_by_one(fabric, [(source, target)], 2048.0, routing, model)
    expected = 2048 / B + (hops - 1) * (32 / B + 300e-9) + hops * 150e-9
    assert timeline.makespan == pytest.approx(expected, abs=1e-11)


@pytest.mark.parametrize("routing", ["adaptive_local", "ugal"])
def test_an_idle_network_is_crossed_on_the_direct_route(routing: str) -> None:
    fabric = dragonfly(2, 4, 5, 2)
    pairs = [(0, fabric.servers - 1)]
    direct = one_by_one(fabric, pairs, 2048.0, "minimal", Packet(size=2048))
    assert one_by_one(fabric, pairs, 2048.0, routing, Packet(size=2048)).makespan == direct.makespan


@pytest.mark.parametrize(("routing", "most"), [("valiant_group", 7 / 2), ("adaptive_local", 9 / 2), ("ugal", 9 / 2)])
def test_detours_relieve_the_one_cable_between_two_groups(routing: str, most: float) -> None:
    """All 32 servers of a group send to the next of 9 groups: minimal routes have one cable.

    By 7 other groups a cable has 32 / 7 flows of its own group and as many of others, so detours alone are at most 7/2
    times as fast. With d flows that stay direct it has 2 (32 - d) / 7; that is d for d = 64 / 9, which is 9/2.
    """
    fabric = dragonfly(4, 8, 9, 1)
    group = 32
    pairs = [(server, (server + group) % fabric.servers) for server in range(fabric.servers)]
    model = Packet(size=2048, buffer=32768)
    direct = one_by_one(fabric, pairs, 65_536.0, "minimal", model).makespan
    assert direct >= group * 65_536 / B  # all of a group cross one cable
    assert 0.8 * most < direct / one_by_one(fabric, pairs, 65_536.0, routing, model).makespan <= most


def test_what_compares_free_space_stays_direct_until_the_buffer_is_half_full() -> None:
    """Two streams meet on a cable: little is occupied, which is more than twice nothing, but not half the buffer."""
    fabric = dragonfly(2, 2, 3, 1)
    pairs, size = [(0, 4)], 8192.0
    tables = tables_of(fabric)
    far = int(tables.outside[int(tables.router[0]), 2, 0])  # first link of the route by way of the third group
    for compares, around in (("occupied", True), ("free", False)):
        model = Packet(size=2048, buffer=2**20, compares=compares)
        timeline = one_by_one(fabric, pairs, size, "adaptive_local", model)
        assert (timeline.link_bytes[far] > 0) == around


def test_cables_between_two_groups_share_what_is_drawn() -> None:
    fabric = dragonfly(4, 4, 2, 4)
    pairs = [(source, 16 + source) for source in range(16)]
    timeline = one_by_one(fabric, pairs, 2048.0 * 200, "minimal", Packet(size=2048))
    tables = tables_of(fabric)
    over = timeline.link_bytes[(tables.level == GLOBAL) & (tables.source < 4)] / (2048 * 200 * 16)
    assert over == pytest.approx(np.full(4, 0.25), abs=0.03)  # 3,200 draws: 4 standard deviations of a share


@pytest.mark.parametrize(("nic", "window"), [(76e-9, 228_560), (1e-6, 452_560)])
def test_a_window_is_a_flit_and_the_shortest_latency_after_it(nic: float, window: int) -> None:
    """In ps: 2,560 for 32 B, 150 ns of a link, then the NIC of the receiver or 300 ns of a switch or a credit."""
    fabric = dragonfly(1, 2, 3, 1)
    world = place(Traffic.from_tasks("one", 6, [Transfer(1.0, 0, 3)]), fabric, name="one", routing="minimal")
    model = Packet(switch_latency=300e-9, credit_latency=300e-9, nic_latency=nic)
    assert numbers(world, layout_of(world.graph, model, "minimal"), model).window == window


@pytest.mark.parametrize("fidelity", [Fluid(), Bound()])
def test_a_fidelity_that_needs_whole_paths_says_so(fidelity: Any) -> None:
    fabric = dragonfly(1, 2, 3, 1)
    traffic = Traffic.from_tasks("one", fabric.servers, [Transfer(1.0, 0, 3)])
    world = place(traffic, fabric, name="one", routing="ugal")
    assert "routing: must be of whole paths" in (fidelity.refuses(world) or "")


def test_what_cannot_be_is_one_line_with_field_law_and_value() -> None:
    traffic = Traffic.from_tasks("one", 6, [Transfer(1.0, 0, 3)])
    with pytest.raises(ValueError, match=r"^routing: must have paths that the fabric lists .* got leaf_spine"):
        place(traffic, LeafSpine(1e9, 1, 0.0, servers_per_leaf=4).build(16, Demand(16)), name="one", routing="ugal")
    world = place(traffic, dragonfly(1, 2, 3, 1), name="one", routing="valiant_group")
    with pytest.raises(ValueError, match=r"^packet.virtual_channels: must be at least 3 .* got 2"):
        Packet(virtual_channels=2).simulate([world])
    assert (Packet(draws="in_turn").refuses(world) or "").startswith("packet.draws: must be packet or message")
    assert Packet(queues="input").refuses(world) == (
        "packet.queues: must be virtual_output with routing=valiant_group, got input"
    )
    with pytest.raises(ValueError, match=r"^packet.threshold: must be a positive number, got 0"):
        Packet(threshold=0)


def test_worlds_by_paths_and_by_address_share_a_batch() -> None:
    draw = np.random.default_rng(1)
    worlds = [random_world(draw, routing) for routing in ("minimal", "ecmp", "ugal", "spray", "valiant_group")]
    model = Packet(size=2048)
    for world, timeline in zip(worlds, model.simulate(worlds, Run(threads=2)), strict=True):
        (alone,) = model.simulate([world])
        assert timeline.finish.tobytes() == alone.finish.tobytes()
        assert timeline.link_bytes.tobytes() == alone.link_bytes.tobytes()
