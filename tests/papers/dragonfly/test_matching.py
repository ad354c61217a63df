"""Several ranks on a server, and messages that are matched with receives: eager, unexpected, rendezvous."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.test_packet_random import compare
from topoflow.capture.load import load
from topoflow.demand import Demand
from topoflow.engine.base import Run
from topoflow.engine.fluid import Fluid
from topoflow.engine.lowering.placement import place
from topoflow.engine.packet import Packet
from topoflow.fabric.dragonfly import Dragonfly
from topoflow.fabric.ideal_switch import IdealSwitch
from topoflow.papers.dragonfly.motifs.motif import DEFAULTS, MOTIFS, Motif
from topoflow.papers.dragonfly.motifs.scripts import Writer
from topoflow.strategy.as_captured import AsCaptured
from topoflow.strategy.ranks import Ranks
from topoflow.traffic.base import Traffic
from topoflow.traffic.lower import lower
from topoflow.workload import base
from topoflow.workload.base import Messages, RecordedJob
from topoflow.workload.gpu import Gpu

LOCAL, B, LATENCY = 4e9, 1e9, 1e-3  # B/s inside a server and of its cable; s of a link, of which two are on a path
GPU = Gpu("none", {"float32": 1.0}, 1.0, LOCAL, 1.0)


def small(name: str, **parameters: Any) -> Motif:
    """A motif with less to do, as far as its parameters say how much that is."""
    sizes = {key: value for key, value in (("cells", 10), ("elements", 1000)) if key in DEFAULTS[name]}
    return Motif(GPU, name, iterations=2, **sizes, **parameters)


@dataclass(frozen=True)
class Script(base.MessagePattern):
    """What a writer wrote, as a motif."""

    gpu: Gpu
    written: Messages
    name: str = "script"

    def check(self, ranks: int) -> None: ...

    def messages(self, ranks: int) -> Messages:
        return self.written


def makespan(traffic: Traffic) -> float:
    fabric = IdealSwitch(B, 1, LATENCY).build(traffic.servers, Demand(traffic.servers))
    (timeline,) = Fluid(merge=0.0).simulate([place(traffic, fabric, name="script")])
    return timeline.makespan


def late_receiver(bytes: float, late: float, request: float | None) -> float:
    """s until rank 1, which computes for ``late`` s first, has what rank 0 sends at once."""
    writer = Writer(2, eager=1000.0, request=request)
    writer.compute(np.array([1]), late)
    writer.send(np.array([0]), np.array([1]), bytes)
    writer.step()
    return makespan(lower(script := Script(GPU, writer.messages()), Ranks().place(script, 2)))


@pytest.mark.parametrize("late", [0.0, 0.5e-3, 5e-3, 1.0])
def test_an_eager_message_that_is_unexpected_waits_for_its_receive_and_a_long_one_is_sent_after_it(late: float) -> None:
    short, long, small = 1000.0, 5e6, 100.0
    way = 2 * LATENCY
    assert late_receiver(short, late, small) == pytest.approx(max(late, way + short / B))
    request = way + small / B
    assert late_receiver(long, late, small) == pytest.approx(max(late, request) + request + way + long / B)
    assert late_receiver(long, late, None) == pytest.approx(max(late, way + long / B))  # as if it had room to arrive


def test_messages_of_one_pair_match_in_the_order_in_which_they_were_sent() -> None:
    """The second one is short and arrives first; the receiver waits for the long one, then takes the short one."""
    writer = Writer(2, eager=1000.0, request=100.0)
    sender, receiver = np.array([0]), np.array([1])
    writer.send(sender, receiver, 5e6)
    writer.step(receiver)
    writer.compute(receiver, 1.0)
    writer.send(sender, receiver, 10.0)
    writer.step(receiver)
    way = 2 * LATENCY
    duration = makespan(lower(script := Script(GPU, writer.messages()), Ranks().place(script, 2)))
    assert duration == pytest.approx(3 * way + 2 * 100 / B + (5e6 + 10) / B + 1.0, abs=2 * 10 / B)


@pytest.mark.parametrize("name", MOTIFS)
@settings(max_examples=6)
@given(servers=st.integers(1, 8), several=st.integers(1, 5))
def test_bytes_stay_inside_of_servers_whose_ranks_they_are_between(name: str, servers: int, several: int) -> None:
    several *= 2 if servers == 1 or name == "allpingpong" else 1
    motif = small(name, request=64.0, eager=500.0)
    traffic = lower(motif, Ranks(several).place(motif, servers))
    messages = motif.messages(servers * several)
    sent = messages.target >= 0
    between = sent & (messages.source // several != messages.target // several)
    assert np.count_nonzero(traffic.is_transfer) == np.count_nonzero(between)
    assert traffic.bytes.sum() == pytest.approx(messages.bytes[between].sum())
    inside = sent & ~between
    assert traffic.seconds[inside] == pytest.approx(messages.bytes[inside] / LOCAL)
    assert (traffic.server[inside] < 0).all()  # it occupies no processor
    assert np.isfinite(makespan(traffic))


def test_ranks_of_a_server_compute_at_the_same_time() -> None:
    writer = Writer(4, eager=1000.0)
    writer.compute(np.arange(4), np.array([1.0, 2.0, 3.0, 1.0]))
    script = Script(GPU, writer.messages())
    traffic = lower(script, Ranks(2).place(script, 2))
    assert makespan(traffic) == pytest.approx(3.0)
    assert traffic.server.tolist() == [-1, 0, 1, -1]  # the busiest rank of each server


def test_all_ranks_on_one_server_need_no_network() -> None:
    motif = small("halo3d")
    traffic = lower(motif, Ranks(27).place(motif, 1))
    assert not traffic.is_transfer.any()


@settings(max_examples=10)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_kernel_is_exactly_the_twin_where_ranks_share_servers_and_messages_are_matched(seed: int) -> None:
    draw = np.random.default_rng(seed)
    motif = small(str(draw.choice(["halo3d", "random", "amr3d"])), request=45.0, eager=900.0)
    fabric = Dragonfly(B, 1, 1e-7, 1, 2, 3, 1).build(6, Demand(6))
    traffic = lower(motif, Ranks(int(draw.integers(1, 4))).place(motif, 6))
    routing = str(draw.choice(["minimal", "ugal", "adaptive_local", "ecmp"]))
    world = place(traffic, fabric, name="matched", routing=routing, seed=seed)
    assert compare(world, Packet(size=2048, buffer=8192), Run(threads=1))


TRACE = """0 init
1 init
1 compute 1e9
0 isend 1 0 {bytes} 6
1 irecv 0 0 {bytes} 6
0 waitall
1 waitall
0 finalize
1 finalize
"""


@pytest.mark.parametrize(("bytes", "waits"), [(1000, False), (1001, True)])
def test_long_messages_of_mpi_traces_wait_for_their_receives(tmp_path: Path, bytes: int, waits: bool) -> None:
    file = tmp_path / "trace.txt"
    file.write_text(TRACE.format(bytes=bytes))
    trace = load([file])
    for eager, late in ((None, False), (1000.0, waits)):
        job = RecordedJob(trace, GPU, eager)
        traffic = lower(job, AsCaptured().place(job, None))
        (transfer,) = np.flatnonzero(traffic.is_transfer)
        (compute,) = np.flatnonzero(traffic.server == 1)
        before = set(traffic.after[traffic.after_offsets[transfer] : traffic.after_offsets[transfer + 1]].tolist())
        assert (compute in before) == late


def test_what_cannot_be_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^strategy.ranks_per_server: must be positive, got 0"):
        Ranks(0)
    with pytest.raises(ValueError, match=r"^workload.request: must be positive, got 0"):
        Motif(GPU, request=0)
    motif = Motif(GPU, "allpingpong")
    with pytest.raises(ValueError, match=r"^servers: must be even for allpingpong, whose ranks are pairs, got 9"):
        Ranks(3).place(motif, 3)
    file = tmp_path / "blocked.txt"  # both send first, and MPI waits for ever
    file.write_text("".join(f"{a} init\n{a} send {b} 0 1e6 6\n{a} recv {b} 0 1e6 6\n" for a, b in ((0, 1), (1, 0))))
    job = RecordedJob(load([file]), GPU, 65_536.0)
    with pytest.raises(ValueError, match=r"^workload.eager: longer messages must not wait .* in a circle"):
        lower(job, AsCaptured().place(job, None))
