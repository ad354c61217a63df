"""Motifs: who sends how much to whom, what waits for what, and what cannot be, on any number of ranks."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topoflow.demand import Demand
from topoflow.digest import digest
from topoflow.engine.bound import Bound
from topoflow.engine.fluid import Fluid
from topoflow.engine.lowering.placement import place
from topoflow.fabric.ideal_switch import IdealSwitch
from topoflow.papers.dragonfly.motifs.mesh import refined
from topoflow.papers.dragonfly.motifs.motif import DEFAULTS, DOUBLE, MOTIFS, Motif
from topoflow.papers.dragonfly.motifs.scripts import Writer, box, sides, xorshift
from topoflow.strategy.ranks import Ranks
from topoflow.traffic.base import Traffic
from topoflow.traffic.lower import lower
from topoflow.workload.base import NO_TARGET, Messages
from topoflow.workload.gpu import Gpu

GPU = Gpu("none", {"float32": 1.0}, 1.0, 1.0, 1.0)
SMALL: dict[str, Any] = {"cells": 10, "elements": 1000, "iterations": 2}


MESHES: tuple[tuple[str, dict[str, int]], ...] = (("amr3d", {}), ("amr3d_heavy", {}), ("amr3d", {"level": 2}))


def motif(name: str, **parameters: Any) -> Motif:
    small = {key: value for key, value in SMALL.items() if key in DEFAULTS[name]}
    return Motif(GPU, name, **{**small, **parameters})


def sent(messages: Messages) -> Any:
    return messages.target != NO_TARGET


def seconds_of(traffic: Traffic, latency: float = 0.0) -> float:
    fabric = IdealSwitch(1e9, 1, latency).build(traffic.servers, Demand(traffic.servers))
    (timeline,) = Fluid(merge=0.0).simulate([place(traffic, fabric, name="motif")])
    return timeline.makespan


@pytest.mark.parametrize("name", MOTIFS)
@settings(max_examples=8)
@given(ranks=st.integers(1, 20))
def test_every_motif_runs_to_its_end_and_nobody_sends_to_itself(name: str, ranks: int) -> None:
    kind, ranks = motif(name), 2 * ranks
    messages = kind.messages(ranks)
    ends = sent(messages)
    assert (messages.source[ends] != messages.target[ends]).all()
    assert set(messages.source.tolist()) <= set(range(ranks))
    assert set(messages.target[ends].tolist()) <= set(range(ranks))
    traffic = lower(kind, Ranks().place(kind, ranks))
    fabric = IdealSwitch(1e9, 1, 1e-6).build(ranks, Demand(ranks))
    world = place(traffic, fabric, name=name)
    (timeline,), (bound,) = Fluid(merge=0.0).simulate([world]), Bound().simulate([world])
    assert np.isfinite(timeline.finish).all()
    assert bound.makespan <= timeline.makespan * (1 + 1e-9)


@given(ranks=st.integers(2, 60))
def test_trees_have_an_edge_for_every_rank_but_the_root(ranks: int) -> None:
    for name, times in (("bcast", 1), ("reduce", 1), ("allreduce", 2)):
        messages = motif(name, iterations=1).messages(ranks)
        ends = sent(messages)
        assert ends.sum() == times * (ranks - 1)
        pairs = {(min(a, b), max(a, b)) for a, b in zip(messages.source[ends], messages.target[ends], strict=True)}
        assert pairs == {((child - 1) // 2, child) for child in range(1, ranks)}


def test_a_collective_takes_a_latency_for_each_level_after_what_ranks_compute() -> None:
    for ranks, levels in ((2, 1), (3, 1), (4, 2), (7, 2), (8, 3), (15, 3)):
        for name, times, operation in (
            ("bcast", 1, 1e-3),
            ("reduce", 1, 1e-3),
            ("allreduce", 2, 1e-3),
            ("barrier", 2, 0),
        ):
            kind = motif(name, iterations=1, **({"operation": operation, "bytes": 1e-6} if operation else {}))
            traffic = lower(kind, Ranks().place(kind, ranks))
            # 2 links of 1 us on an ideal switch
            expected = operation + levels * times * 2e-6
            assert seconds_of(traffic, 1e-6) == pytest.approx(expected, rel=1e-6 if operation else 1e-2)


def test_an_all_to_all_is_in_lock_steps() -> None:
    kind = motif("alltoall", iterations=1, bytes=1e6)
    messages = kind.messages(5)
    ends = sent(messages)
    for shift, source, target in zip(
        np.repeat(range(1, 5), 5), messages.source[ends], messages.target[ends], strict=True
    ):
        assert (source + shift) % 5 == target
    assert seconds_of(lower(kind, Ranks().place(kind, 5))) == pytest.approx(4 * 1e6 / 1e9)


def test_an_incast_takes_the_bytes_of_all_others() -> None:
    kind = motif("incast", iterations=1, bytes=1e6)
    assert seconds_of(lower(kind, Ranks().place(kind, 6))) == pytest.approx(5 * 1e6 / 1e9)


def test_random_numbers_are_those_of_sst() -> None:
    """Its test of ``XORShiftRNG`` with seed 1447 (sst-core, tests/refFiles/test_RNGComponent_xorshift.out)."""
    draws = xorshift(1447)
    for _ in range(100_000):
        _, number, *_ = islice(draws, 7)  # a share, 32 bits, 64 bits, 32 bits, 64 bits
    assert number == 2723816496


@given(ranks=st.integers(2, 60), seed=st.integers(0, 5))
def test_ranks_of_random_send_and_receive_one_message_at_most(ranks: int, seed: int) -> None:
    messages = motif("random", iterations=1, seed=seed).messages(ranks)
    ends = sent(messages)
    assert len({*messages.source[ends].tolist()}) == len({*messages.target[ends].tolist()}) == ends.sum()


@pytest.mark.parametrize("library", ["none", "firefly"])
def test_a_halo_exchanges_along_one_axis_after_the_other(library: str) -> None:
    """Of 27 ranks, the faces of x have crossed when those of y begin, for each rank."""
    kind = motif("halo3d", iterations=1, cells=100, library=library)
    traffic = lower(kind, Ranks().place(kind, 27))
    fabric = IdealSwitch(1e9, 1, 0.0).build(27, Demand(27))
    (timeline,) = Fluid(merge=0.0).simulate([place(traffic, fabric, name="halo")])
    face = traffic.bytes >= 100 * 100 * 8 * 16
    distance = np.abs(traffic.source[face].astype(int) - traffic.target[face])
    start, finish = timeline.task_start[face], timeline.task_finish[face]
    for rank in range(27):
        ends = (traffic.source[face] == rank) | (traffic.target[face] == rank)
        for earlier, later in ((1, 3), (3, 9)):
            assert finish[ends & (distance == earlier)].max() <= start[ends & (distance == later)].min() + 1e-12


def test_a_sweep_sends_along_x_then_y_from_four_corners_in_turn_twice() -> None:
    """Rank 1 of 3 x 2, x first, has 0 and 2 at its sides and 4 above; sweeps go up twice, then down twice."""
    messages = motif("sweep3d", iterations=1, blocking=10).messages(6)
    ends = sent(messages) & (messages.source == 1)
    right_up, left_up, left_down, right_down = [2, 4], [0, 4], [0], [2]
    assert messages.target[ends].tolist() == 2 * (right_up + left_up + left_down + right_down)


def test_ping_pongs_follow_each_other() -> None:
    kind = motif("allpingpong", iterations=7, bytes=1000)
    traffic = lower(kind, Ranks().place(kind, 6))
    assert seconds_of(traffic) == pytest.approx(14 * 1000 / 1e9)
    assert traffic.is_transfer.sum() == 7 * 6


@given(ranks=st.integers(2, 80))
def test_halos_are_symmetric_and_have_the_faces_of_the_box(ranks: int) -> None:
    size = box(ranks)
    assert np.prod(size) == ranks
    for name, most in (("halo3d", 6), ("halo3d26", 26)):
        kind = motif(name, iterations=1)
        messages = kind.messages(ranks)
        ends = sent(messages) & (messages.bytes > DOUBLE)  # without the reduction of halo3d
        pairs = list(zip(messages.source[ends].tolist(), messages.target[ends].tolist(), strict=True))
        by_pair = dict(zip(pairs, messages.bytes[ends].tolist(), strict=True))
        assert len(by_pair) == len(pairs)
        assert all(by_pair[b, a] == bytes for (a, b), bytes in by_pair.items())
        assert max(np.bincount(messages.source[ends])) <= most
        faces = 2 * sum((side - 1) * ranks // side for side in size)
        assert sum(bytes == 10 * 10 * 8 * 16 for bytes in by_pair.values()) == faces


def test_the_sizes_of_the_paper() -> None:
    assert sides(110_592) == (384, 288)  # pex, pey
    assert box(110_592) == (48, 48, 48)
    assert Motif(GPU, "fft3d").value("elements") == pytest.approx(1992**3 / 110_592, rel=1e-4)
    halo = Motif(GPU, "halo3d").messages(27)
    assert halo.bytes.max() == 100 * 100 * 16 * 8
    assert halo.seconds is not None
    assert halo.seconds.max() == pytest.approx(1e6 * 16 * 26 / 5e12)


def test_a_wave_goes_from_corner_to_corner_eight_times() -> None:
    """16 blocks on each of 6 ranks, and all wait for the waves to reach them."""
    kind = motif("sweep3d", iterations=1, variables=1, flops=1e3, blocking=5, bytes=None, eager=1e9)
    traffic = lower(kind, Ranks().place(kind, 6))
    block = 10 * 10 * 5 * 1e3 / 5e12
    compute = traffic.seconds[traffic.seconds > 0]
    assert len(compute) == 6 * 8 * 2
    assert compute == pytest.approx(np.full(6 * 16, block))
    assert seconds_of(traffic) > 8 * 2 * block  # every rank computes as long, and waits at first


def test_an_all_to_all_of_fft3d_gives_each_rank_of_a_row_its_part() -> None:
    messages = motif("fft3d", iterations=1).messages(12)  # 4 x 3
    ends = sent(messages)
    into = np.bincount(messages.target[ends], messages.bytes[ends], 12)
    assert into == pytest.approx(np.full(12, 2 * 1000 * 16 / 2 * (3 / 4 + 2 / 3)), rel=1e-3)  # and two barriers


def test_the_sender_of_a_long_message_waits_and_that_of_a_short_one_does_not() -> None:
    for bytes, waits in ((1000.0, False), (1001.0, True)):
        writer = Writer(3, eager=1000.0)
        writer.send(np.array([0]), np.array([1]), bytes)
        writer.step()
        writer.send(np.array([0]), np.array([2]), bytes)
        messages = writer.messages()
        assert messages.waits is not None
        last = int(np.flatnonzero(messages.target == 2)[0])
        assert (last in messages.waits[0].tolist()) == waits


def test_heavy_is_the_mesh_that_is_cut_once_more() -> None:
    light, heavy, cut = (motif(name, **level).messages(27) for name, level in MESHES)
    assert heavy.bytes.tolist() == cut.bytes.tolist()
    assert heavy.bytes.sum() > light.bytes.sum()


@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_mesh_is_fine_at_its_sphere_and_symmetric(level: int) -> None:
    mesh = refined(27, level)
    blocks = mesh.blocks.sum()
    assert blocks % 7 == 27 % 7  # a block that is cut is seven more
    assert (blocks == 27) == (level == 0)
    assert mesh.blocks.max() - mesh.blocks.min() <= 1
    by_pair = dict(zip(zip(mesh.source.tolist(), mesh.target.tolist(), strict=True), mesh.faces.tolist(), strict=True))
    assert all(by_pair[b, a] == faces for (a, b), faces in by_pair.items())
    if level == 0:
        assert sum(by_pair.values()) == 2 * 3 * 18  # faces inside of 3 x 3 x 3


@pytest.mark.parametrize("name", MOTIFS)
def test_a_parameter_that_a_motif_has_changes_it_and_any_other_does_not(name: str) -> None:
    usual, others = DEFAULTS[name], {key for defaults in DEFAULTS.values() for key in defaults} - {*DEFAULTS[name]}
    for field in usual:
        variants: list[dict[str, Any]] = [{"iterations": 1, field: factor * usual[field]} for factor in (1, 2)]
        base, doubled = (Motif(GPU, name, **variant).messages(12) for variant in variants)
        assert digest(base) != digest(doubled), field
    small = {key: value for key, value in SMALL.items() if key in usual}
    alone, beside = (Motif(GPU, name, **small, **more).messages(12) for more in ({}, dict.fromkeys(others, 3)))
    assert digest(alone) == digest(beside)


def test_what_cannot_be_is_one_line() -> None:
    with pytest.raises(ValueError, match=r"^workload.name: must be one of allpingpong, .* got 'halo4d'"):
        Motif(GPU, "halo4d")
    with pytest.raises(ValueError, match=r"^workload.blocking: must divide the 100 cells, got 7"):
        Motif(GPU, "sweep3d", blocking=7)
    with pytest.raises(ValueError, match=r"^servers: must be even for allpingpong, .* got 7"):
        motif("allpingpong").messages(7)
    with pytest.raises(ValueError, match=r"^workload.seed: must be a whole number within 0\.\.\d+, got -1$"):
        Motif(GPU, "random", seed=-1)
    with pytest.raises(ValueError, match=r"^workload.cells: must be positive, got 0"):
        Motif(GPU, cells=0)
    for level in (-1, 1.5):
        with pytest.raises(ValueError, match=rf"^workload.level: must be a whole number of at least 0, got {level}"):
            motif("amr3d", level=level)


@pytest.mark.parametrize("name", ["random", "allreduce"])
def test_more_rounds_than_memory_holds_are_refused_before_they_are_written(name: str) -> None:
    """Of equal rounds one is written, whatever their number."""
    motif = Motif(GPU, name, iterations=10**13)
    if name == "random":
        with pytest.raises(
            ValueError, match=r"^workload.iterations: must fit in .* free, got .* of 10000000000000 rounds"
        ):
            motif.messages(4)
    else:
        assert motif.messages(4).rounds > 1
