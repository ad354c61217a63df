"""Quantiles of histograms: never below the exact ones, and above them by the width of a range at most."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from topoflow.arrays import Floats
from topoflow.engine.base import Histogram

VALUES = st.lists(st.floats(1e-9, 1.0), min_size=1, max_size=200).map(np.array)
EDGES = np.geomspace(1e-9, 1.5, 50)


def histogram(values: Floats) -> Histogram:
    count, _ = np.histogram(values, EDGES)
    (bins,) = np.nonzero(count)
    return Histogram(EDGES[bins], EDGES[bins + 1], count[bins], float(values.sum()), float(values.max()))


@given(VALUES, st.floats(0.0, 1.0))
def test_a_quantile_is_above_the_exact_one_by_a_range_at_most(values: Floats, share: float) -> None:
    exact = float(np.quantile(values, share, method="inverted_cdf"))
    width = np.diff(EDGES)[np.searchsorted(EDGES, exact, side="right") - 1]
    assert exact <= histogram(values).quantile(share) <= exact + width


@given(VALUES)
def test_median_99_percent_and_longest_ascend(values: Floats) -> None:
    counts = histogram(values)
    assert counts.quantile(0.5) <= counts.quantile(0.99) <= counts.largest == counts.quantile(1.0)


@given(st.floats(1e-9, 1.0), st.integers(1, 100))
def test_of_equal_values_all_quantiles_are_the_value(value: float, count: int) -> None:
    """So the mean is not above them, as the middle of a range was."""
    counts = histogram(np.full(count, value))
    assert {counts.quantile(share) for share in (0.0, 0.5, 0.99, 1.0)} == {value}


def test_without_values_quantiles_are_0() -> None:
    none = np.zeros(0)
    assert Histogram(none, none, none.astype(np.int64), 0.0, 0.0).quantile(0.5) == 0.0
