"""Sets of time behave like sets."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from topoflow.capture.intervals import intersection, merge, total

SPANS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 9)), max_size=12).map(
    lambda pairs: np.array([(start, start + length) for start, length in pairs], float).reshape(-1, 2)
)


def seconds(spans: np.ndarray) -> set[int]:
    """The whole seconds within intervals with whole ends."""
    return {second for start, end in spans for second in range(int(start), int(end))}


@given(SPANS)
def test_merging_keeps_the_union_and_leaves_no_overlap(spans: np.ndarray) -> None:
    merged = merge(spans)
    assert seconds(merged) == seconds(spans)
    assert (merged[1:, 0] > merged[:-1, 1]).all()
    assert total(merged) == len(seconds(spans))


@given(SPANS, SPANS)
def test_the_intersection_is_in_both(one: np.ndarray, other: np.ndarray) -> None:
    both = intersection(merge(one), merge(other))
    assert seconds(both) == seconds(one) & seconds(other)
    assert total(both) == len(seconds(one) & seconds(other))
