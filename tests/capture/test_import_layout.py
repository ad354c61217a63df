"""``topoflow capture import --layout``: one rank is enough where others do the same."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from topoflow.capture import jsonl
from topoflow.capture.base import Communication, ComputeSpan, Trace
from topoflow.capture.layout import MeshLayout
from topoflow.capture.load import load
from topoflow.traffic.captured.dependencies import replayed

Command = Callable[..., "subprocess.CompletedProcess[str]"]
EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"
MESH = MeshLayout({"tp": 2, "dp": 3})


def job() -> Trace:
    """Return a job of which all six ranks were recorded."""

    def events(rank: int) -> tuple[ComputeSpan | Communication, ...]:
        tp, dp = MESH.position(rank)
        groups = (MESH.box([range(2), [dp]]), MESH.box([[tp], range(3)]))
        return (
            ComputeSpan("c", None, None, 1.0),
            *(Communication("all_reduce", group, "int8", 8, 8) for group in groups),
        )

    return Trace("toy", 6, 1, {rank: events(rank) for rank in range(6)}, source="hand")


def test_one_rank_with_a_layout_replays_as_all_ranks_do(topoflow_cli: Command, tmp_path: Path) -> None:
    jsonl.write(job(), tmp_path / "all.jsonl")
    out = tmp_path / "rank.jsonl"
    done = topoflow_cli("capture", "import", tmp_path / "all.jsonl", "--layout", MESH, "--rank", 3, "--out", out)
    assert done.returncode == 0, done.stderr
    assert list(load([out]).ranks) == [3]
    assert replayed(load([out])) == (replace(replayed(job())[0], mirrored=5), replayed(job())[1])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--layout", "tp=2,dp=3", "--rank", 6),
            "--rank: must be one that the files record, [0, 1, 2, 3, 4, 5], got 6",
        ),
        (("--layout", "tp=2"), "layout: must have the 6 ranks of the job, got tp=2"),
        (("--layout", "dp=3,tp=2", "--rank", 0), "layout.dp: groups must span the axis or not extend along it"),
        (("--layout", "tp"), "layout: must be axes with their sizes, as tp=8,pp=4,dp=2, got 'tp'"),
    ],
)
def test_a_layout_that_contradicts_the_files_is_one_line(
    topoflow_cli: Command, tmp_path: Path, arguments: tuple[object, ...], message: str
) -> None:
    jsonl.write(job(), tmp_path / "all.jsonl")
    done = topoflow_cli("capture", "import", tmp_path / "all.jsonl", *arguments, "--out", tmp_path / "out.jsonl")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert message in done.stderr
    assert not (tmp_path / "out.jsonl").exists()


def test_a_layout_says_how_many_ranks_there_are() -> None:
    files = [EXAMPLES / "traces" / "pytorch_et_rank0.json.gz"]
    assert load(files, layout=lambda known: MeshLayout({"dp": known or 2})).world_size == 2
