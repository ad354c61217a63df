"""A recorded job whose communication runs on while its next iteration computes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.traffic.test_captured_time import replayed
from topoflow.capture.base import Communication, ComputeSpan, Event, Trace
from topoflow.traffic.captured.iteration import recorded_iteration

BANDWIDTH = 1e9  # B/s, of the recorded network: an all-reduce of two ranks takes its bytes / BANDWIDTH
ITERATIONS = 4
MS = 1e-3

spans = st.lists(st.tuples(st.integers(0, 20), st.integers(1, 40)), min_size=1, max_size=5)  # (idle before, busy), ms


def laid_out(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """(begin, length) one after the other."""
    placed, at = [], 0
    for idle, busy in spans:
        placed.append((at + idle, busy))
        at += idle + busy
    return placed


def repeated(computed: list[tuple[int, int]], sent: list[tuple[int, int]], period: int, lag: int = 0) -> Trace:
    """(begin, length) in ms of what two ranks did in every iteration; rank 1 began ``lag`` later."""

    def events(rank: int) -> tuple[Event, ...]:
        late = rank * lag * MS
        timed: list[tuple[float, Event]] = []
        for number in range(ITERATIONS):
            for begin, length in computed:
                at = (number * period + begin) * MS
                computes = ComputeSpan(f"c{begin}", at + late, at + late + length * MS, length * MS, number)
                timed.append((at, computes))
            for begin, length in sent:
                at, size = (number * period + begin) * MS, round(length * MS * BANDWIDTH)
                group, times = (0, 1), {"issue": at, "start": at, "end": at + length * MS, "group_name": "x"}
                timed.append((at, Communication("all_reduce", group, "uint8", size, size, number, **times)))
        return tuple(event for _, event in sorted(timed, key=lambda item: item[0]))

    return Trace("repeated", 2, ITERATIONS, {0: events(0), 1: events(1)})


@given(spans, spans, st.integers(0, 30), st.integers(0, 200))
def test_a_job_that_repeats_itself_takes_its_period_and_no_less_than_it_computes(
    computes: list[tuple[int, int]], sends: list[tuple[int, int]], idle: int, late: int
) -> None:
    """Whatever runs over the end of an iteration, be it compute's, idle, or far into the next."""
    computed, sent = laid_out(computes), laid_out(sends)
    period = max(sum(computed[-1]), sum(sent[-1]) - sent[0][0]) + idle
    first = min(late, period - 1 - sent[-1][0]) if sent[-1][0] < period else 0
    sent = [(begin + max(first, 0), length) for begin, length in sent if begin + max(first, 0) < period]
    trace = repeated(computed, sent, period)
    busy = sum(length for _, length in computed) * MS
    assert replayed(trace, BANDWIDTH) == pytest.approx(period * MS, rel=1e-6)
    assert busy * (1 - 1e-9) <= replayed(trace, 1e18) <= period * MS * (1 + 1e-9)


def test_an_all_gather_that_the_next_iteration_overlaps_does_not_hold_up_a_job() -> None:
    # 10 ms of compute; from 9 ms on parameters are gathered, until 4 ms into the next iteration
    trace = repeated([(0, 5), (5, 5)], [(5, 1), (9, 5)], 10)
    assert replayed(trace, 1e18) == pytest.approx(10 * MS)
    assert replayed(trace, BANDWIDTH) == pytest.approx(10 * MS)
    (events,) = {tuple(events.values()) for events in recorded_iteration(trace).ranks.values()}
    assert sum(event.seconds for event in events if isinstance(event, ComputeSpan)) == pytest.approx(10 * MS)
    assert sum(event.bytes for event in events if isinstance(event, Communication)) == round(6 * MS * BANDWIDTH)


def test_what_two_ranks_share_is_cut_alike() -> None:
    # the all-reduce at 1 ms of an iteration is under way, on another communicator, where the one of 9 to 12 ms ends
    trace = repeated([(0, 10)], [(9, 3)], 10, lag=1)
    other = {
        rank: tuple(
            Communication("all_reduce", (0, 1), "uint8", 4_000_000, 4_000_000, number, **times, group_name="y")
            for number in range(ITERATIONS)
            for times in [{"start": (10 * number + rank) * MS, "end": (10 * number + 5) * MS}]
        )
        for rank in (0, 1)
    }
    both = Trace("both", 2, ITERATIONS, {rank: trace.ranks[rank] + other[rank] for rank in (0, 1)})
    sizes = [
        [event.bytes for event in events.values() if isinstance(event, Communication) and event.group_name == "y"]
        for events in recorded_iteration(both).ranks.values()
    ]
    assert sizes == [[3_000_000, 1_000_000]] * 2  # of 1 to 5 ms, when rank 1 had joined, 2 to 5 are in the period
