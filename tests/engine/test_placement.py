"""Traffic on a fabric: closed forms of every algorithm, compute in order, and paths by hash."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.twins.fluid import simulate
from topoflow.collectives.algorithm import algorithms, names
from topoflow.demand import Demand
from topoflow.engine.base import Timeline
from topoflow.engine.lowering.placement import place
from topoflow.fabric.base import Channels, Fabric
from topoflow.fabric.ring import Ring
from topoflow.traffic.base import Collective, Compute, Label, Operation, Subflow, Task, Traffic, Transfer
from topoflow.traffic.columns import Columns

B, A, S = 50e9, 1e-6, 1e6  # B/s of every link, s from server to server, bytes


def switch(servers: int, rings: dict[tuple[int, ...], tuple[tuple[int, ...], ...]] | None = None) -> Fabric:
    """One non-blocking switch: links 0..n-1 up, n..2n-1 down, half of ``A`` each."""
    up, hub = list(range(servers)), [servers] * servers
    return Fabric(
        name="switch",
        servers=servers,
        nodes=(*(f"server {node}" for node in up), "switch"),
        source=np.array(up + hub, np.int32),
        target=np.array(hub + up, np.int32),
        bandwidth=np.full(2 * servers, B),
        latency=np.full(2 * servers, A / 2),
        route=lambda source, target: ((source, servers + target),),
        degree=1,
        interface_bandwidth=B,
        channels=Channels(rings or {}),
    )


def circle(servers: int) -> Fabric:
    """Server i has one link, to server i + 1."""
    return Ring(bandwidth=B, degree=1, latency=A).build(servers, Demand(servers))


def planes(count: int) -> Fabric:
    """Two servers and ``count`` parallel links from the first to the second, all equally good."""
    return Fabric(
        name="planes",
        servers=2,
        nodes=("a", "b"),
        source=np.zeros(count, np.int32),
        target=np.ones(count, np.int32),
        bandwidth=np.full(count, B),
        latency=np.full(count, A),
        route=lambda source, target: tuple((link,) for link in range(count)),
        degree=count,
        interface_bandwidth=B,
    )


def run(fabric: Fabric, *tasks: Task, local_bandwidth: float = math.inf, all_reduce: str = "ring") -> Timeline:
    traffic = Traffic.from_tasks("traffic", fabric.servers, tasks, local_bandwidth)
    return simulate(place(traffic, fabric, name="world", all_reduce=all_reduce))


def collective(op: str, servers: int, **fields: object) -> Collective:
    return Collective(**{"op": op, "bytes": S, "group": tuple(range(servers)), **fields})


@pytest.mark.parametrize("fabric", [switch, circle])
@pytest.mark.parametrize("n", [2, 3, 8])
@pytest.mark.parametrize(("op", "rounds"), [("all_reduce", 2), ("all_gather", 1), ("reduce_scatter", 1)])
def test_a_ring_takes_its_steps_times_latency_and_a_chunk(op: str, rounds: int, n: int, fabric) -> None:
    # 1 or 2 times n-1 steps, S/n bytes each: n = 2: 2 * (1 us + 0.5 MB / 50 GB/s = 10 us) = 22 us
    seconds = rounds * (n - 1) * (A + S / n / B)
    assert run(fabric(n), collective(op, n)).makespan == pytest.approx(seconds, rel=1e-9)


@pytest.mark.parametrize("n", [2, 4, 16])
def test_halving_doubling_takes_two_log_n_latencies(n: int) -> None:
    # halves: S/2 + S/4 + ... + S/n = (n-1)/n S, and back
    seconds = 2 * math.log2(n) * A + 2 * (n - 1) / n * S / B
    assert run(switch(n), collective("all_reduce", n), all_reduce="halving_doubling").makespan == pytest.approx(seconds)


@pytest.mark.parametrize(("n", "power"), [(3, 2), (6, 4), (7, 4)])
def test_halving_doubling_folds_what_exceeds_a_power_of_two(n: int, power: int) -> None:
    # as among the 2^k ranks, and all of S to the neighbour before and back after
    seconds = 2 * math.log2(power) * A + 2 * (power - 1) / power * S / B + 2 * (A + S / B)
    assert run(switch(n), collective("all_reduce", n), all_reduce="halving_doubling").makespan == pytest.approx(seconds)


def test_a_double_binary_tree_among_two_is_two_exchanges() -> None:
    # 0 > 1 in one tree, 1 > 0 in the other, S/2 each at the same time, and back: 2 (1 us + 10 us)
    timeline = run(switch(2), collective("all_reduce", 2, algorithm="double_binary_tree"))
    assert timeline.makespan == pytest.approx(22e-6)


def test_a_double_binary_tree_among_three_shares_the_port_of_the_rank_inside() -> None:
    # trees 0 < 2 < 1 and (renamed r + 1) 1 < 0 < 2; S/2 = 0.5 MB in one chunk each.
    # up: 1>2 and 2>0, 10 us + 1 us each; then 2>0 and 0>1, another 11 us; down: 0>2 and 1>0; 2>1 and 0>2
    timeline = run(switch(3), collective("all_reduce", 3, algorithm="double_binary_tree"))
    assert timeline.makespan == pytest.approx(4 * 11e-6)


def test_trees_are_pipelined_in_chunks_of_512_kib() -> None:
    assert [algorithms()["chain"].chunks(size, 1) for size in (0, 1, 2**19, 2**19 + 1, 2**30)] == [1, 1, 1, 2, 64]


def test_the_two_trees_of_an_all_reduce_are_cut_as_if_it_were_alone() -> None:
    # 32 MiB are 32 chunks of 512 KiB in each of two trees, 64 MiB are 64: 2 ranks send each chunk up and down
    sizes = (2**25, 2**26)
    tasks = tuple(collective("all_reduce", 2, bytes=size, algorithm="double_binary_tree") for size in sizes)
    graph = place(Traffic.from_tasks("t", 2, tasks), switch(2), name="world").graph
    assert np.bincount(graph.owner).tolist() == [2 * 2 * 32 + 2, 2 * 2 * 64 + 2]


@pytest.mark.parametrize("op", ["broadcast", "reduce"])
@pytest.mark.parametrize("n", [2, 3, 9])
def test_a_chain_takes_its_hops_and_chunks(op: str, n: int) -> None:
    # 10 MiB in 20 chunks: the last chunk starts after 19 others and passes n-1 hops
    size = 20 * 2**19
    timeline = run(switch(n), collective(op, n, bytes=size, root=n - 1))
    assert timeline.makespan == pytest.approx((n - 2 + 20) * (A + size / 20 / B))


@pytest.mark.parametrize("op", ["all_to_all", "gather", "scatter"])
def test_direct_sends_take_one_latency_and_fill_the_port(op: str) -> None:
    # 7 sends of S/8 share one port: 1 us + 0.875 MB / 50 GB/s = 18.5 us
    root = None if op == "all_to_all" else 3
    assert run(switch(8), collective(op, 8, root=root)).makespan == pytest.approx(18.5e-6)


def test_splits_replace_the_size_of_an_all_to_all_and_nothing_is_sent_for_zero() -> None:
    # 0 sends 2 MB and 1 MB through its port: the smaller is done after 2 MB at half speed: 1 + 40 us,
    # the larger 1 MB later: 61 us. Rank 2 sends nothing; what rank 1 keeps is not sent.
    splits = ((0.0, 2e6, 1e6), (0.0, 5e6, 0.0), (0.0, 0.0, 0.0))
    timeline = run(switch(3), collective("all_to_all", 3, splits=splits))
    assert timeline.makespan == pytest.approx(61e-6)
    assert timeline.link_bytes.tolist() == [3e6, 0, 0, 0, 2e6, 1e6]


@pytest.mark.parametrize("op", ["all_reduce", "all_gather", "all_to_all", "broadcast"])
@pytest.mark.parametrize(("n", "size"), [(1, S), (4, 0.0)])
def test_nothing_moves_in_a_group_of_one_or_without_bytes(op: str, n: int, size: float) -> None:
    timeline = run(switch(4), collective(op, n, bytes=size, root=0 if op == "broadcast" else None))
    assert timeline.makespan == 0
    assert timeline.link_bytes.sum() == 0


def test_several_rings_share_the_buffer() -> None:
    # Two opposite rings over 4 servers, each S/2; each port carries both: the time of one ring with S, same latency.
    group = (0, 1, 2, 3)
    timeline = run(switch(4, {group: (group, (0, 3, 2, 1))}), collective("all_reduce", 4))
    assert timeline.makespan == pytest.approx(6 * (A + S / 4 / B))
    np.testing.assert_allclose(timeline.link_bytes, 6 * S / 4)


def test_a_ring_follows_the_order_built_for_its_group() -> None:
    group = (0, 1, 2, 3)
    world = place(
        Traffic.from_tasks("t", 4, (collective("all_reduce", 4),)), switch(4, {group: ((0, 2, 1, 3),)}), name="world"
    )
    hops = set(zip(world.graph.path_links[::2].tolist(), (world.graph.path_links[1::2] - 4).tolist(), strict=True))
    assert hops == {(0, 2), (2, 1), (1, 3), (3, 0)}


def test_hierarchical_reduces_inside_then_between_then_gathers_inside() -> None:
    # 3 servers with 4 members at 200 GB/s: inside 3/4 MB / 200 GB/s = 3.75 us, between 4 (1 us + 1/3 MB / 50 GB/s)
    task = collective("all_reduce", 3, local=4)
    timeline = run(switch(3), task, local_bandwidth=200e9, all_reduce="hierarchical")
    assert timeline.makespan == pytest.approx(2 * 3.75e-6 + 4 * (A + S / 3 / B))
    inside_once = {"reduce_scatter": 1, "all_gather": 1, "all_reduce": 2}
    for op, times in inside_once.items():
        alone = run(switch(1), collective(op, 1, local=4, algorithm="hierarchical"), local_bandwidth=200e9)
        assert alone.makespan == pytest.approx(times * 3.75e-6)


def queued(
    fabric: Fabric, tasks: list[Collective], ready: list[float], algorithm: str, rings: str, ranks: int | None = None
) -> Timeline:
    """Collectives on one communicator, each of what is computed at that time."""
    columns, earlier = Columns(), np.array([-1])
    for number, (bucket, seconds) in enumerate(zip(tasks, ready, strict=True)):
        delay = columns.compute(Label(f"delay {number}"), np.array([-1]), seconds)
        row = columns.row(Operation.of(bucket))
        task = columns.collective(Label(f"bucket {number}"), np.array([row]), bucket.bytes)
        columns.wait(task, delay)
        columns.queue(task, earlier)
        earlier = task
    traffic = columns.traffic("queue", fabric.servers, 200e9, ranks)
    assert traffic.queued == {2 * number + 1: 2 * number - 1 for number in range(1, len(tasks))}
    return simulate(place(traffic, fabric, name="world", all_reduce=algorithm, rings=rings))


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["all_reduce", "reduce_scatter", "all_gather"]), st.floats(1e3, 1e8), st.floats(0, 1e-3)
        ),
        min_size=1,
        max_size=5,
    ),
    st.sampled_from([1, 4]),
    st.sampled_from([1, 2, 3]),
    st.sampled_from([1, 3]),
    st.sampled_from(["steps", "flows"]),
)
def test_phases_of_queued_collectives_overlap_and_each_phase_is_in_order(
    buckets: list[tuple[str, float, float]], local: int, side_by_side: int, servers: int, rings: str
) -> None:
    """Each phase begins when the bucket, and the same phase of the bucket before, have come so far.

    Of groups side by side the network carries the bytes of all, and a server's GPUs those of one each.
    """
    inside = between = after = 0.0
    for op, size, seconds in buckets:
        half = (local - 1) / local * size / side_by_side / 200e9
        before, behind = half * (op != "all_gather"), half * (op != "reduce_scatter")
        network = (1 + (op == "all_reduce")) * (servers - 1) * (A + size / servers / B)
        if servers == 1:  # both phases are inside the same server
            after = max(seconds, after) + before + behind
        else:
            inside = max(seconds, inside) + before
            between = max(inside, between) + network
            after = max(between, after) + behind
    tasks = [collective(op, servers, bytes=size, local=local) for op, size, _ in buckets]
    ready = [seconds for _, _, seconds in buckets]
    timeline = queued(switch(servers), tasks, ready, "hierarchical", rings, local * side_by_side)
    assert timeline.makespan == pytest.approx(after, rel=1e-9)


@pytest.mark.parametrize("algorithm", ["ring", "halving_doubling", "double_binary_tree"])
def test_queued_all_reduces_without_phases_run_one_after_another(algorithm: str) -> None:
    one = collective("all_reduce", 4)
    alone = queued(switch(4), [one], [0.0], algorithm, "steps").makespan
    assert queued(switch(4), [one] * 3, [0.0] * 3, algorithm, "steps").makespan == pytest.approx(3 * alone)


@pytest.mark.parametrize("algorithm", ["ring", "hierarchical", "halving_doubling", "double_binary_tree"])
def test_groups_side_by_side_reduce_inside_and_then_by_the_algorithm(algorithm: str) -> None:
    # 2 groups of 4 members on each of 4 servers: 2 * 3/4 S / 200 GB/s inside, 2 S among 4 ranks between
    both = collective("all_reduce", 4, bytes=2 * S, local=4)
    between = run(switch(4), collective("all_reduce", 4, bytes=2 * S), all_reduce=algorithm)
    traffic = replace(Traffic.from_tasks("t", 4, [both], 200e9), ranks_per_server=8)
    timeline = simulate(place(traffic, switch(4), name="world", all_reduce=algorithm))
    if algorithm != "double_binary_tree":  # cuts each group's part into chunks
        assert timeline.makespan == pytest.approx(between.makespan + 2 * 3 / 4 * S / 200e9, rel=1e-9)
    np.testing.assert_allclose(timeline.link_bytes, between.link_bytes, rtol=1e-9)


@pytest.mark.parametrize("algorithm", names("all_reduce"))
def test_ranks_of_one_server_reduce_inside_it_by_any_algorithm(algorithm: str) -> None:
    traffic = replace(Traffic.from_tasks("t", 1, [collective("all_reduce", 1, local=4)], 200e9), ranks_per_server=4)
    timeline = simulate(place(traffic, switch(1), name="world", all_reduce=algorithm))
    assert timeline.makespan == pytest.approx(2 * 3 / 4 * S / 200e9)


def test_a_collective_is_queued_after_one_that_it_waits_for() -> None:
    tasks = [collective("all_reduce", 2), collective("all_reduce", 2, after=(0,)), collective("all_reduce", 2)]
    traffic = Traffic.from_tasks("t", 2, tasks)
    assert replace(traffic, queued={1: 0}).queued == {1: 0}
    with pytest.raises(ValueError, match=r"^task 2\.queued: must be a collective that it waits for, got 0$"):
        replace(traffic, queued={2: 0})
    for missing in (-1, 3):  # task 0 waits for nothing, and there is no task 3
        with pytest.raises(ValueError, match=rf"^task 1\.queued: .* got {missing}$"):
            replace(traffic, queued={1: missing})


def test_a_flat_ring_passes_through_all_members_of_a_server() -> None:
    # 2 servers x 3 members: 2 (6-1) steps of S/6; the hop between servers, 1 us + S/6/B, is slower than the one inside
    timeline = run(switch(2), collective("all_reduce", 2, local=3), local_bandwidth=1e12)
    assert timeline.makespan == pytest.approx(10 * (A + S / 6 / B))
    np.testing.assert_allclose(timeline.link_bytes, 10 * S / 6)


def test_the_rings_of_a_server_share_the_local_port() -> None:
    # 4 members of one server, 2 rings with half of S each at the same time: as one ring, 6 S/4 at 200 GB/s
    one = run(switch(1), collective("all_reduce", 1, local=4), local_bandwidth=200e9)
    two = run(switch(1, {(0,): ((0,), (0,))}), collective("all_reduce", 1, local=4), local_bandwidth=200e9)
    assert one.makespan == two.makespan == pytest.approx(6 * S / 4 / 200e9)


def test_direct_sends_inside_a_server_share_the_local_port() -> None:
    # one server, 4 members: each sends S/4 to 3 others through its port of 250 GB/s: 0.75 MB / 250 GB/s = 3 us
    timeline = run(switch(1), collective("all_to_all", 1, local=4), local_bandwidth=250e9)
    assert timeline.makespan == pytest.approx(3e-6)


def test_the_compute_of_a_server_runs_in_listed_order() -> None:
    timeline = run(
        switch(3),
        Transfer(S, 0, 1),  # 21 us
        Compute(1.0, 1, after=(0,)),
        Compute(2.0, 1),  # waits for the one before, although it depends on nothing
        Compute(4.0, 2),  # another server
        Compute(8.0, None),  # nobody's
        Compute(8.0, None),
    )
    np.testing.assert_allclose(timeline.task_start, [0, 21e-6, 1 + 21e-6, 0, 0, 0], rtol=1e-12)
    np.testing.assert_allclose(timeline.task_finish, [21e-6, 1 + 21e-6, 3 + 21e-6, 4, 8, 8], rtol=1e-12)


def test_dependents_of_a_collective_wait_for_its_end_and_it_for_its_start() -> None:
    timeline = run(switch(4), collective("all_reduce", 4, start=5.0), Transfer(S, 0, 1, after=(0,)))
    end = 5 + 6 * (A + S / 4 / B)
    assert timeline.task_start[0] == 5
    assert timeline.task_finish[0] == timeline.task_start[1] == pytest.approx(end, rel=1e-12)
    assert timeline.makespan == pytest.approx(end + A + S / B, rel=1e-12)


def test_a_transfer_to_oneself_takes_no_time_and_a_path_of_its_own_is_used() -> None:
    timeline = run(circle(4), Transfer(S, 2, 2), Transfer(S, 0, 1, subflows=(Subflow((0,)),)))
    assert timeline.task_finish.tolist() == [0, pytest.approx(A + S / B)]
    for path in ((1,), (0, 2), (0, 9), (-1,), ()):
        with pytest.raises(ValueError, match=r"task 0.subflows: must "):
            run(circle(4), Transfer(S, 0, 1, subflows=(Subflow(path),)))


def test_a_connection_keeps_its_path_and_connections_spread_evenly() -> None:
    fabric = planes(4)
    one = place(Traffic.from_tasks("t", 2, (Transfer(S, 0, 1), Transfer(2 * S, 0, 1))), fabric, name="world")
    assert one.graph.path[0] == one.graph.path[1]
    paths = [
        tuple(place(Traffic.from_tasks("t", 2, (Transfer(S, 0, 1),)), fabric, name="world", seed=seed).graph.path_links)
        for seed in range(400)
    ]
    # 400 draws from 4 paths: 100 each, standard deviation sqrt(400 * 1/4 * 3/4) = 8.7
    assert all(60 < count < 140 for count in Counter(paths).values())
    assert len(set(paths)) == 4


@given(st.integers(0, 2**64 - 1), st.permutations(range(6)))
@settings(max_examples=25)
def test_paths_do_not_depend_on_the_order_of_the_traffic(seed: int, order: list[int]) -> None:
    pairs = [(0, 1), (1, 0), (2, 0), (0, 2), (1, 2), (2, 1)]
    fabric = Fabric(
        name="full",
        servers=3,
        nodes=("a", "b", "c"),
        source=np.repeat([pair[0] for pair in pairs], 3).astype(np.int32),
        target=np.repeat([pair[1] for pair in pairs], 3).astype(np.int32),
        bandwidth=np.full(18, B),
        latency=np.full(18, A),
        route=lambda source, target: tuple((3 * pairs.index((source, target)) + k,) for k in range(3)),
        degree=6,
        interface_bandwidth=B,
    )

    def links(sequence: list[int]) -> dict[int, int]:
        tasks = tuple(Transfer(S, *pairs[index]) for index in sequence)
        graph = place(Traffic.from_tasks("t", 3, tasks), fabric, name="world", seed=seed).graph
        return {index: int(graph.path_links[graph.path[task]]) for task, index in enumerate(sequence)}

    assert links(order) == links(list(range(6)))


def test_rings_of_one_group_hash_apart() -> None:
    group = (0, 1)
    fabric = planes(64)
    world = place(
        Traffic.from_tasks("t", 2, (collective("all_gather", 2),)),
        replace(fabric, channels=Channels({group: (group,) * 8})),
        name="world",
    )
    assert len(set(world.graph.path[1:-1].tolist())) > 4  # 8 rings in 64 paths, both directions


OPS = st.sampled_from([(op, name) for name, algorithm in algorithms().items() for op in algorithm.ops])


@given(OPS, st.integers(1, 9), st.integers(1, 3), st.sampled_from([0.0, 1.0, 3e6]), st.data())
@settings(max_examples=60)
def test_the_worlds_of_any_collective_are_valid_and_send_what_the_op_needs(
    choice: tuple[str, str], n: int, local: int, size: float, data: st.DataObject
) -> None:
    op, algorithm = choice
    group = tuple(data.draw(st.permutations(range(9)))[:n])
    root = group[-1] if op in ("broadcast", "reduce", "gather", "scatter") else None
    task = Collective(op, size, group, (0,), root=root, local=local, algorithm=algorithm)
    world = place(Traffic.from_tasks("t", 9, (Compute(1.0, 0), task), 1e9), switch(9), name="world")
    graph = world.graph
    counts = np.diff(graph.after_offsets)
    assert (graph.after < np.repeat(np.arange(graph.tasks), counts)).all()
    assert ((graph.bytes == 0) | (graph.path >= 0)).all()
    assert graph.path.max() < len(graph.path_offsets) - 1
    assert (np.diff(graph.owner) >= 0).all()
    paths = np.split(graph.path_links, graph.path_offsets[1:-1])
    assert len({tuple(path.tolist()) for path in paths}) == len(paths)
    timeline = simulate(world)
    assert timeline.task_start[1] == 1.0
    # Whoever contributes must send at least its part to another server, whichever algorithm.
    bound = 0.0 if n == 1 else size / n / local * (n - 1)
    assert timeline.link_bytes[:9].sum() >= bound * (1 - 1e-9)


def test_buckets_of_one_group_share_the_paths_of_its_ring() -> None:
    # 10 buckets of 254 steps of 128 sends, and a join at both ends of each; a path for each of 128 neighbours
    buckets = tuple(collective("all_reduce", 128, bytes=25e6 + index) for index in range(10))
    world = place(Traffic.from_tasks("t", 128, buckets), switch(128), name="world")
    assert world.graph.tasks == 10 * (2 * 127 * 128 + 2)
    assert len(world.graph.path_offsets) - 1 == 128


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (collective("all_reduce", 4, algorithm="tree"), "task 0.algorithm: all_reduce must run one of ring, double_"),
        (collective("all_to_all", 4, algorithm="ring"), "task 0.algorithm: all_to_all must run one of direct, got 'ri"),
        (collective("all_reduce", 4, local=0), "task 0.local: must be positive, got 0"),
        (collective("all_gather", 2, splits=((0.0, 1.0), (1.0, 0.0))), "task 0.splits: must belong to an all_to_all"),
        (collective("all_reduce", 4, local=10**6), "task 0: must fit in the "),
    ],
)
def test_what_cannot_be_lowered_is_refused(task: Collective, message: str) -> None:
    with pytest.raises(ValueError, match="^" + message.replace(".", r"\.")):
        run(switch(4), task)


def test_an_unknown_default_and_too_many_servers_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^all_reduce: all_reduce must run one of ring, .*, got 'tree'"):
        run(switch(4), all_reduce="tree")
    with pytest.raises(ValueError, match="servers: must be at most the 4 of switch, got 9"):
        place(Traffic.from_tasks("t", 9, ()), switch(4), name="world")


def test_servers_without_a_path_are_named() -> None:
    fabric = replace(switch(2), route=lambda source, target: ())
    with pytest.raises(ValueError, match="must connect all servers, got no path from 'server 0' to 'server 1'"):
        run(fabric, Transfer(S, 0, 1))


@pytest.mark.parametrize("rings", ["steps", "flows"])
def test_endpoints_are_those_of_the_paths(rings: str) -> None:
    group = (0, 3, 1)
    tasks = (
        Compute(1.0, 0),
        Transfer(S, 2, 1, after=(0,)),
        Transfer(S, 3, 3),
        Collective("all_reduce", S, group, local=2, algorithm="ring"),
        Collective("all_to_all", S, group, splits=((0.0, 0.0, 5.0), (1.0, 0.0, 0.0), (0.0, 2.0, 0.0))),
    )
    fabric = switch(4)
    graph = place(Traffic.from_tasks("t", 4, tasks), fabric, name="world", rings=rings).graph
    sends = graph.path >= 0
    paths = graph.path[sends]
    first, last = graph.path_links[graph.path_offsets[paths]], graph.path_links[graph.path_offsets[paths + 1] - 1]
    np.testing.assert_array_equal(graph.source[sends], fabric.source[first])
    np.testing.assert_array_equal(graph.target[sends], fabric.target[last])
    assert np.all(graph.channel[sends] >= 0)
    for end in (graph.source, graph.target, graph.channel):
        assert np.all(end[~sends] == -1)
    exchange = np.flatnonzero(graph.owner == 4)  # an uneven all-to-all
    pairs = {(int(graph.source[task]), int(graph.target[task])) for task in exchange if sends[task]}
    assert pairs == {(0, 1), (3, 0), (1, 3)}
