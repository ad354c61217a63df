"""What an import writes, every other verb can use: an import has the laws of ``compare``."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from damaged.changes import rearrange

from topoflow.capture.load import load
from topoflow.cli import main
from topoflow.strategy.as_captured import AsCaptured
from topoflow.traffic.captured.job import lower_captured
from topoflow.workload.base import RecordedJob
from topoflow.workload.gpu import Gpu

RING = Path(__file__).resolve().parents[2] / "examples" / "traces" / "simgrid_ring.txt"
GPU = Gpu("test", {"float64": 1e12}, 1e12, 1e11, 1e11)
FILES = 150


def changed(dice: random.Random, lines: list[str]) -> list[str]:
    """Lines of a trace, a few of them lost, twice, elsewhere, or with another number."""
    damaged = list(lines)
    for _ in range(dice.choice([1, 2, 3])):
        if not rearrange(damaged, dice, 1):
            at = dice.randrange(len(damaged))
            words = damaged[at].split()
            words[dice.randrange(len(words))] = dice.choice(["0", "1", "3", "1e30", "99999999999", "-1"])
            damaged[at] = " ".join(words)
    return damaged


def test_what_an_import_writes_can_be_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines, accepted, circles = RING.read_text().splitlines(), 0, 0
    for seed in range(FILES):
        source, out = tmp_path / "ring.txt", tmp_path / f"{seed}.jsonl"
        source.write_text("\n".join(changed(random.Random(seed), lines)) + "\n")
        code = main(["capture", "import", str(source), "--out", str(out)])
        error = capsys.readouterr().err
        assert (code == 0) == out.exists()
        if code == 0:
            accepted += 1
            job = RecordedJob(load([out]), GPU)
            assert len(lower_captured(job, AsCaptured(1).place(job, None))) > 0
        else:
            assert error.count("\n") == 1
            assert str(source) in error
            circles += "must record a job that can be replayed" in error
    assert accepted, "the law was tried"
    assert circles, "by files that no reader of the format refuses"


def test_a_rank_of_a_larger_job_is_imported_alone(tmp_path: Path) -> None:
    """It is to be merged with those of the other ranks."""
    event = '"kind": "communication", "op": "send", "group": [0, 1], "dtype": "int8", "bytes_in": 4, "bytes_out": 4'
    head = '{"format": "topoflow-trace", "version": 1, "name": "a", "world_size": 2, "iterations": 1, "ranks": [0]}'
    (tmp_path / "a.jsonl").write_text(f'{head}\n{{"rank": 0, {event}, "peer": 1}}\n')
    assert main(["capture", "import", str(tmp_path / "a.jsonl"), "--out", str(tmp_path / "b.jsonl")]) == 0
