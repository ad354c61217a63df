"""What waits for what in a recorded iteration."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.twins.fluid import simulate
from topoflow.capture.base import Communication, ComputeSpan, Event, Trace
from topoflow.engine.lowering.placement import place
from topoflow.fabric.ideal_switch import IdealSwitch
from topoflow.strategy.as_captured import AsCaptured
from topoflow.traffic.captured.dependencies import steps
from topoflow.traffic.captured.iteration import recorded_iteration
from topoflow.traffic.lower import lower
from topoflow.workload.base import RecordedJob
from topoflow.workload.gpu import Gpu


def compute(name: str, start: float | None = None, end: float | None = None, after=None) -> ComputeSpan:
    seconds = end - start if start is not None and end is not None else 1.0
    return ComputeSpan(name, start, end, seconds, after=after)


def reduce(
    name: str, start: float | None = None, end: float | None = None, after=None, ranks: int = 1
) -> Communication:
    return Communication(
        "all_reduce", tuple(range(ranks)), "float32", 8, 8, start=start, end=end, group_name=name, after=after
    )


def point(op: str, peer: int, after: tuple[int, ...] | None = ()) -> Communication:
    return Communication(op, (0, 1), "float32", 8, 8, peer=peer, after=after)


def label(event: Event) -> str:
    return event.name if isinstance(event, ComputeSpan) else event.group_name or event.op


def order(*ranks: tuple[Event, ...]) -> dict[str, set[str]]:
    """Label of each step -> labels of the steps that it directly follows; in the order of the steps."""
    job = steps(recorded_iteration(Trace("toy", len(ranks), 1, dict(enumerate(ranks)))))
    names = [label(step.members[0].event) for step in job]
    return {name: {names[earlier] for earlier in step.after} for name, step in zip(names, job, strict=True)}


def test_the_drawing_of_the_module() -> None:
    predecessors = order(
        (
            compute("c0", 0.0, 1.0),
            reduce("A", 1.0, 3.0),
            compute("c1", 1.1, 2.0),
            reduce("B", 3.0, 5.0),
            compute("c2", 5.1, 6.0),
        )
    )
    # A and B are communicators of their own here: B follows c1 only; c2 began after both had ended, in the gap
    assert predecessors == {"c0": set(), "A": {"c0"}, "c1": {"c0"}, "B": {"c1"}, "c2": {"c1", "A", "B"}}


def test_compute_beside_a_collective_does_not_wait_for_it() -> None:
    predecessors = order((compute("c0", 0, 1), reduce("A", 1, 2), compute("c1", 1, 3), compute("c2", 3, 4)))
    assert predecessors["c1"] == {"c0"}
    assert predecessors["c2"] == {"c1"}  # A had ended while c1 ran: there was no gap to wait in


def test_a_communicator_works_in_order() -> None:
    ranks = (compute("c0", 0, 1), reduce("A", 1, 2), reduce("A", 2, 3))
    job = steps(recorded_iteration(Trace("toy", 1, 1, {0: ranks})))
    assert [step.after for step in job] == [(), (0,), (0, 1)]


def test_a_collective_waits_for_what_had_been_computed_when_it_began() -> None:
    events = {0: (compute("c0", 0, 1), compute("c1", 1, 4), reduce("A", 2, 3), compute("c2", 4, 5))}
    job = steps(recorded_iteration(Trace("toy", 1, 1, events)))
    spans = [(label(step.members[0].event), step.members[0].seconds, step.after) for step in job]
    # c1 is cut where A began; A had ended while it ran: there was no gap in which it, or c2, could have waited for A
    assert sorted(spans) == [("A", 0, (1,)), ("c0", 1, ()), ("c1", 1, (0,)), ("c1", 2, (1,)), ("c2", 1, (2,))]


def test_compute_on_two_streams_is_united() -> None:
    events = {0: (compute("c0", 0, 4), compute("c1", 1, 6), compute("c2", 2, 3), compute("c3", 7, 8))}
    job = steps(recorded_iteration(Trace("toy", 1, 1, events)))
    # 0 to 6, then 1 s in which the host held it up
    assert [(label(step.members[0].event), step.members[0].seconds) for step in job] == [
        ("c0", 4),
        ("c1", 2),
        ("c3", 2),
    ]


def test_without_times_order_is_all_we_know() -> None:
    predecessors = order((compute("c0"), reduce("A"), compute("c1"), reduce("B")))
    assert predecessors == {"c0": set(), "A": {"c0"}, "c1": {"c0", "A"}, "B": {"c1"}}


def test_what_was_recorded_goes_before_what_could_be_inferred() -> None:
    predecessors = order((compute("c0", 0, 1, ()), reduce("A", 1, 2, (0,)), compute("c1", 3, 4, (0,))))
    assert predecessors["c1"] == {"c0"}


def test_a_collective_waits_for_all_its_members() -> None:
    predecessors = order(
        (compute("c0", after=()), reduce("A", after=(0,), ranks=2)),
        (compute("d0", after=()), reduce("A", after=(0,), ranks=2), compute("d1", after=(0, 1))),
    )
    assert predecessors["A"] == {"c0", "d0"}
    assert predecessors["d1"] == {"d0", "A"}


def test_operations_of_a_group_match_one_by_one() -> None:
    group = tuple(range(2))
    events = tuple(Communication("broadcast", group, "float32", size, size, root=0, after=()) for size in (8, 16))
    job = steps(recorded_iteration(Trace("toy", 2, 1, {0: events, 1: events})))
    assert [{member.event.bytes_in for member in step.members} for step in job] == [{8}, {16}]


def test_a_transfer_waits_for_its_sender_only() -> None:
    predecessors = order(
        (compute("c0", after=()), point("send", 1, (0,))),
        (compute("d0", after=()), point("recv", 0, (0,)), compute("d1", after=(0, 1))),
    )
    assert predecessors["send"] == {"c0"}
    assert predecessors["d1"] == {"d0", "send"}


def timed(op: str, peer: int, start: float, end: float) -> Communication:
    return Communication(op, (0, 1), "float32", 8, 8, peer=peer, start=start, end=end)


def test_a_transfer_waits_for_a_receive_that_began_before_it_ended() -> None:
    late = (compute("d0", 0, 3), timed("recv", 0, 3, 4))
    assert order((compute("c0", 0, 1), timed("send", 1, 1, 4)), late)["send"] == {"c0", "d0"}
    assert order((compute("c0", 0, 1), timed("send", 1, 1, 2)), late)["send"] == {"c0"}  # it had ended: an eager one
    early = (timed("recv", 0, 0, 4), compute("d0", 4, 5))
    assert order((compute("c0", 0, 1), timed("send", 1, 1, 4)), early)["send"] == {"c0"}


def test_clocks_that_contradict_each_other_make_no_circle() -> None:
    """Each receive follows a compute that follows the send of its rank, and began before the other's send had ended."""
    ranks = [(timed("send", 1 - rank, 0, 1), compute("c", 1, 2), timed("recv", 1 - rank, 2, 9)) for rank in (0, 1)]
    skewed = (replace(ranks[0][0], end=3), *ranks[0][1:]), (replace(ranks[1][0], end=3), *ranks[1][1:])
    followed = tuple((send, replace(c, start=3, end=3.5), replace(recv, start=2.5)) for send, c, recv in skewed)
    job = steps(recorded_iteration(Trace("toy", 2, 1, dict(enumerate(followed)))))
    assert len(job) == 4


def test_two_ranks_may_both_send_before_they_receive() -> None:
    # with rendezvous this would be a circle; small messages are sent eagerly, and the script did run
    job = steps(
        recorded_iteration(
            Trace(
                "toy",
                2,
                1,
                {
                    0: (point("send", 1), compute("c", after=(0,)), point("recv", 1, (1,))),
                    1: (point("send", 0), compute("d", after=(0,)), point("recv", 0, (1,))),
                },
            )
        )
    )
    assert len(job) == 4


def test_a_tag_tells_which_receive_takes_a_send() -> None:
    small, large = (replace(point("send", 1), tag=tag, bytes_in=size) for tag, size in ((1, 8), (2, 64)))
    early, late = (replace(point("recv", 0), tag=tag, bytes_out=size) for tag, size in ((2, 64), (1, 8)))
    job = steps(recorded_iteration(Trace("toy", 2, 1, {0: (small, large), 1: (early, late)})))
    assert {tuple(member.event.bytes for member in step.members) for step in job} == {(8, 8), (64, 64)}


def test_a_circle_of_waiting_is_refused() -> None:
    def both(first: str, second: str) -> tuple[Communication, Communication]:
        return reduce(first, after=(), ranks=2), reduce(second, after=(0,), ranks=2)

    with pytest.raises(ValueError, match="got a circle of waiting through rank 0 event"):
        order(both("A", "B"), both("B", "A"))


def test_what_an_earlier_iteration_ended_is_not_waited_for() -> None:
    events = tuple(
        event
        for number in range(3)
        for event in (
            ComputeSpan("c", 2.0 * number, 2.0 * number + 1, 1.0, number, (2 * number - 1,) if number else ()),
            Communication("all_reduce", (0,), "float32", 8, 8, number, after=(2 * number,)),
        )
    )
    job = steps(recorded_iteration(Trace("toy", 1, 3, {0: events})))
    assert [step.after for step in job] == [(), (0,)]


@pytest.mark.parametrize(
    ("bandwidth", "finishes"),
    [
        (1e9, {"is ready": 0.25, "follows": 0.5, "waits": 1.5}),  # the transfer takes 1 s
        (1e18, {"is ready": 0.25, "waits": 0.75, "follows": 1.0}),
    ],
)
def test_a_rank_computes_what_became_ready_first(bandwidth: float, finishes: dict[str, float]) -> None:
    """Rank 0 sends 1 GB to rank 1, whose second span needs it; the third is ready from the beginning."""
    group = (0, 1)
    sender: tuple[Event, ...] = (Communication("send", group, "float32", 10**9, 0, peer=1, after=()),)
    receiver: tuple[Event, ...] = (
        Communication("recv", group, "float32", 0, 10**9, peer=0, after=()),
        ComputeSpan("waits", None, None, 0.5, after=(0,)),
        ComputeSpan("is ready", None, None, 0.25, after=()),
        ComputeSpan("follows", None, None, 0.25, after=(2,)),
    )
    workload = RecordedJob(Trace("some", 2, 1, {0: sender, 1: receiver}), Gpu("toy", {"float32": 1.0}, 1.0, 1e12, 1.0))
    traffic = lower(workload, AsCaptured().place(workload, None))
    fabric = IdealSwitch(bandwidth=bandwidth, degree=1, latency=0.0).build(traffic.servers, traffic.demand())
    timeline = simulate(place(traffic, fabric, name="some"))
    ends = {name.removesuffix(" rank 1"): end for name, end in zip(traffic.names(), timeline.task_finish, strict=True)}
    assert {name: ends[name] for name in finishes} == pytest.approx(finishes)
