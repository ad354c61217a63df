"""What is no trace of a job, but is given as one: the error says what it is and what to give instead."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from topoflow.capture.load import load

FILES = {
    "chakra.json": (b'{"workload_graph": []}', "Chakra's graph as JSON: give its protobuf"),
    "model.pickle": (pickle.dumps({"entries": []}), "a Python pickle .* never loaded: profile"),
    "rows.json": (b'[{"ph": "X", "name": "aten::mm"}]', "a list of trace events alone, without rank and world size"),
    "profiles.zip": (b"PK\x03\x04" + bytes(100), "an archive of files: unpack it"),
    "profiles.tar": (bytes(257) + b"ustar\x0000" + bytes(300), "an archive of files: unpack it"),
    "rank0.json": (b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\n", "a pointer of Git LFS: get"),
    "powershell.log": ("h:7:7 [0] NCCL INFO".encode("utf-16"), "a text in UTF-16, .*: write it in UTF-8"),
    "rank0.json.zst": (b"\x28\xb5\x2f\xfd" + bytes(100), "a file packed by zstd, bzip2 or xz: unpack it"),
    "report.sqlite": (b"SQLite format 3\x00" + bytes(100), "a database .* torch.profiler"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_another_tool_is_named_with_what_to_give_instead(name: str, tmp_path: Path) -> None:
    content, advice = FILES[name]
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"{name}: must be one of .*, got {advice}") as caught:
        load([path])
    assert "\n" not in str(caught.value)


def test_a_folder_without_a_trace_says_what_its_first_file_is(tmp_path: Path) -> None:
    (tmp_path / "rank0.json").write_bytes(FILES["rows.json"][0])
    with pytest.raises(ValueError, match="got 1 other files, the first of which is a list of trace events alone"):
        load([tmp_path])


def test_a_folder_of_unknown_files_says_how_the_first_begins(tmp_path: Path) -> None:
    (tmp_path / "rank0.json").write_bytes(b"<!DOCTYPE html>")
    with pytest.raises(ValueError, match="the first of which is 15 bytes that begin with b'<!DOCTYP'"):
        load([tmp_path])


def test_in_a_folder_of_traces_they_are_passed_over_and_named(tmp_path: Path) -> None:
    for name, (content, _) in FILES.items():
        (tmp_path / name).write_bytes(content)
    header = {"format": "topoflow-trace", "version": 1, "name": "j", "world_size": 1, "iterations": 1, "ranks": [0]}
    (tmp_path / "trace.jsonl").write_text(json.dumps(header))
    notes = load([tmp_path]).notes
    assert all(f"{name} is no trace and is passed over" in notes for name in FILES)


def test_a_profile_outside_of_a_job_says_what_it_lacks(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text('{"traceEvents": []}')
    with pytest.raises(
        ValueError, match=r"distributedInfo: must be given \(rank and world size\), got none: start the"
    ):
        load([path])
