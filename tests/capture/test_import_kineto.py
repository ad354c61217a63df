"""What a profile says is what comes in: hand-made profiles, one law each, where the real ones show no such case."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topoflow.capture.base import Communication, ComputeSpan, Trace
from topoflow.capture.load import load
from topoflow.capture.merge import NO_COMPUTE, UNLISTED

RANKS = list(range(40))  # more than the 30 that a row lists


def host(ts: float, name: str, elements: tuple[int, int] = (8, 8), **more: Any) -> dict[str, Any]:
    """A ``record_param_comms`` row as torch 2.4 and later with NCCL write it."""
    args = {
        "Collective name": name,
        "In msg nelems": elements[0],
        "Out msg nelems": elements[1],
        "Group size": 40,
        "dtype": "Float",
        "In split size": "[]",
        "Out split size": "[]",
        "Process Group Name": "0",
        "Process Group Ranks": "[0, 1, 2, ...]",
        **more,
    }
    return {
        "ph": "X",
        "cat": "cpu_op",
        "name": "record_param_comms",
        "pid": 1,
        "tid": 1,
        "ts": ts,
        "dur": 4,
        "args": args,
    }


def c10d(ts: float, name: str, dims: Any, types: Any, **more: Any) -> dict[str, Any]:
    """A ``c10d::`` operator as gloo and old torch write it."""
    args = {"Input Dims": dims, "Input type": types, **more}
    return {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": 4, "args": args}


def kernel(launch: float, ts: float, dur: float, name: str = "gemm", stream: int = 7) -> list[dict[str, Any]]:
    """A launch on the host and its kernel."""
    args = {"correlation": int(launch * 100)}
    return [
        {"ph": "X", "cat": "cuda_runtime", "name": "launch", "pid": 1, "tid": 1, "ts": launch, "dur": 1, "args": args},
        {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": stream, "ts": ts, "dur": dur, "args": args},
    ]  # fmt: skip


def step(number: int, ts: float, dur: float) -> dict[str, Any]:
    name = f"ProfilerStep#{number}"
    return {"ph": "X", "cat": "user_annotation", "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur, "args": {}}


def profile(path: Path, *events: dict[str, Any], groups: dict[str, list[int]] | None = None, rank: int = 0) -> Trace:
    config = [{"pg_name": name, "ranks": ranks} for name, ranks in ({"0": RANKS} if groups is None else groups).items()]
    info = {"backend": "nccl", "rank": rank, "world_size": 40, "pg_config": config}
    file = path / "p.json"
    file.write_text(json.dumps({"schemaVersion": 1, "distributedInfo": info, "traceEvents": list(events)}))
    return load([file])


def only(trace: Trace, rank: int = 0) -> Communication:
    (communication,) = trace.communications(rank)
    return communication


def test_groups_come_from_the_head_of_the_file_since_rows_list_30_ranks(tmp_path: Path) -> None:
    assert only(profile(tmp_path, host(0, "allreduce"))).group == tuple(RANKS)
    with pytest.raises(
        ValueError, match=r"p.json: traceEvents\[0\].args.Process Group Name: must be one of distributedInfo"
    ):
        profile(tmp_path, host(0, "allreduce"), groups={})


def test_a_group_keeps_the_order_of_its_ranks(tmp_path: Path) -> None:
    assert only(profile(tmp_path, host(0, "allreduce"), groups={"0": [3, 0, 2]})).group == (3, 0, 2)


def test_splits_of_rows_become_splits_of_elements(tmp_path: Path) -> None:
    # three members exchange rows of 16 elements: 1 + 2 + 3 rows out of 6, 96 elements
    row = host(0, "all_to_allv", (96, 64), **{"In split size": "[1, 2, 3]", "Out split size": "[1, 1, 2]"})
    communication = only(profile(tmp_path, row, groups={"0": [0, 1, 2]}))
    assert (communication.splits_in, communication.splits_out) == ((16, 32, 48), (16, 16, 32))
    assert (communication.bytes_in, communication.bytes_out) == (4 * 96, 4 * 64)


def test_splits_that_are_cut_short_are_an_error(tmp_path: Path) -> None:
    row = host(0, "all_to_allv", (80, 80), **{"In split size": "[1, 2, ...]", "Out split size": "[2, 2, ...]"})
    with pytest.raises(ValueError, match=r"traceEvents\[0\]: all_to_all must have splits, got none"):
        profile(tmp_path, row)


def test_peers_are_ranks_of_the_job_and_roots_are_places_in_the_group(tmp_path: Path) -> None:
    send = host(0, "send", **{"Dst Rank": 5, "Seq": 3})
    recv = host(10, "recv", **{"Src Rank": 5, "Seq": 4})
    broadcast = host(20, "broadcast", Rank=1, Seq=9)
    sent, received, root = profile(tmp_path, send, recv, broadcast, groups={"0": [0, 5]}).communications(0)
    assert (sent.op, sent.peer, sent.bytes_in, sent.bytes_out) == ("send", 5, 32, 0)
    assert (received.op, received.peer, received.bytes_in, received.bytes_out) == ("recv", 5, 0, 32)
    assert root.root == 5


def test_rows_that_are_no_collectives_are_counted(tmp_path: Path) -> None:
    trace = profile(tmp_path, host(0, "allreduce"), host(5, "wait"), host(9, "coalesced"), host(15, "wait"))
    assert [event.op for event in trace.communications(0)] == ["all_reduce"]
    assert trace.notes == (
        "1 'coalesced' rows only wrap the operations before them",
        "1 operations have no kernel in the profile: their times are unknown",
        NO_COMPUTE,
    )


def test_an_unknown_collective_is_counted_and_its_kernel_takes_as_long_as_it_did(tmp_path: Path) -> None:
    nccl = kernel(2, 100, 50, "ncclDevKernel_Generic", stream=9)
    trace = profile(tmp_path, host(0, "teleport"), *nccl, host(200, "allreduce"))
    (unsized,) = computes(trace, True)
    assert unsized.seconds == pytest.approx(50e-6)
    assert "1 'teleport' operations are of a kind not known here and are left out" in trace.notes


def test_times_are_those_of_the_kernel_that_was_launched_within_the_row(tmp_path: Path) -> None:
    nccl = kernel(2, 100, 50, "ncclDevKernel_Generic", stream=9)
    trace = profile(tmp_path, host(0, "allreduce"), *nccl, host(10, "allreduce"))
    first, second = trace.communications(0)
    assert (first.issue, first.start, first.end) == (0.0, 100e-6, 150e-6)
    assert (second.issue, second.start, second.end) == (10e-6, None, None)
    assert "1 operations have no kernel in the profile: their times are unknown" in trace.notes


def test_kernels_between_collectives_are_one_span_and_overlap_counts_once(tmp_path: Path) -> None:
    trace = profile(
        tmp_path,
        *kernel(1, 10, 4), *kernel(2, 12, 4), *kernel(3, 20, 1),
        host(5, "allreduce"), *kernel(6, 21, 9, "ncclDevKernel_AllReduce", stream=9),
        *kernel(12, 22, 2), *kernel(13, 31, 2),
    )  # fmt: skip
    before, reduced, during, after = trace.ranks[0]
    # issued before the collective: busy 10..16 and 20..21; while it runs: 22..24; after it ended at 30: 31..33
    assert isinstance(before, ComputeSpan)
    assert isinstance(reduced, Communication)
    assert (before.name, before.start, before.end, before.seconds) == ("3 kernels", 9e-6, 20e-6, 7e-6)
    assert [(span.start, span.end, span.seconds) for span in (during, after) if isinstance(span, ComputeSpan)] == [
        (21e-6, 23e-6, 2e-6),
        (30e-6, 32e-6, 2e-6),
    ]


def test_steps_are_iterations_and_what_is_outside_is_set_up_or_left_out(tmp_path: Path) -> None:
    rows = [host(ts, "allreduce", (size, size)) for ts, size in ((0, 1), (11, 2), (21, 3), (40, 4))]
    trace = profile(tmp_path, step(7, 10, 10), step(8, 20, 10), *rows)
    assert trace.iterations == 2
    assert [(event.iteration, event.bytes) for event in trace.communications(0)] == [(-1, 4), (0, 8), (1, 12)]
    assert "1 events after the last ProfilerStep belong to no whole iteration and are left out" in trace.notes


def test_without_steps_the_repetition_of_the_communication_tells(tmp_path: Path) -> None:
    sizes = [99, 1, 2, 1, 2, 1, 2]
    rows = [host(10 * at, "allreduce", (size, size)) for at, size in enumerate(sizes)]
    trace = profile(tmp_path, *rows, *kernel(35, 36, 1))
    assert trace.iterations == 3
    assert [event.iteration for event in trace.communications(0)] == [-1, 0, 0, 1, 1, 2, 2]
    assert [event.iteration for event in trace.ranks[0] if isinstance(event, ComputeSpan)] == [1]


def test_old_profiles_with_two_communication_streams_do_not_name_the_group(tmp_path: Path) -> None:
    rows = [c10d(ts, "c10d::_allgather_base_", [[80], [2], []], ["float", "float", ""]) for ts in (0, 10)]
    kernels = [row for stream in (1, 2) for row in kernel(10 * stream - 9, 50, 1, "ncclKernel_AllGather", stream)]
    with pytest.raises(ValueError, match=r"all_gather must name its process group, got none and 2"):
        profile(tmp_path, *rows, *kernels, groups={})
    trace = profile(tmp_path, rows[0], *kernels[:2], groups={})
    assert only(trace).group == tuple(RANKS)
    assert f"1 {UNLISTED}" in trace.notes  # 80 elements of 2 each


def concrete(ts: float, rank: int, *layout: int, pointer: str = "94000000") -> list[dict[str, Any]]:
    """An all-reduce as PyTorch 2.1 to 2.3 write it: the group is in the inputs of the row within the operator."""
    values = ["", "7", pointer, str(rank), "", "[]", "[]", *map(str, layout)]
    types = ["TensorList", "Scalar", "Scalar" if pointer else "", "Scalar", "", "ScalarList", "ScalarList"]
    args = {"Concrete Inputs": values, "Input type": types + ["Scalar"] * len(layout)}
    row = {"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "pid": 1, "tid": 1, "ts": ts + 1, "dur": 1}
    return [c10d(ts, "c10d::allreduce_", [[2], []], ["float", ""]), {**row, "args": args}]


@pytest.mark.parametrize("layout", [(1,), (2,), (40,), (0, 0, 1), (0, 2, 20), (0, 1, 40), (0, -1, 20)])
def test_the_last_input_of_a_row_is_the_size_of_its_group(layout: tuple[int, ...], tmp_path: Path) -> None:
    """In a world of 40: imported with that size, or refused where the ranks are unknown."""
    rows, size = concrete(0, 0, *layout, pointer="" if len(layout) == 3 else "94000000"), layout[-1]
    if len(layout) == 3 and layout[1] < 0:
        with pytest.raises(ValueError, match="all_reduce must name the ranks of its process group, got 20 of 40"):
            profile(tmp_path, *rows, groups={})
    elif layout == (2,):
        with pytest.raises(ValueError, match="all_reduce must name the ranks of its process group, got 2 of 40"):
            profile(tmp_path, *rows, groups={})
    else:
        groups = [event.group for event in profile(tmp_path, *rows, groups={}).communications(0)]
        assert [(len(group), group[1] - group[0]) for group in groups] == [(size, 40 // size)] * (size > 1)


def test_shapes_of_the_operators_give_sizes_dtypes_splits_and_roots(tmp_path: Path) -> None:
    tensors = ["c10::BFloat16", "c10::BFloat16"]
    exchanged = ["", "", "", "[1, 1]", "[1, 1]", "False", "-1"]
    trace = profile(
        tmp_path,
        c10d(0, "c10d::_reduce_scatter_base_", [[3], [2, 3], []], [*tensors, ""]),
        c10d(10, "c10d::alltoall_base_", [[2, 5], [2, 5], []], [*tensors, ""], **{"Concrete Inputs": exchanged}),
        c10d(
            20,
            "c10d::alltoall_",
            [[[4], [6]], [[6], [4]], []],
            ["TensorList", *tensors],
            **{"Input type": [*tensors, ""]},
        ),
        c10d(30, "c10d::barrier", [[1], []], ["unsigned char", ""]),
        c10d(40, "c10d::broadcast_", [[[4]], [], []], ["float", "", ""], **{"Concrete Inputs": ["", "", "1"]}),
        groups={"0": [5, 0]},
    )
    scattered, base, listed, barrier, broadcast = trace.communications(0)
    assert (scattered.dtype, scattered.bytes_in, scattered.bytes_out) == ("bfloat16", 12, 6)
    assert (base.bytes_in, base.splits_in, base.splits_out) == (20, (5, 5), (5, 5))
    assert (listed.splits_in, listed.splits_out, listed.bytes_in) == ((6, 4), (4, 6), 20)
    assert (barrier.op, barrier.bytes) == ("barrier", 0)
    assert (broadcast.root, broadcast.bytes) == (0, 16)


def test_operators_of_several_groups_need_a_name(tmp_path: Path) -> None:
    row = c10d(0, "c10d::allreduce_", [[[10]], []], ["TensorList", ""])
    with pytest.raises(ValueError, match=r"traceEvents\[0\]: all_reduce must name its process group, got one of 2"):
        profile(tmp_path, row, groups={"0": RANKS, "1": [0, 1]})


# What communicates without a row of the host


def replayed(launch: float, ts: float, dur: float, name: str, **more: Any) -> dict[str, Any]:
    """A kernel of a CUDA graph, which was launched at ``launch``; with the description of ``host`` where given."""
    args = {"graph id": 3, "graph node id": 8, "correlation": int(launch * 100), **more}
    return {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 9, "ts": ts, "dur": dur, "args": args}


def graph(launch: float) -> dict[str, Any]:
    args = {"correlation": int(launch * 100)}
    name = "cudaGraphLaunch"
    return {"ph": "X", "cat": "cuda_runtime", "name": name, "pid": 1, "tid": 1, "ts": launch, "dur": 1, "args": args}


def described(elements: int, **more: Any) -> dict[str, Any]:
    row: dict[str, Any] = host(0, "allreduce", (elements, elements), **{"Seq": 7, **more})["args"]
    return row


def computes(trace: Trace, communicates: bool) -> list[ComputeSpan]:
    return [e for e in trace.ranks[0] if isinstance(e, ComputeSpan) and e.communicates == communicates]


def test_kernels_that_a_graph_replays_say_themselves_what_they_do(tmp_path: Path) -> None:
    name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    rows = [step(number, 100 * number, 100) for number in (0, 1)]
    for begin in (0, 100):  # two replays of one graph: compute, an all-reduce, compute, one that does not say its size
        rows += [
            graph(begin + 1),
            replayed(begin + 1, begin + 10, 10, "gemm"),
            replayed(begin + 1, begin + 20, 30, name, **described(64)),
            replayed(begin + 1, begin + 50, 5, "gemm"),
            replayed(begin + 1, begin + 60, 8, name),
        ]
    trace = profile(tmp_path, *rows)
    assert [(e.op, e.bytes, e.iteration, e.group_name) for e in trace.communications(0)] == [
        ("all_reduce", 256, 0, "0"),
        ("all_reduce", 256, 1, "0"),
    ]
    assert [(e.start, e.end) for e in trace.communications(0)] == [(20e-6, 50e-6), (120e-6, 150e-6)]
    assert [(e.name, e.seconds, e.iteration) for e in computes(trace, True)] == [
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", pytest.approx(8e-6), 0),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", pytest.approx(8e-6), 1),
    ]
    assert sum(e.seconds for e in computes(trace, False)) == pytest.approx(30e-6)


def test_what_a_graph_captures_counts_when_the_graph_is_launched(tmp_path: Path) -> None:
    begin, end = (
        {**graph(ts), "name": name} for ts, name in ((1, "cudaStreamBeginCapture_v10000"), (9, "cudaStreamEndCapture"))
    )
    run = replayed(20, 25, 5, "ncclDevKernel_AllReduce", **described(8))
    trace = profile(tmp_path, begin, host(3, "allreduce"), end, graph(20), run, host(40, "allreduce"))
    assert [event.start for event in trace.communications(0)] == [24e-6, None]  # the last was cut by the window
    assert "1 operations were captured into a CUDA graph: they count when it is launched" in trace.notes


@pytest.mark.parametrize(
    "missing", [{"dtype": None}, {"dtype": "Strange"}, {"In msg nelems": "?"}, {"Process Group Name": "9"}]
)
def test_a_kernel_that_says_too_little_is_not_sized_but_stays(tmp_path: Path, missing: dict[str, Any]) -> None:
    trace = profile(tmp_path, graph(1), replayed(1, 2, 3, "ncclDevKernel_Generic", **described(8, **missing)))
    assert [(e.name, e.seconds) for e in computes(trace, True)] == [("ncclDevKernel_Generic", pytest.approx(3e-6))]


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("void deep_ep::internode::dispatch<8, false, 1, 8192>(int4*, float*)", "deep_ep::internode::dispatch"),
        ("void dpsk::ep::internode::combine_ll<4>(void*)", "dpsk::ep::internode::combine_ll"),
        (
            "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*)",
            "multimem_all_reduce_kernel",
        ),
        ("two_shot_all_reduce_kernel_inplace", "two_shot_all_reduce_kernel_inplace"),
        ("void vllm::cross_device_reduce_1stage<__half, 8>(vllm::RankData*)", "vllm::cross_device_reduce_1stage"),
        ("tensorrt_llm::kernels::moeAllToAllKernel<4>", "tensorrt_llm::kernels::moeAllToAllKernel"),
        ("nvshmemi_alltoall_kernel", "nvshmemi_alltoall_kernel"),
    ],
)
def test_what_communicates_under_another_name_is_no_compute(tmp_path: Path, name: str, short: str) -> None:
    trace = profile(tmp_path, *kernel(1, 2, 3, name), *kernel(4, 6, 1))
    assert [(e.name, e.seconds) for e in computes(trace, True)] == [(short, pytest.approx(3e-6))]
    assert [e.seconds for e in computes(trace, False)] == [pytest.approx(1e-6)]


@pytest.mark.parametrize(
    "name",
    [
        "deep_ep::layout::get_dispatch_layout",
        "void BlockAllReduceKernel<float>(float*)",
        "void vectorized_gather_kernel<16>()",
        "void at::native::reduce_kernel<512, 1>()",
        "Memcpy DtoD (Device -> Device)",
    ],
)
def test_what_only_sounds_alike_computes(tmp_path: Path, name: str) -> None:
    assert computes(profile(tmp_path, *kernel(1, 2, 3, name)), True) == []


def test_operations_that_were_coalesced_have_the_kernel_of_the_row_that_wraps_them(tmp_path: Path) -> None:
    rows = [host(0, "send", **{"Dst Rank": 5}), host(10, "recv", **{"Src Rank": 5}), host(20, "coalesced")]
    trace = profile(tmp_path, *rows, *kernel(21, 30, 9, "ncclDevKernel_SendRecv"), groups={"0": [0, 5]})
    assert [(e.op, e.start, e.end) for e in trace.communications(0)] == [
        ("send", 30e-6, 39e-6),
        ("recv", 30e-6, 39e-6),
    ]
    assert computes(trace, True) == []


def test_an_annotation_without_an_operator_is_an_operation(tmp_path: Path) -> None:
    def annotation(ts: float, name: str, dims: Any) -> dict[str, Any]:
        return {**c10d(ts, name, dims, ["float"] * len(dims)), "cat": "user_annotation"}

    trace = profile(
        tmp_path,
        annotation(0, "nccl:all_to_all", [[80, 4]]),
        *kernel(2, 10, 5, "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t"),
        c10d(20, "c10d::allreduce_", [[[10]], []], ["float", ""]),
        annotation(21, "nccl:all_reduce", [[10]]),
        annotation(30, "nccl:_all_gather_base", [[3]]),
        annotation(40, "nccl:teleport", [[3]]),
    )
    exchanged, reduced, gathered = trace.communications(0)
    assert (exchanged.op, exchanged.bytes_in, exchanged.bytes_out, exchanged.start) == ("all_to_all", 1280, 1280, 10e-6)
    assert (reduced.op, reduced.bytes) == ("all_reduce", 40)
    assert (gathered.op, gathered.bytes_in, gathered.bytes_out) == ("all_gather", 12, 480)
    assert "1 all_to_all annotations record no splits: equal shares are assumed" in trace.notes
    assert "1 'teleport' operations are of a kind not known here and are left out" in trace.notes


def test_operators_of_another_backend_are_counted(tmp_path: Path) -> None:
    trace = profile(tmp_path, host(0, "allreduce"), c10d(10, "c10d::allreduce_", [[[4]], []], ["float", ""]))
    (note,) = [note for note in trace.notes if "c10d" in note]
    assert note == "1 c10d::allreduce_ rows carry no metadata (another backend than NCCL) and are left out"


def test_kernels_launched_before_the_profile_are_set_up(tmp_path: Path) -> None:
    early = [kernel(0, ts, 8, name, stream)[1] for ts, name, stream in ((12, "gemm", 7), (15, "ncclDevKernel_X", 9))]
    trace = profile(tmp_path, step(4, 10, 40), *early, *kernel(11, 25, 3))
    assert [(e.iteration, e.communicates, e.seconds) for e in trace.ranks[0] if isinstance(e, ComputeSpan)] == [
        (-1, False, pytest.approx(3e-6)),  # until the other kernel began
        (-1, False, pytest.approx(5e-6)),
        (-1, True, pytest.approx(8e-6)),
        (0, False, pytest.approx(3e-6)),
    ]


NAMES = {
    "gemm": False,
    "elementwise": False,
    "ncclDevKernel_AllGather_RING_LL": True,
    "void deep_ep::intranode::dispatch<8>(int*)": True,
    "multimem_one_shot_all_reduce": True,
}
kernels = st.lists(
    st.tuples(
        st.integers(1, 40),  # after the kernel before it on its stream
        st.integers(1, 60),
        st.integers(1, 3),  # stream
        st.sampled_from(sorted(NAMES)),
        st.sampled_from(["host", "graph", "nothing", "before"]),  # what records it
    ),
    max_size=14,
)


@given(kernels)
def test_every_kernel_comes_in_and_its_time_once(rows: list[tuple[int, int, int, str, str]]) -> None:
    events = [graph(1), *kernel(2, 500, 1)]
    sent, busy = Counter[tuple[int, int]](), set[int]()
    free = Counter[int]()  # a stream runs one kernel at a time
    for number, (gap, dur, stream, name, recorded) in enumerate(rows):
        launch, ts = 10 + 5 * number, free[stream] + gap
        free[stream] = ts + dur
        run = kernel(launch, ts, dur, name, stream)
        if recorded == "graph":
            run = [replayed(1, ts, dur, name, **(described(4) if NAMES[name] else {}))]
        elif recorded == "before":
            run = run[1:]
        elif recorded == "host" and NAMES[name]:
            events.append(host(launch - 1, "allreduce"))
        events += run
        if NAMES[name]:
            sent[ts, ts + dur] += 1
        else:
            busy |= set(range(ts, ts + dur))
    with TemporaryDirectory() as folder:
        trace = profile(Path(folder), *events)
    # times are relative to the first row, the graph's launch at 1 us
    imported = Counter(
        (round((e.start or 0) * 1e6) + 1, round((e.end or 0) * 1e6) + 1)
        for e in trace.ranks[0]
        if isinstance(e, Communication) or e.communicates
    )
    assert imported == sent
    computed = sum(e.seconds for e in computes(trace, False))
    assert computed * 1e6 == pytest.approx(len(busy | {500}))


@pytest.mark.parametrize(
    ("written", "element"),
    [("Bits4x2", 1), ("Bits16", 2), ("UInt4", 1), ("QInt32", 4), ("Float6_e2m3fn", 1), ("torch.bfloat16", 2)],
)
def test_an_element_type_without_a_name_here_counts_by_its_size(tmp_path: Path, written: str, element: int) -> None:
    assert only(profile(tmp_path, host(0, "allreduce", dtype=written))).bytes == 8 * element


@pytest.mark.parametrize("ranks", ["", "[0, 1, ...", None, []])
def test_a_group_without_a_list_of_ranks_has_all_if_its_size_says_so(tmp_path: Path, ranks: Any) -> None:
    info = {"rank": 0, "world_size": 40, "pg_config": [{"pg_name": "0", "pg_size": 40, "ranks": ranks}]}
    file = tmp_path / "p.json"
    file.write_text(json.dumps({"distributedInfo": info, "traceEvents": [host(0, "allreduce")]}))
    assert only(load([file])).group == tuple(RANKS)
