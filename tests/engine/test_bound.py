"""The bound: never above fluid, equal to it where nothing is shared, and the same for any graph, device and thread."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from tests.twins.bound import bound as twin
from topoflow import _C
from topoflow.collectives.algorithm import algorithms
from topoflow.engine import bound
from topoflow.engine.base import Run, World
from topoflow.engine.bound import Bound
from topoflow.engine.device import DeviceMemory
from topoflow.engine.lowering.placement import place
from topoflow.fabric.fat_tree import FatTree
from topoflow.study.builder import Builder
from topoflow.study.configure.grid import grid
from topoflow.study.configure.keys import check
from topoflow.traffic.base import Collective, Compute, Traffic

LAW = settings(max_examples=60)

capacities = st.one_of(st.sampled_from([1e9, 2e9, 12.5e9]), st.floats(1e6, 1e12))
sizes = st.one_of(st.sampled_from([0.0, 1.0, 1e6, 1e9]), st.floats(1.0, 1e12))
seconds = st.one_of(st.sampled_from([0.0, 1e-6, 1e-3]), st.floats(0.0, 1.0))
weights = st.one_of(st.sampled_from([1.0, 0.5]), st.floats(0.01, 1.0))


@st.composite
def worlds(draw, make_world):
    """Tasks of every kind with weights, limits, start times, each after any of the earlier ones."""
    links = draw(st.integers(1, 6))
    tasks = []
    for index in range(draw(st.integers(1, 20))):
        task = {"delay": draw(seconds), "release": draw(seconds)}
        if index:
            task["after"] = draw(st.lists(st.integers(0, index - 1), max_size=3, unique=True))
        if draw(st.booleans()):
            path = draw(st.lists(st.integers(0, links - 1), max_size=4, unique=True))
            task |= {"path": path, "bytes": draw(sizes), "weight": [draw(weights) for _ in path]}
            task["limit"] = draw(st.one_of(st.just(np.inf), capacities)) if path else np.inf
        tasks.append(task)
    capacity = draw(st.lists(capacities, min_size=links, max_size=links))
    return make_world(tasks, capacity, draw(st.lists(seconds, min_size=links, max_size=links)))


def loads(world: World) -> float:
    """Bytes over each link / its capacity, summed over all links."""
    carried = Bound().simulate([world])[0].link_bytes
    return float((carried / world.capacity).sum())


@LAW
@given(data=st.data())
def test_fluid_is_never_faster_than_the_bound(data, run, make_world):
    world = data.draw(worlds(make_world))
    assert run(world).makespan >= Bound().simulate([world])[0].makespan * (1 - 1e-9)


@LAW
@given(data=st.data())
def test_fluid_takes_at_most_the_critical_path_and_every_link_for_itself(data, run, make_world):
    # While the chain that ends last does not advance as if alone, its flow has a link that is full; a link is full for
    # at most bytes / capacity.
    world = data.draw(worlds(make_world))
    critical = Bound().simulate([world])[0].finish.max()
    assert run(world).makespan <= (critical + loads(world)) * (1 + 1e-9)


@LAW
@given(data=st.data())
def test_the_bound_is_fluid_where_no_two_transfers_share_a_link_at_a_time(data, run, make_world):
    # Each transfer has links of its own, or waits for all that came before.
    world = data.draw(worlds(make_world))
    graph, links = world.graph, world.graph.links
    paths = len(graph.path_offsets) - 1
    owner = np.repeat(np.arange(paths), np.diff(graph.path_offsets))
    separate = replace(
        graph, path_links=(graph.path_links + links * owner).astype(np.int32), links=links * max(paths, 1)
    )
    copies = max(paths, 1)
    alone = World("apart", separate, np.tile(world.capacity, copies), np.tile(world.latency, copies))
    order = np.arange(graph.tasks)
    chain = replace(
        graph, after_offsets=np.maximum(np.arange(graph.tasks + 1) - 1, 0), after=order[:-1].astype(np.int32)
    )
    for variant in (alone, replace(world, graph=chain)):
        expected, timeline = run(variant), Bound().simulate([variant])[0]
        np.testing.assert_allclose(timeline.finish, expected.finish, rtol=1e-9)
        np.testing.assert_allclose(timeline.makespan, expected.makespan, rtol=1e-9)


@LAW
@given(data=st.data())
def test_the_kernel_agrees_with_the_twin(data, device, make_world):
    world = data.draw(worlds(make_world))
    start, finish, makespan = twin(world)
    timeline = Bound().simulate([world], Run(DeviceMemory.named(device)))[0]
    np.testing.assert_allclose(timeline.start, start, rtol=1e-12)
    np.testing.assert_allclose(timeline.finish, finish, rtol=1e-12)
    np.testing.assert_allclose(timeline.makespan, makespan, rtol=1e-12)
    np.testing.assert_allclose(bound.makespans(world.graph, world.capacity[None], world.latency[None]), makespan, 1e-12)


@pytest.mark.parametrize(
    ("tasks", "capacity", "seconds"),
    [
        # The examples of csrc/bound/bound.h. 100 B and 300 B over one link of 100 B/s: 400 B / 100 B/s.
        ([{"path": [0], "bytes": 100}, {"path": [0], "bytes": 300}], [100], 4),
        # The same after 1 s of compute: 1 + 4.
        ([{"delay": 1}, *[{"path": [0], "bytes": size, "after": [0]} for size in (100, 300)]], [100], 5),
        # 100 B over one link, then 300 B over another: 1 + 3.
        ([{"path": [0], "bytes": 100}, {"path": [1], "bytes": 300, "after": [0]}], [100, 100], 4),
        # 100 B of which half cross a link of 25 B/s; alone they may have 50 B/s, but the limit is 40 B/s.
        ([{"path": [0], "bytes": 100, "weight": [0.5], "limit": 40}], [25], 2.5),
        # Nothing to do.
        ([], [1], 0),
    ],
)
def test_small_worlds_by_hand(tasks, capacity, seconds, make_world, device):
    (timeline,) = Bound().simulate([make_world(tasks, capacity)], Run(DeviceMemory.named(device)))
    assert timeline.makespan == pytest.approx(seconds, rel=1e-12)


def collective(op: str, algorithm: str, servers: int = 8) -> World:
    """One collective after the other, behind a compute."""
    root = 0 if op in ("broadcast", "reduce", "gather", "scatter") else None
    group = tuple(range(servers))
    both = [Collective(op, size, group, (k,), root=root, algorithm=algorithm) for k, size in enumerate((1e6, 2e7))]
    traffic = Traffic.from_tasks("job", servers, (Compute(1e-3, 3), *both), local_bandwidth=300e9)
    fabric = FatTree(bandwidth=12.5e9, degree=1, latency=1e-6).build(servers, traffic.demand())
    return place(traffic, fabric, name=f"{op} {algorithm}")


def nearby(world: World, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Links of worlds that differ in every number, [W, L] capacities and latencies."""
    random = np.random.default_rng(0)
    factors = 1 + random.random((2, count, world.graph.links))
    return world.capacity * factors[0], world.latency * factors[1]


def test_times_of_tasks_are_computed_when_they_are_read(monkeypatch):
    world, kernel, calls = collective("all_reduce", "ring"), _C.bound, []
    monkeypatch.setattr(_C, "bound", lambda arrays, *how: calls.append(len(arrays["start"])) or kernel(arrays, *how))
    (timeline,) = Bound().simulate([world])
    assert timeline.finish.max() == timeline.task_finish.max() <= timeline.makespan * (1 + 1e-12)
    assert timeline.start[0] == timeline.task_start[0] == 0
    assert calls == [0, world.graph.tasks]


@pytest.mark.parametrize(("op", "algorithm"), [(op, name) for name, one in algorithms().items() for op in one.ops])
def test_folding_does_not_change_the_bound(op, algorithm, device):
    world = collective(op, algorithm)
    worlds = [World("w", world.graph, *links) for links in zip(*nearby(world, 3), strict=True)]
    for timeline, one in zip(Bound().simulate(worlds, Run(DeviceMemory.named(device))), worlds, strict=True):
        assert timeline.makespan == pytest.approx(twin(one)[2], rel=1e-12)
        alone = Bound().simulate([one])[0]  # the twin knows no blocks: their tasks start and end with them
        np.testing.assert_array_equal(timeline.start, alone.start)
        np.testing.assert_array_equal(timeline.finish, alone.finish)


def test_a_ring_is_one_node_between_its_joins():
    # A compute, and for each of two all-reduces: a join, 14 steps of 8 sends as one node, a join.
    world = collective("all_reduce", "ring")
    arrays = bound.condense(world.graph).arrays
    assert len(arrays["node_cost"]) == 1 + 2 * 3
    assert set(arrays["steps"]) == {14}


def test_rings_of_a_job_are_one_node_each_between_the_times_inside_its_servers():
    (point,) = Builder().build(grid(["workload=dlrm", "servers=8", "fabric=fat_tree"], check))
    (case,) = point.cases
    world = World("dlrm", case.world.graph, *(links[0] for links in nearby(case.world, 1)))
    arrays = bound.condense(world.graph).arrays
    rings = np.count_nonzero(case.job.traffic.is_collective)
    assert rings > 1
    assert set(arrays["steps"]) == {14}
    # Before and after a ring: a time inside the servers, and a join.
    assert len(arrays["node_cost"]) == len(case.job.traffic) + 4 * rings
    makespans = bound.makespans(world.graph, world.capacity[None], world.latency[None])
    assert makespans[0] == pytest.approx(twin(world)[2], 1e-12)


@pytest.mark.parametrize("change", ["start time", "awaited from outside", "waits for outside", "a slower send"])
def test_what_is_no_ring_any_more_is_not_folded(change):
    world = collective("all_reduce", "ring")
    graph = world.graph
    inside = 1 + 1 + 20  # the compute, the first join, a send of the third step
    if change == "start time":
        graph = replace(graph, release=np.where(np.arange(graph.tasks) == inside, 1e-3, graph.release))
    elif change == "a slower send":
        graph = replace(graph, delay=np.where(np.arange(graph.tasks) == inside, 1e-4, graph.delay))
    else:
        last, waits = graph.tasks - 1, change == "waits for outside"
        waiter, awaited = (inside, 0) if waits else (last, inside)
        at = int(graph.after_offsets[waiter])
        after_offsets = graph.after_offsets + (np.arange(graph.tasks + 1) > waiter)
        graph = replace(graph, after=np.insert(graph.after, at, awaited), after_offsets=after_offsets)
    makespans = bound.makespans(graph, world.capacity[None], world.latency[None])
    assert makespans[0] == pytest.approx(twin(replace(world, graph=graph))[2], rel=1e-12)
    assert len(bound.condense(graph).arrays["node_cost"]) > 1 + 2 * 3


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 40])
def test_worlds_side_by_side_do_not_see_each_other(count):
    world = collective("all_reduce", "halving_doubling")
    capacity, latency = nearby(world, 40)
    condensed = bound.condense(world.graph)
    makespans = bound.makespans(condensed, capacity[:count], latency[:count], threads=2)
    alone = [bound.makespans(condensed, capacity[k : k + 1], latency[k : k + 1], threads=1)[0] for k in range(count)]
    assert makespans.tolist() == alone


def test_timelines_come_in_the_order_of_the_worlds(watching):
    all_reduce, all_to_all = collective("all_reduce", "ring"), collective("all_to_all", "direct")
    mixed = [all_reduce, all_to_all, replace(all_reduce, name="slower", capacity=all_reduce.capacity / 2)]
    timelines = bound.Bound().simulate(mixed, Run(threads=2, observer=watching))
    assert [timeline.name for timeline in timelines] == [world.name for world in mixed]
    assert [timeline.makespan for timeline in timelines] == [Bound().simulate([world])[0].makespan for world in mixed]
    assert watching.advances == [(2, 3), (3, 3)]
    assert Bound().simulate([]) == []


def test_a_batch_cut_into_pieces_gives_the_same_answer(monkeypatch):
    world = collective("all_reduce", "ring")
    batch = [replace(world, capacity=capacity) for capacity in nearby(world, 5)[0]]
    uncut = Bound().simulate(batch)
    monkeypatch.setattr(DeviceMemory, "memory", 2 * 16 * world.graph.tasks)
    assert [timeline.makespan for timeline in Bound().simulate(batch)] == [timeline.makespan for timeline in uncut]


def test_graphs_that_cannot_be_written_to_are_fine(make_world):
    world = make_world([{"path": [0], "bytes": 100, "weight": [0.5], "limit": 40}], [25])
    for array in (world.capacity, world.graph.release, world.graph.path_weight, world.graph.path_limit):
        array.setflags(write=False)
    assert Bound().simulate([world])[0].makespan == bound.makespans(world.graph, world.capacity[None])[0] == 2.5


def test_a_world_without_bandwidth_is_named_and_takes_for_ever_in_a_sweep(make_world):
    world = make_world([{}, {"path": [0], "bytes": 1, "after": [0]}, {"after": [1]}], [0], name="dead")
    with pytest.raises(ValueError, match=r"^dead: every flow must get bandwidth, got none for task 1$"):
        Bound().simulate([world])
    assert bound.makespans(world.graph, np.array([[0.0], [2.0]])).tolist() == [np.inf, 0.5]


def test_a_task_that_waits_for_a_later_one_is_refused_by_name(make_world):
    world = make_world([{"after": [1]}, {}], [], name="circle")
    with pytest.raises(ValueError, match=r"^circle\.after: must name earlier tasks, got task 0 after task 1$"):
        Bound().simulate([world])


FAULTS = (
    "none",
    "also waits for outside",
    "waits for outside alone",
    "waits for one of the row",
    "awaited from outside",
)


@st.composite
def nearly_rings(draw, make_world):
    """Times in a row, a ring of a few kinds of sends, and times in a row, once or more; one send may be at fault."""
    links, tasks = 4, []

    def add(owner, after, **task):
        tasks.append({**task, "owner": owner, "after": sorted(after)})
        return len(tasks) - 1

    outside, last = add(0, [], delay=draw(st.sampled_from([1e-3, 1.0, 1e3, 1e6]))), []
    fault, wrong = draw(st.sampled_from(FAULTS)), draw(st.integers(0, 11))
    for owner in range(1, 1 + draw(st.integers(1, 3))):
        places, times, first = draw(st.integers(2, 4)), draw(st.integers(1, 3)), len(tasks)
        for _ in range(times):
            last = [add(owner, last, delay=draw(seconds))]
        row = last * places
        kinds = [{"path": [draw(st.integers(0, links - 1))], "bytes": draw(sizes)} for _ in range(places)]
        for _ in range(draw(st.integers(1, 4))):
            waits = [{row[at], row[at - 1]} for at in range(places)]
            at = wrong - (len(tasks) - first - times)
            if 0 <= at < places and fault in FAULTS[1:4]:
                waits[at] = (waits[at] | {outside}, {outside}, {row[0]})[FAULTS.index(fault) - 1]
            row = [add(owner, after, **kind) for after, kind in zip(waits, kinds, strict=True)]
        for _ in range(times):
            row = [add(owner, row, delay=draw(seconds))]
        last = row
        if fault == FAULTS[4]:
            add(100 + owner, [first + times + wrong % places], delay=draw(seconds))
    capacity = draw(st.lists(capacities, min_size=links, max_size=links))
    world = make_world(tasks, capacity, draw(st.lists(seconds, min_size=links, max_size=links)))
    over = world.graph.path_links  # one link each: tasks over the same share the first such path
    first = {int(link): path for path, link in reversed([*enumerate(over)])}
    shared = [-1 if path < 0 else first[int(over[path])] for path in world.graph.path]
    return replace(world, graph=replace(world.graph, path=np.array(shared, np.int32)))


@settings(max_examples=300)
@given(data=st.data())
def test_collapsing_changes_no_bound_of_what_is_a_ring_or_nearly_one(data, make_world):
    world = data.draw(nearly_rings(make_world))
    makespans = bound.makespans(world.graph, world.capacity[None], world.latency[None])
    assert makespans[0] == pytest.approx(twin(world)[2], rel=1e-12)
    event("steps of rings that are one node", str(bound.condense(world.graph).arrays["steps"].tolist()))
