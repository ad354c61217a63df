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


def rank(shift: float, groups: list[tuple[int, ...]], member: int) -> tuple[Event, ...]:
    """Reduces twice in each of its groups; the ends are the same on all ranks, but for the clock."""
    events: list[Event] = []
    for turn, group in enumerate(groups * 2):
        if member in group:
            start, end = shift + turn, shift + turn + 0.5
            events.append(Communication("all_reduce", group, "int8", 4, 4, start=start, end=end, group_name=str(group)))
    return tuple(events)


@given(st.lists(st.floats(-10, 10), min_size=4, max_size=4))
def test_offsets_are_found_along_the_groups(shifts: list[float]) -> None:
    groups = [(0, 1), (2, 3), (1, 3)]
    offsets = clock_offsets({member: rank(shift, groups, member) for member, shift in enumerate(shifts)})
    # s: the step of ranks 0 and 2, whose operations are the first or second, and three later
    threshold = LEAST_SHARE * 3.5
    for member, shift in enumerate(shifts):
        ahead = shift - shifts[0]
        if abs(abs(ahead) - threshold) > 1e-9:
            assert offsets.get(member, 0.0) == pytest.approx(ahead if abs(ahead) > threshold else 0.0, abs=1e-9)


@given(st.floats(-10, 10), st.lists(st.tuples(st.floats(0.001, 1), st.floats(0.001, 1)), min_size=1, max_size=8))
def test_clocks_of_ranks_that_only_exchange_messages_are_known_to_half_a_round_trip(
    ahead: float, latencies: list[tuple[float, float]]
) -> None:
    """Rank 1, whose clock is ``ahead``, answers each message of rank 0."""
    events: dict[int, list[Event]] = {0: [], 1: []}
    for number, (forward, backward) in enumerate(latencies):
        for sender, latency in ((0, forward), (1, backward)):
            for member, time in ((sender, 0.0), (1 - sender, latency)):
                end = 10.0 * number + 5 * sender + time + ahead * member
                op = "send" if member == sender else "recv"
                events[member].append(
                    Communication(op, (0, 1), "int8", 4, 4, peer=1 - member, start=end - 1, end=end, group_name="pair")
                )
    offset = clock_offsets({member: tuple(rank_events) for member, rank_events in events.items()}).get(1, 0.0)
    forward, backward = min(seconds for seconds, _ in latencies), min(seconds for _, seconds in latencies)
    soonest = min(forward + ahead, backward - ahead)
    if soonest > 1e-9:
        assert offset == 0, "no message arrived before it was sent"
    elif soonest < -1e-9:
        assert offset - ahead == pytest.approx((forward - backward) / 2, abs=LEAST_SHARE * 10 * len(latencies))


def ring(shifts: list[float], latency: float) -> dict[int, tuple[Event, ...]]:
    """Each rank sends two messages to the next one; clocks are ahead by ``shifts``."""
    size = len(shifts)
    events: dict[int, list[Event]] = {member: [] for member in range(size)}
    for number in range(2 * size):
        sender, receiver = number % size, (number + 1) % size
        for member, op, peer, end in ((sender, "send", receiver, number), (receiver, "recv", sender, number + latency)):
            end += shifts[member]
            events[member].append(
                Communication(op, tuple(range(size)), "int8", 4, 4, peer=peer, start=end - 0.5, end=end)
            )
    return {member: tuple(rank_events) for member, rank_events in events.items()}


@given(st.lists(st.floats(-10, 10), min_size=3, max_size=5), st.floats(0.001, 0.01))
def test_clocks_of_a_ring_of_messages_are_known_to_a_turn_of_it(shifts: list[float], latency: float) -> None:
    offsets = clock_offsets(ring(shifts, latency))
    for member, shift in enumerate(shifts):
        error = shift - offsets.get(member, 0.0) - (shifts[0] - offsets.get(0, 0.0))
        assert abs(error) <= len(shifts) * (latency + 20 * LEAST_SHARE)


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
        for member in (0, 1):
            end = 2.0 * turn + seconds * (member == (turn // len(late)) % 2)
            ranks[member].append(Communication("all_reduce", (0, 1), "int8", 4, 4, start=end - 1, end=end))
    assert clock_offsets({member: tuple(events) for member, events in ranks.items()}) == {}


def test_ranks_that_share_no_collective_keep_their_clocks() -> None:
    assert clock_offsets({member: rank(5.0 * member, [(0, 1), (2, 3)], member) for member in (0, 2)}) == {}


def profile(path: Path, member: int, clock: float) -> None:
    """Two steps of 100 us on rank ``member``, whose host's clock is ahead by ``clock`` us."""

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
            row("kernel", "gemm", begin + 5, 30 + 20 * member, 7, correlation=10 * number + 1),
            row("cpu_op", "record_param_comms", begin + 3, 4, **described),
            row("cuda_runtime", "cudaLaunchKernel", begin + 4, 1, correlation=10 * number + 2),
            row("kernel", "ncclDevKernel", begin + 35 + 20 * member, 60 - 20 * member, 9, correlation=10 * number + 2),
        ]
    info = {"rank": member, "world_size": 2, "pg_config": [{"pg_name": "0", "ranks": [0, 1]}]}
    path.write_text(json.dumps({"distributedInfo": info, "traceEvents": events}))


@pytest.mark.parametrize(("clock", "noted"), [(0.0, None), (30.0, "30 us"), (70_000.0, "70 ms"), (-3_000_000.0, "3 s")])
def test_a_clock_that_is_ahead_changes_no_time_and_is_noted(tmp_path: Path, clock: float, noted: str | None) -> None:
    for member in (0, 1):
        profile(tmp_path / f"rank{member}.json", member, clock * member)
    trace = load([tmp_path / "rank0.json", tmp_path / "rank1.json"])
    assert representative(trace).seconds == pytest.approx(100e-6)
    computes = [event for event in trace.ranks[1] if isinstance(event, ComputeSpan)]
    assert [event.start for event in computes] == pytest.approx([5e-6, 105e-6])
    note = f"the clocks of 1 ranks are set by the ends of their operations: at most {noted}, of rank 1"
    assert [line for line in trace.notes if "clocks" in line] == ([note] if noted else [])
