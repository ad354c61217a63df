"""``fidelity=packet`` in every command, and what it says of ports."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

import topoflow
from topoflow.cli import main

pytestmark = pytest.mark.usefixtures("without_pixels")

SMALL = ("servers=4", "workload.tables=4", "workload.rows=1000", "workload.batch_per_gpu=64")


def rows(out: Path) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = json.loads((out / "result.json").read_text())["rows"]
    return records


def test_a_comparison_agrees_with_fluid_and_counts_what_ports_did(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="Parquet tables need pyarrow")
    assert main(["compare", "fidelity=fluid,packet", "fabric=leaf_spine", f"out={tmp_path}", *SMALL]) == 0
    fluid, packet = rows(tmp_path)
    assert packet["iteration_time"] == pytest.approx(fluid["iteration_time"], rel=0.02)
    ports = parquet.read_table(tmp_path / "ports.parquet").to_pylist()
    links = parquet.read_table(tmp_path / "links.parquet").to_pylist()
    assert [port["bytes"] for port in ports] == [link["bytes"] for link in links if link["world"] == packet["world"]]
    for port in ports:
        assert port["world"] == packet["world"]
        assert port["active"] + port["stalled"] + port["idle"] == pytest.approx(packet["iteration_time"])
        assert (port["packets"] > 0) == (port["bytes"] > 0)
        assert port["idle_intervals"] >= port["idle_1us"] >= port["idle_1ms"]
    latencies = parquet.read_table(tmp_path / "latencies.parquet").to_pylist()
    for kind in ("packet", "message"):
        selected = [interval for interval in latencies if interval["of"] == kind]
        assert all(interval["low"] < interval["high"] and interval["count"] > 0 for interval in selected)
    page = (tmp_path / "report.html").read_text()
    assert "What packets and ports saw" in page
    assert page.count(f"<td>{packet['world']}</td>") == 1  # the fluid world has no packets
    sent = sum(port["packets"] for port in ports if port["src"].startswith("server"))
    assert sum(interval["count"] for interval in latencies if interval["of"] == "packet") == sent


def test_a_sprayed_job_is_about_as_fast_as_the_fluid_says(tmp_path: Path) -> None:
    arguments = ("fidelity=fluid,packet", "fabric=fat_tree", "routing=spray", "packet.draws=packet", f"out={tmp_path}")
    assert main(["compare", *arguments, *SMALL]) == 0
    fluid, packet = rows(tmp_path)
    assert packet["iteration_time"] == pytest.approx(fluid["iteration_time"], rel=0.02)


DEADLOCK = (
    *("fidelity=packet", "workload=all_to_all", "workload.bytes=1000000", "servers=8", "degree=1"),
    *("packet.virtual_channels=1", "packet.buffer=4096"),
)  # on a ring


def test_a_deadlock_names_its_ports_and_leaves_the_other_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", "fabric=ring,leaf_spine", f"out={tmp_path}", *DEADLOCK]) == 2
    printed = capsys.readouterr()
    assert [row["fabric"] for row in rows(tmp_path)] == ["leaf_spine"]
    ports = "server 0 to server 1, server 1 to server 2, server 2 to server 3 and 5 more"
    reason = f"fabric=ring: buffers must not wait for each other in a circle, got that of {ports}"
    assert f"left out: {reason} with packet.virtual_channels=1\n" in printed.out
    assert printed.err.splitlines()[-1] == (
        "topoflow compare: worlds must come to an end, got 1 of 2 that did not, which were left out"
    )
    with pytest.raises(ValueError, match=rf"^{reason}"):
        topoflow.compare(*DEADLOCK, fabric=["ring", "leaf_spine"])


def test_a_comparison_in_which_no_world_ends_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "fabric=ring", *DEADLOCK]) == 2
    assert capsys.readouterr().err.startswith("topoflow compare: ring: buffers must not wait for each other")


def test_points_of_a_figure_that_end_are_stored_where_others_do_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    figure = ("topoopt_fig12", "servers=8", "workload.tables=8", "degree=2", "seed=0", f"out={tmp_path}")
    blocked = ("fidelity=packet", "workload.batch_per_gpu=4096", "packet.virtual_channels=1", "packet.buffer=4096")
    assert main(["experiment", *figure, *blocked]) == 2
    error = capsys.readouterr().err
    assert error.startswith("topoflow experiment: series=TopoOpt: topoopt: buffers must not wait for each other")
    stored = (tmp_path / "checkpoint.jsonl").read_text().splitlines()
    assert {json.loads(line)["point"]["series"] for line in stored} == {"Ideal Switch", "Fat-tree"}


def test_a_search_ends_with_it(tmp_path: Path) -> None:
    few = ("search.proposals=16", "search.rounds=1", "search.chains=4")
    assert main(["search", "fidelity=packet", f"out={tmp_path}", *SMALL, *few]) == 0
    plan = json.loads((tmp_path / "plan.json").read_text())
    assert plan["fidelity"] == "packet"
    assert plan["iteration_time"] > 0
    assert plan["bound"] > 0


def test_a_figure_has_it(tmp_path: Path) -> None:
    small = ("servers=4", "workload.tables=4", "workload.batch_per_gpu=64", "degree=2", "seed=0", "series=TopoOpt")
    assert main(["experiment", "topoopt_fig12", "fidelity=packet", f"out={tmp_path}", *small]) == 0
    assert all(row["iteration_time"] > 0 for row in rows(tmp_path))


def test_a_world_of_a_file_has_it(tmp_path: Path) -> None:
    world = {
        "links": [{"src": "a", "dst": "b", "bandwidth": 100}],
        "tasks": [{"id": size, "type": "transfer", "path": [0], "bytes": size} for size in (100, 300)],
    }
    (tmp_path / "world.json").write_text(json.dumps(world))
    arguments = ("fidelity=packet", "packet.size=100", "packet.flit=10", f"out={tmp_path / 'out'}")
    assert main(["simulate", f"world={tmp_path / 'world.json'}", *arguments]) == 0
    with (tmp_path / "out" / "flows.csv").open(newline="") as file:  # one packet of 100 B a second, in turns
        assert [float(row["finish"]) for row in csv.DictReader(file)] == [1.0, 4.0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fabric=leaf_spine", "packet.buffer=1000"], "packet.buffer: must be a whole number within 4096.."),
        (["fabric=sip_ml"], "fabric: must keep its circuits with fidelity=packet, got sip_ml"),
        *(
            ([f"fabric={name}", "servers=16"], f"(slots: fidelity=slotted), got {name}")
            for name in ("sirius", "rotornet", "opera", "fosquare")
        ),
        (["fabric=dragonfly", "fabric.routers=1000000"], "fabric: must fit in the "),
        (["fabric=fat_tree", "fabric.radix=1000000"], "free, got fat_tree with 500000000000000000 cables between swi"),
        (
            ["fabric=dragonfly", "servers=16", "routing=minimal", "fail.links=[40]"],
            "routing: must have paths that the fabric lists (ecmp, spray, ..) where something has failed, as tables by "
            "address lead to what is gone, got dragonfly",
        ),
    ],
)
def test_what_cannot_be_simulated_is_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", "fidelity=packet", *SMALL, *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


def test_a_job_of_many_equal_rounds_is_reported_without_times_that_nobody_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Written round by round or once: the same numbers, but a task of many rounds is in no timeline."""
    arguments = ("compare", "workload=motif", "workload.name=allpingpong", "workload.iterations=6", "servers=8")
    fabric = ("fabric=dragonfly", "routing=minimal")
    assert main([*arguments, *fabric, "fidelity=packet", f"out={tmp_path / 'written'}"]) == 0
    monkeypatch.setattr("topoflow.papers.dragonfly.motifs.motif.MAX_TASKS", 0)
    assert main([*arguments, *fabric, "fidelity=packet", f"out={tmp_path / 'once'}"]) == 0
    (written,), (once,) = rows(tmp_path / "written"), rows(tmp_path / "once")
    assert {**once, "config": None} == {**written, "config": None}
    result = json.loads((tmp_path / "once" / "result.json").read_text())
    assert any("tasks of 6 equal rounds are listed once" in note for note in result["notes"])
    names = [{path.name for path in (tmp_path / run).glob("*.png")} for run in ("written", "once")]
    assert names[0] - names[1] == {"ports_completion.png"}, "its messages have no times"
    trace = json.loads((tmp_path / "once" / "trace.json").read_text())
    assert not [event for event in trace["traceEvents"] if event["ph"] == "X"]
    capsys.readouterr()
    assert main([*arguments, "fabric=fat_tree", "fidelity=fluid", f"out={tmp_path / 'fluid'}"]) != 0
    message = (
        "workload.iterations: must be few enough to write all tasks of a job with fidelity=fluid, got 6 of 16 tasks"
    )
    assert message in capsys.readouterr().err
