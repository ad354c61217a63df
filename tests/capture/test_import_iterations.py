"""Iterations are found from marks or from repetition."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from topoflow.capture.iterations import between_marks, by_repetition

sequences = st.lists(st.integers(0, 3), max_size=60)


def test_positions_between_marks_belong_to_the_mark_before() -> None:
    assert between_marks([5, 10, 12, 25], [10, 20]) == [-1, 0, 0, 1]


def test_a_prefix_that_does_not_repeat_is_set_up() -> None:
    assert by_repetition("xabcabcabc") == [-1, 0, 0, 0, 1, 1, 1, 2, 2, 2]


def test_without_repetition_there_is_one_iteration() -> None:
    assert by_repetition("abcdefgg") == [0] * 8
    assert by_repetition("a") == [0]
    assert by_repetition("") == []


@given(period=st.lists(st.integers(0, 3), min_size=1, max_size=12), times=st.integers(2, 6))
def test_repetitions_of_one_sequence_are_all_found(period: list[int], times: int) -> None:
    iterations = by_repetition(period * times)
    assert iterations[0] == 0
    # a period that itself repeats is split further, never merged
    assert (iterations[-1] + 1) % times == 0


@given(sequences)
def test_every_iteration_repeats_the_same(keys: list[int]) -> None:
    numbers = by_repetition(keys)
    assert numbers == sorted(numbers)
    iterations = [
        [key for key, n in zip(keys, numbers, strict=True) if n == i] for i in range(max(numbers, default=0) + 1)
    ]
    assert all(iteration == iterations[0] for iteration in iterations)


def test_a_hundred_thousand_operations_all_alike_are_as_many_iterations() -> None:
    # the worst case of a naive search: 10^10 comparisons, which would run into the time limit
    assert max(by_repetition([0] * 100_000)) == 99_999
