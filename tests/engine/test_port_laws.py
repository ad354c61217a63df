"""No collective is faster than the ports of its ranks, whatever its operation and algorithm and wherever its ranks are.

Each rank has a port to the others of its server, and each server has one of ``NETWORK`` B/s to the other servers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import some
from topoflow.collectives.algorithm import CollectiveCall, algorithms
from topoflow.collectives.schedule import SendSchedule
from topoflow.demand import Demand
from topoflow.engine.base import World
from topoflow.engine.fluid import Fluid
from topoflow.engine.lowering.local_ports import slowdowns
from topoflow.engine.lowering.placement import place
from topoflow.fabric.base import Fabric
from topoflow.fabric.ideal_switch import IdealSwitch
from topoflow.operations import ROOTED, bus_factor
from topoflow.traffic.base import Collective, Traffic

RUNS = [(op, name) for name, algorithm in algorithms().items() for op in algorithm.ops]
FLAT = [run for run in RUNS if not algorithms()[run[1]].hierarchical]  # the same sends wherever the ranks are
NETWORK = 1e9  # B/s
LOCALS = (2e7, 1e9, 5e10)  # B/s: the ports inside servers decide, both do, or the network does
CHUNKS = (1, 3, 64)  # of each tree, where the algorithm cuts its buffer
ROUNDING = 1e-9
FEW, ALL = (2, 3, 4, 5, 8), some(range(2, 65), 16)  # ranks
SLOW = pytest.mark.slow


def switch(servers: int) -> Fabric:
    return IdealSwitch(bandwidth=NETWORK, degree=1, latency=0.0).build(servers, Demand(servers))


def world(op: str, name: str, servers: int, local: int, bytes: float, bandwidth: float, rings: str = "steps") -> World:
    root = servers - 1 if op in ROOTED else None
    task = Collective(op, bytes, tuple(range(servers)), root=root, local=local, algorithm=name)
    return place(Traffic.from_tasks("t", servers, (task,), bandwidth), switch(servers), name="world", rings=rings)


def sizes(name: str) -> list[float]:
    """Return buffers that are cut into each of ``CHUNKS``, or any one where the algorithm cuts none."""
    pieces = 2 if algorithms()[name].orders == "trees" else 1
    return [pieces * chunks * 2.0**19 for chunks in CHUNKS] if algorithms()[name].chunks(1.0, 1) else [1e6]


def least(op: str, name: str, servers: int, local: int, bandwidth: float) -> float:
    """Return the least seconds per byte of the buffer, of what must pass the busiest port of each kind."""
    ranks = servers * local
    between = local if op == "all_to_all" else 1  # buffers of a server's ranks that have to leave it
    bounds = [
        bus_factor(op, servers) * between / NETWORK,
        bus_factor(op, ranks) / (bandwidth * (local > 1) + NETWORK * (servers > 1)),  # through both ports of one rank
    ]
    if not algorithms()[name].hierarchical:
        bounds.append(bytes_inside(op, name, servers, local) / bandwidth)
    return max(bounds)


def bytes_inside(op: str, name: str, servers: int, local: int) -> float:
    """Return the bytes that the busiest rank sends, or receives, inside its server."""
    root = (servers - 1) * local if op in ROOTED else None
    chunks = 1 if algorithms()[name].chunks(1.0, 1) else 0
    sends = algorithms()[name].schedule(CollectiveCall(op, np.arange(servers * local)[None], root, chunks))
    inside = sends.share * (sends.source // local == sends.target // local)
    return max(np.bincount(port, weights=inside).max(initial=0.0) for port in (sends.source, sends.target))


def check_places(op: str, name: str, places: list[tuple[int, int]]) -> None:
    """Simulate every place (servers, ranks on each), size, and ``LOCALS`` where there are ports inside servers."""
    points = [
        (servers, local, size, bandwidth)
        for servers, local in places
        for size in sizes(name)
        for bandwidth in (LOCALS if local > 1 else LOCALS[:1])
    ]
    timelines = Fluid().simulate([world(op, name, *point) for point in points])
    for (servers, local, size, bandwidth), timeline in zip(points, timelines, strict=True):
        bound = least(op, name, servers, local, bandwidth) * size
        assert timeline.makespan >= bound * (1 - ROUNDING), (servers, local, size, bandwidth)


@pytest.mark.parametrize("ranks", [FEW, pytest.param(ALL, marks=SLOW)], ids=["few", "all"])
@pytest.mark.parametrize(("op", "name"), RUNS)
def test_no_collective_inside_a_server_is_faster_than_its_busiest_port(op: str, name: str, ranks) -> None:
    check_places(op, name, [(1, local) for local in ranks])


@pytest.mark.parametrize("ranks", [FEW, pytest.param(ALL, marks=SLOW)], ids=["few", "all"])
@pytest.mark.parametrize(("op", "name"), RUNS)
def test_no_collective_between_servers_is_faster_than_its_busiest_port(op: str, name: str, ranks) -> None:
    check_places(op, name, [(servers, 1) for servers in ranks])


@pytest.mark.parametrize("most", [8, pytest.param(64, marks=SLOW)])
@pytest.mark.parametrize(("op", "name"), RUNS)
def test_no_collective_in_and_between_servers_is_faster_than_its_busiest_port(op: str, name: str, most: int) -> None:
    check_places(op, name, list(shared(most)))


def shared(most: int) -> Iterator[tuple[int, int]]:
    """Yield (servers, ranks on each), several of both, that are at most ``most`` ranks."""
    yield from ((servers, local) for servers in range(2, most) for local in range(2, most // servers + 1))


def compared(op: str, name: str, size: float, ranks: Iterable[int]) -> list[float]:
    """Return how many times as long each collective takes inside a server as on a switch with the same ports."""
    inside = Fluid().simulate([world(op, name, 1, n, size, NETWORK) for n in ranks])
    between = Fluid().simulate([world(op, name, n, 1, size, NETWORK) for n in ranks])
    return [here.makespan / there.makespan for here, there in zip(inside, between, strict=True)]


@pytest.mark.parametrize("ranks", [FEW, pytest.param(ALL, marks=SLOW)], ids=["few", "all"])
@pytest.mark.parametrize(("op", "name"), [run for run in FLAT if run[1] != "double_binary_tree"])
def test_a_collective_inside_a_server_takes_as_long_as_on_a_switch_with_the_same_ports(op, name, ranks) -> None:
    for size in sizes(name):
        assert compared(op, name, size, ranks) == pytest.approx([1.0] * len(ranks), rel=ROUNDING)


@pytest.mark.parametrize("ranks", [FEW, pytest.param(ALL, marks=SLOW)], ids=["few", "all"])
@pytest.mark.parametrize(("chunks", "most"), [(1, 3.0), (4, 1.91), (16, 1.39), (64, 1.12)])
def test_trees_inside_a_server_are_no_faster_than_on_a_switch_and_little_slower_in_many_chunks(
    chunks: int, most: float, ranks
) -> None:
    """A tree's edges share a port at all times here; on a switch, while they send: the more chunks, the more alike."""
    ratios = compared("all_reduce", "double_binary_tree", 2 * chunks * 2.0**19, ranks)
    assert 1 - ROUNDING <= min(ratios) <= max(ratios) <= most + ROUNDING


@pytest.mark.parametrize("local", FEW)
@pytest.mark.parametrize(("op", "name"), [run for run in RUNS if algorithms()[run[1]].streams])
def test_rings_as_flows_inside_a_server_take_as_long_as_in_steps(op: str, name: str, local: int) -> None:
    steps, flows = (world(op, name, 1, local, 1e6, NETWORK, rings) for rings in ("steps", "flows"))
    timelines = Fluid().simulate([steps, flows])
    assert timelines[0].makespan == pytest.approx(timelines[1].makespan, rel=1e-12)


@st.composite
def schedules(draw: st.DrawFn) -> tuple[SendSchedule, np.ndarray, np.ndarray]:
    """Draw any sends with any dependencies, the size of each, and which of them are inside a server."""
    ranks, count = draw(st.integers(2, 6)), draw(st.integers(1, 25))
    source = np.array(draw(st.lists(st.integers(0, ranks - 1), min_size=count, max_size=count)))
    hop = np.array(draw(st.lists(st.integers(1, ranks - 1), min_size=count, max_size=count)))
    after = [sorted(draw(st.sets(st.integers(0, send - 1), max_size=3))) if send else [] for send in range(count)]
    size = draw(st.lists(st.sampled_from([1.0, 2.5, 1e-3, 70.0]), min_size=count, max_size=count))
    inside = draw(st.lists(st.booleans(), min_size=count, max_size=count))
    sends = SendSchedule(
        parts=1,
        source=source,
        target=(source + hop) % ranks,
        first=np.zeros(count, np.int64),
        count=np.ones(count, np.int64),
        reduce=np.zeros(count, np.bool_),
        channel=np.zeros(count, np.int64),
        after_offsets=np.cumsum([0, *map(len, after)]),
        after=np.array([earlier for row in after for earlier in row], np.int64),
    )
    return sends, np.array(size), np.array(inside)


def check_ports(sends: SendSchedule, size: np.ndarray, inside: np.ndarray) -> None:
    """Run ``sends`` as early as they can over ports of 1 B/s; those between servers take 1 s per byte alone."""
    slowdown = slowdowns(sends, inside)
    start, finish = np.zeros(len(size)), np.zeros(len(size))
    for send in range(len(size)):
        earlier = sends.after[sends.after_offsets[send] : sends.after_offsets[send + 1]]
        start[send] = finish[earlier].max(initial=0.0)
        finish[send] = start[send] + size[send] * (slowdown[send] if inside[send] else 1.0)
    for time in start:  # the rates of a port rise only where one of its sends starts
        runs = inside & (start <= time) & (finish > time)
        for port in (sends.source, sends.target):
            assert np.bincount(port[runs], weights=1 / slowdown[runs]).max(initial=0.0) <= 1 + ROUNDING


@given(schedules())
@settings(max_examples=200)
def test_no_port_inside_a_server_carries_more_than_its_bandwidth_whatever_waits_for_what(drawn) -> None:
    check_ports(*drawn)


@pytest.mark.slow
@given(schedules())
@settings(max_examples=2400)
def test_of_many_schedules_none_has_a_port_that_carries_more_than_its_bandwidth(drawn) -> None:
    check_ports(*drawn)
