"""Motifs of many equal rounds are written once, and nothing that is asked of the job changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topoflow.case.rows import compute_time
from topoflow.demand import Demand
from topoflow.engine.base import Run, Timeline
from topoflow.engine.lowering.placement import place
from topoflow.engine.packet import Packet
from topoflow.fabric.dragonfly import Dragonfly
from topoflow.papers.dragonfly.motifs import motif as module
from topoflow.papers.dragonfly.motifs.motif import DEFAULTS, MOTIFS, Motif
from topoflow.papers.dragonfly.motifs.rounds import WRITTEN, folded
from topoflow.strategy.ranks import Ranks
from topoflow.traffic.base import Traffic
from topoflow.traffic.lower import lower
from topoflow.workload.gpu import Gpu

GPU = Gpu("none", {"float32": 1.0}, 1.0, 1.0, 1.0)
ALIKE = "allpingpong"  # whose pairs depend on nobody else, and whose messages come back before they are sent again


def traffic_of(motif: Motif, ranks: int) -> Traffic:
    return lower(motif, Ranks().place(motif, ranks))


def simulated(traffic: Traffic, routing: str) -> Timeline:
    network = Dragonfly(12.5e9, 1, 1e-7, nodes=2, routers=2, groups=3, global_links=2).build(12, Demand(12))
    world = place(traffic, network, name="motif", routing=routing)
    (timeline,) = Packet(size=2048, samples=7, nic_latency=1e-8).simulate([world], Run(threads=1))
    return timeline


@pytest.mark.parametrize("name", MOTIFS)
@pytest.mark.parametrize("library", ["none", "firefly"])
@settings(max_examples=3)
@given(ranks=st.integers(2, 6), rounds=st.integers(WRITTEN + 1, 9), bytes=st.sampled_from([8.0, 5000.0, 20_000.0]))
def test_the_answers_are_those_of_all_rounds(name: str, library: str, ranks: int, rounds: int, bytes: float) -> None:
    small = {"bytes": bytes, "cells": 10, "elements": 1000}
    sizes = {key: value for key, value in small.items() if key in DEFAULTS[name]}
    motif = Motif(GPU, name, iterations=rounds, library=library, **sizes)
    unrolled = traffic_of(motif, 2 * ranks)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MAX_TASKS", 0)
        once = traffic_of(motif, 2 * ranks)
    if name == ALIKE:
        assert once.rounds == rounds
        assert len(once) * rounds == len(unrolled)
    if once.rounds == 1:  # not all rounds are alike, or a message may be sent again before it has come
        assert once.bytes.tolist() == unrolled.bytes.tolist()
        return
    demand, expected = once.demand(), unrolled.demand()
    assert np.allclose(demand.matrix(), expected.matrix(), rtol=1e-12)
    assert compute_time(once) == pytest.approx(compute_time(unrolled), rel=1e-12)
    timeline, all_of = (simulated(traffic, "adaptive_local") for traffic in (once, unrolled))
    assert timeline.makespan == all_of.makespan
    assert timeline.finish.tolist() == all_of.finish[-len(once) :].tolist()
    ports, expected_ports = vars(timeline.ports), vars(all_of.ports)
    for field in ("active", "stalled", "packets", "idle_intervals", "idle_1us", "fullest"):
        assert ports[field].tolist() == expected_ports[field].tolist(), field


def test_rounds_that_differ_are_written_one_after_the_other() -> None:
    """Targets of random are drawn anew; a message of a halo may be sent again before its neighbour has the last one."""
    for name in ("random", "halo3d", "bcast"):
        motif = Motif(GPU, name, iterations=WRITTEN, eager=1e9)
        assert folded(motif.messages(8), 1000) is None, name
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MAX_TASKS", 0)
        for seed in range(100):  # of so few ranks some draw the same targets three times
            assert Motif(GPU, "random", iterations=9, seed=seed).messages(2).rounds == 1


def test_few_tasks_are_written_one_by_one() -> None:
    motif = Motif(GPU, "allpingpong", iterations=1000)
    assert motif.messages(8).rounds == 1
    assert len(motif.messages(8).source) == 16_000


def test_a_job_of_the_published_size_has_the_tasks_of_one_round() -> None:
    messages = Motif(GPU, "allpingpong").messages(110_592)
    assert (messages.rounds, len(messages.source)) == (1000, 2 * 110_592)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"rounds": 0, "carried": None}, r"rounds: must be at least 1, got 0"),
        ({"rounds": 1}, r"rounds: must be at least 2, got 1"),
        ({"carried": (np.array([99]), np.array([0]))}, r"carried: must be within 0\.\.15, got 99 after 0"),
    ],
)
def test_a_traffic_that_breaks_a_law_of_rounds_is_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MAX_TASKS", 0)
        traffic = traffic_of(Motif(GPU, "allpingpong", iterations=5), 8)
    with pytest.raises(ValueError, match=message):
        replace(traffic, **changed)
