"""A recorded job replays as long as it was: on random jobs that ran on a network of known speed."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.twins.fluid import simulate
from topoflow.capture.base import Communication, ComputeSpan, Event, Trace
from topoflow.capture.periods import periods, representative
from topoflow.engine.lowering.placement import place
from topoflow.fabric.ideal_switch import IdealSwitch
from topoflow.strategy.as_captured import AsCaptured
from topoflow.traffic.lower import lower
from topoflow.workload.base import RecordedJob
from topoflow.workload.gpu import Gpu

GPU = Gpu("toy", {"float32": 1.0}, 1.0, 1e12, 1.0)
BANDWIDTH = 100.0  # B/s, of the network that the jobs ran on


@dataclass
class Rank:
    """A GPU with streams, and its host, while the job runs."""

    host: float = 0.0  # s, how far the host has come
    free: dict[int, float] = field(default_factory=dict)  # stream -> when it has nothing left to do
    events: list[Event] = field(default_factory=list)

    def run(self, stream: int, seconds: float, iteration: int, communicates: bool) -> None:
        start = max(self.host, self.free.get(stream, 0.0))
        self.free[stream] = start + seconds
        self.events.append(ComputeSpan("k", start, start + seconds, seconds, iteration, communicates=communicates))


Op = tuple[str, int, float, float]  # what, stream or 1 if compute waits for it, amount, share by which ranks differ


def run(program: list[Op], ranks: int, iterations: int, bandwidth: float) -> Trace:
    """The record of a job: every rank executes the program; an all-reduce begins when all have joined it."""
    gpus = [Rank() for _ in range(ranks)]
    for iteration in range(iterations):
        for kind, stream, amount, skew in [*program, ("sync", 0, 0.0, 0.0), ("compute", 0, 1.0, 0.0)]:
            for index, gpu in enumerate(gpus):
                gpu.host += 0.01
                seconds = amount * (1 + skew * index / ranks)
                if kind == "host":
                    gpu.host += seconds
                elif kind == "sync":
                    gpu.host = max([gpu.host, *gpu.free.values()])
                elif kind in ("compute", "unsized"):
                    gpu.run(stream, seconds, iteration, kind == "unsized")
            if kind == "send":
                _send(gpus, int(100 * amount), iteration, waited=stream == 1, bandwidth=bandwidth)
            if kind == "reduce":
                _reduce(gpus, int(100 * amount), iteration, waited=stream == 1, bandwidth=bandwidth)
    return Trace("random", ranks, iterations, {rank: tuple(gpu.events) for rank, gpu in enumerate(gpus)})


def _reduce(gpus: list[Rank], size: int, iteration: int, waited: bool, bandwidth: float) -> None:
    """On a stream of its own (-1), after what stream 0 was given before."""
    group = tuple(range(len(gpus)))
    starts = [max(gpu.host, gpu.free.get(0, 0.0), gpu.free.get(-1, 0.0)) for gpu in gpus]
    end = max(starts) + 2 * (len(gpus) - 1) / len(gpus) * size / bandwidth
    for gpu, start in zip(gpus, starts, strict=True):
        times = {"issue": gpu.host, "start": start, "end": end}
        gpu.events.append(Communication("all_reduce", group, "int8", size, size, iteration, **times))
        gpu.free[-1] = end
        if waited:
            gpu.free[0] = end


def _send(gpus: list[Rank], size: int, iteration: int, waited: bool, bandwidth: float) -> None:
    """From the first rank to the last, which may be late: both kernels last until all has arrived, as NCCL's do."""
    ends = (gpus[0], "send", len(gpus) - 1), (gpus[-1], "recv", 0)
    starts = [max(gpu.host, gpu.free.get(0, 0.0), gpu.free.get(-2, 0.0)) for gpu, _, _ in ends]
    end = max(starts) + size / bandwidth
    for start, (gpu, op, peer) in zip(starts, ends, strict=True):
        times = {"issue": gpu.host, "start": start, "end": end}
        bytes = (size, 0) if op == "send" else (0, size)
        group = tuple(range(len(gpus)))
        gpu.events.append(Communication(op, group, "int8", *bytes, iteration, peer=peer, group_name="pair", **times))
        gpu.free[-2] = end
        if waited:
            gpu.free[0] = end


def replayed(trace: Trace, bandwidth: float) -> float:
    workload = RecordedJob(trace, GPU)
    traffic = lower(workload, AsCaptured().place(workload, None))
    fabric = IdealSwitch(bandwidth=bandwidth, degree=1, latency=0.0).build(traffic.servers, traffic.demand())
    return simulate(place(traffic, fabric, name="replay")).makespan


seconds = st.floats(0.1, 8.0)
share = st.sampled_from([0.0, 0.0, 0.5, 2.0])


def programs(communication: str) -> st.SearchStrategy[list[Op]]:
    """Of one kind of communication, each of which has the network for itself."""
    return st.lists(
        st.one_of(
            st.tuples(st.sampled_from(["compute", "unsized"]), st.integers(0, 2), seconds, share),
            st.tuples(st.just("host"), st.just(0), seconds, share),
            st.tuples(st.just(communication), st.integers(0, 1), seconds, st.just(0.0)),
        ),
        min_size=1,
        max_size=9,
    )


program = st.sampled_from(["reduce", "reduce", "send"]).flatmap(programs)


@given(program, st.integers(2, 3))
def test_on_its_own_network_a_job_takes_its_recorded_period_and_on_an_infinite_one_no_longer(
    program: list[Op], ranks: int
) -> None:
    trace = run(program, ranks, 3, BANDWIDTH)
    period = representative(trace).seconds
    assert period is not None
    assert replayed(trace, 1e18) <= period * (1 + 1e-9)
    assert replayed(trace, BANDWIDTH) == pytest.approx(period, rel=0.05)


@given(program)
@settings(max_examples=50)
def test_a_replay_on_a_faster_network_is_between_what_was_recorded_and_what_the_job_would_take(
    program: list[Op],
) -> None:
    """Of one stream, with a host that holds nothing up.

    The upper end is no approximation: a profile does not say that what ran after a collective did not wait for it.
    """
    operations = [(kind, 0 if kind == "unsized" else stream, amount, skew) for kind, stream, amount, skew in program]
    operations = [
        (kind, 0 if kind == "compute" else stream, *rest) for kind, stream, *rest in operations if kind != "host"
    ]
    trace = run(operations, 2, 3, BANDWIDTH)
    recorded, other = (representative(recording).seconds for recording in (trace, run(operations, 2, 3, 2 * BANDWIDTH)))
    assert recorded is not None
    assert other is not None
    assert (1 - 1e-9) * other <= replayed(trace, 2 * BANDWIDTH) <= (1 + 1e-9) * recorded


def test_periods_add_up_to_the_time_of_the_job() -> None:
    trace = run([("compute", 0, 1.0, 0.5), ("reduce", 1, 2.0, 0.0)], 2, 4, BANDWIDTH)
    every = periods(trace)
    ends = [event.end or 0.0 for events in trace.ranks.values() for event in events]
    starts = [event.start or 0.0 for events in trace.ranks.values() for event in events]
    assert sum(period.seconds or 0.0 for period in every) == pytest.approx(max(ends) - min(starts))


def test_what_ran_on_from_before_the_first_iteration_is_no_part_of_it() -> None:
    # launched before the window: busy until 61 ms; the iteration's own work is from 45 to 80 ms
    early = ComputeSpan("early", 0.0, 0.061, 0.061, iteration=-1)
    job = (early, ComputeSpan("a", 0.045, 0.065, 0.02), ComputeSpan("b", 0.066, 0.080, 0.014))
    trace = Trace("cut", 1, 1, {0: job})
    assert representative(trace).seconds == pytest.approx(0.019)
    assert replayed(trace, 1e18) == pytest.approx(0.019)


def test_a_rank_that_leaves_a_broadcast_early_does_not_wait_in_the_replay() -> None:
    def cast(start: float, end: float) -> Communication:
        return Communication("broadcast", (0, 1), "int8", 0, 0, root=0, start=start, end=end)

    root = (cast(0.0, 0.5), ComputeSpan("a", 0.5, 9.5, 9.0))
    late = (ComputeSpan("b", 0.0, 4.0, 4.0), cast(4.0, 4.5), ComputeSpan("c", 4.5, 5.0, 0.5))
    trace = Trace("early", 2, 1, {0: root, 1: late})
    assert replayed(trace, 1e18) <= 9.5
