"""What waited for a transfer in a recording waits for it on a slower network, too."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import topoflow
from tests.capture.hosts import RECORDED, Host, prefetching, write_profiles


@settings(max_examples=20)
@given(
    st.lists(st.integers(200, 1500), min_size=2, max_size=5),
    st.integers(50, 150),
    st.sampled_from(["rows", "numbers", "events"]),
)
def test_a_chain_of_waits_obeys_its_closed_form_at_any_bandwidth(layers: list[int], kilobytes: int, waits: str) -> None:
    rows = prefetching(layers, 10_000 * kilobytes, waits)
    with TemporaryDirectory() as folder:
        write_profiles(Path(folder), [rows])
        replayed = step_times(Path(folder))
    for speed, microseconds in replayed.items():
        transfer = 10_000 * kilobytes * 8 / speed / 1e3
        computed = sum(max(seconds, transfer) for seconds in layers[:-1]) + layers[-1]
        assert microseconds == pytest.approx(transfer + computed + 100, rel=1e-3)


@pytest.mark.parametrize("waits", ["Context Sync", "Stream Sync", "Event Sync"])
def test_what_the_host_launches_after_it_waited_for_a_transfer_waits_for_it(waits: str, tmp_path: Path) -> None:
    # 2 ms of compute while 1 MB is gathered, for which the host waits, and 1 ms of compute after that
    host = Host("events")
    for step in range(3):
        host.now = begin = 4000.0 * step
        recorded = host.gather(begin + 100, 80, 1_000_000)
        host.launch("gemm", begin + 100, 2000, 7)
        described = {"wait_on_stream": 20, "wait_on_cuda_event_record_corr_id": recorded}
        described["correlation"] = host.call("cudaSynchronize")
        host.row("cuda_sync", waits, host.now, 0, -1 if waits == "Context Sync" else 20, **described)
        host.wait_for_event(8, 7, -1)  # another pair of streams
        host.launch("gemm", begin + 2100, 1000, 7)
        host.row("user_annotation", f"ProfilerStep#{step}", begin, 3100)
    write_profiles(tmp_path, [host.rows])
    for speed, microseconds in step_times(tmp_path).items():
        assert microseconds == pytest.approx(1000 + max(2000, 8e6 / speed / 1e3) + 1000, rel=1e-3)


def step_times(folder: Path) -> dict[int, float]:
    """The step time (us) of the job in a folder on an ideal switch, by bandwidth (Gb/s)."""
    speeds = (RECORDED, 25, 2)
    results = topoflow.compare(
        f"workload.trace={folder}",
        workload="captured",
        fabric="ideal_switch",
        degree=1,
        latency_us=0,
        bandwidth_gbps=[*speeds],
    )
    return {speed: result.iteration_time * 1e6 for speed, result in zip(speeds, results, strict=True)}
