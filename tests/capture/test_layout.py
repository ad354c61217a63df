"""Layouts: ranks that were not recorded do what others did at their own positions of the mesh."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest

from topoflow.capture import jsonl
from topoflow.capture.base import Communication, ComputeSpan, Event, Trace
from topoflow.capture.layout import MeshLayout
from topoflow.capture.mirrors import Mirrors
from topoflow.traffic.captured.dependencies import replayed
from topoflow.traffic.captured.iteration import recorded_iteration

MESH = MeshLayout({"tp": 2, "pp": 3, "dp": 4})


def groups_of(layout: MeshLayout, rank: int) -> list[tuple[int, ...]]:
    """Return the groups of a rank along every set of axes."""
    position = layout.position(rank)
    axes = range(len(layout.sizes))
    return [
        layout.box([range(layout.sizes[axis]) if axis in spanned else [position[axis]] for axis in axes])
        for count in range(1, len(layout.sizes) + 1)
        for spanned in combinations(axes, count)
    ]


def reduce(group: tuple[int, ...], **fields: object) -> Communication:
    return Communication("all_reduce", group, "float32", 64, 64, **fields)


def message(op: str, rank: int, peer: int) -> Communication:
    return Communication(op, tuple(sorted((rank, peer))), "float32", 64, 0, peer=peer)


def trace(layout: MeshLayout, ranks: dict[int, list[Event]]) -> Trace:
    return Trace("toy", layout.world_size, 1, {rank: tuple(events) for rank, events in ranks.items()}, layout=layout)


def test_a_rank_is_at_one_position_and_a_position_has_one_rank() -> None:
    positions = [MESH.position(rank) for rank in range(MESH.world_size)]
    assert len(set(positions)) == MESH.world_size
    assert [MESH.rank(position) for position in positions] == list(range(MESH.world_size))


def test_the_first_axis_varies_fastest() -> None:
    assert [MESH.position(rank) for rank in (1, 2, 6)] == [(1, 0, 0), (0, 1, 0), (0, 0, 1)]


def test_every_rank_gets_the_groups_that_it_has() -> None:
    for rank in range(MESH.world_size):
        moved = [MESH.moved_group(group, rank) for group in groups_of(MESH, 0)]
        assert moved == groups_of(MESH, rank)


def test_ranks_that_stand_for_others_give_the_job_of_all_ranks() -> None:
    all_ranks = {rank: [ComputeSpan("c", None, None, 1.0), *map(reduce, groups_of(MESH, rank))] for rank in range(24)}
    part = trace(MESH, {0: all_ranks[0]})
    every = replace(part, ranks={rank: tuple(events) for rank, events in all_ranks.items()})
    assert recorded_iteration(part).ranks == recorded_iteration(every).ranks
    assert replayed(part)[1] == replayed(every)[1]


def test_a_ring_of_messages_is_closed_at_every_position() -> None:
    ring = MeshLayout({"cp": 4, "dp": 2})
    part = trace(ring, {0: [message("send", 0, 1), replace(message("recv", 0, 3), group=(0, 1, 2, 3))]})
    part = replace(part, ranks={0: tuple(replace(event, group=(0, 1, 2, 3)) for event in part.ranks[0])})
    peers = {rank: [event.peer for event in events.values()] for rank, events in recorded_iteration(part).ranks.items()}
    assert peers == {0: [1, 3], 1: [2, 0], 2: [3, 1], 3: [0, 2], 4: [5, 7], 5: [6, 4], 6: [7, 5], 7: [4, 6]}


def test_the_root_stays_at_its_place_in_the_group() -> None:
    event = Communication("broadcast", (0, 2, 4), "float32", 64, 64, root=2)
    ranks = recorded_iteration(trace(MESH, {0: [event]})).ranks
    assert [(ranks[rank][0].group, ranks[rank][0].root) for rank in (1, 8, 23)] == [
        ((1, 3, 5), 3),
        ((6, 8, 10), 8),
        ((19, 21, 23), 21),
    ]


def test_a_stage_of_a_pipeline_does_not_stand_for_the_others() -> None:
    with pytest.raises(ValueError, match=r"^layout\.pp: ranks along it do different things.*of ranks 0, 2, 4$"):
        recorded_iteration(trace(MESH, {0: [message("send", 0, 2)]}))


def test_a_rank_of_each_stage_is_enough() -> None:
    stages: dict[int, list[Event]] = {0: [], 2: [], 4: []}
    for first, second in ((0, 2), (2, 4)):
        group = (0, 2, 4)
        stages[first].append(replace(message("send", first, second), group=group))
        stages[second].append(replace(message("recv", second, first), group=group))
    iteration, steps = replayed(trace(MESH, stages))
    assert len(steps) == 2 * 2 * 4
    assert {rank: [event.peer for event in events.values()] for rank, events in iteration.ranks.items()}[23] == [21]


@pytest.mark.parametrize(
    ("layout", "group", "expected"),
    [
        (MeshLayout({"dp": 4, "tp": 2}), (0, 1), "layout.dp: groups must span the axis"),
        (MeshLayout({"tp": 2, "dp": 4}), (0, 3), "layout: tp=2,dp=4 must have the groups of rank 0 as sub-meshes"),
    ],
)
def test_groups_that_contradict_the_layout_are_refused(
    layout: MeshLayout, group: tuple[int, ...], expected: str
) -> None:
    with pytest.raises(ValueError, match=rf"^{expected}"):
        Mirrors(layout, {0: [reduce(group)]})


def test_recorded_ranks_are_all_combinations_of_positions() -> None:
    with pytest.raises(ValueError, match="must be all combinations of their positions"):
        Mirrors(MESH, {0: [], 3: []})


@pytest.mark.parametrize("text", ["", "tp", "tp=", "tp=0", "tp=2,tp=4", "tp=-1", "tp=2;dp=3"])
def test_a_layout_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^layout"):
        MeshLayout.parse(text)


def test_a_layout_is_written_as_it_is_read() -> None:
    assert str(MeshLayout.parse("tp=2,pp=3,dp=4")) == str(MESH) == "tp=2,pp=3,dp=4"


def test_a_layout_has_the_ranks_of_its_job() -> None:
    with pytest.raises(ValueError, match=r"^layout: must have the 3 ranks of the job"):
        Trace("toy", 3, 1, {0: ()}, layout=MESH)


def test_a_file_keeps_layout_and_memory(tmp_path) -> None:
    written = replace(trace(MESH, {0: [reduce((0, 1))]}), memory=1e9)
    jsonl.write(written, tmp_path / "trace.jsonl.gz")
    assert jsonl.read(tmp_path / "trace.jsonl.gz") == written
