"""Rescaled jobs: data parallelism grows by closed forms, and real jobs of that size agree."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.capture.parallel_jobs import ITERATION, of_iteration, recorded, sent
from tests.examples import some
from topoflow.capture.base import Communication, ComputeSpan, Trace
from topoflow.capture.layout import MeshLayout
from topoflow.capture.load import load
from topoflow.capture.mirrors import Mirrors
from topoflow.capture.rescale import rescaled
from topoflow.traffic.captured.iteration import recorded_iteration

EXAMPLE = Path(__file__).resolve().parent.parent.parent / "examples" / "ddp_4_ranks.jsonl.gz"
MESH = MeshLayout({"tp": 2, "dp": 4})


def collective(op: str, group: tuple[int, ...], into: int, out: int, **fields: object) -> Communication:
    return Communication(op, group, "float32", into, out, **fields)


def job(*events: Communication) -> Trace:
    """Return rank 0 of a job of 8 ranks that computes and does ``events``."""
    return Trace("toy", 8, 1, {0: (ComputeSpan("c", None, None, 1.0), *events)}, layout=MESH)


def on(ranks: int, *events: Communication) -> list[tuple[int, ...]]:
    """Return the group, the bytes in and the bytes out of each event of rank 0 on ``ranks`` ranks."""
    moved = rescaled(job(*events), ranks).ranks[0][1:]
    return [(len(event.group), event.bytes_in, event.bytes_out) for event in moved]


def test_sizes_follow_closed_forms() -> None:
    dp = (0, 2, 4, 6)
    assert on(
        32,
        collective("all_reduce", dp, 640, 640),
        collective("broadcast", dp, 640, 640, root=2),
        collective("all_gather", dp, 640, 2560),
        collective("reduce_scatter", dp, 2560, 640),
        collective("all_to_all", dp, 640, 640),
        collective("gather", dp, 8, 32, root=0),
        collective("scatter", dp, 32, 8, root=0),
        collective("all_gather", tuple(range(8)), 640, 5120),
        collective("barrier", dp, 0, 0),
    ) == [
        (16, 640, 640),
        (16, 640, 640),
        (16, 160, 2560),
        (16, 2560, 160),
        (16, 640, 640),
        (16, 8, 128),
        (16, 128, 8),
        (32, 160, 5120),
        (16, 0, 0),
    ]


def test_a_part_is_whole_elements_and_that_of_a_number_stays_one() -> None:
    dp = (0, 2, 4, 6)
    assert on(16, collective("all_gather", dp, 12, 48)) == [(8, 8, 64)]  # 12 elements on 8 ranks: two each
    assert on(16, collective("all_gather", dp, 4, 16)) == [(8, 4, 32)]  # a loss of each


def test_communication_within_a_replica_stays() -> None:
    assert on(64, collective("all_reduce", (0, 1), 640, 640)) == [(2, 640, 640)]


def test_compute_stays() -> None:
    assert rescaled(job(), 64).ranks[0] == job().ranks[0]


def test_there_and_back_is_the_same_job() -> None:
    example = load([EXAMPLE])
    example = replace(example, layout=MeshLayout({"dp": 4}))
    for ranks in (2, 8, 64):
        back = rescaled(rescaled(example, ranks), 4)
        assert {rank: back.ranks[rank] for rank in back.ranks} == {rank: example.ranks[rank] for rank in back.ranks}
    assert rescaled(example, 4) is example


@pytest.mark.parametrize(
    ("trace", "ranks", "message"),
    [
        (job(), 9, r"^workload\.ranks: must be 2 ranks, those of a replica \(tp=2,dp=4\), twice or more, got 9$"),
        (job(), 2, r"^workload\.ranks: must be 2 ranks, .* twice or more, got 2$"),
        (replace(job(), layout=MeshLayout({"tp": 8})), 16, r"^workload\.ranks: the layout must have one axis dp"),
        (replace(job(), layout=MeshLayout({"tp": 8, "dp": 1})), 16, r"several ranks along dp, got tp=8,dp=1$"),
        (
            job(collective("all_to_all", (0, 2, 4, 6), 40, 40, splits_in=(1, 2, 3, 4), splits_out=(1, 2, 3, 4))),
            16,
            "even",
        ),
        (job(collective("broadcast", (0, 2, 4, 6), 40, 40, root=6)), 4, "root of broadcast must be among"),
    ],
)
def test_what_cannot_be_rescaled_is_refused(trace: Trace, ranks: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rescaled(trace, ranks)


def test_a_rank_on_a_larger_mesh_does_what_one_at_its_position_did() -> None:
    larger = rescaled(job(collective("all_reduce", (0, 2, 4, 6), 8, 8), collective("all_gather", (0, 1), 8, 16)), 32)
    ranks = recorded_iteration(larger).ranks
    assert [event.group for event in list(ranks[31].values())[1:]] == [tuple(range(1, 32, 2)), (30, 31)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("real")


@pytest.mark.slow  # up to 8 processes that import torch
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", some(["fsdp", "ddp", "even_moe"], 1))
def test_real_jobs_of_2_4_and_8_ranks_send_what_each_says_of_the_others(folder: Path, kind: str) -> None:
    pytest.importorskip("torch")
    real = {ranks: recorded(folder, kind, ranks) for ranks in (2, 4, 8)}
    for one in real.values():
        for ranks, other in real.items():
            check(rescaled(one, ranks), other)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_tensor_parallel_job_grows_by_replicas(folder: Path) -> None:
    pytest.importorskip("torch")
    four, eight = (recorded(folder, "tensor", ranks) for ranks in (4, 8))
    check(rescaled(replace(four, layout=MeshLayout({"tp": 2, "dp": 2})), 8), eight)
    check(rescaled(replace(eight, layout=MeshLayout({"tp": 2, "dp": 4})), 4), four)
    alone = load(
        [folder / "tensor4" / "rank0.jsonl"], layout=lambda ranks: MeshLayout({"tp": 2, "dp": 2})
    )  # one rank is enough
    check(alone, four)
    check(rescaled(alone, 8), eight)


def check(guess: Trace, real: Trace) -> None:
    """Check that a trace says of every rank what the real one did."""
    mirrors = Mirrors(guess.layout or MeshLayout({"dp": guess.world_size}), guess.ranks)
    assert guess.world_size == real.world_size
    for rank in range(real.world_size):
        model = mirrors.model(rank)
        events = {at: event for at, event in enumerate(guess.ranks[model]) if event.iteration == ITERATION}
        assert sent(mirrors.events(rank, events).values()) == sent(of_iteration(real, rank))
