"""Predicted jobs: what four ranks on shapes are said to send is what four real ranks send over gloo."""

from __future__ import annotations

import pytest

from tests.capture.parallel_jobs import flops, of_iteration, predicted, recorded, sent
from tests.examples import some
from topoflow.traffic.captured.iteration import recorded_iteration

pytest.importorskip("torch")
pytestmark = pytest.mark.slow  # each job runs 8 processes that import torch

JOBS = ("hsdp", "ddp", "tensor", "pipeline", "pipeline_fsdp", "fsdp", "even_moe")


@pytest.mark.parametrize("kind", some(JOBS, 2))
def test_a_prediction_sends_what_real_ranks_send_byte_for_byte(tmp_path, kind: str) -> None:
    real = recorded(tmp_path, kind, 4)
    prediction = recorded_iteration(predicted(tmp_path, kind, 4)).ranks
    for rank in range(4):
        measured = of_iteration(real, rank)
        guessed = list(prediction[rank].values())
        assert sent(measured)
        assert sent(guessed) == sent(measured)
        assert flops(guessed) == flops(measured)


def test_experts_that_are_chosen_equally_often_get_what_real_ones_get_together(tmp_path) -> None:
    real = recorded(tmp_path, "moe", 4)
    prediction = recorded_iteration(predicted(tmp_path, "moe", 4)).ranks
    measured = [sent(of_iteration(real, rank)) for rank in range(4)]
    guessed = [sent(list(prediction[rank].values())) for rank in range(4)]
    assert {row[0] for row in guessed[0]} == {"all_to_all"}
    for ours, theirs in zip(zip(*guessed, strict=True), zip(*measured, strict=True), strict=True):
        assert [row[:3] for row in ours] == [row[:3] for row in theirs]
        assert sum(row[3] for row in ours) == sum(row[3] for row in theirs)
