"""What a profile says is what comes in: hand-made profiles, one law each, where the real ones show no such case."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topoflow.capture.base import Communication, Compute, Trace
from topoflow.capture.formats.kineto.spans import union
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
        "2 'wait' rows are no collectives",
        "1 operations have no kernel in the profile: their times are unknown",
        NO_COMPUTE,
    )


def test_an_unknown_collective_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"traceEvents\[0\].args.Collective name: must be one of .*, got 'teleport'"):
        profile(tmp_path, host(0, "teleport"))


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
    assert isinstance(before, Compute)
    assert isinstance(reduced, Communication)
    assert (before.name, before.start, before.end, before.seconds) == ("3 kernels", 9e-6, 20e-6, 7e-6)
    assert [(span.start, span.end, span.seconds) for span in (during, after) if isinstance(span, Compute)] == [
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
    assert [event.iteration for event in trace.ranks[0] if isinstance(event, Compute)] == [1]


def test_old_profiles_with_two_communication_streams_do_not_name_the_group(tmp_path: Path) -> None:
    rows = [c10d(ts, "c10d::_allgather_base_", [[80], [2], []], ["float", "float", ""]) for ts in (0, 10)]
    kernels = [row for stream in (1, 2) for row in kernel(10 * stream - 9, 50, 1, "ncclKernel_AllGather", stream)]
    with pytest.raises(ValueError, match=r"c10d::_allgather_base_ must name its process group, got none and 2"):
        profile(tmp_path, *rows, *kernels, groups={})
    trace = profile(tmp_path, rows[0], *kernels[:2], groups={})
    assert only(trace).group == tuple(RANKS)
    assert f"1 {UNLISTED}" in trace.notes  # 80 elements of 2 each


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
    with pytest.raises(
        ValueError, match=r"traceEvents\[0\]: c10d::allreduce_ must name its process group, got one of 2"
    ):
        profile(tmp_path, row, groups={"0": RANKS, "1": [0, 1]})


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20)), max_size=12))
def test_the_union_of_intervals_counts_every_instant_once(intervals: list[tuple[int, int]]) -> None:
    spans = [(start, start + length) for start, length in intervals]
    assert union(spans) == len({instant for start, end in spans for instant in range(start, end)})
