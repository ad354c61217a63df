"""The packet-hops that a simulation announces before it starts, and its progress."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from topoflow import _C
from topoflow.engine.base import Run, World
from topoflow.engine.packet import Packet, effort, layout_of
from topoflow.engine.packet.effort import count_packets, notice, packet_hops, share_done

MakeWorld = Callable[..., World]


def chain(make_world: MakeWorld, messages: int, rounds: int = 1) -> World:
    """Messages of several sizes, on paths of one to three links of equal speed."""
    tasks = [{"path": [0, 1, 2][k % 3 :], "bytes": 1 + 3000 * k} for k in range(messages)]
    world = make_world([*tasks, {"delay": 1e-6}, {"path": [], "bytes": 9}], [12.5e9] * 3)
    return replace(world, graph=replace(world.graph, rounds=rounds))


@pytest.mark.parametrize("rounds", [1, 3])
def test_as_many_packet_hops_are_announced_as_ports_send(make_world: MakeWorld, rounds: int) -> None:
    world, model = chain(make_world, 17, rounds), Packet()
    packets = count_packets(world.graph.bytes, model.size, rounds)
    (timeline,) = model.simulate([world], Run(threads=1))
    assert timeline.ports is not None
    sent = int(timeline.ports.packets.sum())
    assert packet_hops(world.graph, layout_of(world.graph, model), packets) == sent


def test_a_long_simulation_is_announced_before_it_starts_and_a_short_one_is_not(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch, watching: Any
) -> None:
    world = chain(make_world, 5)
    Packet().simulate([world], Run(threads=1, observer=watching))
    assert watching.notes == []
    monkeypatch.setattr(effort, "RATE", 1.0)
    watching.advances.clear()
    watching.then = lambda: noted.append(len(watching.notes))
    noted: list[int] = []
    Packet().simulate([world], Run(threads=1, observer=watching))
    assert set(noted) == {1}
    assert "packet-hops, about" in watching.notes[0]


@pytest.mark.parametrize(
    ("hops", "text"), [(79e6, ""), (3e9, "about 75 s"), (3e10, "about 12 min"), (3.05e11, "about 2 h")]
)
def test_the_time_is_that_of_the_rate(hops: float, text: str) -> None:
    assert text in notice(hops, 1)
    assert bool(notice(hops, 1)) == bool(text)


def test_a_simulation_that_does_not_end_within_a_month_is_refused_before_it_starts(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(effort, "RATE", 1e-6)
    with pytest.raises(ValueError, match=r"fidelity: must take at most 720 h, got packet with .* packet-hops"):
        Packet().simulate([chain(make_world, 5)], Run(threads=1))


@pytest.mark.parametrize(
    ("finish", "delivered", "share"),
    [([0, 0, 0], 0, 0), ([_C.NEVER] * 3, 4, 0.4), ([7, 5, _C.NEVER], 4, 0.5), ([7, 5, 9], 4, 1), ([7, 5, 9], 99, 1)],
)
def test_progress_is_the_share_of_packets_that_have_arrived(finish: list[int], delivered: int, share: float) -> None:
    """Of threads that share a world, one tells how many it has delivered; all tell which messages have ended."""
    assert share_done(np.array([5.0, 0.0, 5.0]), np.array(finish), delivered) == share
