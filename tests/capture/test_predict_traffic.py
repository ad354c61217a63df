"""Predicted jobs: what four ranks on shapes are said to send is what four real ranks send over gloo."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from topoflow.capture.base import Compute, Event, Trace
from topoflow.capture.load import load
from topoflow.traffic.captured.iteration import recorded_iteration

pytest.importorskip("torch")
pytestmark = pytest.mark.slow  # each job runs 8 processes that import torch

SCRIPT = Path(__file__).resolve().parent / "jobs" / "parallel.py"
JOBS = ("ddp", "fsdp", "hsdp", "tensor", "pipeline", "even_moe")
ITERATION = 2  # the last of three that are predicted


def run(*command: object) -> str:
    done = subprocess.run([sys.executable, "-m", *map(str, command)], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    return done.stdout


def recorded(folder: Path, kind: str, ranks: int) -> Trace:
    """Return what real ranks did."""
    torchrun = ("torch.distributed.run", "--standalone", "--nproc-per-node", ranks)
    run(*torchrun, "-m", "topoflow.capture", "run", "--out", folder / "real", SCRIPT, kind)
    return load([folder / "real"])


def predicted(folder: Path, kind: str, ranks: int) -> Trace:
    """Return what ranks on shapes did."""
    out = folder / f"{kind}{ranks}.jsonl.gz"
    run("topoflow", "capture", "predict", "--world-size", ranks, "--out", out, SCRIPT, kind)
    return load([out])


def sent(events: list[Event]) -> list[tuple[Any, ...]]:
    """Return the communications of a rank, in order, without names and times."""
    return [
        (
            *(event.op, event.group, event.dtype, event.bytes_in, event.bytes_out),
            *(event.splits_in, event.splits_out, event.peer, event.tag, event.root),
        )
        for event in events
        if not isinstance(event, Compute)
    ]


def flops(events: list[Event]) -> float:
    return sum(work.flops for event in events if isinstance(event, Compute) for work in event.work or ())


@pytest.mark.parametrize("kind", JOBS)
def test_a_prediction_sends_what_real_ranks_send_byte_for_byte(tmp_path, kind: str) -> None:
    real = recorded(tmp_path, kind, 4)
    prediction = recorded_iteration(predicted(tmp_path, kind, 4)).ranks
    for rank in range(4):
        measured = [event for event in real.ranks[rank] if event.iteration == ITERATION]
        guessed = list(prediction[rank].values())
        assert sent(measured)
        assert sent(guessed) == sent(measured)
        assert flops(guessed) == flops(measured)


def test_experts_that_are_chosen_equally_often_get_what_real_ones_get_together(tmp_path) -> None:
    real = recorded(tmp_path, "moe", 4)
    prediction = recorded_iteration(predicted(tmp_path, "moe", 4)).ranks
    measured = [sent([event for event in real.ranks[rank] if event.iteration == ITERATION]) for rank in range(4)]
    guessed = [sent(list(prediction[rank].values())) for rank in range(4)]
    assert {row[0] for row in guessed[0]} == {"all_to_all"}
    for ours, theirs in zip(zip(*guessed, strict=True), zip(*measured, strict=True), strict=True):
        assert [row[:3] for row in ours] == [row[:3] for row in theirs]
        assert sum(row[3] for row in ours) == sum(row[3] for row in theirs)
