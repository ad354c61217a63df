"""Jobs that are simulated on one network, recorded, and replayed on a faster one, which they are simulated on, too."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.traffic.test_captured_time import replayed
from topoflow.capture.base import Communication, ComputeSpan, Event, Trace
from topoflow.capture.periods import representative

BANDWIDTH = 1e9  # B/s of the recorded network; an all-reduce of two ranks sends its bytes
ITERATIONS, RECORDED = 24, 6  # the last are recorded, when the job is in its steady state
MS = 1e-3


@dataclass(frozen=True)
class Reduce:
    """An all-reduce that is issued after a compute, and waited for before another one, of the next iteration or not."""

    issued: int
    waited: int
    next_iteration: bool
    seconds: float


@dataclass(frozen=True)
class Job:
    """What two ranks compute in an iteration, ``computes[rank]`` (s), and their all-reduces in the order of issue."""

    computes: tuple[tuple[float, ...], tuple[float, ...]]
    reduces: tuple[Reduce, ...]

    def run(self, faster: float) -> tuple[Trace, float]:
        """The last iterations on a network that is ``faster`` than the recorded one, and how long one takes (s)."""
        free, network = [0.0, 0.0], 0.0
        events: tuple[list[Event], list[Event]] = ([], [])
        ended: dict[tuple[int, Reduce], float] = {}
        ends = []
        for number in range(ITERATIONS):
            iteration = max(-1, number - (ITERATIONS - RECORDED))
            for at in range(len(self.computes[0])):
                for rank in (0, 1):
                    awaited = [
                        ended.get((number - reduce.next_iteration, reduce), 0.0)
                        for reduce in self.reduces
                        if reduce.waited == at
                    ]
                    start, seconds = max([free[rank], *awaited]), self.computes[rank][at]
                    free[rank] = start + seconds
                    events[rank].append(ComputeSpan(f"c{at}", start, start + seconds, seconds, iteration))
                for reduce in self.reduces:
                    if reduce.issued == at:
                        joined = [max(network, issue) for issue in free]
                        network = max(joined) + reduce.seconds / faster
                        ended[number, reduce] = network
                        size = round(reduce.seconds * BANDWIDTH)
                        for rank in (0, 1):
                            times = {"issue": free[rank], "start": joined[rank], "end": network, "group_name": "x"}
                            events[rank].append(
                                Communication("all_reduce", (0, 1), "uint8", size, size, iteration, **times)
                            )
            ends.append(max(free))
        trace = Trace("job", 2, RECORDED, {rank: tuple(rank_events) for rank, rank_events in enumerate(events)})
        return trace, (ends[-1] - ends[-1 - ITERATIONS // 2]) / (ITERATIONS // 2)


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    count = draw(st.integers(1, 4))
    lengths = st.lists(st.integers(1, 20), min_size=count, max_size=count)
    computes = tuple(tuple(MS * length for length in draw(lengths)) for _ in range(2))
    reduces = []
    for _ in range(draw(st.integers(1, 3))):
        issued = draw(st.integers(0, count - 1))
        later = issued + 1 == count or draw(st.booleans())
        waited = draw(st.integers(0, issued) if later else st.integers(issued + 1, count - 1))
        reduces.append(Reduce(issued, waited, later, MS * draw(st.integers(1, 25))))
    return Job(computes, tuple(sorted(reduces, key=lambda reduce: reduce.issued)))


@settings(max_examples=60)
@given(jobs(), st.sampled_from([1.0, 2.0, 4.0, 1e9]))
def test_a_replay_is_as_long_as_the_record_and_never_shorter_than_the_job_on_a_faster_network(
    job: Job, faster: float
) -> None:
    trace, period = job.run(1.0)
    assert representative(trace).seconds == pytest.approx(period)
    assert replayed(trace, BANDWIDTH) == pytest.approx(period)
    _, on_faster = job.run(faster)
    assert on_faster * (1 - 1e-9) <= replayed(trace, BANDWIDTH * faster) <= period * (1 + 1e-9)
