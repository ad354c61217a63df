"""What a file says is text: it is neither markup nor a command to a terminal; what cannot be is one line."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from topoflow.cli import main
from topoflow.files import read_bytes, write_atomically
from topoflow.printable import LONGEST_LINE, one_line, printable

HOSTILE = "[/red]\x1b[31m\u202e"


def write_trace(path: Path, name: str, ranks: list[int]) -> None:
    head = {"format": "topoflow-trace", "version": 1, "name": name, "world_size": 2, "iterations": 1, "ranks": ranks}
    event = {"kind": "communication", "op": "all_reduce", "dtype": "float32", "group": [0, 1], "group_name": name}
    sizes = {"bytes_in": 4096, "bytes_out": 4096, "issue": 0.0, "start": 0.0, "end": 1.0}
    rows = [{**head, "groups": {name: [0, 1]}, "notes": [name]}, *({"rank": rank, **event, **sizes} for rank in ranks)]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def test_names_in_a_trace_are_printed_as_they_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "job.jsonl"
    write_trace(path, HOSTILE, [0, 1])
    for command in (
        ["inspect", str(path)],
        ["capture", "import", str(path), "--out", str(tmp_path / "out.jsonl")],
        ["compare", "workload=captured", f"workload.trace={path}", "strategy=as_captured", "servers=2", "fabric=ring"],
    ):
        assert main(command) == 0
        printed = capsys.readouterr().out
        assert printed.replace("\n", "").isprintable()
        assert "[/red]\\x1b[31m\\u202e" in printed or command[0] == "compare"


def test_a_trace_of_no_rank_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "job.jsonl"
    write_trace(path, "job", [])
    assert main(["inspect", str(path)]) == 2
    assert capsys.readouterr().err == f"topoflow inspect: {path}: ranks: must have at least one, got none\n"


def test_a_link_to_itself_is_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loop, path = tmp_path / "loop", tmp_path / "job.jsonl"
    loop.symlink_to(loop)
    write_trace(path, "job", [0, 1])
    for command in (
        ["inspect", str(loop)],
        ["capture", "import", str(loop), "--out", str(tmp_path / "out")],
        ["inspect", str(path), "--out", str(loop)],
        ["simulate", f"world={loop}"],
        ["compare", "servers=2", "fabric=links", f"fabric.file={loop}"],
        ["compare", "servers=2", "fabric=ring", f"out={loop}"],
    ):
        assert main(command) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert str(loop) in error


def test_a_pipe_or_a_device_is_neither_read_nor_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pipe, path = tmp_path / "pipe", tmp_path / "job.jsonl"
    os.mkfifo(pipe)
    write_trace(path, "job", [0, 1])
    for command in (
        ["inspect", str(pipe)],
        ["inspect", "/dev/zero"],
        ["simulate", f"world={pipe}"],
        ["compare", "servers=2", "fabric=links", f"fabric.file={pipe}"],
        ["capture", "import", str(path), "--out", str(pipe)],
    ):
        assert main(command) == 2
        assert capsys.readouterr().err.endswith("must be a regular file, got a pipe or a device\n")
    assert pipe.is_fifo()


def test_an_argument_of_any_text_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["\x1b[31m" * 99], ["inspect", "x", "--\x1b]0;a\x07\n"], ["capture", "\u202e" * 400]):
        with pytest.raises(SystemExit):
            main(words)
        error = capsys.readouterr().err
        assert error.startswith("topoflow")
        assert error.count("\n") == 1
        assert error.rstrip("\n").isprintable()
        assert len(error) <= LONGEST_LINE + 1


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("servers=1000000000000", "servers: must fit in the "),
        ("workload.tables=1000000000000", "dlrm.tables: must fit in the "),
        ("workload.dense_layers=1000000000000", "dlrm.dense_layers: must fit in the "),
        ("bandwidth_gbps=range(1,100000000)", "sweep: must be of at most 131072 points (sweep fewer values"),
        ("seed=range(0,inf)", "sweep: must be of at most 131072 points (sweep fewer values"),
    ],
)
def test_what_fits_in_no_memory_is_refused_before_it_is_made(
    key: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", "fabric=ring", *([] if "servers" in key else ["servers=2"]), key]) == 2
    assert message in capsys.readouterr().err


def run(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, whose streams and folder can be any."""
    command = [str(Path(sys.executable).parent / "topoflow"), *arguments]
    return subprocess.run(command, **{"stderr": subprocess.PIPE, "text": True, "timeout": 120, **options})


def test_a_name_that_the_terminal_cannot_show_is_written_as_an_escape(tmp_path: Path) -> None:
    link = {"src": "é", "dst": "b", "bandwidth": 1}
    send = {"id": "ü", "type": "transfer", "src": "é", "dst": "b", "bytes": 1}
    (tmp_path / "é.json").write_text(json.dumps({"links": [link], "tasks": [send]}))
    encoding = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "1"}
    done = run("simulate", "world='é.json'", env=encoding, cwd=tmp_path, stdout=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (0, "")
    assert "\\xe9.json" in done.stdout


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs the device /dev/full, a full disk")
def test_a_full_disk_under_standard_output_and_a_folder_that_is_gone_have_a_name(tmp_path: Path) -> None:
    world = f"world={Path(__file__).parents[2] / 'examples' / 'two_flows.json'}"
    with Path("/dev/full").open("w") as full:
        done = run("simulate", world, stdout=full)
    assert (done.returncode, done.stderr) == (2, "topoflow simulate: standard output: No space left on device\n")
    (tmp_path / "gone").mkdir()
    script = 'cd "$0/gone" && rmdir "$0/gone" && exec "$@"'
    command = [
        "sh",
        "-c",
        script,
        str(tmp_path),
        str(Path(sys.executable).parent / "topoflow"),
        "simulate",
        world,
        "out=x",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (2, "topoflow simulate: the current folder: No such file or directory\n")


def test_a_full_or_broken_disk_is_reported_with_the_name_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / "file"
    write_atomically(path, b"before")
    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left") as error:
        write_atomically(path, b"after")
    assert error.value.filename == str(path)
    assert read_bytes(path) == b"before"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_an_error_is_one_printable_line_of_bounded_length() -> None:
    for text in ("a\nb", HOSTILE, "x" * 10_000, "é\t\r\n" * 500, "ok"):
        assert one_line(text).isprintable()
        assert len(one_line(text)) <= LONGEST_LINE
    assert one_line("a\n  b") == "a b"
    assert printable("a\nb\x1b") == "a\nb\\x1b"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["compare", "--multirun", "hydra.sweeper=1"], "hydra.sweeper: must be a configuration with _target_"),
        (["compare", "hydra.sweeper=1"], "hydra.sweeper: must be a configuration with _target_"),
        (["compare", "hydra.launcher=x"], "hydra.launcher: must be a configuration with _target_"),
        (["compare", "--config-dir=own", "fabric=odd"], "own/fabric/odd.yaml: line 1 column 4: must be YAML"),
        (["compare", "--multirun", "--config-dir=own", "fabric=odd"], "own/fabric/odd.yaml: line 1 column 4: must be"),
        (
            ["compare", "fabric=links", "fabric.file=own/x.csv"],
            "own/x.csv: line 2.bandwidth: must be a number, got 'x'",
        ),
        (["compare", "bandwidth_gbps=1e-320"], "ring.bandwidth: must be at least 1e-06 per second, got 1.2"),
        (
            ["compare", "gpu.local_bandwidth=5e-324"],
            "gpu.local_bandwidth: must be at least 1e-06 per second, got 5e-324",
        ),
        (["search", f"workload.rows={10**20}"], "gpu.memory: must hold layer 'E0', which needs at least "),
        (["search", f"workload.batch_per_gpu={10**20}"], "gpu.memory: must hold layer 'E0', which needs at least "),
    ],
)
def test_what_a_key_or_its_file_has_wrong_is_said_with_its_place(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own" / "fabric").mkdir(parents=True)
    (tmp_path / "own" / "fabric" / "odd.yaml").write_text("a: !odd x\n")
    (tmp_path / "own" / "x.csv").write_text("src,dst,bandwidth,latency\na,b,x,1\n")
    shared = [] if any(word.startswith("fabric=") for word in words) else ["fabric=ring"]
    rows = [] if any(word.startswith("workload.rows") for word in words) else ["workload.rows=1000"]
    assert main([*words, *shared, "servers=4", "workload.tables=2", *rows]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert message in error


def test_a_key_that_is_written_as_a_flag_is_shown_without_dashes(capsys: pytest.CaptureFixture[str]) -> None:
    """As ``${args}`` of a sweep of W&B writes it."""
    with pytest.raises(SystemExit):
        main(["compare", "--servers=8", "--fabric=ring"])
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "servers=8" in error
    assert "${args_no_hyphens}" in error


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for a disk of 40 kB")
@pytest.mark.parametrize("arguments", [["place", "requests.count=9"], ["compare", "servers=4", "fabric=ring"]])
def test_nothing_is_left_on_a_disk_that_was_full_from_the_start(arguments: list[str], tmp_path: Path) -> None:
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", tmp_path], capture_output=True)
    if mount.returncode:
        pytest.skip("no disk can be mounted here")
    try:
        (tmp_path / "other").write_bytes(bytes(16_384))
        completed = run(*arguments, f"out={tmp_path / 'out'}", stdout=subprocess.PIPE)
        remaining = [entry.name for entry in tmp_path.iterdir()]
    finally:
        subprocess.run(["umount", tmp_path], check=True)
    assert (completed.returncode, remaining) == (2, ["other"])


def test_a_full_disk_under_a_multirun_has_a_name(tmp_path: Path) -> None:
    """Hydra writes files of its own there, and its errors name none."""
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40k", "tmpfs", tmp_path], capture_output=True)
    if mount.returncode:
        pytest.skip("no disk can be mounted here")
    try:
        folder = f"hydra.sweep.dir={tmp_path / 'sweep'}"
        done = run("compare", "--multirun", "fabric=ring,torus", "servers=4", folder, stdout=subprocess.PIPE)
    finally:
        subprocess.run(["umount", tmp_path], check=True)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == f"topoflow compare: {folder}: No space left on device"
