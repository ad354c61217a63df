"""Ranks that recorded different windows of one job are cut to what all of them recorded."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topoflow.capture.merge import merge
from topoflow.capture.merge.parts import RankRecord, RecordedOperation
from topoflow.capture.merge.windows import CUT

ALL, EVEN, ODD = (0, 1, 2, 3), (0, 2), (1, 3)


def program(rank: int, steps: int) -> list[RecordedOperation]:
    """Three reductions in a group of two ranks and one of all, in each step; operations have numbers in their group."""
    numbers, operations = Counter[str](), []
    for _ in range(steps):
        for name, group, size in (("half", EVEN, 4), ("all", ALL, 8), ("half", EVEN, 12), ("all", ALL, 16)):
            members = (EVEN if rank in EVEN else ODD) if group == EVEN else ALL
            numbers[name] += 1
            label = f"{name} {members[0]}"
            operations.append(
                RecordedOperation("", "all_reduce", members, label, "int8", size, size, sequence=numbers[name])
            )
    return operations


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=4, max_size=4))
def test_windows_that_begin_and_end_anywhere_give_whole_steps_of_all_ranks(cuts: list[tuple[int, int]]) -> None:
    parts = []
    for rank, (early, late) in enumerate(cuts):
        recorded = program(rank, steps=8)
        window = recorded[early : len(recorded) - late]
        parts.append(RankRecord("", rank, tuple(window), "test", world_size=4))
    trace = merge(parts, "job")
    first = max(early for early, _ in cuts)
    end = 32 - max(late for _, late in cuts)
    common = program(0, steps=8)[first:end]
    for rank in ALL:
        sizes = [event.bytes for event in trace.communications(rank)]
        recorded = [event.bytes_in for event in program(rank, steps=8)]
        assert " ".join(map(str, sizes)) in " ".join(map(str, recorded)), "a window has no gaps"
        assert len(sizes) >= len(common), "what all ranks recorded is kept"
    if any(CUT in note for note in trace.notes):  # else each file numbers its own iterations
        assert trace.iterations >= len(common) // 4
        for rank in ALL:
            steps = Counter(event.iteration for event in trace.communications(rank))
            assert all(steps[number] == 4 for number in range(trace.iterations)), "every step is whole"


def hanging(
    groups: list[tuple[int, ...]], stuck: int, begun: int, ahead: list[int]
) -> dict[int, list[RecordedOperation]]:
    """The operations that each rank recorded of a job whose rank ``stuck`` begins ``begun`` operations and no more.

    A rank completes its operations in order, each with all members, and begins up to ``ahead`` after the one it is held
    up in.
    """
    numbers, recorded, held = Counter[tuple[int, ...]](), dict[int, list[RecordedOperation]](), dict[int, int]()
    for group in groups:
        numbers[group] += 1
        if stuck in group and len(recorded.get(stuck, [])) == begun:
            held[stuck] = 0
        completed = not held.keys() & set(group)
        for rank in group:
            left = held.setdefault(rank, 1 + ahead[rank]) if not completed else 1
            if left:
                operation = RecordedOperation(
                    "", "all_reduce", group, str(group), "int8", 8, 8, sequence=numbers[group]
                )
                recorded.setdefault(rank, []).append(replace(operation, completed=completed))
            if not completed:
                held[rank] = max(left - 1, 0)
    return recorded


@given(
    st.lists(st.sampled_from([ALL, EVEN, ODD, (0, 1), (1, 2, 3)]), min_size=1, max_size=30),
    st.integers(0, 3),
    st.integers(0, 29),
    st.lists(st.integers(0, 3), min_size=4, max_size=4),
)
def test_a_job_that_hangs_keeps_what_it_completed_and_names_the_rank_that_is_missing(
    groups: list[tuple[int, ...]], stuck: int, begun: int, ahead: list[int]
) -> None:
    recorded = hanging(groups, stuck, begun, ahead)
    parts = [RankRecord("file", rank, tuple(recorded.get(rank, [])), "test", world_size=4) for rank in ALL]
    waiting = any(
        not operation.completed and stuck in (operation.group or ())
        for operations in recorded.values()
        for operation in operations
    )
    completed = {rank: sum(operation.completed for operation in recorded.get(rank, [])) for rank in ALL}
    if not waiting:
        return
    if not all(completed.values()):
        with pytest.raises(ValueError, match=r"file: must have completed .*, which ranks? .* had not begun$"):
            merge(parts, "job")
        return
    trace = merge(parts, "job")
    for rank in ALL:
        assert len([*trace.communications(rank)]) == completed[rank]
    assert any(f"which rank {stuck} had not begun" in note for note in trace.notes)


@pytest.mark.parametrize("size", [2, 8])
@pytest.mark.parametrize("position", [0, 5])
def test_a_job_that_hangs_because_its_ranks_called_different_operations_says_which(position: int, size: int) -> None:
    """All ranks wait in the operation ``position``, which is another one, or of another size, on rank 3."""
    parts = []
    for rank in ALL:
        operations = [
            RecordedOperation("", "all_reduce", ALL, "g", "int8", 8, 8, sequence=number) for number in range(position)
        ]
        last = RecordedOperation("", "all_reduce", ALL, "g", "int8", 8, 8, sequence=position, completed=False)
        if rank == 3:
            last = replace(last, bytes_in=size, bytes_out=size, op="all_reduce" if size < 8 else "broadcast")
        parts.append(RankRecord("dump", rank, (*operations, last), "test", world_size=4))
    called = f"{'all_reduce' if size < 8 else 'broadcast'} of {size} B on rank 3"
    line = f"number {position} of group 'g' is not the same operation on all ranks: all_reduce of 8 B on ranks 0, 1, 2 "
    line += f"and {called}"
    if not position:
        with pytest.raises(ValueError, match=line):
            merge(parts, "job")
        return
    trace = merge(parts, "job")
    assert trace.notes[0] == line
    assert all(len(trace.ranks[rank]) == position for rank in ALL)
