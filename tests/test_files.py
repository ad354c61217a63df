"""Files are whole or not there, and what a killed writer has left does not stay."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from topoflow.files import NEW_PART, PART, write_atomically

KILLED = """
import os, signal, sys
from pathlib import Path
from topoflow import files

files.to_disk = lambda file: os.kill(os.getpid(), signal.SIGKILL)  # after the content, before the rename
files.write_atomically(Path(sys.argv[1]), b"half")
"""


def age(part: Path) -> None:
    """Let a part look as old as one that nobody writes any more."""
    status = part.stat()
    os.utime(part, (status.st_atime, status.st_mtime - 2 * NEW_PART))


def test_the_part_of_a_killed_writer_is_removed_by_the_next(tmp_path: Path) -> None:
    path = tmp_path / "result[1].json"
    assert subprocess.run([sys.executable, "-c", KILLED, str(path)]).returncode == -9
    (part,) = tmp_path.iterdir()
    assert part.suffix == PART
    age(part)
    write_atomically(path, b"whole")
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_the_part_of_a_living_writer_and_of_another_file_stay(tmp_path: Path) -> None:
    living, other = tmp_path / f".a.1{PART}", tmp_path / f".ab.1{PART}"
    for part in (living, other):
        part.write_bytes(b"half")
        age(part)
    with living.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        write_atomically(tmp_path / "a", b"whole")
    assert sorted(file.name for file in tmp_path.iterdir()) == [living.name, other.name, "a"]


@pytest.mark.parametrize("fails", ["flock", "fsync"])
def test_a_file_system_without_locks_or_flushes_of_folders_is_written_to(
    fails: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, flush = fcntl.flock, os.fsync

    def refused(descriptor: int, *more: int) -> None:
        if fails == "flock" or os.path.isdir(f"/proc/self/fd/{descriptor}"):
            raise OSError(95, "Operation not supported")
        (whole if more else flush)(descriptor, *more)

    monkeypatch.setattr(fcntl if fails == "flock" else os, fails, refused)
    write_atomically(tmp_path / "a", b"whole")
    assert (tmp_path / "a").read_bytes() == b"whole"
    assert len([*tmp_path.iterdir()]) == 1
