"""Recorded jobs become traffic: sizes, servers, the iteration, and what is refused. Real traces at the end."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.twins.fluid import simulate
from topoflow.capture.base import Communication, ComputeSpan, Trace
from topoflow.capture.load import load
from topoflow.engine.lowering.placement import place
from topoflow.fabric.ideal_switch import IdealSwitch
from topoflow.strategy.as_captured import AsCaptured
from topoflow.traffic import base
from topoflow.traffic.captured.job import lower_captured
from topoflow.traffic.lower import lower
from topoflow.workload.base import Layer, LayerGraph, RecordedJob
from topoflow.workload.captured import Captured
from topoflow.workload.gpu import Gpu

LOCAL = 100.0  # B/s between ranks of a server
GPU = Gpu("toy", {"float32": 1.0}, 1.0, LOCAL, 1.0)
EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"


def trace(*ranks: tuple, world_size: int | None = None, iterations: int = 1) -> Trace:
    return Trace("toy", world_size or len(ranks), iterations, dict(enumerate(ranks)))


def traffic(job: Trace, ranks_per_server: int = 1) -> base.Traffic:
    workload = RecordedJob(job, GPU)
    return lower_captured(workload, AsCaptured(ranks_per_server).place(workload, None))


def collective(op: str, ranks: int, bytes_in: int, bytes_out: int | None = None, **others) -> Communication:
    size = bytes_in if bytes_out is None else bytes_out
    return Communication(op, tuple(range(ranks)), "float32", bytes_in, size, after=(), **others)


def only(job: base.Traffic) -> base.Task:
    (task,) = job.tasks
    return task


def sums(job: base.Traffic) -> dict[str, float]:
    """Bytes per kind of communication."""
    total: Counter[str] = Counter()
    for task in job.tasks:
        if not isinstance(task, base.Compute):
            total[task.op if isinstance(task, base.Collective) else "send"] += task.bytes
    return dict(total)


def seconds_on_ideal_network(job: base.Traffic) -> float:
    demand = job.demand()
    fabric = IdealSwitch(bandwidth=1e18, degree=1, latency=0.0).build(job.servers, demand)
    return simulate(place(job, fabric, name="ideal")).makespan


# Sizes and servers


@pytest.mark.parametrize(
    ("op", "bytes_in", "bytes_out", "size"),
    [
        ("all_reduce", 80, 80, 80),
        ("all_gather", 20, 80, 80),  # the gathered output
        ("reduce_scatter", 80, 20, 80),  # the full input
        ("all_to_all", 80, 80, 80),
        ("broadcast", 80, 80, 80),
        ("reduce", 80, 80, 80),
        ("gather", 20, 80, 80),  # the root's buffer
        ("scatter", 80, 20, 80),
    ],
)
def test_a_collective_keeps_its_buffer(op, bytes_in, bytes_out, size) -> None:
    rooted = {"root": 0} if op in ("broadcast", "reduce", "gather", "scatter") else {}
    event = collective(op, 4, bytes_in, bytes_out, **rooted)
    task = only(traffic(trace(*[(event,)] * 4)))
    assert (task.op, task.bytes, task.group, task.root, task.local) == (op, size, (0, 1, 2, 3), rooted.get("root"), 1)


def test_ranks_of_a_server_are_its_local_members() -> None:
    event = collective("all_reduce", 4, 80)
    task = only(traffic(trace(*[(event,)] * 4), ranks_per_server=2))
    assert (task.group, task.local, task.bytes) == ((0, 1), 2, 80)


def test_a_group_across_servers_is_mapped_in_group_order() -> None:
    event = Communication("all_reduce", (3, 0), "float32", 8, 8)
    task = only(traffic(trace((event,), (), (), (event,)), ranks_per_server=2))
    assert (task.group, task.local) == ((1, 0), 1)


@pytest.mark.parametrize(
    ("op", "seconds"),
    # 2 ranks of one server, S = 200 B at 100 B/s: an all-reduce moves 2 * 1/2 * S, a broadcast S, the others 1/2 S
    [("all_reduce", 2.0), ("broadcast", 2.0), ("all_gather", 1.0), ("all_to_all", 1.0), ("barrier", 0.0)],
)
def test_what_stays_inside_a_server_is_a_delay(op, seconds) -> None:
    size = 0 if op == "barrier" else 200
    event = collective(op, 2, size, root=0 if op == "broadcast" else None)
    task = only(traffic(trace((event,), (event,)), ranks_per_server=2))
    assert (task.seconds, task.server) == (seconds, None)


def test_a_send_inside_a_server_is_a_delay_and_one_between_servers_a_transfer() -> None:
    def pair(source: int, target: int) -> tuple[Communication, Communication]:
        group = (0, 1, 2, 3)
        send = Communication("send", group, "float32", 50, 0, peer=target, after=())
        return send, Communication("recv", group, "float32", 0, 50, peer=source, after=())

    inside, outside = pair(0, 1), pair(1, 2)
    job = traffic(trace((inside[0],), (inside[1], outside[0]), (outside[1],), ()), ranks_per_server=2)
    assert next(task for task in job.tasks if isinstance(task, base.Compute)).seconds == 0.5  # 50 B at 100 B/s
    (transfer,) = [task for task in job.tasks if isinstance(task, base.Transfer)]
    assert (transfer.source, transfer.target, transfer.bytes) == (0, 1, 50)


def test_an_uneven_all_to_all_keeps_its_splits() -> None:
    def rank(sends: tuple[int, ...], receives: tuple[int, ...]) -> tuple[Communication]:
        return (collective("all_to_all", 2, 4 * sum(sends), 4 * sum(receives), splits_in=sends, splits_out=receives),)

    task = only(traffic(trace(rank((1, 2), (1, 5)), rank((5, 4), (2, 4)))))
    assert task.splits == ((4, 8), (20, 16))
    assert task.bytes == 24  # the mean of 12 and 36


def test_an_all_to_all_of_shared_servers_sends_what_its_ranks_send() -> None:
    event = collective("all_to_all", 4, 400)  # 100 B to each
    job = traffic(trace(*[(event,)] * 4), ranks_per_server=2)
    between, inside = job.tasks
    # 2 ranks send 100 B to each of 2 ranks of the other server; inside, each sends 100 B to its neighbour
    assert base.pair_bytes(base.Operation.of(between), between.bytes).tolist() == [[0, 400], [400, 0]]
    assert inside.seconds == 1.0


def test_the_busiest_rank_occupies_its_server() -> None:
    def rank(seconds: float) -> tuple[ComputeSpan]:
        return (ComputeSpan("forward", 0.0, seconds, seconds),)

    job = traffic(trace(rank(1.0), rank(3.0), rank(2.0), rank(2.0)), ranks_per_server=2)
    assert sorted((task.seconds, task.server) for task in job.tasks if task.server is not None) == [(2.0, 1), (3.0, 0)]
    assert seconds_on_ideal_network(job) == 3.0  # GPUs of a server compute beside each other


# Which iteration


def iteration(number: int, length: float, size: int = 8, start: float = 0.0) -> tuple:
    begin = 100.0 * number + start
    return (
        ComputeSpan("forward", begin, begin + length, length, iteration=number),
        collective("all_reduce", 1, size, iteration=number),
    )


def test_the_median_of_the_usual_iterations_stands_for_the_job() -> None:
    # iteration 0 differs as DDP's first does; of the others, lengths 5 3 4, iteration 3 is the median
    lengths = [(0, 9.0, 16), (1, 5.0, 8), (2, 3.0, 8), (3, 4.0, 8)]
    events = tuple(event for number, length, size in lengths for event in iteration(number, length, size))
    assert "iteration 3" in traffic(trace(events, iterations=4)).name


def test_the_set_up_is_not_traffic() -> None:
    events = (collective("broadcast", 1, 999, root=0, iteration=-1), *iteration(0, 1.0))
    assert len(traffic(trace(events)).tasks) == 2


def test_ranks_that_were_not_recorded_do_as_the_recorded_one() -> None:
    recorded = (ComputeSpan("forward", 0.0, 1.0, 1.0), collective("all_reduce", 3, 8))
    job = traffic(trace(recorded, world_size=3))
    assert "2 of 3 ranks do the same as others" in job.name
    assert [task.server for task in job.tasks if isinstance(task, base.Compute)] == [0, 1, 2]
    assert sums(job) == {"all_reduce": 8}


# What is refused


def test_a_rank_that_cannot_be_told_from_another_is_missed() -> None:
    with pytest.raises(
        ValueError, match=r"^trace toy: must have all 4 ranks, .* 'all_reduce' of rank 0 within \[0, 1\]$"
    ):
        traffic(trace((collective("all_reduce", 2, 8),), world_size=4))


def test_a_trace_without_events_is_refused() -> None:
    with pytest.raises(ValueError, match="must have events in an iteration"):
        traffic(trace((), ()))


def test_ranks_that_take_part_unequally_often_are_named() -> None:
    event = collective("all_reduce", 2, 8)
    with pytest.raises(ValueError, match="got rank 0 2 times and rank 1 1 times"):
        traffic(trace((event, event), (event,)))


def test_servers_follow_from_the_ranks() -> None:
    workload = RecordedJob(trace(*[()] * 8), GPU)
    assert AsCaptured(2).place(workload, None).servers == 4
    assert AsCaptured(2).place(workload, 4).servers == 4
    message = r"^strategy.servers: the trace has 8 ranks, 2 per server, so 4 servers, got 16$"
    with pytest.raises(ValueError, match=message):
        AsCaptured(2).place(workload, 16)
    with pytest.raises(ValueError, match=r"^strategy.ranks_per_server: must divide the 8 ranks of the trace, got 3$"):
        AsCaptured(3).place(workload, None)
    with pytest.raises(ValueError, match=r"^strategy.ranks_per_server: must be positive, got 0$"):
        AsCaptured(0)
    modelled = LayerGraph("mlp", (Layer("a", "dense", 1, 1, 1, 1),), 1, GPU)
    with pytest.raises(ValueError, match=r"^strategy: as_captured places a recorded job"):
        AsCaptured(1).place(modelled, 4)


# Whole jobs

seconds = st.floats(min_value=1e-3, max_value=1e3)
programs = st.lists(
    st.tuples(st.lists(seconds, min_size=3, max_size=3), st.sampled_from(["all_reduce", "all_gather", "barrier"])),
    min_size=1,
    max_size=6,
)


@given(programs)
def test_on_an_infinitely_fast_network_a_synchronous_job_takes_its_slowest_computes(program) -> None:
    # each round, the slowest of 3 ranks decides when all go on: sum of the maxima
    ranks = [
        tuple(
            event
            for index, (spans, op) in enumerate(program)
            for event in (
                ComputeSpan("c", None, None, spans[rank], after=(2 * index - 1,) if index else ()),
                Communication(op, (0, 1, 2), "float32", 12, 12, after=(2 * index,)),
            )
        )
        for rank in range(3)
    ]
    expected = sum(max(spans) for spans, _ in program)
    assert seconds_on_ideal_network(traffic(trace(*ranks))) == pytest.approx(expected, rel=1e-9)


def test_the_recorded_example_takes_the_compute_of_its_slowest_ranks() -> None:
    workload = Captured(str(EXAMPLES / "ddp_4_ranks.jsonl.gz"), GPU).build()
    job = lower(workload, AsCaptured().place(workload, None))
    # MLP 1024 -> 1024 -> 1024 -> 10: every gradient once, 4 bytes each
    assert sums(job) == {"all_reduce": 4 * (2 * (1024 * 1024 + 1024) + 10 * 1024 + 10)}
    computes: Counter[int | None] = Counter()
    for task in job.tasks:
        if isinstance(task, base.Compute):
            computes[task.server] += task.seconds
    assert max(computes.values()) <= seconds_on_ideal_network(job) <= sum(computes.values())


def lowered(files: list[Path]) -> base.Traffic:
    job = load(files)
    workload = RecordedJob(job, GPU)
    return lower(workload, AsCaptured().place(workload, None))


def test_vgg_of_topoopt_all_reduces_its_parameters(task_graphs) -> None:
    job = lowered([task_graphs["100vgg_16"]])
    reduced = [task for task in job.tasks if isinstance(task, base.Collective)]
    assert (job.servers, len(reduced)) == (16, 32)
    assert sums(job) == {"all_reduce": 1_157_409_952}  # the sum that the task graph's README states


def test_megatron_all_reduces_ten_large_and_three_small(shared_data) -> None:
    job = lowered(sorted((shared_data / "megatron_tp2").glob("kineto_*.gz")))
    assert sums(job) == {"all_reduce": 4 * (10 * 6144 + 3 * 512)}
    # 13 operations after one another: neither rank computes beside them, so the slower rank of each span counts
    assert seconds_on_ideal_network(job) >= max(
        sum(task.seconds for task in job.tasks if isinstance(task, base.Compute) and task.server == rank)
        for rank in range(2)
    )


def test_resnet_all_reduces_its_parameters_though_one_of_two_ranks_was_recorded(shared_data) -> None:
    job = lowered([shared_data / "hta_single_rank" / "nccl_parser_config_nccl_data.json.gz"])
    assert "1 of 2 ranks do the same as others" in job.name
    # running means and variances of 53 batch norms in fp32, and as many int64 counters
    assert sums(job) == {"all_reduce": 4 * 25_557_032, "broadcast": 4 * 53_120 + 8 * 53}


def test_dlrm_exchanges_embeddings_and_reduces_gradients(dlrm_traces) -> None:
    job = lowered([*dlrm_traces])
    kinds = Counter(task.op for task in job.tasks if isinstance(task, base.Collective))
    assert (job.servers, kinds) == (8, {"all_to_all": 5, "all_reduce": 3})
