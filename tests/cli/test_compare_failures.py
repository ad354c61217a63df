"""``fail.each``: every fiber or server by itself, from the command line to the files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest

import topoflow
from topoflow.cli import main

pytestmark = pytest.mark.usefixtures("without_pixels")

TRACE = Path(__file__).resolve().parents[2] / "examples" / "ddp_4_ranks.jsonl.gz"
SMALL = ("servers=4", "workload.tables=4", "workload.rows=1000", "workload.batch_per_gpu=64")
FAILS = ("fail.each=fiber,server", "fail.each=fiber", "fail.each=[fiber,server]")


def rows(out: Path, key: str) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = json.loads((out / "result.json").read_text())[key]
    return records


@pytest.mark.slow
def test_a_failure_of_each_is_the_failure_of_that_one(tmp_path: Path) -> None:
    each_folder, one_folder = tmp_path / "each", tmp_path / "one"
    common = ["fabric=topoopt", "degree=3", *SMALL]
    assert main(["compare", *common, "fail.each=fiber", f"out={each_folder}"]) == 0
    failures = rows(each_folder, "failures")
    numbers = ",".join(f"[{failure['number']}]" for failure in failures)
    assert main(["compare", *common, f"fail.fibers={numbers}", f"out={one_folder}"]) == 0
    assert [row["iteration_time"] for row in rows(one_folder, "rows")] == [row["iteration_time"] for row in failures]
    (intact,) = rows(each_folder, "rows")
    for failure in failures:
        assert failure["slowdown"] == pytest.approx(failure["iteration_time"] / intact["iteration_time"])


def test_every_fiber_of_a_network_fails_once(tmp_path: Path) -> None:
    assert main(["compare", "fabric=topoopt,fat_tree", "fail.each=fiber", f"out={tmp_path}", *SMALL]) == 0
    links = parquet.read_table(tmp_path / "links.parquet").to_pylist()
    failures = parquet.read_table(tmp_path / "failures.parquet").to_pylist()
    assert failures == rows(tmp_path, "failures")
    assert [(failure["world"], failure["number"], failure["name"]) for failure in failures] == [
        (link["world"], link["link"], f"{link['src']} to {link['dst']}") for link in links
    ]
    assert [12.5e9 * failure["count"] for failure in failures] == [link["bandwidth"] for link in links]
    topoopt = sum(failure["count"] for failure in failures if failure["world"] == "fabric=topoopt")
    assert topoopt == 4 * 4, "4 servers with 4 interfaces"


def test_fibers_and_servers_fail_in_one_world() -> None:
    """What is swept is what fails in it, so that nothing is simulated or listed twice."""
    both, fibers = (topoflow.compare("fabric=topoopt,ring", argument, *SMALL) for argument in FAILS[:2])
    listed = topoflow.compare("fabric=topoopt,ring", FAILS[2], *SMALL)
    assert [result.settings.world for result in both] == ["fabric=topoopt", "fabric=ring"]
    assert [[failure.what for failure in result.failures] for result in both] == [["fiber", "server"]] * 2
    assert [result.row for result in both] == [result.row for result in fibers] == [result.row for result in listed]
    for result, of_fibers, of_list in zip(both, fibers, listed, strict=True):
        assert result.failures[0].all_slowdowns.tolist() == of_fibers.failures[0].all_slowdowns.tolist()
        assert result.failures[1].all_slowdowns.tolist() == of_list.failures[1].all_slowdowns.tolist()
    assert "(2)" not in repr(both)


def test_a_table_and_a_picture_say_what_single_failures_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "fabric=topoopt", "fail.each=fiber,server", f"out={tmp_path}", *SMALL]) == 0
    printed = capsys.readouterr().out
    assert "When one fiber or server fails" in printed
    assert "95th percentile" in printed
    page = (tmp_path / "report.html").read_text()
    assert "When one fiber or server fails" in page
    assert "trains on fewer samples" in printed.replace("\n", " ")
    assert "trains on fewer samples" in page
    assert (tmp_path / "failures.png").exists()
    failures = rows(tmp_path, "failures")
    assert [row["name"] for row in failures if row["what"] == "server"] == [f"server {n}" for n in range(4)]


def test_what_cuts_a_server_off_has_no_slowdown_and_is_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # one circuit each way round: a ring of degree 1 is cut by any fiber
    assert main(["compare", "fabric=topoopt", "degree=1", "fail.each=fiber", f"out={tmp_path}", *SMALL]) == 0
    failures = rows(tmp_path, "failures")
    assert [(row["iteration_time"], row["slowdown"]) for row in failures] == [(None, None)] * 4
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.split()[:2] == ["topoopt", "fiber"]]
    assert line.split() == ["topoopt", "fiber", "4", "cut", "off", "cut", "off", "-", "-", "4"]


def test_failures_are_simulated_in_the_fidelity_of_the_comparison(tmp_path: Path) -> None:
    times = {}
    for fidelity in ("bound", "fluid"):
        out = tmp_path / fidelity
        assert main(["compare", "fabric=topoopt", "fail.each=fiber", f"fidelity={fidelity}", f"out={out}", *SMALL]) == 0
        times[fidelity] = [row["iteration_time"] for row in rows(out, "failures")]
    pairs = list(zip(times["bound"], times["fluid"], strict=True))
    assert all(bound <= time * (1 + 1e-9) for bound, time in pairs)
    assert any(bound < time for bound, time in pairs)


@pytest.mark.parametrize("failed", ["[15]", "[13,14,15]"])
def test_a_job_continues_on_whole_replicas(failed: str, tmp_path: Path) -> None:
    """Of 16 servers with a pipeline of 4, one failure leaves 15: three replicas on the first 12, as a job of 12."""
    job = ["workload=bert", "strategy=parallel", "strategy.pipeline=4", "fabric=ideal_switch"]
    left, smaller = tmp_path / "left", tmp_path / "smaller"
    assert main(["compare", *job, "servers=16", f"fail.servers={failed}", f"out={left}"]) == 0
    assert main(["compare", *job, "servers=12", f"out={smaller}"]) == 0
    for one, other in zip(rows(left, "rows"), rows(smaller, "rows"), strict=True):
        for key in ("servers", "iteration_time", "samples_per_second"):
            assert one[key] == other[key], key


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fail.each=switch"], "fail.each: must be fiber, server, both as a list, or null, got 'switch'"),
        (["fail.each=fiber", "fail.fibers=[1]"], "fail.each: must be without fail.fibers, as each fails by itself"),
        (["fail.each=server", "servers=1"], "fail.each: must leave a server to continue with"),
        (["fail.each=fiber", "servers=1"], "fail.each: must be of a network with a fiber to lose, got topoopt without"),
        (["fail.each=fiber", "fabric=sip_ml"], "fail.each: must be of a network that keeps its circuits, got sip_ml"),
        (
            ["fail.each=server", "workload=bert", "strategy=parallel", "strategy.pipeline=4"],
            "fail: must leave servers that the strategy can use, got 3 (parallel.pipeline: must divide the 3 servers",
        ),
        (
            ["fail.each=server", "workload=captured", f"workload.trace={TRACE}"],
            "fail: must leave servers that the strategy can use, got 3 (strategy.servers: the trace has 4 ranks, ",
        ),
    ],
)
def test_what_cannot_fail_each_by_itself_is_one_line(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = SMALL[:1] if "workload" in " ".join(arguments) else SMALL
    assert main(["compare", "fabric=topoopt", *sizes, *arguments, f"out={tmp_path / 'out'}"]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"topoflow compare: {message}")
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()
