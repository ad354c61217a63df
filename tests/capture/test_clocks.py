"""Ranks on hosts whose clocks differ are brought onto one clock."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topoflow.capture.base import Communication, ComputeSpan, Event
from topoflow.capture.load import load
from topoflow.capture.merge.clocks import LEAST_SHARE, clock_offsets
from topoflow.capture.periods import representative


def rank(shift: float, groups: list[tuple[int, ...]], own: int) -> tuple[Event, ...]:
    """Reduces twice in each of its groups; the ends are the same on all ranks, but for the clock."""
    events: list[Event] = []
    for turn, group in enumerate(groups * 2):
        if own in group:
            start, end = shift + turn, shift + turn + 0.5
            events.append(Communication("all_reduce", group, "int8", 4, 4, start=start, end=end, group_name=str(group)))
    return tuple(events)


@given(st.lists(st.floats(-10, 10), min_size=4, max_size=4))
def test_offsets_are_found_along_the_groups(shifts: list[float]) -> None:
    groups = [(0, 1), (2, 3), (1, 3)]
    found = clock_offsets({own: rank(shift, groups, own) for own, shift in enumerate(shifts)})
    least = LEAST_SHARE * 3.5  # s: the step of ranks 0 and 2, whose operations are the first or second, and three later
    for own, shift in enumerate(shifts):
        ahead = shift - shifts[0]
        if abs(abs(ahead) - least) > 1e-9:
            assert found.get(own, 0.0) == pytest.approx(ahead if abs(ahead) > least else 0.0, abs=1e-9)


@given(st.floats(-10, 10), st.lists(st.tuples(st.floats(0.001, 1), st.floats(0.001, 1)), min_size=1, max_size=8))
def test_clocks_of_ranks_that_only_exchange_messages_are_known_to_half_a_round_trip(
    ahead: float, latencies: list[tuple[float, float]]
) -> None:
    """Rank 1, whose clock is ``ahead``, answers each message of rank 0."""
    events: dict[int, list[Event]] = {0: [], 1: []}
    for number, (there, back) in enumerate(latencies):
        for sender, latency in ((0, there), (1, back)):
            for own, time in ((sender, 0.0), (1 - sender, latency)):
                end = 10.0 * number + 5 * sender + time + ahead * own
                op = "send" if own == sender else "recv"
                events[own].append(
                    Communication(op, (0, 1), "int8", 4, 4, peer=1 - own, start=end - 1, end=end, group_name="pair")
                )
    found = clock_offsets({own: tuple(each) for own, each in events.items()}).get(1, 0.0)
    there, back = min(each for each, _ in latencies), min(each for _, each in latencies)
    soonest = min(there + ahead, back - ahead)
    if soonest > 1e-9:
        assert found == 0, "no message arrived before it was sent"
    elif soonest < -1e-9:
        assert found - ahead == pytest.approx((there - back) / 2, abs=LEAST_SHARE * 10 * len(latencies))


def ring(shifts: list[float], latency: float) -> dict[int, tuple[Event, ...]]:
    """Each rank sends two messages to the next one; clocks are ahead by ``shifts``."""
    size = len(shifts)
    events: dict[int, list[Event]] = {own: [] for own in range(size)}
    for number in range(2 * size):
        sender, receiver = number % size, (number + 1) % size
        for own, op, peer, end in ((sender, "send", receiver, number), (receiver, "recv", sender, number + latency)):
            end += shifts[own]
            events[own].append(Communication(op, tuple(range(size)), "int8", 4, 4, peer=peer, start=end - 0.5, end=end))
    return {own: tuple(each) for own, each in events.items()}


@given(st.lists(st.floats(-10, 10), min_size=3, max_size=5), st.floats(0.001, 0.01))
def test_clocks_of_a_ring_of_messages_are_known_to_a_turn_of_it(shifts: list[float], latency: float) -> None:
    found = clock_offsets(ring(shifts, latency))
    for own, shift in enumerate(shifts):
        left = shift - found.get(own, 0.0) - (shifts[0] - found.get(0, 0.0))
        assert abs(left) <= len(shifts) * (latency + 20 * LEAST_SHARE)


def test_messages_that_contradict_each_other_set_no_clock() -> None:
    ranks = ring([0.0, 0.0, 5.0], 0.01)
    wrong = ranks[1][0]
    assert isinstance(wrong, Communication)
    assert clock_offsets({**ranks, 1: (replace(wrong, end=-50.0, start=-51.0), *ranks[1][1:])}) == {}


@given(st.lists(st.floats(0.1, 1), min_size=1, max_size=4), st.integers(1, 3))
def test_a_clock_is_not_set_by_operations_that_end_at_other_times_on_each_rank(late: list[float], groups: int) -> None:
    """Either of two ranks ends as often later, by as much."""
    ranks: dict[int, list[Event]] = {0: [], 1: []}
    for turn, seconds in enumerate(late * 2 * groups):
        for own in (0, 1):
            end = 2.0 * turn + seconds * (own == (turn // len(late)) % 2)
            ranks[own].append(Communication("all_reduce", (0, 1), "int8", 4, 4, start=end - 1, end=end))
    assert clock_offsets({own: tuple(events) for own, events in ranks.items()}) == {}


def test_ranks_that_share_no_collective_keep_their_clocks() -> None:
    assert clock_offsets({own: rank(5.0 * own, [(0, 1), (2, 3)], own) for own in (0, 2)}) == {}


def profile(path: Path, own: int, clock: float) -> None:
    """Two steps of 100 us on rank ``own``, whose host's clock is ahead by ``clock`` us."""

    def row(cat: str, name: str, ts: float, dur: float, tid: int = 1, **args: Any) -> dict[str, Any]:
        return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": ts + clock, "dur": dur, "args": args}

    events = []
    for number in range(2):
        begin = 100.0 * number
        described = {
            "Collective name": "allreduce",
            "dtype": "Float",
            "In msg nelems": 8,
            "Out msg nelems": 8,
            "Process Group Name": "0",
            "Process Group Ranks": "[0, 1]",
        }
        events += [
            row("user_annotation", f"ProfilerStep#{number}", begin, 100),
            row("cuda_runtime", "cudaLaunchKernel", begin + 1, 1, correlation=10 * number + 1),
            row("kernel", "gemm", begin + 5, 30 + 20 * own, 7, correlation=10 * number + 1),
            row("cpu_op", "record_param_comms", begin + 3, 4, **described),
            row("cuda_runtime", "cudaLaunchKernel", begin + 4, 1, correlation=10 * number + 2),
            row("kernel", "ncclDevKernel", begin + 35 + 20 * own, 60 - 20 * own, 9, correlation=10 * number + 2),
        ]
    info = {"rank": own, "world_size": 2, "pg_config": [{"pg_name": "0", "ranks": [0, 1]}]}
    path.write_text(json.dumps({"distributedInfo": info, "traceEvents": events}))


@pytest.mark.parametrize(("clock", "said"), [(0.0, None), (30.0, "30 us"), (70_000.0, "70 ms"), (-3_000_000.0, "3 s")])
def test_a_clock_that_is_ahead_changes_no_time_and_is_noted(tmp_path: Path, clock: float, said: str | None) -> None:
    for own in (0, 1):
        profile(tmp_path / f"rank{own}.json", own, clock * own)
    trace = load([tmp_path / "rank0.json", tmp_path / "rank1.json"])
    assert representative(trace).seconds == pytest.approx(100e-6)
    computes = [event for event in trace.ranks[1] if isinstance(event, ComputeSpan)]
    assert [event.start for event in computes] == pytest.approx([5e-6, 105e-6])
    note = f"the clocks of 1 ranks are set by the ends of their operations: at most {said}, of rank 1"
    assert [each for each in trace.notes if "clocks" in each] == ([note] if said else [])
