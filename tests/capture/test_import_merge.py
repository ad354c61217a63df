"""Ranks of one job agree, or the error names both; windows, steps, clocks and files of one rank fit together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from topoflow.capture.base import Communication, ComputeSpan, Trace
from topoflow.capture.merge import NO_COMPUTE, merge
from topoflow.capture.merge.parts import RankRecord, RecordedOperation

ALL_REDUCE = RecordedOperation("f: e", "all_reduce", (0, 1), "dp", "float32", 64, 64, (), ())


def part(rank: int, *events: ComputeSpan | RecordedOperation, **fields: object) -> RankRecord:
    placed = tuple(
        replace(event, place=f"rank{rank}.json: event {index}") if isinstance(event, RecordedOperation) else event
        for index, event in enumerate(events)
    )
    return replace(RankRecord(f"rank{rank}.json", rank, placed, "test", world_size=2), **fields)


def merged(*parts: RankRecord) -> Trace:
    return merge(parts, "job")


def operations(trace: Trace, rank: int) -> list[tuple[int, int]]:
    return [(event.iteration, event.bytes) for event in trace.communications(rank)]


def test_a_changed_operation_is_the_replaced_one() -> None:
    one = RecordedOperation("f: 1", "all_reduce", bytes_in=8)
    assert one.changed(group=(0, 1), bytes_in=4) == replace(one, group=(0, 1), bytes_in=4)
    assert one == RecordedOperation("f: 1", "all_reduce", bytes_in=8)
    with pytest.raises(AssertionError, match="must be fields of an operation"):
        one.changed(size=8)


def test_ranks_that_agree_become_one_trace() -> None:
    trace = merged(part(1, ALL_REDUCE), part(0, ALL_REDUCE))
    expected = Communication("all_reduce", (0, 1), "float32", 64, 64, group_name="dp")
    assert dict(trace.ranks) == {0: (expected,), 1: (expected,)}
    assert (trace.name, trace.notes) == ("job", (NO_COMPUTE,))


@pytest.mark.parametrize(
    "change",
    [
        {"op": "all_to_all"},
        {"dtype": "float16"},
        {"bytes_in": 32, "bytes_out": 32},
        {"group": (1, 0)},
    ],
    ids=["op", "dtype", "bytes", "group order"],
)
def test_ranks_that_disagree_are_named_with_file_and_event(change: dict[str, object]) -> None:
    other = replace(ALL_REDUCE, **change)
    with pytest.raises(ValueError, match=r"ranks (0 and 1|1 and 0): .*must do the same, got .* at rank0.json: event 0"):
        merged(part(0, ALL_REDUCE, ALL_REDUCE), part(1, other, ALL_REDUCE))


def test_a_missing_operation_is_named() -> None:
    with pytest.raises(ValueError, match=r"ranks 0 and 1: .* at rank0.json: event 1 and nothing on rank 1"):
        merged(part(0, ALL_REDUCE, ALL_REDUCE), part(1, ALL_REDUCE))


def test_sends_and_receives_are_paired_by_their_tags() -> None:
    sends = [RecordedOperation("", "send", (0, 1), "pp", "float32", 4 * tag, tag=tag, peer=1) for tag in (1, 2)]
    receives = [
        RecordedOperation("", "recv", (0, 1), "pp", "float32", None, 4 * tag, tag=tag, peer=0) for tag in (2, 1)
    ]
    trace = merged(part(0, *sends), part(1, *receives))
    assert [(event.tag, event.bytes) for event in trace.communications(1)] == [(2, 8), (1, 4)]
    with pytest.raises(ValueError, match=r"ranks 0 and 1: .* and nothing on rank 1"):
        merged(part(0, *sends), part(1, replace(receives[0], tag=3), receives[1]))


def test_splits_of_an_all_to_all_must_transpose() -> None:
    def side(into: tuple[int, ...], out: tuple[int, ...]) -> RecordedOperation:
        sizes = {"bytes_in": 4 * sum(into), "bytes_out": 4 * sum(out)}
        return replace(ALL_REDUCE, op="all_to_all", splits_in=into, splits_out=out, **sizes)

    merged(part(0, side((1, 2), (1, 5))), part(1, side((5, 7), (2, 7))))
    with pytest.raises(ValueError, match=r"splits \[1, 2\] to \[1, 5\].*splits \[6, 7\] to \[2, 7\]"):
        merged(part(0, side((1, 2), (1, 5))), part(1, side((6, 7), (2, 7))))


def test_equal_splits_may_be_written_or_left_out() -> None:
    equal = replace(ALL_REDUCE, op="all_to_all")
    trace = merged(part(0, equal), part(1, replace(equal, splits_in=(8, 8), splits_out=(8, 8))))
    assert operations(trace, 0) == operations(trace, 1) == [(0, 64)]


def test_a_send_needs_a_recv_of_the_same_size() -> None:
    send = replace(ALL_REDUCE, op="send", peer=1)
    recv = replace(ALL_REDUCE, op="recv", peer=0)
    trace = merged(part(0, send), part(1, recv))
    assert next(trace.communications(0)).bytes_out == 0
    assert next(trace.communications(1)).bytes_in == 0
    with pytest.raises(ValueError, match="ranks 0 and 1: members of a group must do the same"):
        merged(part(0, send), part(1, replace(recv, bytes_in=32, bytes_out=32)))


def test_what_the_window_cut_before_the_first_iteration_is_counted_back_from_it() -> None:
    early, late = (replace(ALL_REDUCE, iteration=-1, bytes_in=size, bytes_out=size) for size in (16, 32))
    trace = merged(part(0, early, late, ALL_REDUCE), part(1, late, ALL_REDUCE))
    assert operations(trace, 0) == operations(trace, 1) == [(-1, 32), (0, 64)]
    assert trace.notes == (
        "1 operations at the ends of the records were not recorded by all members and are left out",
        NO_COMPUTE,
    )


def test_sequence_numbers_align_windows_that_differ() -> None:
    events = [replace(ALL_REDUCE, sequence=n, bytes_in=4 * n, bytes_out=4 * n) for n in range(5, 10)]
    trace = merged(part(0, *events[:4]), part(1, *events[1:]))
    assert operations(trace, 0) == operations(trace, 1) == [(0, 24), (0, 28), (0, 32)]
    with pytest.raises(ValueError, match="nothing on rank 1"):
        merged(part(0, *events), part(1, *events[:2], *events[3:]))
    with pytest.raises(ValueError, match=r"ranks 0 and 1: .* got sequence numbers up to 6 and from 7 on"):
        merged(part(0, *events[:2]), part(1, *events[2:]))


def test_only_steps_that_all_ranks_recorded_are_kept() -> None:
    def steps(*numbers: int) -> tuple[RecordedOperation, ...]:
        sizes = [(index, 4 * number) for index, number in enumerate(numbers)]
        return tuple(replace(ALL_REDUCE, iteration=index, bytes_in=size, bytes_out=size) for index, size in sizes)

    trace = merged(part(0, *steps(4, 5, 6), steps=(4, 5, 6), iterations=3), part(1, *steps(5, 6), steps=(5, 6)))
    assert trace.iterations == 2
    assert operations(trace, 0) == operations(trace, 1) == [(0, 20), (1, 24)]
    assert trace.notes == ("1 events of steps that not all ranks recorded are left out", NO_COMPUTE)
    with pytest.raises(
        ValueError, match=r"rank0.json and rank1.json: must share a step, got steps 4..4 and steps 5..5"
    ):
        merged(part(0, *steps(4), steps=(4,)), part(1, *steps(5), steps=(5,)))


def test_clocks_of_the_ranks_have_one_origin() -> None:
    def at(start: float) -> RecordedOperation:
        return replace(ALL_REDUCE, issue=start, start=start, end=start + 1)

    epoch = 1_719_853_884_000_000_000
    trace = merged(part(0, at(0.5), epoch_ns=epoch), part(1, at(0.25), epoch_ns=epoch + 250_000_000))
    assert [next(trace.communications(rank)).start for rank in (0, 1)] == [0.5, 0.5]


def test_collectives_of_one_rank_are_left_out_and_those_after_them_keep_their_order() -> None:
    alone = replace(ALL_REDUCE, group=(0,), group_name="tp", after=(0,))
    first, last = ComputeSpan("a", None, None, 1.0, after=()), ComputeSpan("b", None, None, 1.0, after=(1,))
    trace = merged(part(0, first, alone, last))
    assert trace.ranks[0] == (first, replace(last, after=(0,)))
    assert trace.notes == ("1 collectives in groups of one rank move nothing and are left out",)


def test_one_name_for_two_groups_is_kept_apart_and_two_orders_of_one_group_are_not() -> None:
    trace = merged(part(0, groups={"tp": (0,)}), part(1, groups={"tp": (1,)}))
    assert trace.groups == {"tp": (0,), "tp@1": (1,)}
    with pytest.raises(ValueError, match=r"ranks 0 and 1: must agree on group 'dp', got \[0, 1\].*\[1, 0\]"):
        merged(part(0, groups={"dp": (0, 1)}), part(1, groups={"dp": (1, 0)}))


UNSIZED = replace(ALL_REDUCE, bytes_in=None, bytes_out=None, dtype=None)


def test_times_and_sizes_of_one_rank_are_joined_in_order() -> None:
    times = part(0, replace(UNSIZED, issue=1.0, iteration=3), iterations=4)
    trace = merged(times, part(0, ALL_REDUCE, timed=False))
    assert next(trace.communications(0)) == Communication(
        "all_reduce", (0, 1), "float32", 64, 64, iteration=3, issue=1.0, group_name="dp"
    )


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((ALL_REDUCE, ALL_REDUCE), "must record the same collectives of rank 0, got 1 and 2"),
        ((replace(ALL_REDUCE, op="broadcast"),), "must be the same, got all_reduce and broadcast"),
        ((replace(ALL_REDUCE, group=(1, 0)),), r"group must be the same, got \(0, 1\) and \(1, 0\)"),
    ],
)
def test_files_of_one_rank_that_contradict_each_other_are_named(
    sizes: tuple[RecordedOperation, ...], message: str
) -> None:
    with pytest.raises(ValueError, match=r"rank0.json.* and rank0.json.*: " + message):
        merged(part(0, UNSIZED), part(0, *sizes, timed=False))


def test_unknown_sizes_are_an_error_and_never_a_guess() -> None:
    with pytest.raises(ValueError, match=r"rank0.json: event 0: all_reduce must have a size, got none: profile with"):
        merged(part(0, UNSIZED))
    with pytest.raises(ValueError, match="all_to_all must have splits, got none"):
        merged(part(0, replace(ALL_REDUCE, op="all_to_all", splits_in=None, splits_out=None)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bytes_out": 32}, "all_reduce of 2 ranks must have fitting sizes, got 64 B in and 32 B out"),
        ({"op": "all_gather"}, "all_gather of 2 ranks must have fitting sizes"),
        ({"op": "all_to_all", "splits_in": (1, 2)}, r"splits must be 2 that add up to 64 B, got \[1, 2\]"),
        (
            {"op": "all_to_all", "bytes_in": 12, "bytes_out": 12},
            "all_to_all without splits must divide by 2 ranks, got 12 B",
        ),
        ({"group": (0, 2)}, r"group must hold rank 0 and be within 0..1, got \[0, 2\]"),
        ({"group": (1,)}, "group must hold rank 0"),
        ({"op": "send", "peer": 0}, "peer must be another rank of its group, got 0"),
        ({"op": "send"}, "peer: a send must name its peer"),
        ({"op": "broadcast", "root": 5}, "root must be a rank of its group, got 5"),
    ],
)
def test_an_operation_that_breaks_a_law_is_named(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match="rank0.json: event 0: " + message):
        merged(part(0, replace(ALL_REDUCE, **change)))


@pytest.mark.parametrize(
    ("op", "sizes", "derived"),
    [
        ("all_gather", (64, None), (64, 128)),
        ("reduce_scatter", (64, None), (64, 32)),
        ("reduce_scatter", (None, 32), (64, 32)),
        ("barrier", (None, None), (0, 0)),
        ("broadcast", (None, 64), (64, 64)),
    ],
)
def test_a_size_that_follows_from_the_other_is_derived(
    op: str, sizes: tuple[int | None, int | None], derived: tuple[int, int]
) -> None:
    event = replace(ALL_REDUCE, op=op, bytes_in=sizes[0], bytes_out=sizes[1])
    communication = next(merged(part(0, event)).communications(0))
    assert (communication.bytes_in, communication.bytes_out) == derived
