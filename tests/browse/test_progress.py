"""``progress.jsonl``: any part of it is read as the lines that are whole; a lock says whether its process lives."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from topoflow import progress
from topoflow.progress import NAME, ProgressLog, read

HOLDS = """
import sys
from pathlib import Path
from topoflow.progress import ProgressLog
log = ProgressLog.begin(Path(sys.argv[1]), verb="search", command="topoflow search")
print("begun", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def no_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "LEAST_INTERVAL", 0.0)
    monkeypatch.setattr(progress, "SHARE", 1e12)


@pytest.mark.usefixtures("no_interval")
def test_a_file_that_was_cut_off_anywhere_has_its_whole_lines(tmp_path: Path) -> None:
    log = ProgressLog.begin(tmp_path, verb="search", command="topoflow search")
    for step in range(5):
        log.record(step, {"first/progress": step / 5, "first/time": 1.0 - step / 10})
    log.rows([{"world": "a", "iteration_time": 1.0}])
    log._file.close()
    content = (tmp_path / NAME).read_bytes()
    for end in range(len(content)):
        (tmp_path / NAME).write_bytes(content[:end])
        recorded = read(tmp_path)
        lines = content[:end].count(b"\n") + (end < len(content) and content[end : end + 1] == b"\n")
        assert (recorded is None) == (lines == 0)
        if recorded is not None:
            assert len(recorded.lines) == lines
            assert [values["time"] for _, _, values in recorded.values] == [1.0, 0.9, 0.8, 0.7, 0.6][: lines - 1]


@pytest.mark.usefixtures("no_interval")
def test_a_run_that_continues_another_appends(tmp_path: Path) -> None:
    for number in range(3):
        log = ProgressLog.begin(tmp_path, verb="search", command="topoflow search")
        log.record(1, {"first/time": float(number)})
        with (tmp_path / NAME).open("ab") as file:
            file.write(b'{"at": 1, "sta')  # cut off
        log._file.close()
    recorded = read(tmp_path)
    assert recorded is not None
    assert [values["time"] for _, _, values in recorded.values] == [0.0, 1.0, 2.0]
    times = [at for at, _, _ in recorded.values]
    assert times == sorted(times), "the time that all of them worked"
    other = ProgressLog.begin(tmp_path, verb="search", command="topoflow search seed=1")
    other._file.close()
    recorded = read(tmp_path)
    assert recorded is not None
    assert recorded.values == []


def test_the_file_is_there_as_long_as_the_run_is_not_finished(tmp_path: Path) -> None:
    ProgressLog.begin(tmp_path, command="a").end(failed=False)
    assert not list(tmp_path.iterdir()), "it is finished"
    ProgressLog.begin(tmp_path, command="a").end(failed=True)
    assert not list(tmp_path.iterdir()), "it failed, and left nothing"
    log = ProgressLog.begin(tmp_path, command="a")
    (tmp_path / "checkpoint").write_text("1")
    log.end(failed=True)
    content = (tmp_path / NAME).read_bytes()
    assert b'"end": "stopped"' in content
    ProgressLog.begin(tmp_path, command="b").end(failed=True)
    assert (tmp_path / NAME).read_bytes() == content, "what failed at once leaves what was there"


def test_a_disk_that_takes_no_line_has_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(log: ProgressLog, line: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ProgressLog, "_write", full)
    with pytest.raises(OSError, match="No space left"):
        ProgressLog.begin(tmp_path, verb="compare", command="topoflow compare")
    assert not any(tmp_path.iterdir())


def test_a_process_that_was_killed_lives_no_more(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        recorded = read(tmp_path)
        assert recorded is not None
        assert recorded.lives
        process.kill()
        process.wait()
    recorded = read(tmp_path)
    assert recorded is not None
    assert not recorded.lives
