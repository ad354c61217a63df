"""``topoflow simulate`` as a user calls it."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from topoflow.cli import main
from topoflow.cli.simulate import parse
from topoflow.engine.simulation import simulate

ROOT = Path(__file__).resolve().parent.parent.parent
Cli = Callable[..., "subprocess.CompletedProcess[str]"]


def test_the_example_writes_its_flows_and_links(topoflow_cli: Cli, tmp_path: Path) -> None:
    done = topoflow_cli("simulate", "world=examples/two_flows.json", f"out={tmp_path / 'new' / 'out'}", cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")
    assert "makespan" in done.stdout
    assert "15 s" in done.stdout
    out = tmp_path / "new" / "out"
    assert sorted(path.name for path in out.iterdir()) == ["flows.csv", "links.csv"]
    # derived in tests/engine/test_world_file.py
    assert (out / "flows.csv").read_text() == "id,start,finish\nforward,0.0,2.0\nlong,2.0,15.0\nshort,5.0,10.0\n"
    with (out / "links.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    # 1000 B and 200 B in 15 s over 100 B/s: 1200 / 100 / 15 = 0.8
    assert [(row["src"], row["dst"], float(row["bytes"]), float(row["utilization"])) for row in rows] == [
        ("a", "switch", 1000.0, pytest.approx(1000 / 1500)),
        ("b", "switch", 200.0, pytest.approx(200 / 1500)),
        ("switch", "c", 1200.0, pytest.approx(0.8)),
    ]


def test_numbers_and_ids_read_back_as_they_were(topoflow_cli: Cli, tmp_path: Path) -> None:
    names = ['a "quoted", one', "[red]ä", "7"]
    tasks = [{"id": name, "type": "compute", "seconds": 0.1 + 0.2, "start": 1 / 3} for name in names]
    (tmp_path / "world.json").write_text(json.dumps({"links": [], "tasks": tasks}))
    done = topoflow_cli("simulate", f"world={tmp_path / 'world.json'}", f"out={tmp_path}")
    assert done.returncode == 0, done.stderr
    with (tmp_path / "flows.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    assert [row[0] for row in rows] == ["id", *names]
    assert all(float(row[1]) == 1 / 3 and float(row[2]) == 1 / 3 + (0.1 + 0.2) for row in rows[1:])


def test_an_error_is_one_line_and_leaves_nothing_behind(topoflow_cli: Cli, tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text('{"links": [], "tasks": [{"id": 1, "type": "compute", "seconds": -1}]}')
    out = tmp_path / "out"
    done = topoflow_cli("simulate", f"world={bad}", f"out={out}")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"topoflow simulate: {bad}: tasks[0].seconds: must not be negative, got -1\n"
    assert not out.exists()


def test_a_run_that_works_says_so_in_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, records = tmp_path / "out", []

    def simulated(*arguments: Any) -> Any:
        records.extend(map(json.loads, (out / "progress.jsonl").read_text().splitlines()))
        return simulate(*arguments)

    monkeypatch.setattr("topoflow.cli.simulate.simulate", simulated)
    words = ["simulate", f"world={ROOT / 'examples' / 'two_flows.json'}", f"out={out}"]
    assert main(words) == 0
    assert (records[0]["verb"], records[0]["command"]) == ("simulate", f"topoflow {' '.join(words)}")
    assert sorted(path.name for path in out.iterdir()) == ["flows.csv", "links.csv"]  # it is gone when they are there


def test_a_missing_file_is_one_line(topoflow_cli: Cli, tmp_path: Path) -> None:
    done = topoflow_cli("simulate", f"world={tmp_path / 'none.json'}")
    assert done.returncode == 2
    assert "none.json" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["wrld=x"], "wrld: no such key; did you mean world?"),
        (["world"], "world: must have a value, as in world=VALUE, got 'world'"),
        (["world=x", "out="], "out: must have a value, as in out=VALUE, got 'out='"),
        (["world=x", "world=y"], "world: must be given once, got 'x' and 'y'"),
        (["world=x,y"], "world: must be one value, as one world is simulated, got several"),
        (["world=x", "device=tpu"], "device: must be one of auto, cpu, cuda, cuda:N, got 'tpu'"),
        (["world=x", "threads=0"], "threads: must be None or within 1..1024, got 0"),
        (["world=x", "fidelity=none"], "fidelity: must be one of bound, fitting, fluid, packet, slotted, got 'none'"),
        (["world=x", "fluid.merge=1"], "fluid.merge: must be a number in [0, 1) or auto, got 1"),
        (["world=x", "fluid.merge=-0.1"], "fluid.merge: must be a number in [0, 1) or auto, got -0.1"),
        (["world=x", "fluid.merge=nan"], "fluid.merge: must be a number in [0, 1) or auto, got nan"),
        (["world=x", "fluid.merge=some"], "fluid.merge: must be a number in [0, 1) or auto, got 'some'"),
        ([], "world: must be given, e.g. world=VALUE"),
    ],
)
def test_a_wrong_word_names_key_law_and_value(settings: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=r"must|mean") as caught:
        parse(settings)
    assert str(caught.value) == message


def test_ends_within_merge_are_one_event(topoflow_cli: Cli, tmp_path: Path) -> None:
    # 50 B/s each: 100 B end at 2 s; 105 B at 2.1 s, or at 2 + 5/100 s if the second is told that the first is over
    links = [{"src": "a", "dst": "b", "bandwidth": 100}]
    tasks = [{"id": size, "type": "transfer", "path": [0], "bytes": size} for size in (100, 105)]
    (tmp_path / "world.json").write_text(json.dumps({"links": links, "tasks": tasks}))
    for settings, end in (([], 2.05), (["fluid.merge=0"], 2.05), (["fluid.merge=0.1"], 2.1)):
        done = topoflow_cli("simulate", f"world={tmp_path / 'world.json'}", f"out={tmp_path / 'out'}", *settings)
        assert done.returncode == 0, done.stderr
        with (tmp_path / "out" / "flows.csv").open(newline="") as file:
            assert [float(row["finish"]) for row in csv.DictReader(file)] == pytest.approx([2, end], rel=1e-12)


@pytest.mark.parametrize("name", ["file", "file/out"])
def test_out_that_cannot_be_a_folder_is_named_before_the_world_is_run(
    topoflow_cli: Cli, tmp_path: Path, name: str
) -> None:
    (tmp_path / "file").write_text("mine")
    done = topoflow_cli("simulate", "world=examples/two_flows.json", f"out={tmp_path / name}", cwd=ROOT)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"topoflow simulate: out: must be a folder, got the file {tmp_path / 'file'}\n"
    assert (tmp_path / "file").read_text() == "mine"


def test_a_reader_that_leaves_is_no_error() -> None:
    verb = [str(Path(sys.executable).parent / "topoflow")]
    read, write = os.pipe()
    os.close(read)
    with open(write, "wb") as gone:
        done = subprocess.run(
            [*verb, "simulate", "world=examples/two_flows.json"],
            cwd=ROOT,
            stdout=gone,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert (done.returncode, done.stderr) == (0, "")
