"""``topoflow capture predict`` as a user meets it: a script, no GPU, and a trace or one line."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from topoflow.capture.load import load
from topoflow.traffic.captured.dependencies import replayed

pytest.importorskip("torch")
pytestmark = pytest.mark.slow  # each prediction starts processes that import torch's distributed packages

Command = Callable[..., "subprocess.CompletedProcess[str]"]
JOBS = Path(__file__).resolve().parent / "jobs"


def test_a_script_for_gpus_runs_where_there_is_none(topoflow_cli: Command, tmp_path: Path) -> None:
    out = tmp_path / "trace.jsonl"
    done = topoflow_cli("capture", "predict", "--world-size", 64, "--out", out, JOBS / "on_gpus.py")
    assert done.returncode == 0, done.stderr
    trace = load([out])
    sent = [(event.op, event.dtype, event.bytes) for event in trace.communications(0) if event.iteration == 0]
    replicated, sharded = 32 * 32 + 32, [2 * (64 * 32 + 64), 2 * (64 * 32 + 64)]  # dimensions are padded to 64 ranks
    assert sent.count(("all_reduce", "float32", 4 * replicated)) == 1
    assert sent.count(("all_reduce", "int64", 8)) == 1
    assert sorted(row for row in sent if row[0] == "all_gather") == [
        ("all_gather", "bfloat16", size) for size in 2 * sharded
    ]
    assert trace.memory is not None
    assert len(replayed(trace)[0].ranks) == 64


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("import torch\nx = torch.randn(8)\nx[x > 0].sum()\n", "returns a shape that depends on values"),
        ("import sys\nsys.exit(3)\n", "the script ended with status 3"),
        ("1 / 0\n", "ZeroDivisionError: division by zero (script.py:1)"),
        ("import os\nos._exit(0)\n", "its process ended"),
    ],
)
def test_a_script_that_cannot_be_predicted_is_one_line(
    topoflow_cli: Command, tmp_path: Path, script: str, message: str
) -> None:
    (tmp_path / "script.py").write_text(script)
    out = tmp_path / "out.jsonl"
    done = topoflow_cli("capture", "predict", "--world-size", 2, "--out", out, tmp_path / "script.py")
    assert done.returncode == 2
    line = done.stderr.splitlines()[-1]
    assert line.startswith("topoflow capture: ")
    assert "must run as rank 0, got " in line
    assert message in line
    assert not out.exists()


def test_a_pipeline_runs_a_rank_of_each_stage(topoflow_cli: Command, tmp_path: Path) -> None:
    out = tmp_path / "trace.jsonl"
    command = ("capture", "predict", "--world-size", 12, "--out", out, JOBS / "parallel.py", "pipeline_fsdp")
    done = topoflow_cli(*command)
    assert done.returncode == 0, done.stderr
    trace = load([out])
    assert sorted(trace.ranks) == [0, 6]
    assert trace.layout is not None
    assert dict(trace.layout.axes) == {"dp": 6, "pp": 2}
