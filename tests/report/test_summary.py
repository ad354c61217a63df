"""What a trace says, counted on traces small enough to count by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest

from topoflow.capture.base import Communication, ComputeSpan, Trace
from topoflow.capture.periods import representative
from topoflow.capture.shares import shared_operations, shares
from topoflow.capture.summary import exact, summarize, traffic_matrix


def all_reduce(
    rank: int, bytes: int, iteration: int = 0, start: float | None = None, end: float | None = None
) -> Communication:
    return Communication("all_reduce", (0, 1, 2, 3), "float32", bytes, bytes, iteration, start=start, end=end)


def trace_of(*events: Communication | ComputeSpan, iterations: int = 1, ranks: int = 4) -> Trace:
    """The same events on each of so many recorded ranks, of four."""
    return Trace("hand", 4, iterations, dict.fromkeys(range(ranks), events))


def test_bytes_per_iteration_are_those_of_one_rank() -> None:
    # each rank reduces 40 B in the first iteration, 80 B in the other two: one of these is counted, for any ranks
    for ranks in (1, 4):
        events = all_reduce(0, 40), all_reduce(0, 80, 1), all_reduce(0, 80, 2)
        summary = summarize(trace_of(*events, iterations=3, ranks=ranks))
        (line,) = summary.collectives
        assert (line.count, line.bytes_per_iteration, line.group_size, line.dtype) == (1, 80, 4, "float32")
        assert (summary.groups[0].count, summary.groups[0].bytes_per_iteration) == (1, 80)
        assert traffic_matrix(trace_of(*events, iterations=3)).sum() == 4 * 2 * 3 / 4 * 80


def test_an_uneven_all_to_all_counts_what_is_sent() -> None:
    def side(sends: int, receives: int) -> tuple[Communication]:
        return (Communication("all_to_all", (0, 1), "int8", sends, receives, splits_in=(0, sends)),)

    # 10 B one way, 90 B the other: 50 B per rank, not 90
    (line,) = summarize(Trace("hand", 2, 1, {0: side(10, 90), 1: side(90, 10)})).collectives
    assert line.bytes_per_iteration == 50


def test_set_up_is_counted_but_is_no_part_of_an_iteration() -> None:
    (line,) = summarize(trace_of(all_reduce(0, 1000, -1), all_reduce(0, 40))).collectives
    assert (line.count, line.setup_count, line.bytes_per_iteration) == (1, 1, 40)


def test_operations_of_another_dtype_or_group_size_are_another_line() -> None:
    pair = Communication("all_reduce", (0, 1), "float32", 8, 8)
    half = Communication("all_reduce", (0, 1), "float16", 8, 8)
    trace = Trace("hand", 4, 1, {0: (pair, half, all_reduce(0, 8)), 1: (pair, half)})
    assert {(line.group_size, line.dtype, line.ranks) for line in summarize(trace).collectives} == {
        (2, "float32", 2),
        (2, "float16", 2),
        (4, "float32", 1),
    }


def test_sends_are_between_two_and_belong_to_no_group() -> None:
    send = Communication("send", (0, 1, 2, 3), "int8", 5, 5, peer=3)
    summary = summarize(Trace("hand", 4, 1, {0: (send,)}))
    assert summary.collectives[0].group_size == 2
    assert summary.groups == ()


def test_means_stay_whole_where_they_are() -> None:
    assert exact(102_228_128 * 3, 3) == 102_228_128
    assert isinstance(exact(6, 3), int)
    assert exact(7, 2) == 3.5


def test_communication_next_to_computation_is_hidden() -> None:
    # 10 s: computing 0-6, all-reduce 4-8, all-reduce 7-10: communication 6 s, of which 2 s are hidden
    spans = ComputeSpan("f", 0.0, 4.0, 2.5), ComputeSpan("g", 4.0, 6.0, 2.0)
    trace = trace_of(*spans, all_reduce(0, 4, 0, 4.0, 8.0), all_reduce(0, 4, 0, 7.0, 10.0))
    share = shares(trace, representative(trace), shared_operations(trace))[0]
    assert share.compute_time == 4.5  # of the 6 s
    assert share.iteration_time == pytest.approx(10.0)
    assert share.communication == pytest.approx(0.6)
    assert share.exposed == pytest.approx(0.4)


def test_the_warm_up_is_no_part_of_the_iteration_time() -> None:
    # a first iteration of 31 s, which reduces otherwise than the two of 3 s after it
    spans = [(0, 0.0, 30.0, 8), (1, 31.0, 33.0, 4), (2, 34.0, 36.0, 4)]
    events = [
        event
        for number, start, end, size in spans
        for event in (ComputeSpan("f", start, end, end - start, number), all_reduce(0, size, number, end, end + 1))
    ]
    summary = summarize(trace_of(*events, iterations=3))
    assert (summary.iteration, summary.iteration_time) == (1, 3.0)
    assert {(share.iteration_time, share.compute_time) for share in summary.shares} == {(3.0, 2.0)}


def test_compute_of_two_streams_counts_once() -> None:
    trace = trace_of(ComputeSpan("f", 0.0, 6.0, 6.0), ComputeSpan("g", 2.0, 8.0, 6.0), all_reduce(0, 4, 0, 8.0, 10.0))
    assert shares(trace, representative(trace), shared_operations(trace))[0].compute_time == 8.0


def test_communication_without_a_size_is_reported_and_is_no_compute() -> None:
    kernel = ComputeSpan("dispatch", 4.0, 8.0, 4.0, communicates=True)
    summary = summarize(trace_of(ComputeSpan("f", 0.0, 4.0, 4.0), kernel))
    assert [(one.name, one.count, one.seconds) for one in summary.unsized] == [("dispatch", 4, 16.0)]
    assert (summary.communication_share, summary.exposed_share) == (0.5, 0.5)
    assert summary.shares[0].compute_time == 4.0
    assert any("dispatch" in note and "not sized" in note and "16 s" in note for note in summary.notes)


def test_without_times_there_is_no_share_and_json_says_null() -> None:
    summary = summarize(trace_of(all_reduce(0, 4)))
    assert summary.communication_share is None
    assert json.loads(json.dumps(summary.as_json(), allow_nan=False))["communication_share"] is None


def test_traffic_of_collectives_follows_their_closed_forms() -> None:
    # ring all-reduce of S = 8 B among 4: each sends 2 * 3/4 * 8 = 12 B to the next
    expected = np.zeros((4, 4))
    for rank in range(4):
        expected[rank, (rank + 1) % 4] = 12.0
    np.testing.assert_allclose(traffic_matrix(trace_of(all_reduce(0, 8))), expected)
    # all-gather to S = 8 B: 3/4 * 8 = 6 B to the next
    gather = Communication("all_gather", (0, 1, 2, 3), "float32", 2, 8)
    np.testing.assert_allclose(traffic_matrix(trace_of(gather)), expected / 2)
    # all-to-all of 8 B: 2 B to each other rank
    even = Communication("all_to_all", (0, 1, 2, 3), "float32", 8, 8)
    np.testing.assert_allclose(traffic_matrix(trace_of(even)), 2.0 * (1 - np.eye(4)))
    # with splits 0, 1, 0, 1 of 8 B: 4 B to ranks 1 and 3
    split = Communication("all_to_all", (0, 1, 2, 3), "float32", 8, 8, splits_in=(0, 1, 0, 1))
    np.testing.assert_allclose(traffic_matrix(trace_of(split))[0], [0, 4, 0, 4])
    root = Communication("broadcast", (0, 1, 2, 3), "float32", 8, 8, root=2)
    np.testing.assert_allclose(traffic_matrix(trace_of(root))[2], [8, 8, 0, 8])
    assert traffic_matrix(trace_of(root)).sum() == 24


def test_traffic_of_a_large_job_is_that_of_runs_of_ranks() -> None:
    """131,072 ranks: of each pair it would be 128 GiB."""
    ring = Communication("all_reduce", tuple(range(131_072)), "float32", 8, 8)
    trace = Trace("large", 131_072, 1, dict.fromkeys((0, 255, 256, 131071), (ring,)))
    matrix = traffic_matrix(trace)
    sent = 2 * 131_071 / 131_072 * 8
    assert matrix.shape == (512, 512)  # 256 ranks each
    assert {place: matrix[place] for place in zip(*np.nonzero(matrix), strict=True)} == {
        (0, 0): sent,
        (0, 1): sent,
        (1, 1): sent,
        (511, 0): sent,
    }
    assert traffic_matrix(trace, 3).shape == (3, 3)  # 43,691, 43,691 and 43,690 ranks


def test_a_root_that_was_not_recorded_is_the_first_of_its_group_and_a_note_says_so() -> None:
    reduce = Communication("reduce", (2, 0, 1, 3), "float32", 8, 8)
    trace = trace_of(reduce, all_reduce(0, 0))
    np.testing.assert_allclose(traffic_matrix(trace)[:, 2], [8, 8, 0, 8])
    (note,) = summarize(trace).notes
    assert note == "4 rooted collectives have no recorded root: taken to be their group's first rank"
    assert summarize(trace_of(all_reduce(0, 8))).notes == ()


def test_a_group_is_called_what_its_collectives_called_it() -> None:
    events = [Communication("all_reduce", (0, 1), "int8", 4, 4, group_name=name) for name in ("13", "13", "dp")]
    names = dict.fromkeys(("0", "11", "12", "13", "dp"), (0, 1))  # communicators of the same ranks
    (group,) = summarize(Trace("hand", 2, 1, {0: tuple(events), 1: tuple(events)}, names)).groups
    assert group.name == "13, dp"
