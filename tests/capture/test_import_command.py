"""``topoflow capture import`` as a user meets it: a file and a summary, or one line and nothing written."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from topoflow.capture.jsonl import read
from topoflow.capture.load import load

Command = Callable[..., "subprocess.CompletedProcess[str]"]


def test_import_writes_what_load_reads_and_says_what_came_in(
    topoflow_cli: Command, shared_data: Path, tmp_path: Path
) -> None:
    files = [shared_data / "megatron_tp2" / f"kineto_rank{rank}.pt.trace.json.gz" for rank in (0, 1)]
    out = tmp_path / "new" / "trace.jsonl.gz"
    done = topoflow_cli("capture", "import", *files, "--out", out)
    assert done.returncode == 0, done.stderr
    assert read(out) == load(files)
    assert [path.name for path in out.parent.iterdir()] == ["trace.jsonl.gz"]
    assert "2 of 2 ranks, 1 iteration" in done.stdout
    assert "all_reduce of 2 ranks, float32: 13 per rank and iteration" in done.stdout


def test_a_bad_trace_is_one_line_exit_2_and_nothing_written(topoflow_cli: Command, tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text('{"traceEvents": [')
    out = tmp_path / "new" / "trace.jsonl.gz"
    done = topoflow_cli("capture", "import", bad, "--out", out)
    assert done.returncode == 2
    assert done.stderr.startswith(f"topoflow capture: {bad}: must be JSON, got ")
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.json"]


def test_the_input_is_never_overwritten(topoflow_cli: Command, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text("{}")
    done = topoflow_cli("capture", "import", path, "--out", path)
    assert done.returncode == 2
    assert "--out: must not be one of the files to import" in done.stderr
    assert path.read_text() == "{}"


def test_a_folder_cannot_be_the_output(topoflow_cli: Command, tmp_path: Path) -> None:
    done = topoflow_cli("capture", "import", tmp_path / "not_even_read.json", "--out", tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"topoflow capture: --out: must be a file, got the folder {tmp_path}\n"
    assert list(tmp_path.iterdir()) == []


def test_a_folder_without_a_trace_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(ValueError, match=r"must hold a trace .*, got 1 other files"):
        load([tmp_path])
