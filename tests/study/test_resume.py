"""Resuming: only what was computed from the same content counts, whatever the names of files; one run a folder."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from topoflow.capture import jsonl
from topoflow.capture.base import Communication, ComputeSpan, Trace
from topoflow.cli import main
from topoflow.demand import Demand
from topoflow.files import read_bytes, write_atomically
from topoflow.report import files
from topoflow.report.files import sole_writer
from topoflow.study.configure.options import options

ROOT = Path(__file__).resolve().parents[2]


def write_trace(path: Path, seconds: float) -> None:
    """One step of two ranks: a computation, then an all-reduce."""
    reduce = Communication(op="all_reduce", group=(0, 1), dtype="float32", bytes_in=4 << 20, bytes_out=4 << 20)
    events = (ComputeSpan(name="step", start=None, end=None, seconds=seconds), reduce)
    jsonl.write(Trace(name="job", world_size=2, iterations=1, ranks={0: events, 1: events}), path)


def write_links(path: Path, bandwidth: float) -> None:
    """A ring of 16 nodes, in both directions."""
    ends = [(node, (node + step) % 16) for node in range(16) for step in (1, 15)]
    rows = "".join(f"{a},{b},{bandwidth},1e-6\n" for a, b in ends)
    path.write_text(f"src,dst,bandwidth,latency\n{rows}")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    def call(*arguments: object) -> tuple[int, str]:
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    return call


def test_a_figure_whose_trace_has_changed_is_computed_anew(run: Any, tmp_path: Path) -> None:
    trace, out = tmp_path / "job.jsonl", tmp_path / "out"
    command = ("experiment", "topoopt_fig11", "workload=captured", f"workload.trace={trace}", "strategy=as_captured")
    command += ("servers=2", "seed=0", "bandwidth_gbps=100", "series=Ideal Switch", f"out={out}")

    def simulated(seconds: float) -> tuple[float, str]:
        write_trace(trace, seconds)
        code, printed = run(*command)
        assert code == 0
        (row,) = json.loads((out / "result.json").read_text())["rows"]
        return row["iteration_time"], printed

    short, _ = simulated(0.01)
    again, printed = simulated(0.01)
    assert (again, "Continuing from 1 of 1 points" in printed) == (short, True)
    long, printed = simulated(1.0)
    assert long > 1 > short
    assert "Continuing" not in printed


@pytest.mark.parametrize("what", ["workload", "design"])
def test_a_search_whose_file_has_changed_is_not_resumed(what: str, run: Any, tmp_path: Path) -> None:
    trace, links, out = tmp_path / "job.jsonl", tmp_path / "links.csv", tmp_path / "out"
    write_trace(trace, 0.01)
    write_links(links, 1e9)
    job = {
        "workload": ("workload=captured", f"workload.trace={trace}", "strategy=as_captured", "degree=1"),
        "design": ("fabric=links", f"fabric.file={links}", "servers=16", "workload.tables=2", "workload.rows=1000"),
    }
    command = ("search", *job[what], "search.proposals=16", "search.rounds=1", f"out={out}")
    assert run(*command)[0] == 0
    assert "Continuing from the end" in run(*command)[1]
    write_trace(trace, 1.0)
    write_links(links, 1e6)
    code, printed = run(*command)
    assert code == 2
    assert f"must be of this search to resume it, got one with another {what};" in printed


DRIVER = """
import json, sys
from topoflow.cli import main
for command in json.loads(sys.argv[1]):
    print("rc", main(command))
"""


def test_what_other_code_of_topoflow_computed_is_not_resumed(copied_package: Any, tmp_path: Path) -> None:
    """Also where its version is the same: that of a developer between two releases."""
    environment = copied_package(tmp_path)
    job = ("servers=2", "workload.tables=2", "workload.rows=1000")
    search = ("search", "fabric=ring", *job, "search.proposals=0", "search.rounds=1", f"out={tmp_path / 'search'}")
    figure = ("experiment", "topoopt_fig14", "servers=4", "series=d = 4 (directed rings)", f"out={tmp_path / 'figure'}")

    def run(*commands: tuple[str, ...]) -> str:
        arguments = [sys.executable, "-c", DRIVER, json.dumps(commands)]
        done = subprocess.run(
            arguments, env=environment, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        return done.stdout

    printed = run(search, figure, search, figure)
    assert printed.count("rc 0") == 4
    assert printed.count("Continuing from") == 2
    with (tmp_path / "topoflow" / "units.py").open("a") as file:
        file.write("CHANGED = True\n")
    printed = run(search, figure)
    assert printed.count("rc 0") == 1
    assert "must be of this search to resume it, got one with another version of topoflow;" in printed
    assert "Continuing from" not in printed


OPENED: list[str] = []
WATCHED: list[str] = []


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if WATCHED and event == "open" and isinstance(arguments[0], str) and arguments[0].startswith(WATCHED[0]):
        OPENED.append(arguments[0])


sys.addaudithook(_watch)  # which cannot be removed: it does nothing while nothing is watched


@contextmanager
def opened_in(folder: Path) -> Iterator[list[str]]:
    """Files of a folder that are opened within the block."""
    OPENED.clear()
    WATCHED.append(str(folder))
    try:
        yield OPENED
    finally:
        WATCHED.clear()


@pytest.mark.parametrize("fabric", options("fabric"))
def test_a_design_has_read_its_files_when_it_is_made(fabric: str, configured: Any, tmp_path: Path) -> None:
    """So that the digest of a design, which ids of results are made of, is of their content."""
    write_links(tmp_path / "links.csv", 1e9)
    file = [f"fabric.file={tmp_path / 'links.csv'}"] if fabric == "links" else []
    with opened_in(tmp_path) as opened:
        design = configured("fabric", f"fabric={fabric}", *file)
        assert bool(opened) == bool(file)
        opened.clear()
        design.build(16, Demand(16, {tuple(range(16)): 1.0}))
        assert not opened


def test_a_second_run_in_a_folder_is_refused_in_a_line(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "deep" / "out"
    command = ("simulate", f"world={ROOT / 'examples' / 'two_flows.json'}", f"out={out}")
    with sole_writer(out, "simulate"), monkeypatch.context() as patch:
        patch.setattr(files, "_LOCKED", set())  # as in another process
        code, printed = run(*command)
        message = f"out: must be written by one run at a time, got {out}, where another is writing"
        assert (code, printed) == (2, f"topoflow simulate: {message}\n")
    assert not out.parent.exists()  # where nothing was written, nothing stays
    assert run(*command)[0] == 0
    assert run(*command)[0] == 0


def test_a_file_that_several_replace_is_whole_at_any_time(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    contents = [bytes([number]) * 100_000 for number in range(4)]
    write_atomically(path, contents[0])

    def replace(content: bytes) -> None:
        for _ in range(30):
            write_atomically(path, content)

    threads = [threading.Thread(target=replace, args=(content,)) for content in contents]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert read_bytes(path) in contents
    assert [entry.name for entry in tmp_path.iterdir()] == ["checkpoint"]
