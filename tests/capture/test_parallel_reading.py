"""Files that are read in processes of their own are the same trace, or the same error."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import numpy as np
import pytest

from tests.capture.hosts import Host, profile_of
from topoflow.capture import load as loading
from topoflow.capture.load import load
from topoflow.processes import map_processes, start


@pytest.fixture
def profiles(tmp_path: Path) -> list[Path]:
    files = []
    for rank in range(2):
        host = Host("rows")
        pending = host.gather(100, 80, 1_000_000)
        host.launch("gemm", 200, 1 + rank, 7)
        host.wait(pending)
        files.append(tmp_path / f"rank{rank}.json")
        files[-1].write_text(json.dumps(profile_of(rank, host.rows)))
    return files


@pytest.fixture
def in_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "LEAST_FOR_PROCESSES", 0)
    monkeypatch.setattr(os, "cpu_count", lambda: 3)


def test_files_read_in_processes_are_the_trace_of_files_read_in_turn(
    profiles: list[Path], request: pytest.FixtureRequest
) -> None:
    folder = profiles[0].parent
    in_turn = load(profiles), load([folder])
    request.getfixturevalue("in_processes")
    assert (load(profiles), load([folder])) == in_turn


def test_the_first_damaged_file_is_the_error_in_processes_too(
    profiles: list[Path], request: pytest.FixtureRequest
) -> None:
    profiles[1].write_text("{")
    (profiles[0].parent / "rank2.json").write_text("[")
    with pytest.raises(ValueError, match=r"rank1\.json") as in_turn:
        load([profiles[0].parent])
    request.getfixturevalue("in_processes")
    with pytest.raises(ValueError, match=r"rank1\.json") as in_processes:
        load([profiles[0].parent])
    assert str(in_processes.value) == str(in_turn.value)


def test_a_killed_process_is_an_error_that_names_its_file(tmp_path: Path) -> None:
    def end(file: Path) -> int:
        if file.name == "b":
            os.kill(os.getpid(), signal.SIGKILL)
        return 1

    answers = map_processes(end, [tmp_path / "a", tmp_path / "b", tmp_path / "c"], 2)
    assert next(answers) == 1
    with pytest.raises(ValueError, match=r"b: .*killed"):
        next(answers)


def test_arrays_from_a_process_are_those_that_it_sent_and_can_be_written() -> None:
    sent = [np.arange(100_000.0), np.arange(6, dtype=np.int32).reshape(2, 3).T, np.zeros(0), np.arange(10)[::2]]
    received = start(lambda count: sent[:count], len(sent), "arrays")()
    for one, other in zip(received, sent, strict=True):
        assert one.dtype == other.dtype
        assert np.array_equal(one, other)
        one[...] = 1
