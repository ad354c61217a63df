"""Shares of a step: unions of intervals that add up to the step, on jobs of known sums and on a real profile."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from topoflow.capture.base import Communication, ComputeSpan, Event, Trace
from topoflow.capture.intervals import covered, intersection, merge, total
from topoflow.capture.load import load
from topoflow.capture.periods import representative
from topoflow.capture.shares import RankShare, shared_operations, shares
from topoflow.capture.summary import summarize


def all_reduce(start: float, end: float, group: tuple[int, ...] = (0, 1), size: int = 8) -> Communication:
    return Communication("all_reduce", group, "float32", size, size, start=start, end=end)


def shares_of(ranks: dict[int, tuple[Event, ...]], world_size: int = 2) -> tuple[RankShare, ...]:
    trace = Trace("hand", world_size, 1, ranks)
    return shares(trace, representative(trace), shared_operations(trace))


def step(late: float) -> tuple[Event, ...]:
    """Return compute until ``late`` s, then an all-reduce until 10 s next to compute from 6 s to 7 s."""
    return ComputeSpan("f", 0.0, late, late), all_reduce(late, 10.0), ComputeSpan("g", 6.0, 7.0, 1.0)


def test_compute_exposed_communication_and_idle_time_add_up_to_the_step() -> None:
    idle = ComputeSpan("f", 0.0, 1.0, 1.0), ComputeSpan("g", 2.0, 4.0, 2.0), all_reduce(3.0, 8.0)
    for share in shares_of({0: idle, 1: (ComputeSpan("f", 0.0, 6.0, 5.0), all_reduce(6.0, 10.0))}):
        assert (share.compute or 0.0) + (share.exposed or 0.0) + (share.host_idle or 0.0) == pytest.approx(1.0)
        assert (share.hidden or 0.0) + (share.exposed or 0.0) == pytest.approx(share.communication)
        assert (share.waiting or 0.0) + (share.transfer or 0.0) == pytest.approx(share.exposed)


def test_a_rank_waits_until_the_slowest_member_has_begun() -> None:
    # rank 0 joins at 2 s, rank 1 at 5 s, and data move until 10 s: 3 s of waiting, 5 s of transfer, 1 s of these hidden
    first, second = shares_of({0: step(2.0), 1: step(5.0)})
    assert (first.waiting, first.transfer, first.hidden) == pytest.approx((0.3, 0.4, 0.1))
    assert (second.waiting, second.transfer) == pytest.approx((0.0, 0.4))
    assert [(share.last, share.delay) for share in (first, second)] == [(0, 0), (1, 3.0)]


def test_a_rank_that_others_wait_for_is_a_straggler() -> None:
    group = (0, 1, 2)
    starts = {0: 1.0, 1: 1.5, 2: 4.0}
    ranks = {
        rank: (ComputeSpan("f", 0.0, start, start), all_reduce(start, 6.0, group)) for rank, start in starts.items()
    }
    summary = summarize(Trace("hand", 3, 1, ranks))
    assert summary.stragglers == (2,)
    assert [share.delay for share in summary.shares] == [0, 0, 2.5]  # rank 1 would have joined at 1.5 s


def test_waiting_for_a_rank_that_was_not_recorded_is_unknown() -> None:
    (share,) = shares_of({0: step(2.0)})
    assert (share.waiting, share.transfer, share.last) == (None, None, None)
    assert share.exposed == pytest.approx(0.7)
    (note,) = summarize(Trace("hand", 2, 1, {0: step(2.0)})).notes
    assert "1 operations of iteration 0 have members that were not recorded" in note


def test_without_compute_nothing_is_said_to_be_exposed_or_idle() -> None:
    share, _ = shares_of({rank: (all_reduce(0.0, 4.0), all_reduce(6.0, 10.0)) for rank in (0, 1)})
    assert share.communication == pytest.approx(0.8)
    assert (share.compute, share.exposed, share.host_idle) == (None, None, None)


def test_bus_bandwidth_is_that_of_nccl_tests_from_when_the_last_member_began() -> None:
    # 4 members reduce 8 GB from 2 s to 6 s: 2 * 3/4 * 8 GB / 4 s
    group = (0, 1, 2, 3)
    ranks = {rank: (all_reduce(rank / 1.5, 6.0, group, 8_000_000_000),) for rank in group}
    (line,) = summarize(Trace("hand", 4, 1, ranks), link_bandwidth=12e9).collectives
    assert line.bus_bandwidth == pytest.approx(3e9)
    assert line.link_share == pytest.approx(0.25)


def test_steps_repeat_if_they_communicate_alike() -> None:
    sizes = (4, 8, 8, 8)
    events = tuple(
        event
        for number, size in enumerate(sizes)
        for event in (
            ComputeSpan("f", 10.0 * number, 10.0 * number + 5, 5.0, number),
            Communication(
                "all_reduce",
                (0, 1),
                "float32",
                size,
                size,
                number,
                start=10.0 * number + 5,
                end=10.0 * number + 8 + number / 4,
            ),
        )
    )
    steps = summarize(Trace("hand", 2, 4, {0: events, 1: events})).steps
    assert (steps.whole, steps.alike) == (4, 3)
    assert (steps.shortest, steps.longest) == (10.25, 10.25)


def test_what_is_covered_is_the_length_of_an_intersection() -> None:
    spans = merge(np.array([[0.0, 3.0], [5.0, 6.0], [8.0, 9.0]]))
    for begin in np.arange(-1, 10, 0.5):
        for end in np.arange(begin, 10, 0.5):
            before = covered(spans, np.array([begin, end]))
            assert before[1] - before[0] == pytest.approx(total(intersection(spans, np.array([[begin, end]]))))
    assert covered(merge(np.zeros((0, 2))), np.array([1.0])).tolist() == [0.0]


def union(rows: list[dict[str, Any]], begin: float, end: float) -> np.ndarray:
    spans = np.array([[row["ts"], row["ts"] + row["dur"]] for row in rows]).reshape(-1, 2)
    return intersection(merge(spans), np.array([[begin, end]]))


@pytest.mark.parametrize(
    "file",
    [
        "hta_single_rank/nccl_parser_config_nccl_data.json.gz",
        *(f"megatron_tp2/kineto_rank{rank}.pt.trace.json.gz" for rank in (0, 1)),
    ],
)
def test_shares_are_the_unions_of_the_device_rows_of_a_profile(file: str, shared_data: Path) -> None:
    trace = load([shared_data / file])
    period = representative(trace)
    (share,) = shares(trace, period, shared_operations(trace))
    assert period.begin is not None
    assert period.end is not None
    assert share.iteration_time is not None
    assert share.exposed is not None
    events = json.loads(gzip.decompress((shared_data / file).read_bytes()))["traceEvents"]
    rows = [row for row in events if row.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    (imported,) = trace.ranks.values()
    origin = min(row["ts"] for row in rows) - min(event.start for event in imported if event.start is not None) * 1e6
    window = origin + period.begin * 1e6, origin + period.end * 1e6
    communication = union([row for row in rows if row["name"].startswith("nccl")], *window)
    compute = union([row for row in rows if not row["name"].startswith("nccl")], *window)
    hidden = total(intersection(communication, compute))
    microseconds = share.iteration_time * 1e6
    assert share.compute == pytest.approx(total(compute) / microseconds, rel=1e-4)
    assert share.hidden == pytest.approx(hidden / microseconds, rel=1e-4)
    assert share.exposed == pytest.approx((total(communication) - hidden) / microseconds, rel=1e-4)
