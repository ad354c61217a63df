"""How long the events of a recorded rank take, beside what they wait for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.twins.fluid import simulate
from topoflow.capture.base import Communication, ComputeSpan, Event, Trace
from topoflow.capture.load import load
from topoflow.capture.periods import representative
from topoflow.case.rows import compute_time, host_time
from topoflow.engine.lowering.placement import place
from topoflow.fabric.ideal_switch import IdealSwitch
from topoflow.strategy.as_captured import AsCaptured
from topoflow.traffic.captured.dependencies import steps
from topoflow.traffic.captured.iteration import recorded_iteration
from topoflow.traffic.lower import lower
from topoflow.workload.base import RecordedJob
from topoflow.workload.gpu import Gpu

GPU = Gpu("toy", {"float32": 1.0}, 1.0, 1e12, 1.0)


def compute(name: str, start: float, end: float, busy: float, **other) -> ComputeSpan:
    return ComputeSpan(name, start, end, busy, **other)


def reduce(name: str, start: float, end: float, **other) -> Communication:
    return Communication("all_reduce", (0,), "float32", 8, 8, start=start, end=end, group_name=name, **other)


def times(*events: Event) -> dict[str, float]:
    job = steps(recorded_iteration(Trace("toy", 1, 1 + max(event.iteration for event in events), {0: events})))
    members = [step.members[0] for step in job]
    return {m.event.name if isinstance(m.event, ComputeSpan) else m.event.group_name: m.seconds for m in members}


def replayed(trace: Trace, bandwidth: float) -> float:
    """Iteration time of a trace on an ideal switch, s."""
    workload = RecordedJob(trace, GPU)
    traffic = lower(workload, AsCaptured().place(workload, None))
    fabric = IdealSwitch(bandwidth=bandwidth, degree=1, latency=0.0).build(traffic.servers, traffic.demand())
    return simulate(place(traffic, fabric, name="replay")).makespan


def test_what_the_host_held_up_is_part_of_the_job() -> None:
    seconds = times(
        compute("c0", 0.0, 2.0, 1.5),  # its own gaps count: 2.0
        reduce("A", 2.5, 4.0),  # 2.5 - 2.0 after c0 was over
        compute("c1", 3.0, 3.5, 0.5),  # beside A: nothing but the host held it up, 3.5 - 2.0
        reduce("B", 4.0, 7.0),  # after c1: 4.0 - 3.5
        compute("c2", 7.25, 8.0, 0.75),  # waited for B: 8.0 - 7.0
    )
    assert seconds == pytest.approx({"c0": 2.0, "A": 0.5, "c1": 1.5, "B": 0.5, "c2": 1.0})


def test_only_the_time_in_which_kernels_ran_is_computing() -> None:
    events = (
        compute("c0", 0.0, 2.0, 1.5),
        reduce("A", 2.5, 4.0),
        compute("c1", 3.0, 3.5, 0.25),
        compute("c2", 7.25, 8.0, 0.75),
    )
    traffic = lower(job := RecordedJob(Trace("toy", 1, 1, {0: events}), GPU), AsCaptured().place(job, None))
    assert compute_time(traffic) == pytest.approx(1.5 + 0.25 + 0.75)
    assert host_time(traffic) == pytest.approx(8.0 - 2.5 - 0.5)  # 0.5: c2 waited for A after c1


def test_compute_that_is_cut_where_communications_begin_is_as_busy_as_whole() -> None:
    events = (compute("c0", 0.0, 4.0, 1.0), reduce("A", 1.0, 3.0))
    traffic = lower(job := RecordedJob(Trace("toy", 1, 1, {0: events}), GPU), AsCaptured().place(job, None))
    assert (compute_time(traffic), host_time(traffic)) == pytest.approx((1.0, 3.0))


def test_an_iteration_begins_where_the_one_before_ended() -> None:
    def iteration(number: int, begin: float) -> tuple[Event, Event]:
        return (
            compute(f"c{number}", begin, begin + 1.0, 1.0, iteration=number),
            reduce("A", begin + 1.0, begin + 2.0, iteration=number),
        )

    # 2 s, half a second of nothing, 2 s again: nobody knows when the first began; the second takes 2.5 s
    assert times(*iteration(0, 0.0), *iteration(1, 2.5))["c1"] == pytest.approx(1.5)
    seconds = times(*iteration(0, 0.0), *iteration(1, 2.5), *iteration(2, 6.0))  # periods of 2.5 and 3.5 s
    assert seconds["c1"] == pytest.approx(1.5)  # 3.5 - 2.0


def test_what_the_record_says_an_event_followed_has_its_own_time() -> None:
    seconds = times(compute("c0", 0.0, 2.0, 1.5, after=()), compute("c1", 5.0, 6.0, 0.25, after=(0,)))
    assert seconds == {"c0": 1.5, "c1": 0.25}


def test_a_communication_without_times_says_nothing_about_the_host() -> None:
    cut = Communication("all_reduce", (0,), "float32", 8, 8, group_name="cut")
    assert times(compute("c0", 0.0, 1.0, 1.0), cut, compute("c1", 5.0, 6.0, 1.0))["c1"] == pytest.approx(1.0)


def test_a_profiled_job_replays_as_long_as_it_was(shared_data) -> None:
    # ResNet-50 on two A100 of one server (NVLink, 1e11 B/s is enough): 102 MB are reduced beside 215 ms of a backward
    # pass that mostly waits for its host; what remains beside compute is less than 2% of the step
    trace = load([shared_data / "hta_single_rank" / "nccl_parser_config_nccl_data.json.gz"])
    assert replayed(trace, 1e11) == pytest.approx(representative(trace).seconds, rel=0.02)


def test_a_late_rank_holds_up_its_group_as_it_did(shared_data) -> None:
    # Megatron TP2: rank 1 waited 48 ms of 58 in collectives for rank 0, whose host was late
    trace = load(sorted((shared_data / "megatron_tp2").glob("kineto_*.gz")))
    assert replayed(trace, 1e10) == pytest.approx(representative(trace).seconds, rel=0.01)


EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_the_recorded_example_replays_no_longer_than_its_record_on_an_infinite_network() -> None:
    trace = load([EXAMPLES / "ddp_4_ranks.jsonl.gz"])
    assert replayed(trace, 1e18) <= representative(trace).seconds


def test_no_real_trace_replays_longer_than_its_record_on_an_infinite_network(shared_data, dlrm_traces) -> None:
    resnet = shared_data / "hta_single_rank" / "nccl_parser_config_nccl_data.json.gz"
    # NVLink of V100 and A100, in one server: 1e11 B/s; two V100-PCIE: 1e10 B/s
    for files, bandwidth in (([resnet], 1e11), ([*dlrm_traces], 1e11), ([shared_data / "megatron_tp2"], 1e10)):
        trace = load(files)
        period = representative(trace).seconds
        assert replayed(trace, 1e18) <= period
        assert replayed(trace, bandwidth) == pytest.approx(period, rel=0.05)
