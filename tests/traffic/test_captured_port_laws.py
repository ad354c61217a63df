"""A recorded collective is not faster than the ports of its ranks, whatever its sizes and wherever its ranks are."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topoflow.capture.base import Communication, Trace
from topoflow.demand import Demand
from topoflow.engine.fluid import Fluid
from topoflow.engine.lowering.placement import place
from topoflow.fabric.ideal_switch import IdealSwitch
from topoflow.operations import COLLECTIVES, ROOTED, bus_factor
from topoflow.strategy.as_captured import AsCaptured
from topoflow.traffic.captured.job import lower_captured
from topoflow.workload.base import RecordedJob
from topoflow.workload.gpu import Gpu

LOCAL = 100.0  # B/s of the port of a rank to the others of its server
ROUNDING = 1e-9
BYTES_PER_MEMBER = 120  # bytes that a member hands to another in a gather or a scatter


def exchange(group: tuple[int, ...], sends: tuple[int, ...], receives: tuple[int, ...]) -> Communication:
    """Return an uneven all-to-all as one rank saw it."""
    return Communication(
        "all_to_all", group, "uint8", sum(sends), sum(receives), splits_in=sends, splits_out=receives, after=()
    )


@st.composite
def recorded(draw: st.DrawFn) -> tuple[dict[int, Communication], int, int]:
    """Draw one collective of any ranks, by member; how many ranks there are, and how many on each server."""
    per_server = draw(st.sampled_from([1, 2, 4]))
    ranks = per_server * draw(st.integers(1, 4))
    group = tuple(draw(st.permutations(range(ranks)))[: draw(st.integers(1, ranks))])
    op, size = draw(st.sampled_from(COLLECTIVES)), len(group) * BYTES_PER_MEMBER
    root = draw(st.sampled_from(group)) if op in ROOTED else None
    one = Communication(op, group, "uint8", size, size, root=root, after=())
    if op == "all_to_all":
        counts = st.lists(st.sampled_from([0, 1, 40, 1000]), min_size=len(group), max_size=len(group))
        table = np.array([draw(counts) for _ in group])
        rows = [
            (tuple(sends), tuple(receives)) for sends, receives in zip(table.tolist(), table.T.tolist(), strict=True)
        ]
        events = [
            Communication(op, group, "uint8", sum(sends), sum(receives), splits_in=sends, splits_out=receives, after=())
            for sends, receives in rows
        ]
        return dict(zip(group, events, strict=True)), ranks, per_server
    if op in ("gather", "scatter"):
        small = (BYTES_PER_MEMBER, size) if op == "gather" else (size, BYTES_PER_MEMBER)
        one = Communication(op, group, "uint8", *small, root=root, after=())
    return dict.fromkeys(group, one), ranks, per_server


def least(members: dict[int, Communication], per_server: int, network: float) -> float:
    """Return the seconds of the busiest port, by the bytes between ranks that the operation names."""
    event = next(iter(members.values()))
    group, root = event.group, event.root
    servers = {rank // per_server for rank in group}
    shares = len(servers) < len(group)
    if event.op == "all_to_all":
        sends = {
            (rank, peer): n
            for rank, communication in members.items()
            for peer, n in zip(group, communication.splits_in, strict=True)
        }
    elif event.op in ("gather", "scatter"):
        sends = {(rank, root) if event.op == "gather" else (root, rank): BYTES_PER_MEMBER for rank in group}
    else:
        both = LOCAL * shares + network * (len(servers) > 1)  # B/s through both ports of a rank
        return bus_factor(event.op, len(group)) * event.bytes_in / both if both else 0.0
    seconds: dict[tuple[str, int], float] = defaultdict(float)
    for (source, target), size in sends.items():
        source_server, target_server = source // per_server, target // per_server
        if source_server != target_server:
            seconds["server sends", source_server] += size / network
            seconds["server receives", target_server] += size / network
        elif source != target:
            seconds["rank sends", source] += size / LOCAL
            seconds["rank receives", target] += size / LOCAL
    return max(seconds.values(), default=0.0)


def check(members: dict[int, Communication], ranks: int, per_server: int, network: float) -> None:
    trace = Trace("toy", ranks, 1, {rank: (members[rank],) if rank in members else () for rank in range(ranks)})
    workload = RecordedJob(trace, Gpu("toy", {"float32": 1.0}, 1.0, LOCAL, 1.0))
    traffic = lower_captured(workload, AsCaptured(per_server).place(workload, None))
    fabric = IdealSwitch(bandwidth=network, degree=1, latency=0.0).build(traffic.servers, Demand(traffic.servers))
    (timeline,) = Fluid().simulate([place(traffic, fabric, name="world")])
    bound = least(members, per_server, network)
    assert timeline.makespan >= bound * (1 - ROUNDING)
    if len({rank // per_server for rank in members}) == 1:
        assert timeline.makespan == pytest.approx(bound, rel=ROUNDING)


@given(recorded(), st.sampled_from([1e1, 1e2, 1e4]))
@settings(max_examples=200)
def test_no_recorded_collective_is_faster_than_its_busiest_port(drawn, network: float) -> None:
    check(*drawn, network)


@pytest.mark.slow
@given(recorded(), st.sampled_from([1e1, 1e2, 1e4]))
@settings(max_examples=2400)
def test_of_many_recorded_collectives_none_is_faster_than_its_busiest_port(drawn, network: float) -> None:
    check(*drawn, network)


@pytest.mark.parametrize("per_server", [1, 2, 4])
def test_a_rank_to_which_all_others_send_receives_over_its_ports(per_server: int) -> None:
    """Ranks 1 to 3 send 1000 B each to rank 0: those of its server at 100 B/s, the others at 100 B/s at that time."""
    group, sends = (0, 1, 2, 3), (1000, 0, 0, 0)
    events = {rank: exchange(group, sends, (1000,) * 4 if rank == 0 else (0,) * 4) for rank in group}
    assert least(events, per_server, 100.0) == {1: 30.0, 2: 20.0, 4: 30.0}[per_server]
    check(events, 4, per_server, 100.0)
