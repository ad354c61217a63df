"""Traces of real jobs come in right: groups, ranks, bytes, dtypes, splits, times, iterations, published sums."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from topoflow.capture.base import Communication, ComputeSpan, Trace
from topoflow.capture.load import load


@pytest.fixture(scope="module")
def joined(dlrm_traces: tuple[Path, Path]) -> Trace:
    return load([*dlrm_traces])


@pytest.fixture(scope="module")
def megatron(shared_data: Path) -> Trace:
    folder = shared_data / "megatron_tp2"
    return load([folder / "kineto_rank1.pt.trace.json.gz", folder / "kineto_rank0.pt.trace.json.gz"])


@pytest.fixture(scope="module")
def resnet(shared_data: Path) -> Trace:
    return load([shared_data / "hta_single_rank" / "nccl_parser_config_nccl_data.json.gz"])


def communications(trace: Trace, rank: int, op: str) -> list[Communication]:
    return [event for event in trace.communications(rank) if event.op == op]


def test_resnet50_all_reduces_its_25557032_parameters_in_every_step(resnet: Trace) -> None:
    assert (resnet.world_size, resnet.iterations, list(resnet.ranks)) == (2, 3, [0])
    for iteration in range(3):
        buckets = [event for event in communications(resnet, 0, "all_reduce") if event.iteration == iteration]
        # DDP's first bucket is 1 MiB at least (the last layer's 2,049,000 fp32 fill it), the others 25 MiB.
        assert [event.bytes // 4 for event in buckets] == [2049000, 7875584, 6563840, 6637568, 2431040]
        assert sum(event.bytes for event in buckets) == 4 * 25_557_032
        assert {event.dtype for event in buckets} == {"float32"}


def test_resnet50_broadcasts_its_buffers_before_every_step(resnet: Trace) -> None:
    # 53 BatchNorm layers: running mean and variance of 26,560 channels, and one int64 counter each
    sent = [(event.dtype, event.bytes) for event in communications(resnet, 0, "broadcast")]
    assert sent == [("float32", 4 * 53120), ("int64", 8 * 53)] * 3


def test_megatron_tp2_does_13_all_reduces_per_rank_in_its_tensor_parallel_group(megatron: Trace) -> None:
    assert (megatron.world_size, megatron.iterations, sorted(megatron.ranks)) == (2, 1, [0, 1])
    assert len(megatron.groups) == 30
    assert megatron.groups["13"] == (0, 1)
    for rank in (0, 1):
        events = list(megatron.communications(rank))
        assert Counter((event.op, event.bytes // 4) for event in events) == {
            ("all_reduce", 6144): 10,
            ("all_reduce", 512): 3,
        }
        assert {(event.group, event.group_name, event.dtype) for event in events} == {((0, 1), "13", "float32")}
    assert megatron.notes == ()


def test_megatron_agrees_with_the_communicators_that_chakra_extracted(megatron: Trace, shared_data: Path) -> None:
    extracted = json.loads((shared_data / "megatron_tp2" / "chakra_comm_groups.json").read_text())
    (communicator,) = extracted["communicators"]
    name = str(communicator["communicatorId"])
    for node in communicator["nodes"]:
        ours = [event for event in megatron.communications(node["globalRank"]) if event.group_name == name]
        assert len(ours) == len(node["commList"])


def test_an_execution_trace_tells_the_same_collectives_as_the_profile(megatron: Trace, shared_data: Path) -> None:
    alone = load([shared_data / "megatron_tp2" / f"pytorch_et_{rank}.json.gz" for rank in (0, 1)])
    for rank in (0, 1):
        operations = [
            (event.op, event.group, event.group_name, event.dtype, event.bytes) for event in alone.communications(rank)
        ]
        assert operations == [(e.op, e.group, e.group_name, e.dtype, e.bytes) for e in megatron.communications(rank)]
        assert all(event.issue is None and event.start is None for event in alone.communications(rank))


def test_a_folder_of_all_that_was_recorded_is_the_same_job(megatron: Trace, shared_data: Path) -> None:
    from_folder = load([shared_data / "megatron_tp2"])
    assert from_folder.ranks == megatron.ranks
    assert "chakra.0.et is made of other traces of its rank and is passed over" in from_folder.notes


def test_collectives_of_two_ranks_end_together_on_one_clock(megatron: Trace, joined: Trace) -> None:
    # The kernel on each GPU ends when the data is there: within microseconds of each other, on the clock of one host.
    # A wrong origin would show: the ranks' first events are 12 ms apart.
    for trace in (megatron, joined):
        columns = [list(trace.communications(rank)) for rank in trace.ranks]
        for members in zip(*columns, strict=True):
            ends = [event.end for event in members if event.end is not None]
            assert len(ends) == len(trace.ranks)
            assert max(ends) - min(ends) < 60e-6


def test_a_kernel_starts_after_its_issue_and_ends_after_its_start(
    megatron: Trace, joined: Trace, resnet: Trace
) -> None:
    for trace in (megatron, joined, resnet):
        for rank in trace.ranks:
            for event in trace.communications(rank):
                assert event.issue is not None
                assert event.start is not None
                assert event.end is not None
                assert 0 <= event.issue <= event.start <= event.end


def test_kernel_times_are_those_of_the_profile(megatron: Trace) -> None:
    # shared facts of this capture: its 13 kernels take 269 us on rank 0 and 48.4 ms on rank 1, which waits for rank 0
    seconds = [sum((e.end or 0) - (e.start or 0) for e in megatron.communications(rank)) for rank in (0, 1)]
    assert seconds == [pytest.approx(269e-6, abs=1e-6), pytest.approx(48.4e-3, abs=0.1e-3)]


def test_compute_spans_are_compact_and_never_busier_than_they_are_long(
    megatron: Trace, joined: Trace, resnet: Trace
) -> None:
    for trace in (megatron, joined, resnet):
        for events in trace.ranks.values():
            spans = [event for event in events if isinstance(event, ComputeSpan)]
            assert 0 < len(spans) <= 3 * (len(events) - len(spans)) + 2 * trace.iterations
            for span in spans:
                assert span.start is not None
                assert span.end is not None
                assert 0 < span.seconds <= span.end - span.start + 1e-12


def test_dlrm_needs_both_files_of_each_rank(dlrm_traces: tuple[Path, Path]) -> None:
    with pytest.raises(ValueError, match=r"worker0_.*traceEvents\[\d+\]: all_to_all must name the ranks of its"):
        load([dlrm_traces[0]])
    with pytest.raises(ValueError, match=r"worker0_.*traceEvents\[\d+\]: all_to_all must have splits, got none"):
        load([dlrm_traces[0]], one_group=True)


def test_dlrm_does_5_all_to_alls_and_3_all_reduces_per_rank(joined: Trace) -> None:
    assert (joined.world_size, joined.iterations, sorted(joined.ranks)) == (8, 1, list(range(8)))
    for rank in range(8):
        assert [event.op for event in joined.communications(rank)] == [
            *("all_to_all",) * 4,
            *("all_reduce", "all_to_all", "all_reduce", "all_reduce"),
        ]
        # three buckets of fp32 gradients: 621,313 parameters outside the embedding tables
        assert [event.bytes // 4 for event in communications(joined, rank, "all_reduce")] == [394241, 112, 226960]
        assert all(event.group == tuple(range(8)) for event in joined.communications(rank))


def test_dlrm_splits_tell_who_sends_how_much_to_whom(joined: Trace) -> None:
    # The fourth all-to-all moves the lookup indices: every rank sends what the others' tables need.
    needs = (96, 224, 288, 1664, 592, 96, 192, 240)
    for rank in range(8):
        indices = communications(joined, rank, "all_to_all")[3]
        assert indices.splits_in == needs
        assert indices.splits_out == (needs[rank],) * 8
        assert (indices.dtype, indices.bytes_in, indices.bytes_out) == ("int32", 4 * sum(needs), 4 * 8 * needs[rank])
        assert communications(joined, rank, "all_to_all")[1].splits_in == ()  # equal: 24 int64
        assert communications(joined, rank, "all_to_all")[0].splits_in == (768,) * 8


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("torchrec_2gpu", r"85866\..*: traceEvents\[84\]: all_to_all must have a size, got none"),
        ("hta_single_rank/df_index_resolver_df_index_resolver.json.gz", r"df_index.*: all_reduce must have a size"),
    ],
)
def test_profiles_without_shapes_are_refused_by_file_and_first_event(shared_data: Path, path: str, place: str) -> None:
    with pytest.raises(ValueError, match=place + ".*record_shapes=True"):
        load([shared_data / path])


def test_files_of_different_jobs_are_refused_by_name(shared_data: Path, dlrm_traces: tuple[Path, Path]) -> None:
    one = shared_data / "megatron_tp2" / "kineto_rank0.pt.trace.json.gz"
    other = next(dlrm_traces[0].glob("worker1_*"))
    with pytest.raises(ValueError, match=r"kineto_rank0.*worker1_.*must be of one job, got world sizes 2 .* and 8"):
        load([one, other])


def test_the_same_rank_twice_is_refused(shared_data: Path) -> None:
    path = shared_data / "megatron_tp2" / "kineto_rank0.pt.trace.json.gz"
    with pytest.raises(ValueError, match="must be of different ranks, got rank 0 twice"):
        load([path, path])
