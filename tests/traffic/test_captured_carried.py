"""A recording whose next iteration waits for communication: it runs next to what comes before that."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.traffic.test_captured_time import replayed
from topoflow.capture.base import Communication, ComputeSpan, Event, Trace
from topoflow.traffic.captured.iteration import recorded_iteration

SIZE = 8_000_000  # B; an all-reduce of two ranks sends as much


def recorded(iterations: int = 4) -> Trace:
    """Of two ranks: 3 s before the wait for the last all-reduce, 2 s after it, the next one is issued, 5 s."""
    events: list[Event] = []
    for number in range(iterations):
        first = len(events)
        last = (first - 1,) if number else ()
        sent = (first - 2,) if number else ()
        events += [
            ComputeSpan("before", None, None, 3.0, number, after=last),
            ComputeSpan("waits", None, None, 2.0, number, after=(first, *sent)),
            Communication("all_reduce", (0, 1), "uint8", SIZE, SIZE, number, group_name="x", after=(first + 1, *sent)),
            ComputeSpan("after", None, None, 5.0, number, after=(first + 1,)),
        ]
    return Trace("recorded", 2, iterations, {0: tuple(events), 1: tuple(events)})


@pytest.mark.parametrize(("seconds", "expected"), [(0, 10), (4, 10), (8, 10), (9, 11), (20, 22)])
def test_communication_that_the_next_iteration_waits_for_hides_behind_what_is_before_the_wait(
    seconds: float, expected: float
) -> None:
    # next to 5 s after it and 3 s of the next iteration; the 2 s between the wait and the next one are never hidden
    bandwidth = SIZE / seconds if seconds else 1e18
    assert replayed(recorded(), bandwidth) == pytest.approx(expected)


def test_every_event_counts_once_and_follows_what_it_followed() -> None:
    (first_rank, second_rank) = recorded_iteration(recorded()).ranks.values()
    assert first_rank == second_rank
    names = [event.name if isinstance(event, ComputeSpan) else event.op for event in first_rank.values()]
    assert names == ["waits", "all_reduce", "after", "before"]
    positions = list(first_rank)
    assert first_rank[positions[3]].after == (positions[2],)


def test_an_iteration_that_did_something_else_than_the_one_before_stays_as_it_is() -> None:
    trace = recorded(2)
    renamed = [replace(event, name="else") if isinstance(event, ComputeSpan) else event for event in trace.ranks[0][:4]]
    ranks = {rank: (*renamed, *trace.ranks[rank][4:]) for rank in (0, 1)}
    (iteration, _) = recorded_iteration(replace(trace, ranks=ranks, chosen=1)).ranks.values()
    assert list(iteration.values()) == [*trace.ranks[0][4:]]


def test_what_waits_within_its_iteration_stays_as_it_is() -> None:
    events: list[Event] = []
    for number in range(3):
        first = len(events)
        before = (first - 1, first - 2) if number else ()
        events += [
            ComputeSpan("c", None, None, 3.0, number, after=before[:1]),
            Communication("all_reduce", (0, 1), "uint8", SIZE, SIZE, number, after=(first, *before[1:])),
            ComputeSpan("d", None, None, 5.0, number, after=(first, first + 1)),
        ]
    trace = Trace("waits", 2, 3, {rank: tuple(events) for rank in (0, 1)})
    assert replayed(trace, SIZE / 4) == pytest.approx(12)
    assert [*recorded_iteration(trace).ranks[0].values()] == events[3:6]


def test_a_rank_that_waits_only_through_another_waits() -> None:
    # rank 1 does not wait for the all-reduce of "x", but reduces "y" together with rank 0 after that has
    events: dict[int, list[Event]] = {0: [], 1: []}
    for number in range(3):
        first = 4 * number
        sent = (first - 3,) if number else ()
        for rank, rank_events in events.items():
            rank_events += [
                ComputeSpan("waits", None, None, 1.0, number, after=sent if rank == 0 else ()),
                Communication("all_reduce", (0, 1), "uint8", SIZE, SIZE, number, group_name="x", after=(first, *sent)),
                Communication("all_reduce", (0, 1), "uint8", 8, 8, number, group_name="y", after=(first,)),
                ComputeSpan("last", None, None, 2.0, number, after=(first + 2,)),
            ]
    trace = Trace("through", 2, 3, {rank: tuple(rank_events) for rank, rank_events in events.items()})
    names = [
        [event.name if isinstance(event, ComputeSpan) else event.group_name for event in rank_events.values()]
        for rank_events in recorded_iteration(trace).ranks.values()
    ]
    assert names == [["waits", "x", "y", "last"], ["x", "y", "last", "waits"]]
