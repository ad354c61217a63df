"""``workload.library=firefly`` with ``packet.model=sst``: the times of single messages, to the picosecond.

The numbers are those of SST 16 in ns; the rules by which they are added are in ``workload.messages.firefly``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tests.engine.test_packet_addresses import dragonfly
from tests.engine.test_packet_sst import FLIT, FULL, MATCH, NIC, SETUP, SST, delivered, links_of
from tests.papers.dragonfly.test_matching import GPU, Script, small
from tests.twins.packet_sst import GET
from topoflow.engine.base import Run
from topoflow.engine.fluid import Fluid
from topoflow.engine.lowering.placement import place
from topoflow.papers.dragonfly.motifs.motif import MOTIFS, Motif
from topoflow.papers.dragonfly.motifs.scripts import Writer
from topoflow.strategy.ranks import Ranks
from topoflow.traffic.base import Traffic
from topoflow.traffic.lower import lower

NS = 1000  # ps
FABRIC = dragonfly(2, 3, 4, 1)
IN, OUT, SET_UP, WALK, RECEIVE, READ = (nanoseconds * NS for nanoseconds in (30, 30, 130, 150, 100, 200))


def traffic_of(writer: Writer) -> Traffic:
    script = Script(GPU, writer.messages())
    return lower(script, Ranks().place(script, writer.ranks))


def makespan(sends: Sequence[tuple[int, int, float]]) -> int:
    """ps of a step in which ranks send."""
    writer = Writer(FABRIC.servers, 12_000.0, library=True)
    for source, target, bytes in sends:
        writer.send(np.array([source]), np.array([target]), bytes)
    writer.step()
    (timeline,) = SST.simulate([place(traffic_of(writer), FABRIC, name="step", routing="minimal")], Run(threads=1))
    return round(timeline.makespan * 1e12)


def arrived(handed: int, links: int, bytes: int) -> int:
    """ps, a message that its host hands to the NIC at ``handed``, with all that both NICs take."""
    setup = SETUP if bytes > GET else 0
    first = delivered(handed + NIC + setup, links)
    return max(first + MATCH, first + (-(-bytes // 2048) - 1) * FULL * FLIT) + NIC


def pin(bytes: int) -> int:
    return (3000 + 100 * (bytes // 4096)) * NS


@pytest.mark.parametrize("target", [1, 2, 9, 23])
@pytest.mark.parametrize("bytes", [4, 1024, 2003, 2004, 12_000])
def test_an_eager_message(target: int, bytes: int) -> None:
    """Up to and including 12,000 B, with a header of 45 B."""
    arrival = arrived(IN + SET_UP, links_of(FABRIC, 0, target), bytes + 45)
    assert makespan([(0, target, bytes)]) == arrival + WALK + RECEIVE + OUT


def long_message(links: int, bytes: int) -> int:
    """ps until the receiver has it, which is later than when the sender has the acknowledgement."""
    request = arrived(IN + SET_UP + pin(bytes), links, 45)
    get = arrived(request + WALK + RECEIVE, links, 13)
    data_end = arrived(get + READ, links, bytes + 13)
    assert arrived(data_end, links, 15) + OUT < data_end + pin(bytes) + OUT
    return data_end + pin(bytes) + OUT


@pytest.mark.parametrize("target", [1, 2, 9, 23])
@pytest.mark.parametrize("bytes", [12_001, 100_000, 2**20])
def test_a_long_message(target: int, bytes: int) -> None:
    assert makespan([(0, target, bytes)]) == long_message(links_of(FABRIC, 0, target), bytes)


def test_pinning_is_57_of_the_144_us_of_a_mebibyte() -> None:
    """As measured with SST; the page that says so does not say over how many links, so all are within 3 %."""
    assert 2 * pin(2**20) == pytest.approx(57e6, rel=0.01)
    for target in (1, 2, 9, 23):
        assert makespan([(0, target, 2**20)]) == pytest.approx(144e6, rel=0.03)


def test_calls_of_a_rank_follow_each_other() -> None:
    """190 ns each: the last of five messages to others is handed to the NIC four calls later."""
    links = links_of(FABRIC, 0, 9)
    assert max(links_of(FABRIC, 0, other) for other in (1, 2, 3, 4)) < links, "the last one is under way for longest"
    duration = makespan([(0, target, 100.0) for target in (1, 2, 3, 4, 9)])
    assert duration == arrived(4 * (IN + SET_UP + OUT) + IN + SET_UP, links, 145) + WALK + RECEIVE + OUT


@pytest.mark.parametrize("sources", [(2, 4), (2, 4, 3, 5)])
def test_eager_messages_of_a_step_are_matched_one_after_the_other(sources: Sequence[int]) -> None:
    """They come 13 ns after each other, and the wait for all returns once."""
    assert {links_of(FABRIC, source, 0) for source in sources} == {3}
    first = arrived(IN + SET_UP, 3, 145)
    assert makespan([(source, 0, 100.0) for source in sources]) == first + len(sources) * (WALK + RECEIVE) + OUT


def test_messages_from_one_rank_are_matched_one_after_the_other() -> None:
    """The calls that send are shorter, so the first arrival and five matches decide."""
    first = arrived(IN + SET_UP, links_of(FABRIC, 0, 9), 145)
    assert makespan([(0, 9, 100.0)] * 5) == first + 5 * (WALK + RECEIVE) + OUT


@pytest.mark.parametrize("sources", [(2,), (2, 4), (2, 4, 3)])
def test_a_wait_unpins_one_after_the_other_once_the_last_send_has_returned(sources: Sequence[int]) -> None:
    """Rank 0 sends for much longer than it receives: what it received is unpinned after that."""
    long, short, links, late = 2**20, 13_000, links_of(FABRIC, 0, 9), 1e-3
    writer = Writer(FABRIC.servers, 12_000.0, library=True)
    for source in sources:
        writer.send(np.array([source]), np.array([0]), short)
    writer.send(np.array([0]), np.array([9]), long, blocking=True)
    writer.step()
    writer.compute(np.array([0]), late)
    (timeline,) = SST.simulate([place(traffic_of(writer), FABRIC, name="wait", routing="minimal")], Run(threads=1))
    posted = len(sources) * (IN + pin(short) + OUT)
    request = arrived(posted + IN + SET_UP + pin(long), links, 45)
    get = arrived(request + WALK + RECEIVE, links, 13)
    acknowledged = arrived(arrived(get + READ, links, long + 13), links, 15)
    wait = IN + len(sources) * pin(short) + OUT
    assert round((timeline.makespan - late) * 1e12) == acknowledged + OUT + wait


@pytest.mark.parametrize("bytes", [100.0, 50_000.0])
def test_a_message_waits_for_the_receive(bytes: float) -> None:
    """Of a receiver that computes first: the call, for a long one pinning, and matching or the get come after that."""
    late = 1e-3
    writer = Writer(2, 12_000.0, library=True)
    writer.compute(np.array([1]), late)
    writer.send(np.array([0]), np.array([1]), bytes)
    writer.step()
    (timeline,) = SST.simulate([place(traffic_of(writer), FABRIC, name="late", routing="minimal")], Run(threads=1))
    rest = round((timeline.makespan - late) * 1e12)
    if bytes == 100:
        assert rest == IN + WALK + RECEIVE + OUT
    else:
        get = arrived(10**9 + IN + pin(50_000) + WALK + RECEIVE, 2, 13)
        assert rest == arrived(get + READ, 2, 50_013) + pin(50_000) + OUT - 10**9


@pytest.mark.parametrize("name", sorted(MOTIFS))
def test_every_motif_ends_and_takes_longer(name: str) -> None:
    """The same messages with what calls take: never shorter, whatever the network."""
    timelines = []
    for library in ("none", "firefly"):
        motif = small(name, library=library, eager=500.0)
        traffic = lower(motif, Ranks().place(motif, 12))
        worlds = [place(traffic, FABRIC, name=name, routing=routing) for routing in ("minimal", "ecmp")]
        timelines.append([SST.simulate(worlds[:1], Run(threads=1))[0], *Fluid().simulate(worlds[1:])])
    for usual, with_calls in zip(*timelines, strict=True):
        assert np.isfinite(with_calls.finish).all()
        assert usual.makespan < with_calls.makespan


def test_a_wrong_library_is_named() -> None:
    with pytest.raises(ValueError, match=r"^workload.library: must be one of none, firefly, got 'mpich'$"):
        Motif(GPU, library="mpich")
    with pytest.raises(ValueError, match=r"^workload.request: must be null with workload.library=firefly, got 45.0$"):
        Motif(GPU, library="firefly", request=45.0)
