"""What waited for a transfer in a recording waits for it on a slower network, too."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import topoflow
from tests.capture.hosts import RECORDED, prefetching, write_profiles


@settings(max_examples=10)
@given(st.lists(st.integers(200, 3000), min_size=1, max_size=5), st.integers(10, 100), st.booleans())
def test_a_chain_of_waits_obeys_its_closed_form_at_any_bandwidth(
    layers: list[int], kilobytes: int, numbered: bool
) -> None:
    rows = prefetching(layers, 10_000 * kilobytes, numbered)
    with TemporaryDirectory() as folder:
        write_profiles(Path(folder), [rows])
        results = topoflow.compare(
            f"workload.trace={folder}",
            workload="captured",
            fabric="ideal_switch",
            degree=1,
            latency_us=0,
            bandwidth_gbps=[RECORDED, 25, 10],
        )
    for result, speed in zip(results, (RECORDED, 25, 10), strict=True):
        transfer = 10_000 * kilobytes * 8 / speed / 1e3
        computed = sum(max(seconds, transfer) for seconds in layers[:-1]) + layers[-1]
        assert result.iteration_time * 1e6 == pytest.approx(transfer + computed + 100, rel=1e-3)
